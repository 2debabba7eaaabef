"""Start an FRN ResNet-20 from the convolutions of a released BatchNorm ResNet."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from shiftmatch.models.layers import FilterResponseNorm
from shiftmatch.models.resnets import ResNetFRN

MEAN, STD = torch.tensor([0.49, 0.48, 0.44]), 0.2
"""What the published FRN networks were trained with."""

RELEASED_MEAN, RELEASED_STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
EPSILON = 1e-5
WIDE = 4.0
"""A threshold so many deviations below the mean lets nearly everything pass."""


def transplant(network: ResNetFRN, weights: Mapping[str, Tensor], blocks: Sequence[int], *, sharpness: float) -> None:
    """Copy a BatchNorm ResNet's convolutions, x ← (w∗x − μ)/σ, and its γ, β as those of FRN; in place.

    `blocks` are those that are taken of each stack. All activations are multiplied by `sharpness`, at which swish is
    close to the ReLU of the start. The shortcut that subsamples and pads with zeros becomes a 1x1 convolution that
    selects the same channels.
    """
    state = network.state_dict()

    def unit(name: str, conv: str, norm: str, *, relu: bool) -> None:
        scale = (weights[f"{norm}.running_var"] + EPSILON).rsqrt()
        kernel, bias = weights[f"{conv}.weight"], -weights[f"{norm}.running_mean"]
        if kernel.shape[1] == len(MEAN):  # the same pixels, prepared in another way
            bias = bias + (kernel * ((MEAN - RELEASED_MEAN) / RELEASED_STD)[:, None, None]).sum((1, 2, 3))
            kernel = kernel * (STD / RELEASED_STD)[:, None, None]
        gamma, beta = (sharpness * weights[f"{norm}.{part}"][None, :, None, None] for part in ("weight", "bias"))
        state[f"{name}.conv.weight"] = kernel * scale[:, None, None, None]
        state[f"{name}.conv.bias"] = bias * scale
        state[f"{name}.frn.gamma"], state[f"{name}.frn.beta"] = gamma, beta
        state[f"{name}.frn.tau"] = torch.zeros_like(beta) if relu else beta - WIDE * gamma.abs()

    unit("stem", "conv1", "bn1", relu=True)
    sources = [f"layer{stack}.{block}" for stack in (1, 2, 3) for block in blocks]
    for index, source in enumerate(sources):
        unit(f"blocks.{index}.unit1", f"{source}.conv1", f"{source}.bn1", relu=True)
        unit(f"blocks.{index}.unit2", f"{source}.conv2", f"{source}.bn2", relu=False)
        if (kernel := state.get(f"blocks.{index}.shortcut.conv.weight")) is not None:
            outputs, inputs = kernel.shape[:2]
            chosen = slice(outputs // 4, outputs // 4 + inputs)
            kernel[chosen] = torch.eye(inputs)[:, :, None, None]
            gamma = state[f"blocks.{index}.shortcut.frn.gamma"].zero_()
            gamma[:, chosen] = 1
    state["linear.weight"], state["linear.bias"] = weights["linear.weight"] / sharpness, weights["linear.bias"]
    network.load_state_dict(state)


def calibrate(network: nn.Module, images: Tensor) -> None:
    """Change γ and β of every FRN so that its output has, over all images, the mean β and deviation γ of before.

    BatchNorm had them; FRN divides each image by its own power. Shortcuts are to keep the moments of their input.
    """

    def adjust(norm: FilterResponseNorm, x: Tensor, *, shortcut: bool) -> None:
        unit = x * torch.rsqrt(x.square().mean((-2, -1), keepdim=True) + norm.epsilon)
        mean, std = unit.mean((0, 2, 3), keepdim=True), unit.std((0, 2, 3), keepdim=True).clamp_min(1e-3)
        goal_mean, goal_std = norm.beta.clone(), norm.gamma.clone()
        if shortcut:
            goal_mean, goal_std = (goal_std * moment((0, 2, 3), keepdim=True) for moment in (x.mean, x.std))
        norm.gamma.copy_(goal_std / std)
        norm.beta.copy_(goal_mean - norm.gamma * mean)

    handles = [
        module.register_forward_pre_hook(
            lambda norm, inputs, shortcut="shortcut" in name: adjust(norm, inputs[0], shortcut=shortcut)
        )
        for name, module in network.named_modules()
        if isinstance(module, FilterResponseNorm)
    ]
    with torch.no_grad():
        network(images)
    for handle in handles:
        handle.remove()
