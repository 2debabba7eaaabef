"""The few layers that the published Bayesian networks need and PyTorch lacks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.shapes import Images, Resized

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "swish": nn.SiLU,
    "sigmoid": nn.Sigmoid,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
}


def activation(name: str) -> nn.Module:
    """A new nonlinearity by name.

    >>> activation("swish")
    SiLU()
    """
    if name not in ACTIVATIONS:
        raise InputError(f"There is no activation {name!r}; choose one of {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]()


class FlattenRows(nn.Module):
    """Flatten images row by row with the channels innermost, the order that the published dense weights expect."""

    def forward(self, x: Images) -> Float[Tensor, "b d"]:
        return x.permute(0, 2, 3, 1).flatten(1)


class SameConv2d(nn.Conv2d):
    """A convolution whose output has ⌈size / stride⌉ rows; odd padding goes to the bottom and the right.

    PyTorch's `padding=1` centres the window instead, which shifts every output of a strided layer by one pixel.

    >>> SameConv2d(1, 1, 3, stride=2)(torch.zeros(1, 1, 32, 32)).shape
    torch.Size([1, 1, 16, 16])
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride)

    def forward(self, x: Images) -> Resized:
        (top, bottom), (left, right) = (self._margins(axis, x.shape[axis + 2]) for axis in (0, 1))
        return super().forward(functional.pad(x, (left, right, top, bottom)))

    def _margins(self, axis: int, size: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[axis], self.stride[axis]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2


class FilterResponseNorm(nn.Module):
    """Singh & Krishnan (2020): max(γ x / √(mean_hw x² + ε) + β, τ), each image and channel on its own."""

    def __init__(self, channels: int, *, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.gamma = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.tau = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x: Images) -> Images:
        power = x.square().mean((-2, -1), keepdim=True)
        return torch.maximum(self.gamma * x * torch.rsqrt(power + self.epsilon) + self.beta, self.tau)


def initialise(model: nn.Module, generator: torch.Generator, *, gain: float = 1.0) -> nn.Module:
    """Weights of dense and convolutional layers ~ truncated N(0, gain / fan-in), their biases 0; returns the model.

    >>> initialise(nn.Linear(4, 2), torch.Generator()).bias.tolist()
    [0.0, 0.0]
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            std = (gain / layer.weight[0].numel()) ** 0.5
            nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
