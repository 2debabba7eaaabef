"""How a user's images are prepared for a network, and whether they fit it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftmatch.cli.output import complain
from shiftmatch.data.image_set import ImageSet, open_images
from shiftmatch.data.images import Labelled
from shiftmatch.errors import InputError, StatisticsMismatchError
from shiftmatch.matching.inputs import logits_of
from shiftmatch.matching.packs import check_protocol
from shiftmatch.matching.statistics import Statistics
from shiftmatch.models import Architecture, Preprocessing
from shiftmatch.models.preprocessing import channel_moments, variance_ratio

MAX_RATIO = 2.5
"""Variances further from what a network was trained on mean other preprocessing, or a strong corruption."""
MAX_INPUT_RATIO, MAX_INPUT_STDS = 4.0, 2.0
"""The same for standard deviations and means of inputs, which corruptions change as well."""
CLEAN_IMAGES, MAX_LOSS = 64, 0.2
"""How many clean images are tried, and the loss of accuracy on them, well beyond chance, that is warned about."""


def preparation(
    name: str,
    network: nn.Module,
    statistics: Statistics | None = None,
    *,
    allow_other: bool = True,
    mean: str | None = None,
    std: str | None = None,
    size: int | None = None,
    grey: bool | None = None,
) -> Preprocessing:
    """How images are prepared: as the options say, else as for the statistics, else as the network was trained.

    Options that say something else than the statistics, or than the network, are refused unless `allow_other`.

    >>> preparation("lenet", nn.Identity(), mean="0.5")
    Preprocessing(mean=(0.5,), std=(0.3081,), size=28, grey=True, resize=None)
    """
    known = Preprocessing.from_dict(statistics.preprocessing) if statistics else None
    own = _of_network(network) if ":" in name else Architecture(name).preprocessing
    base = known or own or Preprocessing()
    options = {"mean": _numbers(mean), "std": _numbers(std), "size": size, "grey": grey}
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    prepare = replace(base, **given)
    try:
        of = "The statistics were fitted" if known else f"{name} says that it was trained"
        check_protocol(base.as_dict() if known or own else {}, prepare.as_dict(), of=of)
    except StatisticsMismatchError as error:
        if not allow_other:
            raise type(error)(f"{error} That is said by --allow-other-preprocessing.") from None
        complain(str(error).partition(" Prepare")[0], kind="warning")
    return prepare


def open_prepared(
    data: Path,
    name: str,
    network: nn.Module,
    statistics: Statistics | None = None,
    *,
    device: str = "cpu",
    **options: Any,
) -> tuple[ImageSet, Tensor]:
    """The user's images, prepared as `preparation` says, which the `options` are for; and some of the inputs."""
    prepare = preparation(name, network, statistics, **options)
    return fitting(network, open_images(data, prepare), device=device, statistics=statistics)


def fitting(
    network: nn.Module, images: ImageSet, *, device: str = "cpu", statistics: Statistics | None = None
) -> tuple[ImageSet, Tensor]:
    """The images with as many channels as the network takes, and some of its inputs.

    They are tried, so that a wrong size is said in words before long work begins. Inputs that are far from those of
    the statistics, or without statistics from what the network's BatchNorm layers have seen, are warned about.
    """
    some = images.some().to(device)
    if some.shape[1] == 1 and isinstance(images.images, Tensor) and _refusal(network, some):
        colour = images.in_colour()
        if not _refusal(network, tried := colour.some().to(device)):
            images, some = colour, tried
    check_runs(network, some, "Images are cut by --size, and read as one channel by --grey, as three by --colour.")
    check_variance(network, some) if statistics is None else check_moments(statistics, some)
    return images, some


def check_runs(network: nn.Module, inputs: Tensor, advice: str = "") -> None:
    """Try a few inputs, and say in words if the network does not take them."""
    if error := _refusal(network, inputs):
        shape = " × ".join(map(str, inputs.shape[1:]))
        raise InputError(f"The network does not take images of shape {shape}: {error}. {advice}".strip()) from error


