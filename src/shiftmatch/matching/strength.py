"""How far to match, decided without labels: an average over the nested family, weighted by the network's confidence.

Matching assumes that a batch is like the training data but for a corruption. Three things that it may be instead are
seen and allowed for: a batch that is within sampling error of training is left as it is, a batch of few classes is
matched to a mixture of those classes, and in a batch of images that look different each group is matched by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.core.fingerprint import find_groups
from shiftmatch.matching.classes import TINY, class_shares, divergence, evidence, extrapolated
from shiftmatch.matching.inputs import INPUT, Inputs, logits_of
from shiftmatch.matching.instrument import without_sites
from shiftmatch.matching.matched import MatchedModel
from shiftmatch.matching.observed import Observed, PlainModel, observable, observed
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.twin import EvalModel

PLAIN, MOMENTS, SPECTRUM = "plain", "channel moments", "spectrum"

CONFIDENCE_POWER, STEP, MIN_ENTROPY = 12.0, log(4), 0.02
"""A member's weight is 4^(−step) / (H + E + 0.02)¹². H is its mean entropy in nats. E is evidence in its predictions
that class shares differ from training: a network that calls everything a bird is sure and wrong, unless the matched
features show that class, too. The plain network is step 0: matching further has to make the network surer."""

CLASSES_WEIGHT, OCCAM, EFFORT = 30.0, 0.03, 0.3
"""For batches of few classes, weights are exp(−30 · cost). The cost is the mean entropy, plus 0.03 for each nat of
KL(shares ‖ training shares), plus 0.3 for each factor of e between a candidate's feature distance and the least one."""

ROUNDS = {PLAIN: 2, SPECTRUM: 3}
"""How often class shares are estimated again, each time from features matched to the shares before."""

FACTOR, MAX_FACTOR = 4.0, 8.0
"""Features matched to wrong shares show a quarter or less of the difference to the right ones, so the difference is
multiplied by 4 at first, and by at most 8."""

SIGNIFICANCE, MIN_EVIDENCE = 3.0, 0.07
"""Class shares differ from training where the evidence in nats per image is over three times what chance gives,
(K − 1) / 2n, and over 0.07, which a network's errors may give in any batch."""

MIN_SHIFT, SHIFT_BY_CHANCE = 0.0015, 0.3
"""The same for the means of the last features (`ClassMoments.shift`): over 0.0015 and 0.3 / n. With a ResNet-20 and
batches of 200, all ten classes give up to 0.0008 under any corruption, five give 0.0018 or more, one 0.004."""

MAX_TEMPERATURE, TEMPERATURE_STEPS = 8.0, 30
"""The temperature is searched up to 8, by so many bisections."""


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided for a batch, and why. With groups: the mean over all images, and a decision for each group."""

    weights: dict[str, float]
    entropies: dict[str, float]  # means over the images in nats, plus what else counts against a member
    temperature: float
    images: int
    shares: dict[str, float] = field(default_factory=dict)  # of the classes, where moments by class are known
    few_classes: bool = False
    groups: tuple["Decision", ...] = ()

    @classmethod
    def mean(cls, groups: Sequence["Decision"]) -> "Decision":
        """The mean over groups, weighted by their images."""
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
        """The weighted mean of the members' predictions, at the temperature."""
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


class Candidate(NamedTuple):
    """One member of an average: its predictions, its mean entropy with further costs, and its score."""

    log_p: Float[Tensor, "b k"]
    entropy: float
    score: float


