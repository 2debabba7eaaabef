"""How far to match, decided without labels: an average over the nested family, weighted by the network's confidence.

Matching assumes that a batch is like the training data but for a corruption. Two things that it may be instead are seen
and allowed for: a batch of few classes is matched to a mixture of those classes, and in a batch of images that look
different each group is matched by itself.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.matching.classes import (
    TINY,
    class_shares,
    divergence,
    evidence,
    extrapolated,
    image_moments,
    moment_distance,
)
from shiftmatch.matching.groups import find_groups
from shiftmatch.matching.inputs import Inputs, logits_of
from shiftmatch.matching.matched import MatchedModel
from shiftmatch.matching.matcher import SiteMatcher
from shiftmatch.matching.site import INPUT
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.twin import twin_of

PLAIN, MOMENTS, SPECTRUM = "plain", "channel moments", "spectrum"

CONFIDENCE_WEIGHT = 15.0
"""τ of the weights exp(−τ · mean entropy); 10 to 30 are alike."""

CLASSES_WEIGHT, OCCAM, EFFORT = 30.0, 0.03, 150.0
"""Of batches of few classes: τ, and what shares far from training and features that have to be moved far cost, in nats
of entropy: for a nat of KL(shares ‖ training shares), and for one of the mean distance of channels at all sites."""

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

MAX_TEMPERATURE, TEMPERATURE_STEPS = 8.0, 30


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided for a batch, and why; in groups, the mean over all images, and one decision for each group."""

    weights: dict[str, float]
    entropies: dict[str, float]  # means over the images, in nats; of class-aware members, what stands for it
    temperature: float
    images: int
    shares: dict[str, float] = field(default_factory=dict)  # of the classes, where moments by class are known
    few_classes: bool = False
    groups: tuple["Decision", ...] = ()

    def __str__(self) -> str:
        if self.groups:
            sizes = ", ".join(str(group.images) for group in self.groups)
            each = " ".join(f"Group {i}: {group}" for i, group in enumerate(self.groups, start=1))
            return f"The images look like {len(self.groups)} groups ({sizes}), which are matched apart. {each}"
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