def count_classes(network: nn.Module, inputs: Tensor) -> int:
    """How many classes the network tells apart; refuse one that does not return a row of scores for each image."""
    with torch.no_grad():
        shape = tuple(logits_of(network(inputs)).shape)
    if len(shape) != 2 or shape[0] != len(inputs):
        raise InputError(
            f"The network returns a tensor of shape {shape} for {len(inputs)} images; expected ({len(inputs)}, K), the "
            f"scores of K classes for each. Name a network that classifies images."
        )
    return shape[1]


def check_variance(network: nn.Module, inputs: Tensor) -> None:
    """Warn if the network was trained on inputs of another scale, as far as BatchNorm layers can tell."""
    ratio = variance_ratio(network, inputs)
    if ratio is not None and not 1 / MAX_RATIO < ratio < MAX_RATIO:
        complain(
            f"behind the first layer the variance is {ratio:.2g} times that of the images the network was trained on: "
            f"these are prepared otherwise, or strongly corrupted. Check --mean and --std.",
            kind="warning",
        )


def check_moments(statistics: Statistics, inputs: Tensor) -> None:
    """Warn if inputs are far from those at fitting."""
    known = statistics.preprocessing
    if "input_mean" not in known:
        return
    (mean, std), old_mean, old_std = channel_moments(inputs), known["input_mean"], known["input_std"]
    far = [abs(new - old) > MAX_INPUT_STDS * s for new, old, s in zip(mean, old_mean, old_std, strict=True)]
    wide = [not s / MAX_INPUT_RATIO <= new <= s * MAX_INPUT_RATIO for new, s in zip(std, old_std, strict=True)]
    if any(far) or any(wide):
        new, old = (f"{_short(m)} ± {_short(s)}" for m, s in ((mean, std), (old_mean, old_std)))
        complain(
            f"the inputs have mean ± std {new} per channel; at fitting they had {old}. The images are strongly "
            f"corrupted, or prepared otherwise: check --mean and --std, and that pixels range from 0 to 255, or to 1.",
            kind="warning",
        )


def check_preparation(network: nn.Module, clean: Labelled, prepare: Preprocessing, *, device: str = "cpu") -> None:
    """Warn if the network is right far more often on clean images that are prepared in another usual way."""
    index = torch.arange(min(CLEAN_IMAGES, len(clean)))
    pixels, labels = clean.images[index], clean.labels[index]
    mean, std = (tuple(round(value, 3) for value in values) for values in channel_moments(pixels / 255))
    usual = [Preprocessing(), Preprocessing((0.5,), (0.5,)), Preprocessing(mean, tuple(max(s, 0.001) for s in std))]

    def right(way: Preprocessing) -> float:
        with torch.no_grad():
            found = logits_of(network(way(pixels).to(device))).cpu()
        return float((found.argmax(-1) == labels).float().mean())

    now, best = right(prepare), max(usual, key=right)
    if (better := right(best)) > now + MAX_LOSS:
        options = " ".join(f"--{key} {','.join(map(str, getattr(best, key)))}" for key in ("mean", "std"))
        complain(
            f"prepared with mean {_short(prepare.mean)} and std {_short(prepare.std)}, {now:.0%} of {len(index)} clean "
            f"images are classified right; with {options} it would be {better:.0%}. Pass what the network was trained "
            f"with.",
            kind="warning",
        )


def _short(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _refusal(network: nn.Module, inputs: Tensor) -> Exception | None:
    try:
        with torch.no_grad():
            network(inputs)
    except (RuntimeError, ValueError, TypeError) as error:
        return error
    return None


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(isfinite, numbers)):
        raise InputError(f"Expected one number, or one per channel with commas between; got {text!r}.")
    return numbers


def _of_network(network: nn.Module) -> Preprocessing | None:
    """What a network of the user's says of itself: as an attribute, or as timm's networks do."""
    if isinstance(own := getattr(network, "preprocessing", None), Preprocessing):
        return own
    config = getattr(network, "pretrained_cfg", None)
    if not isinstance(config, Mapping) or not {"mean", "std", "input_size"} <= config.keys():
        return None
    size = int(config["input_size"][-1])
    return Preprocessing(
        tuple(config["mean"]), tuple(config["std"]), size, resize=round(size / config.get("crop_pct", 1.0))
    )
