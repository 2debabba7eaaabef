"""Ways to make networks robust, by name, so that they can be compared in one run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torch import Tensor, nn

from shiftmatch.core.covariance import ChannelCovariance, ChannelJoint, ChannelMoments, Kronecker, SpatialFull
from shiftmatch.errors import InputError
from shiftmatch.evaluation.online import Adapting, running_batchnorm, scales_and_shifts, tent
from shiftmatch.evaluation.preparing import (
    Batches,
    Plain,
    Prepare,
    adapting,
    batchnorm,
    check_batchnorm,
    matching,
    matching_with_batchnorm,
    wrapping,
)
from shiftmatch.matching.average import Average, average
from shiftmatch.matching.presets import paper
from shiftmatch.samplers.posterior import Posterior

PRIOR = 128
"""Images that the training statistics count for in the weighted variant: α = 128 / (128 + n) in batches of n."""


@final
@dataclass(frozen=True, eq=False)
class Method:
    """One way to make networks robust: a network and clean training inputs in, a robust network out.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> METHODS["ShiftMatch"](net, torch.randn(200, 3, 8, 8).split(100))(torch.randn(100, 3, 8, 8)).shape
    torch.Size([100, 10])
    """

    name: str
    about: str
    prepare: Prepare

    def __call__(self, network: nn.Module, batches: Batches) -> nn.Module:
        """The network made robust; itself it stays as it was."""
        return self.prepare([network], batches, None)[0]


@final
@dataclass(frozen=True, eq=False)
class Episodes:
    """The average of networks that change with what they see; `reset` makes them forget."""

    members: Sequence[nn.Module]

    def __call__(self, images: Tensor) -> Tensor:
        return average(self.members)(images)

    def reset(self) -> None:
        """Begin a new episode."""
        for member in self.members:
            if isinstance(member, Adapting):
                member.reset()


def predictor(
    method: Method,
    members: nn.Module | Posterior | Sequence[nn.Module],
    batches: Batches,
    *,
    path: Path | None = None,
) -> Average | Episodes:
    """One network, the members of an ensemble or the draws of a posterior, made robust each for itself and averaged.

    With `path` the statistics of members are kept in that file, and memory does not grow with their number.
    """
    if isinstance(members, Posterior):
        members = members.models()
    prepared = method.prepare([members] if isinstance(members, nn.Module) else members, batches, path)
    return Episodes(prepared) if isinstance(prepared[0], Adapting) else average(prepared)


def method_named(name: str, *, pixel_std: float = 1.0) -> Method:
    """The method of that name, upper or lower case; `pixel_std` is what the pixels are divided by, for the paper's.

    >>> method_named("shiftmatch").name
    'ShiftMatch'
    """
    found = next((method for known, method in METHODS.items() if known.lower() == name.strip().lower()), None)
    if found is None:
        raise InputError(f"There is no method {name!r}; choose among {', '.join(METHODS)}.")
    return paper_setting(pixel_std) if found.name == PAPER_SETTING else found


PAPER_SETTING = "ShiftMatch (paper)"


def paper_setting(pixel_std: float = 1.0) -> Method:
    """ShiftMatch with the authors' constants, for inputs that are pixels from 0 to 1 divided by `pixel_std`."""
    about = "the authors' constants, BatchNorm on batch statistics"
    return Method(PAPER_SETTING, about, matching(preset=paper(pixel_std=pixel_std)))


def _registry(methods: Iterable[Method]) -> dict[str, Method]:
    return {method.name: method for method in methods}


METHODS = _registry(
    [
        Method("plain", "the network as it is", wrapping(Plain)),
        Method("batchnorm", "BatchNorm on the batch's statistics; without BatchNorm, channel moments", batchnorm()),
        Method(
            "batchnorm-prior", f"the same, training statistics count for {PRIOR} images", batchnorm(prior_images=PRIOR)
        ),
        Method(
            "batchnorm-running",
            "BatchNorm on a running average over the batches",
            adapting(running_batchnorm, check_batchnorm),
        ),
        Method("channel moments", "mean and variance of every channel", matching(covariance=ChannelMoments())),
        Method("ShiftMatch", "rows, then columns, of every channel", matching()),
        Method("ShiftMatch + batchnorm", "the same, with BatchNorm on batch statistics", matching_with_batchnorm),
        paper_setting(),
        Method(
            "ShiftMatch: Kronecker", "rows and columns at once: the paper's equation", matching(covariance=Kronecker())
        ),
        Method("ShiftMatch: SpatialFull", "all pixels of a channel", matching(covariance=SpatialFull())),
        Method(
            "ShiftMatch: ChannelJoint", "rows and columns shared by all channels", matching(covariance=ChannelJoint())
        ),
        Method("ShiftMatch: input only", "matching at the input alone", matching(at="input")),
        Method("ShiftMatch: after activations", "matching after the nonlinearities", matching(at="post-activation")),
        Method("CORAL", "covariance between the channels", matching(covariance=ChannelCovariance())),
        Method(
            "Tent",
            "gradient steps on the entropy of predictions (Wang et al., 2021)",
            adapting(tent, scales_and_shifts),
        ),
    ]
)
"""Every method by its name."""