class AutoMatchedModel(nn.Module):
    """A network that averages over how far it matches: plain, channel moments, spectrum. Three passes per batch.

    A batch whose class shares differ from training takes seven: plain, spectrum, and from each of the two a chain of
    rounds in which the spectrum is matched to the mixture for the shares that the round before has found.
    It returns log-probabilities, which can be used wherever logits can.
    """

    def __init__(self, statistics: Statistics, plain: nn.Module, moments: nn.Module, full: MatchedModel) -> None:
        super().__init__()
        self.statistics, self.members = statistics, nn.ModuleList([plain, moments, full])
        if statistics.class_shares is not None:
            _measuring_distances(full)

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
        groups = self._groups(inputs)
        if len(groups) < 2:
            return self._decided_for_group(inputs)
        decisions, log_p = zip(*(self._decided_for_group(inputs.at(group)) for group in groups), strict=True)
        return _mean_decision(decisions), torch.cat(log_p)[torch.cat(groups).argsort()]

    def _groups(self, inputs: Inputs) -> list[Tensor]:
        """The places of images that look alike; nothing for other inputs than images of the size that was fitted."""
        known, found = self.statistics.fingerprint, inputs.named(self.members[0].network)  # type: ignore[arg-type]
        shapes = {name: tuple(x.shape[1:]) for name, x in found.items()}
        if known is None or shapes != self.statistics.inputs or len(shapes[INPUT]) != 3:
            return []
        return find_groups(found[INPUT], known)

    def _decided_for_group(self, inputs: Inputs) -> tuple[Decision, Float[Tensor, "b k"]]:
        plain, moments, full = self.members
        spectrum, moved = _log_p_and_moved(full, inputs)  # first: it checks the inputs, in words
        starts = {PLAIN: _log_p(plain, inputs), SPECTRUM: spectrum}
        prior = self.statistics.class_shares if len(spectrum) else None
        found = {} if prior is None else {name: class_shares(log_p, prior) for name, log_p in starts.items()}
        if prior is not None and (_differs(spectrum, found[SPECTRUM], prior) or moved.shows_classes(len(spectrum))):
            return self._by_class(inputs, starts, moved.distance, prior)
        members = {PLAIN: starts[PLAIN], MOMENTS: _log_p(moments, inputs), SPECTRUM: spectrum}
        candidates = {name: _Candidate(log_p, -_entropy(log_p)) for name, log_p in members.items()}
        return _averaged(candidates, CONFIDENCE_WEIGHT, (MOMENTS, SPECTRUM), self._named(found.get(SPECTRUM)))

    def _by_class(
        self, inputs: Inputs, starts: Mapping[str, Tensor], distance: float, prior: Tensor
    ) -> tuple[Decision, Float[Tensor, "b k"]]:
        """The average for a batch with class shares of its own, each answer but the spectrum's given its shares."""
        ends, distances = dict(starts), {SPECTRUM: distance}
        for start in starts:
            log_p, moved = self._chain(inputs, starts[start], start, prior)
            if _differs(log_p, class_shares(log_p, prior), prior):
                name = f"classes, from {start}"
                ends[name], distances[name] = log_p, moved.distance
        candidates, shares, least = {}, {}, min(distances.values())
        for name, log_p in ends.items():
            shares[name] = class_shares(log_p, prior)
            cost = EFFORT * (distances.get(name, least) - least)
            if name == SPECTRUM:
                candidates[name] = _Candidate(log_p, -_entropy(log_p) - cost)
            else:
                cost += OCCAM * divergence(shares[name], prior)
                candidates[name] = _Candidate(_answered(log_p, shares[name], prior), -_entropy(log_p) - cost)
        first, second, *_ = sorted(candidates, key=lambda name: -candidates[name].score)
        return _averaged(candidates, CLASSES_WEIGHT, (first, second), self._named(shares[first]), few_classes=True)

    def _chain(self, inputs: Inputs, log_p: Tensor, start: str, prior: Tensor) -> tuple[Tensor, "_Moved"]:
        """Estimate shares, match to them, and so on; what is said in the end, and how far features were moved for it.

        With shares π the predictions say π + g (π* − π). From the second round on g is known (the secant method).
        """
        moved, target, factor, before = _Moved(0.0, 0.0), prior, 1.0 if start == PLAIN else FACTOR, None
        for _ in range(ROUNDS[start]):
            left = class_shares(log_p, prior) - target
            if before is not None and start != PLAIN:
                change, bend = target - before[0], before[1] - left
                factor = float((change @ change / (bend @ change).clamp_min(TINY)).clamp(1.0, MAX_FACTOR))
            before = (target, left)
            target = extrapolated(target, target + left, prior, factor)
            log_p, moved = _log_p_and_moved(self._matched_to(target), inputs)
        return log_p, moved

    def _matched_to(self, shares: Tensor) -> MatchedModel:
        """The network matched to training data with these class shares: built for this call, so threads may differ."""
        plain, full = self.members[0], self.members[2]
        statistics = self.statistics.with_class_shares(shares)
        found = MatchedModel(plain.network, statistics, prior=full.prior, check_weights=False)  # type: ignore[arg-type]
        return _measuring_distances(found)

    def _named(self, shares: Tensor | None) -> dict[str, float]:
        """Shares by the names of their classes, or by their numbers."""
        values = [] if shares is None else shares.tolist()
        names = self.statistics.classes
        return dict(zip(names if len(names) == len(values) else map(str, range(len(values))), values, strict=True))


class _Candidate(NamedTuple):
    """One member of an average: what it answers, and minus its mean entropy, or what stands for it."""

    log_p: Float[Tensor, "b k"]
    score: float


