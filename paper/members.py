"""Members whose answers are kept on disk, so that figures that share networks and images compute them once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.matching.inputs import logits_of
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.shapes import Images
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.sequences import LazySequence
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, VERSION = "answers", 1

Network = Callable[..., object]


@final
@dataclass(frozen=True, eq=False)
class Kept:
    """A network, plain or made robust: images in, log-probabilities out, computed once for the same images.

    What a file depends on, the weights, the statistics and the images, is in its name.
    """

    network: Network
    folder: Path

    def __call__(self, x: Images) -> Float[Tensor, "b k"]:
        file = self.folder / f"{content_hash([self.network, x])[:32]}.safetensors"
        if not file.exists():
            with torch.no_grad():
                answers = logits_of(self.network(x)).log_softmax(-1)
            save_tensors(file, {"log_probabilities": answers}, kind=KIND, version=VERSION, header={})
        return load_tensors(file, kind=KIND, version=VERSION)[0]["log_probabilities"]


def kept(members: Sequence[Network], folder: Path) -> LazySequence[Kept]:
    """The members, built when they are asked for, with answers that are kept in the folder.

    The first member of an ensemble is also the network by itself: its answers serve both.
    """
    return LazySequence(len(members), partial(_member, members, folder))


def _member(members: Sequence[Network], folder: Path, index: int) -> Kept:
    return Kept(members[index], folder)


def spread(posterior: Posterior, draws: int, network: nn.Module | None = None) -> Sequence[nn.Module]:
    """About so many draws, evenly spread; what a draw does not have is that of the network."""
    return posterior.models(network)[:: ceil(len(posterior) / draws)]
