"""average(): members in, one predictor out."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.matching.distributed import sum_over_processes
from shiftmatch.matching.inputs import Inputs, logits_of
from shiftmatch.utils.processes import share

Probabilities = Float[Tensor, "b k"]
Member = Callable[..., Any]
"""A network: images in, logits out."""


@runtime_checkable
class HasModels(Protocol):
    """A posterior: its networks are built when they are asked for."""

    def models(self) -> Iterable[Member]:
        """The networks, one per draw."""


@final
@dataclass(frozen=True, eq=False)
class Prediction:
    """The mean prediction of the members, and how much they disagree; entropies are in nats."""

    log_probabilities: Probabilities
    member_entropy: Float[Tensor, "b"]

    @property
    def probabilities(self) -> Probabilities:
        """The mean of the members' probabilities."""
        return self.log_probabilities.exp()

    @property
    def entropy(self) -> Float[Tensor, "b"]:
        """H(p̄) = −Σ_k p̄_k log p̄_k: the whole uncertainty."""
        return _entropy(self.log_probabilities)

    @property
    def mutual_information(self) -> Float[Tensor, "b"]:
        """H(p̄) − mean H(p): the part that comes from disagreement, zero if all members predict the same."""
        return (self.entropy - self.member_entropy).clamp_min(0)

    @property
    def confidence(self) -> Float[Tensor, "b"]:
        """The largest of the mean probabilities."""
        return self.probabilities.amax(-1)


@final
@dataclass(frozen=True, eq=False)
class Average:
    """A predictor: images in, the mean of the members' probabilities out. Holds one member's outputs at a time."""

    parts: Sequence[Member | HasModels]
    across_processes: bool = False

    def __call__(self, images: Tensor | Mapping[str, Tensor]) -> Probabilities:
        return self.predict(images).probabilities

    def predict(self, images: Tensor | Mapping[str, Tensor]) -> Prediction:
        """Probabilities with their uncertainties, in one pass over the members."""
        count, total, entropy = 0, torch.tensor(-math.inf), torch.zeros(())
        inputs = Inputs.of(images)
        for member in self.members():
            with torch.no_grad():
                log_p = logits_of(member(*inputs.args, **inputs.kwargs)).log_softmax(-1)
            del member  # before the next one is built, so that there is never more than one
            count, total, entropy = count + 1, torch.logaddexp(total, log_p), entropy + _entropy(log_p)
        if self.across_processes:
            count, total, entropy = sum_over_processes(count, total, entropy)
        return Prediction(total - math.log(count), entropy / count)

    def members(self) -> Iterator[Member]:
        """The members one by one; those of a posterior are built when their turn comes."""
        for part in share(self.parts) if self.across_processes else self.parts:
            yield from part.models() if isinstance(part, HasModels) else (part,)


def average(members: HasModels | Iterable[Member | HasModels], *, across_processes: bool = False) -> Average:
    """Average the predictions of networks, matched networks and posteriors, in any mix; every draw has one vote.

    log p̄ = logsumexp_m log p_m − log M, which neither overflows nor loses small probabilities. Put networks into eval
    mode first, as for any prediction.

    Args:
        members: networks, or a posterior.
        across_processes: whether the members are spread over the processes of torch.distributed, at least one for each;
            all of them see the same images and get the same prediction.

    >>> from torch import nn
    >>> predict = average([nn.Linear(4, 3), nn.Linear(4, 3)])
    >>> predict(torch.ones(5, 4)).shape
    torch.Size([5, 3])
    """
    parts = [members] if isinstance(members, HasModels) else members
    # A sequence stays as it is, because it may build its members only when asked for them.
    kept = parts if isinstance(parts, Sequence) else list(parts)
    if not len(kept):
        raise InputError("There is nothing to average; pass at least one network or posterior.")
    if across_processes and len(kept) == 1 and isinstance(kept[0], HasModels):
        models = kept[0].models()
        kept = models if isinstance(models, Sequence) else list(models)
    return Average(kept, across_processes)


def _entropy(log_p: Probabilities) -> Float[Tensor, "b"]:
    entropy: Tensor = torch.special.entr(log_p.exp()).sum(-1)
    return entropy