def _averaged(
    candidates: Mapping[str, _Candidate],
    weight: float,
    compared: tuple[str, str],
    shares: dict[str, float],
    *,
    few_classes: bool = False,
) -> tuple[Decision, Float[Tensor, "b k"]]:
    """The mean of the candidates with weights exp(weight · score), as sure as two of them agree."""
    log_p = torch.stack([candidate.log_p for candidate in candidates.values()])
    log_weights = log_p.new_tensor([weight * candidate.score for candidate in candidates.values()]).log_softmax(0)
    mixed = torch.logsumexp(log_p + log_weights[:, None, None], 0)
    one, other = (candidates[name].log_p.argmax(-1) for name in compared)
    temperature = agreement_temperature(mixed.detach(), one, other)
    decision = Decision(
        dict(zip(candidates, log_weights.exp().tolist(), strict=True)),
        {name: -candidate.score for name, candidate in candidates.items()},
        temperature,
        len(mixed),
        shares,
        few_classes,
    )
    return decision, (mixed / temperature).log_softmax(-1)


def _mean_decision(groups: Sequence[Decision]) -> Decision:
    """The mean over groups, image by image."""
    images = sum(group.images for group in groups)

    def mean(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
        names = dict.fromkeys(name for part in parts for name in part)
        weighted = [(group.images / images, part) for group, part in zip(groups, parts, strict=True)]
        return {name: sum(share * part.get(name, 0.0) for share, part in weighted) for name in names}

    return Decision(
        mean([group.weights for group in groups]),
        mean([group.entropies for group in groups]),
        sum(group.temperature * group.images for group in groups) / images,
        images,
        mean([group.shares for group in groups]),
        any(group.few_classes for group in groups),
        tuple(groups),
    )


def _log_p(network: nn.Module, inputs: Inputs) -> Float[Tensor, "b k"]:
    return logits_of(network(*inputs.args, **inputs.kwargs)).log_softmax(-1)


class _Moved(NamedTuple):
    """How far features of a batch were from their target: the mean over sites, and at the last one by classes."""

    distance: float
    shift: float

    def shows_classes(self, images: int) -> bool:
        """Whether the last features tell of other class shares than those that they were matched to."""
        return self.shift > max(MIN_SHIFT, SHIFT_BY_CHANCE / images)


_moved: ContextVar[list[_Moved]] = ContextVar("shiftmatch_moved")
"""How far features have been moved at each site in the forward pass of this thread."""


def _log_p_and_moved(network: nn.Module, inputs: Inputs) -> tuple[Float[Tensor, "b k"], _Moved]:
    """What a matched network says, and how far it has moved features."""
    token = _moved.set([])
    try:
        log_p, sites = _log_p(network, inputs), _moved.get()
        return log_p, _Moved(sum(site.distance for site in sites) / max(1, len(sites)), sites[-1].shift if sites else 0)
    finally:
        _moved.reset(token)


def _measuring_distances(network: MatchedModel) -> MatchedModel:
    for site in network.sites:
        site.register_forward_pre_hook(partial(_note_moved, last=site is network.sites[-1]))
    return network


def _note_moved(site: nn.Module, args: tuple[Tensor, ...], *, last: bool) -> None:
    """A pre-hook of a site, which does something in a pass that asks for it only."""
    found = _moved.get(None)
    if found is not None and isinstance(site, SiteMatcher) and len(args[0]):
        images = [image_moments(x) for x in site.site.layout.split(args[0].detach())]
        each = [moment_distance(*x, train) for x, train in zip(images, site.entry.channel_moments(), strict=True)]
        shift = site.entry.classes[0].shift(images[0][0]) if last and site.entry.classes else 0.0
        found.append(_Moved(sum(each) / len(each), shift))


def _entropy(log_p: Tensor) -> float:
    """Mean entropy in nats."""
    return -(log_p.detach().exp() * log_p.detach()).sum(-1).mean().item() if len(log_p) else 0.0


def _answered(log_p: Tensor, shares: Tensor, prior: Tensor) -> Tensor:
    """Predictions given class shares: p π / π°, normalised."""
    return (log_p + (shares / prior).log().to(log_p)).log_softmax(-1)


def _differs(log_p: Tensor, shares: Tensor, prior: Tensor) -> bool:
    """Whether class shares differ from those of training by more than chance and the network's errors make them."""
    by_chance = (len(prior) - 1) / (2 * len(log_p))
    return evidence(log_p, shares, prior) > max(SIGNIFICANCE * by_chance, MIN_EVIDENCE)


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


class PlainModel(nn.Module):
    """The network as it is, in evaluation mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.network = twin_of(model)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.network(*args, **kwargs)