class AutoMatchedModel(EvalModel):
    """A network that averages over how far it matches: plain, channel moments, spectrum. Three passes per batch.

    A batch within sampling error of training takes one pass. A batch whose class shares seem to differ from training
    takes seven: plain, spectrum, and, from each of the two, rounds that match to the class shares found in the round
    before. If none of them brings features nearer to training, channel moments are the eighth.
    It returns log-probabilities, which can be used wherever logits can.

    Args:
        statistics: what `fit` has measured.
        plain: the network as it is.
        moments: the network, matched in channel moments.
        full: the network, matched in full.

    >>> import shiftmatch as sm
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(200, 3, 8, 8)
    >>> safe = sm.match(net, sm.fit(net, images), strength="auto")
    >>> torch.allclose(safe(images).exp().sum(-1), torch.ones(200))  # log-probabilities
    True
    """

    def __init__(self, statistics: Statistics, plain: PlainModel, moments: MatchedModel, full: MatchedModel) -> None:
        super().__init__()
        self.statistics, self.plain, self.moments, self.full = statistics, plain, moments, observable(full)

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "b k"]:
        """The logarithm of the weighted mean of the members' probabilities, at a temperature found without labels."""
        return self._decided(Inputs(args, kwargs))[1]

    def explain(self, *args: Any, **kwargs: Any) -> Decision:
        """What is decided for a batch. Nothing is kept, so several threads may call it."""
        with torch.no_grad():
            return self._decided(Inputs(args, kwargs))[0]

    def _decided(self, inputs: Inputs) -> tuple[Decision, Float[Tensor, "b k"]]:
        inputs = self.full.checked(inputs)
        groups = self._groups(inputs)
        if len(groups) < 2:
            return self._decided_for_group(inputs)
        decisions, log_p = zip(*(self._decided_for_group(inputs.at(group)) for group in groups), strict=True)
        return Decision.mean(decisions), torch.cat(log_p)[torch.cat(groups).argsort()]

    def _groups(self, inputs: Inputs) -> list[Tensor]:
        """The indices of images that look alike; none unless inputs are images of the size that was fitted."""
        known, found = self.statistics.fingerprint, inputs.named(self.plain.network)
        shapes = {name: tuple(x.shape[1:]) for name, x in found.items()}
        if known is None or shapes != self.statistics.inputs or len(shapes[INPUT]) != 3:
            return []
        return find_groups(found[INPUT], known)

    def _decided_for_group(self, inputs: Inputs) -> tuple[Decision, Float[Tensor, "b k"]]:
        plain, as_it_is = observed(self.plain, inputs)
        if as_it_is.unshifted(self.statistics.images):
            return Decision({PLAIN: 1.0}, {PLAIN: mean_entropy(plain)}, 1.0, len(plain)), plain
        spectrum, seen = observed(self.full, inputs)
        prior = self.statistics.class_shares if len(spectrum) else None
        known = None if _shows_classes(seen) else known_shares(spectrum, self.statistics)
        if prior is not None and known is None:
            by_class = self._by_class(inputs, {PLAIN: plain, SPECTRUM: spectrum}, seen.distance, prior)
            if by_class is not None:
                return by_class
        moments = logits_of(self.moments(*inputs.args, **inputs.kwargs)).log_softmax(-1)
        family = {PLAIN: plain, MOMENTS: moments, SPECTRUM: spectrum}
        shares = None if prior is None else class_shares(spectrum, prior)
        decision = decide(nested_family(family, known), (MOMENTS, SPECTRUM), self._named(shares))
        return decision, decision.answer(family)

    def _by_class(
        self, inputs: Inputs, starts: Mapping[str, Tensor], distance: float, prior: Tensor
    ) -> tuple[Decision, Float[Tensor, "b k"]] | None:
        """The average for a batch whose class shares differ from training, or None if there is no good sign of that.

        Shares count where features are nearer to the moments for these shares than to those of all training data.
        Predictions but those of the spectrum are corrected for the shares.
        """
        ends, distances = dict(starts), {SPECTRUM: distance}
        for start in starts:
            log_p, seen = self._chain(inputs, starts[start], start, prior)
            if seen.distance < distance and _differs(log_p, class_shares(log_p, prior), prior):
                name = f"classes, from {start}"
                ends[name], distances[name] = log_p, seen.distance
        if len(ends) == len(starts):
            return None
        candidates, shares, least = {}, {}, max(TINY, min(distances.values()))
        for name, log_p in ends.items():
            shares[name] = class_shares(log_p, prior)
            cost, answer = mean_entropy(log_p) + EFFORT * log(max(1.0, distances.get(name, least) / least)), log_p
            if name != SPECTRUM:
                cost += OCCAM * divergence(shares[name], prior)
                answer = (log_p + (shares[name] / prior).log().to(log_p)).log_softmax(-1)  # p π / π°, normalised
            candidates[name] = Candidate(answer, cost, -CLASSES_WEIGHT * cost)
        first, second, *_ = sorted(candidates, key=lambda name: candidates[name].entropy)
        decision = decide(candidates, (first, second), self._named(shares[first]), few_classes=True)
        return decision, decision.answer({name: candidate.log_p for name, candidate in candidates.items()})

    def _chain(self, inputs: Inputs, log_p: Tensor, start: str, prior: Tensor) -> tuple[Tensor, Observed]:
        """Estimate class shares and match to them, several times; the last predictions and features.

        Features matched to shares π predict π + g (π* − π), where π* are the true ones. From the second round on, g is
        estimated by the secant method.
        """
        seen, target, factor, before = Observed([]), prior, 1.0 if start == PLAIN else FACTOR, None
        for _ in range(ROUNDS[start]):
            left = class_shares(log_p, prior) - target
            if before is not None and start != PLAIN:
                change, bend = target - before[0], before[1] - left
                factor = float((change @ change / (bend @ change).clamp_min(TINY)).clamp(1.0, MAX_FACTOR))
            before = (target, left)
            target = extrapolated(target, target + left, prior, factor)
            log_p, seen = observed(self._matched_to(target), inputs)
        return log_p, seen

    def _matched_to(self, shares: Tensor) -> MatchedModel:
        """The network matched to training data with these class shares, built for this call only."""
        network, statistics = without_sites(self.plain.network), self.statistics.with_class_shares(shares)
        return observable(MatchedModel(network, statistics, prior=self.full.prior, check_weights=False))

    def _named(self, shares: Tensor | None) -> dict[str, float]:
        """Shares by the names of their classes, or by their numbers."""
        values = [] if shares is None else shares.tolist()
        names = self.statistics.classes
        return dict(zip(names if len(names) == len(values) else map(str, range(len(values))), values, strict=True))


