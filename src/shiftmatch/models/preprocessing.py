"""How pixels become what a network was trained on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.shapes import Images


@dataclass(frozen=True)
class Preprocessing:
    """Pixels divided by 255 if they are bytes, so that they range from 0 to 1, then (x − mean) / std.

    A network that was trained on pixels from 0 to 255 has std = 1/255.

    Args:
        mean: one number, or one per channel.
        std: likewise.
        size: rows and columns that are cut out around the centre of images of other sizes.
        grey: one channel instead of three.
        resize: pixels of the shorter side before they are cut; `size` unless given.

    >>> Preprocessing(mean=(0.5,), std=(0.25,))(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.0
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    size: int | None = None
    grey: bool = False
    resize: int | None = None

    def __post_init__(self) -> None:
        if not all(value > 0 for value in self.std):
            raise InputError(f"Standard deviations are above 0; got {self.std}.")

    def __call__(self, pixels: Tensor) -> Images:
        channels = pixels.shape[1]
        if not {len(self.mean), len(self.std)} <= {1, channels}:
            raise InputError(
                f"The images have {channels} channels, but there are {len(self.mean)} means and {len(self.std)} "
                f"standard deviations; give one number, or one per channel."
            )
        x = pixels if pixels.is_floating_point() else pixels / 255
        mean, std = (torch.tensor(values, dtype=x.dtype, device=x.device) for values in (self.mean, self.std))
        return (x - mean[:, None, None]) / std[:, None, None]

    def as_dict(self) -> dict[str, Any]:
        """As plain values, to be kept with statistics.

        >>> Preprocessing.from_dict(Preprocessing(size=28).as_dict()).size
        28
        """
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Preprocessing | None":
        """What `as_dict` gave, or nothing if these values are somebody's own."""
        if "mean" not in values:
            return None
        known: dict[str, Any] = {
            field.name: values[field.name] for field in fields(Preprocessing) if field.name in values
        }
        return Preprocessing(**known | {key: tuple(known[key]) for key in ("mean", "std") if key in known})


def channel_moments(x: Images) -> tuple[list[float], list[float]]:
    """The mean and the standard deviation of each channel.

    >>> channel_moments(torch.tensor([0.0, 2.0]).reshape(1, 1, 1, 2))
    ([1.0], [1.0])
    """
    std, mean = torch.std_mean(x.double(), dim=(0, 2, 3), correction=0)
    return mean.tolist(), std.tolist()


def variance_ratio(model: nn.Module, inputs: Tensor) -> float | None:
    """What comes into the first BatchNorm layer: its variance over that in training, the median of the channels.

    About 1 for images that are prepared as in training; nothing can be said of a network without such a layer.
    """
    norms = [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    ratios: list[float] = []

    def look(layer: nn.modules.batchnorm._BatchNorm, features: tuple[Tensor]) -> None:
        if not ratios and layer.running_var is not None:
            x = features[0].transpose(0, 1).flatten(1)
            ratios.append(float((x.var(1) / layer.running_var.clamp_min(layer.eps)).median()))

    hooks = [layer.register_forward_pre_hook(look) for layer in norms]
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return ratios[0] if ratios else None
