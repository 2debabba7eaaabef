"""What is decided for a batch: an average of candidates by their scores, as sure as two of them agree, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

MAX_TEMPERATURE, TEMPERATURE_STEPS = 8.0, 30


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided for a batch, and why; in groups, the mean over all images, and one decision for each group."""

    weights: dict[str, float]
    entropies: dict[str, float]  # means over the images in nats, with what else counts against a member
    temperature: float
    images: int
    shares: dict[str, float] = field(default_factory=dict)  # of the classes, where moments by class are known
    few_classes: bool = False
    groups: tuple["Decision", ...] = ()

    @classmethod
    def mean(cls, groups: Sequence["Decision"]) -> "Decision":
        """The mean over groups, image by image."""
        images = sum(group.images for group in groups)

        def mean(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
            names = dict.fromkeys(name for part in parts for name in part)
            weighted = [(group.images / images, part) for group, part in zip(groups, parts, strict=True)]
            return {name: sum(share * part.get(name, 0.0) for share, part in weighted) for name in names}

        return cls(
            mean([group.weights for group in groups]),
            mean([group.entropies for group in groups]),
            sum(group.temperature * group.images for group in groups) / images,
            images,
            mean([group.shares for group in groups]),
            any(group.few_classes for group in groups),
            tuple(groups),
        )

    def answer(self, answers: Mapping[str, Float[Tensor, "b k"]]) -> Float[Tensor, "b k"]:
        """The log-probabilities that the members' answers come to."""
        return (mixture(answers, self.weights) / self.temperature).log_softmax(-1)

    def __str__(self) -> str:
        if self.groups:
            sizes = ", ".join(str(group.images) for group in self.groups)
            each = " ".join(f"Group {i}: {group}" for i, group in enumerate(self.groups, start=1))
            return f"The images look like {len(self.groups)} groups ({sizes}), which are matched apart. {each}"
        if len(self.weights) == 1:
            return "The features of this batch are within sampling error of training: the network answers as it is."
        best = max(self.weights, key=lambda name: self.weights[name])
        surer = ", ".join(f"{name} {entropy:.2f}" for name, entropy in self.entropies.items())
        text = (
            f"The network is surest of this batch with {best}: weights {_percent(self.weights)} (mean entropy in nats: "
            f"{surer}); probabilities at temperature {self.temperature:.2f}."
        )
        if not self.few_classes:
            return text
        most = dict(sorted(self.shares.items(), key=lambda item: -item[1])[:5])
        return (
            f"The batch has other class shares than training ({_percent(most)}), and targets that allow for it. {text}"
        )


def _percent(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


class Candidate(NamedTuple):
    """One member of an average: what it answers, its mean entropy or what stands for it, and its score."""

    log_p: Float[Tensor, "b k"]
    entropy: float
    score: float


def decide(
    candidates: Mapping[str, Candidate],
    compared: tuple[str, str],
    shares: Mapping[str, float] | None = None,
    *,
    few_classes: bool = False,
) -> Decision:
    """The mean of the candidates with weights exp(score), as sure as two of them agree."""
    scores = torch.tensor([candidate.score for candidate in candidates.values()], dtype=torch.float64)
    weights = dict(zip(candidates, scores.softmax(0).tolist(), strict=True))
    mixed = mixture({name: candidate.log_p.detach() for name, candidate in candidates.items()}, weights)
    one, other = (candidates[name].log_p.argmax(-1) for name in compared)
    return Decision(
        weights,
        {name: candidate.entropy for name, candidate in candidates.items()},
        agreement_temperature(mixed, one, other),
        len(mixed),
        dict(shares or {}),
        few_classes,
    )


def mixture(answers: Mapping[str, Float[Tensor, "b k"]], weights: Mapping[str, float]) -> Float[Tensor, "b k"]:
    """The logarithm of the weighted mean of probabilities.

    >>> sure, unsure = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5]]).log()
    >>> mixture({"one": sure, "other": unsure}, {"one": 0.5, "other": 0.5}).exp()
    tensor([[0.7000, 0.3000]])
    """
    log_p = torch.stack([answers[name] for name in weights])
    return torch.logsumexp(log_p + log_p.new_tensor(list(weights.values())).log()[:, None, None], 0)


def mean_entropy(log_p: Float[Tensor, "b k"]) -> float:
    """In nats; 0 for no images.

    >>> mean_entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]).log().clamp_min(-100))
    0.34...
    """
    return -(log_p.detach().exp() * log_p.detach()).sum(-1).mean().item() if len(log_p) else 0.0


def agreement_temperature(log_p: Float[Tensor, "b k"], one: Tensor, other: Tensor) -> float:
    """The temperature, 1 or more, at which mean confidence is the share of images that two members agree about.

    Agreement follows accuracy and needs no labels (Jiang et al., 2022). Predictions stay the same.

    >>> sure = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).log_softmax(-1)
    >>> agreement_temperature(sure, torch.tensor([0, 1]), torch.tensor([0, 1]))
    1.0
    >>> agreement_temperature(sure, torch.tensor([0, 1]), torch.tensor([0, 0])) > 2
    True
    """
    if len(log_p) == 0:
        return 1.0
    agreement = (one == other).double().mean().item()
    low, high = 1.0, MAX_TEMPERATURE
    if _confidence(log_p, low) <= agreement:
        return low
    for _ in range(TEMPERATURE_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _confidence(log_p, middle) > agreement else (low, middle)
    return high


def _confidence(log_p: Tensor, temperature: float) -> float:
    return (log_p / temperature).softmax(-1).amax(-1).double().mean().item()