def nested_family(
    answers: Mapping[str, Float[Tensor, "b k"]], shares: Float[Tensor, "k"] | None
) -> dict[str, Candidate]:
    """The members of the nested family, the plain network first, with their scores; class `shares` if known."""
    found = {}
    for step, (name, log_p) in enumerate(answers.items()):
        cost = mean_entropy(log_p)
        if shares is not None:
            cost += max(0.0, evidence(log_p, class_shares(log_p, shares), shares))
        found[name] = Candidate(log_p, cost, -CONFIDENCE_POWER * log(cost + MIN_ENTROPY) - STEP * step)
    return found


def known_shares(spectrum: Float[Tensor, "b k"], statistics: Statistics) -> Float[Tensor, "k"] | None:
    """The class shares of training; None if there are none, or if the matched network predicts other ones."""
    prior = statistics.class_shares if len(spectrum) else None
    return None if prior is None or _differs(spectrum, class_shares(spectrum, prior), prior) else prior


def _differs(log_p: Tensor, shares: Tensor, prior: Tensor) -> bool:
    """Whether class shares differ from training by more than chance and the network's errors explain."""
    by_chance = (len(prior) - 1) / (2 * len(log_p))
    return evidence(log_p, shares, prior) > max(SIGNIFICANCE * by_chance, MIN_EVIDENCE)


def _shows_classes(seen: Observed) -> bool:
    """Whether the last features show other class shares than those that they were matched to."""
    return seen.class_shift > max(MIN_SHIFT, SHIFT_BY_CHANCE / max(1, seen.images))


def decide(
    candidates: Mapping[str, Candidate],
    compared: tuple[str, str],
    shares: Mapping[str, float] | None = None,
    *,
    few_classes: bool = False,
) -> Decision:
    """Average the candidates with weights exp(score), at the temperature at which two of them agree as often."""
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


def _percent(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
