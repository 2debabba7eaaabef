"""How far to match, decided without labels: an average over the nested family, weighted by the network's confidence.

Matching assumes that a batch is like the training data but for a corruption. Three things that it may be instead are
seen and allowed for: a batch that is within sampling error of training is left as it is, a batch of few classes is
matched to a mixture of those classes, and in a batch of images that look different each group is matched by itself.
"""

from collections.abc import Mapping
from math import log
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.matching.classes import TINY, class_shares, divergence, evidence, extrapolated
from shiftmatch.matching.decision import Candidate, Decision, decide, mean_entropy
from shiftmatch.matching.groups import find_groups
from shiftmatch.matching.inputs import INPUT, Inputs, logits_of
from shiftmatch.matching.instrument import without_sites
from shiftmatch.matching.matched import MatchedModel
from shiftmatch.matching.observed import Observed, PlainModel, observable, observed
from shiftmatch.matching.statistics import Statistics

PLAIN, MOMENTS, SPECTRUM = "plain", "channel moments", "spectrum"

CONFIDENCE_POWER, STEP, MIN_ENTROPY = 12.0, log(4), 0.02
"""Weights are 4^(−step) / (H + E)¹². H is the mean entropy of a member in nats; it counts 0.02 more, so that none is 0.
E is the evidence in its answers that classes have other shares than in training: a network that is sure because it
calls everything a bird is wrong, unless matched features tell of birds, too. The step in the nested family is 0 for
the plain network: what matches further has to make the network surer."""

CLASSES_WEIGHT, OCCAM, EFFORT = 30.0, 0.03, 0.3
"""Of batches of few classes: τ of the weights exp(−τ · entropy), and what shares far from training and features that
have to be moved far cost, in nats of entropy: for a nat of KL(shares ‖ training shares), and for e times the mean
distance of channels at all sites."""

ROUNDS = {PLAIN: 2, SPECTRUM: 3}
"""How often the shares are estimated anew, from features that were matched to those before."""

FACTOR, MAX_FACTOR = 4.0, 8.0
"""How far shares that are found in matched features are extrapolated at first, and at most: they show a quarter or less
of the difference to the shares that the features were matched to."""

SIGNIFICANCE, MIN_EVIDENCE = 3.0, 0.07
"""Class shares differ from training where the evidence for it, in nats per image, is over 3 (K − 1) / 2n, three times
what chance makes it, and over what the errors of a network make it in any batch."""

MIN_SHIFT, SHIFT_BY_CHANCE = 0.0015, 0.3
"""The same of the means of the last features along the differences of classes (`ClassMoments.shift`): 0.0015 and 0.3/n.
Of a ResNet-20 in batches of 200, all classes have up to 0.0008 under any corruption, five 0.0018 or more, one 0.004."""


class AutoMatchedModel(nn.Module):
    """A network that averages over how far it matches: plain, channel moments, spectrum. Three passes per batch.

    A batch within sampling error of training takes one. A batch whose class shares seem to differ from training
    takes seven: plain, spectrum, and from each of the two a chain of rounds in which the spectrum is matched to the
    mixture for the shares that the round before has found; and one more where that brings its features no nearer.
    It returns log-probabilities, which can be used wherever logits can.

    Args:
        statistics: what `fit` has measured.
        plain: the network as it is.
        moments: the network, matched in channel moments.
        full: the network, matched in full.

    >>> import shiftmatch as sm
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
        """What is decided for a batch. Nothing is kept, so threads may ask at once."""
        with torch.no_grad():
            return self._decided(Inputs(args, kwargs))[0]

    def train(self, mode: bool = True) -> "AutoMatchedModel":
        """Stays in evaluation mode."""
        return self

    def _decided(self, inputs: Inputs) -> tuple[Decision, Float[Tensor, "b k"]]:
        inputs = self.full.checked(inputs)
        groups = self._groups(inputs)
        if len(groups) < 2:
            return self._decided_for_group(inputs)
        decisions, log_p = zip(*(self._decided_for_group(inputs.at(group)) for group in groups), strict=True)
        return Decision.mean(decisions), torch.cat(log_p)[torch.cat(groups).argsort()]

    def _groups(self, inputs: Inputs) -> list[Tensor]:
        """The places of images that look alike; nothing for other inputs than images of the size that was fitted."""
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
        starts, by_class = {PLAIN: plain, SPECTRUM: spectrum}, None
        if prior is not None and known is None:
            by_class = self._by_class(inputs, starts, seen.distance, prior)
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
        """The average for a batch with class shares of its own, each answer but the spectrum's given its shares.

        Shares are believed where features are nearer to the mixture for them than they are to all of training.
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
                answer = _answered(log_p, shares[name], prior)
            candidates[name] = Candidate(answer, cost, -CLASSES_WEIGHT * cost)
        first, second, *_ = sorted(candidates, key=lambda name: candidates[name].entropy)
        decision = decide(candidates, (first, second), self._named(shares[first]), few_classes=True)
        return decision, decision.answer({name: candidate.log_p for name, candidate in candidates.items()})

    def _chain(self, inputs: Inputs, log_p: Tensor, start: str, prior: Tensor) -> tuple[Tensor, Observed]:
        """Estimate shares, match to them, and so on; what is said in the end, and what its pass has shown.

        With shares π the predictions say π + g (π* − π). From the second round on g is known (the secant method).
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
        """The network matched to training data with these class shares: built for this call, so threads may differ."""
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
    """The members of the nested family, from the plain network on; `shares` of classes, where they are known."""
    found = {}
    for step, (name, log_p) in enumerate(answers.items()):
        cost = mean_entropy(log_p)
        if shares is not None:
            cost += max(0.0, evidence(log_p, class_shares(log_p, shares), shares))
        found[name] = Candidate(log_p, cost, -CONFIDENCE_POWER * log(cost + MIN_ENTROPY) - STEP * step)
    return found


def known_shares(spectrum: Float[Tensor, "b k"], statistics: Statistics) -> Float[Tensor, "k"] | None:
    """Those of training, unless the matched network sees other ones, or there are none."""
    prior = statistics.class_shares if len(spectrum) else None
    return None if prior is None or _differs(spectrum, class_shares(spectrum, prior), prior) else prior


def _answered(log_p: Tensor, shares: Tensor, prior: Tensor) -> Tensor:
    """Predictions given class shares: p π / π°, normalised."""
    return (log_p + (shares / prior).log().to(log_p)).log_softmax(-1)


def _differs(log_p: Tensor, shares: Tensor, prior: Tensor) -> bool:
    """Whether class shares differ from those of training by more than chance and the network's errors make them."""
    by_chance = (len(prior) - 1) / (2 * len(log_p))
    return evidence(log_p, shares, prior) > max(SIGNIFICANCE * by_chance, MIN_EVIDENCE)


def _shows_classes(seen: Observed) -> bool:
    """Whether the last features tell of other class shares than those that they were matched to."""
    return seen.class_shift > max(MIN_SHIFT, SHIFT_BY_CHANCE / max(1, seen.images))
