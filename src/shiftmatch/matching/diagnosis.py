"""What has shifted in a batch, where, by what kind of corruption, and whether matching is advised."""

from dataclasses import dataclass
from math import exp
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.core.distance import Distance, SiteShift, site_shift
from shiftmatch.core.spectrum import Spectrum
from shiftmatch.errors import BatchTooSmallError, InputError
from shiftmatch.matching.inputs import Inputs, check_images, logits_of
from shiftmatch.matching.instrument import counting_calls, instrument
from shiftmatch.matching.matched import check_shapes, require_weights
from shiftmatch.matching.matcher import measuring_at
from shiftmatch.matching.sites import table
from shiftmatch.matching.statistics import SiteStatistics, Statistics
from shiftmatch.utils.parallel import restoring_grad_mode

NOTICEABLE = 2.0
"""The standard score from which a distance at the input may name what has shifted."""

FEW_CLASSES = 0.6
"""A batch has few classes if its predictions spread over less than this part of the expected number of classes."""

NONE, NOISE, DETAIL, CONTRAST, BRIGHTNESS, COLOUR, CLASSES, UNKNOWN = KINDS = (
    *("none", "noise", "loss of detail", "contrast", "brightness", "colour", "few classes", "unknown"),
)
"""What a batch may have shifted by."""

AUTO = "Matching is advised: shiftmatch.match(model, statistics, strength='auto')."
ADVICE = dict.fromkeys(KINDS, AUTO) | {
    NONE: "Matching is not needed.",
    CLASSES: "Matching would take the classes for a corruption: it is not advised.",
    UNKNOWN: "Matching may help or harm; shiftmatch.match(model, statistics, strength='auto') decides that.",
}


@final
@dataclass(frozen=True, eq=False)
class Diagnosis:
    """How a batch differs from the training data, site by site, before any matching.

    A distance is within sampling error if a batch of as many training images could well have it.

    Args:
        images: how many were looked at.
        sites: how far each site is from training.
        kind: what kind of shift it is, one of KINDS.
        shares: of the classes: the mean of the probabilities that the plain network predicts.
        image_distances: of each image, from its levels and energies at all sites; 1 or so is usual.
        confidences: the largest probability that the plain network predicts for each image.

    >>> import shiftmatch as sm
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(300, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> found = sm.diagnose(net, sm.fit(net, images[:200]), 2 * images[200:])
    >>> found.shifted, found.advised, list(found.sites)
    (True, True, ['input', '0'])
    """

    images: int
    sites: dict[str, SiteShift]
    kind: str
    shares: dict[str, float]
    image_distances: Float[Tensor, "n"]
    confidences: Float[Tensor, "n"]

    @property
    def shifted(self) -> bool:
        """Whether any distance is beyond sampling error."""
        return not all(d.inside for found in self.sites.values() for d in _distances(found))

    @property
    def advised(self) -> bool:
        """Whether matching is."""
        return ADVICE[self.kind] == AUTO

    @property
    def distance(self) -> float:
        """The mean over the sites of all three distances as one."""
        return sum(found.size for found in self.sites.values()) / len(self.sites)

    @property
    def worst(self) -> list[str]:
        """The sites that are beyond sampling error, those furthest from training first."""
        far = [name for name, found in self.sites.items() if not all(d.inside for d in _distances(found))]
        return sorted(far, key=lambda name: -self.sites[name].size)

    @property
    def sentence(self) -> str:
        """Shifted or not, by what, and whether matching is advised."""
        return f"{self._what()} {ADVICE[self.kind]}"

    def describe(self) -> None:
        """Print the sentence and the sites as a table."""
        print(self)

    def __repr__(self) -> str:
        rows = [(name, *map(_cell, _distances(found)), _worst_band(found)) for name, found in self.sites.items()]
        head = ("site", "mean", "variance", "spectrum", "furthest frequency")
        note = "Distances to training (what sampling alone may give in brackets; * beyond that)."
        top = sorted(self.shares.items(), key=lambda item: -item[1])[:3]
        shares = "Predicted most: " + ", ".join(f"{name} {share:.0%}" for name, share in top) + "." if top else ""
        return "\n".join(filter(None, [self.sentence, shares, note, table(head, rows)]))

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain numbers and words, for JSON."""
        sites = {
            name: {what: getattr(found, what)._asdict() for what in ("mean", "variance", "spectrum")}
            | {"frequencies": found.frequency.tolist(), "gains": found.gain.mean(0).exp().tolist()}
            for name, found in self.sites.items()
        }
        own = {"images": self.images, "shifted": self.shifted, "kind": self.kind, "advised": self.advised}
        each = {"image_distances": self.image_distances.tolist(), "confidences": self.confidences.tolist()}
        more = {"sentence": self.sentence, "distance": self.distance, "worst": self.worst, "shares": self.shares}
        return own | more | {"sites": sites} | each

    def _what(self) -> str:
        if self.kind == NONE:
            return f"Not shifted: {self.images} images are within sampling error of training at all sites."
        first = next(iter(self.sites.values()))
        gain, level = first.gain.mean(0), first.level
        match self.kind:
            case "noise":
                said = f"the finest frequencies of the images have {exp(gain[-1]):.2g} times their usual energy"
            case "loss of detail":
                lost = int(gain.argmin())
                where = f"around {first.frequency[lost]:.2f} cycles per pixel"
                said = f"frequencies {where} have {exp(gain[lost]):.2g} times their usual energy"
            case "contrast":
                said = f"all frequencies are scaled, by about {exp(gain.mean() / 2):.2g}"
            case "brightness":
                said = f"the mean has moved by {float(level.mean()):+.2g} standard deviations"
            case "colour":
                said = f"the means of the channels have moved by {', '.join(f'{v:+.2g}' for v in level.tolist())}"
            case "few classes":
                name, share = max(self.shares.items(), key=lambda item: item[1])
                said = f"the last site has moved most, and {share:.0%} of the predictions are for class {name}"
            case _:
                said = "the images look as usual, the network's features do not"
        return f"Shifted, by {self.kind if self.kind != UNKNOWN else 'something unknown'}: {said}."


@restoring_grad_mode()
def diagnose(model: nn.Module, statistics: Statistics, batch: object, *, check_weights: bool = True) -> Diagnosis:
    """Compare a batch with the training data at every site of the plain network: one pass, nothing is matched.

    Args:
        model: the trained network; it stays as it was.
        statistics: what `fit` has measured in it, with Spectrum().
        batch: images as the network takes them, with or without labels, as from a loader; 16 or more tell something.
        check_weights: whether to refuse a network with other weights than the one that was fitted.

    >>> from shiftmatch.matching.match import fit
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> clean = torch.randn(300, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> statistics = fit(net, clean[:200])
    >>> diagnose(net, statistics, clean[200:]).sentence
    'Not shifted: 100 images are within sampling error of training at all sites. Matching is not needed.'
    >>> diagnose(net, statistics, 0.5 * clean[200:]).kind
    'contrast'
    """
    if check_weights:
        require_weights(model, statistics)
    inputs = check_images(Inputs.of(batch)).on(model)
    named = inputs.named(model)
    check_shapes({name: tuple(x.shape[1:]) for name, x in named.items()}, statistics)
    if inputs.images < 2:
        raise BatchTooSmallError(f"A diagnosis needs 2 images at least, better 16 or more; there was {inputs.images}.")
    found: dict[str, SiteShift] = {}
    operations = {e.site: _Comparison(e, found) for e in statistics.values() if _has_spectrum(e)}
    if not operations:
        raise InputError(
            "A diagnosis compares spectra, and these statistics have none. Fit with covariance=shiftmatch.Spectrum()."
        )
    with torch.no_grad(), counting_calls():
        output = instrument(model, operations, statistics.batchnorm)(*inputs.args, **inputs.kwargs)
    shares, spread, confidences = _shares(output, statistics, inputs.images)
    unusual = torch.cat([site.unusual for site in found.values()], dim=-1).log().mean(-1).exp()
    return Diagnosis(inputs.images, found, kind_of(found, spread), shares, unusual, confidences)


class _Comparison:
    """The operation at a site while a batch is compared with training: features are returned unchanged."""

    def __init__(self, entry: SiteStatistics, found: dict[str, SiteShift]) -> None:
        self.entry, self.found = entry, found

    def __call__(self, x: Tensor) -> Tensor:
        site = self.entry.site
        site.check_shape(x)
        with measuring_at(site, x):
            part = site.layout.split(x)[0]
            self.found[site.name] = site_shift(part, self.entry.parts[0][0], len(x) // site.per_image)
        return x


def _has_spectrum(entry: SiteStatistics) -> bool:
    return isinstance(entry.covariance, Spectrum) and entry.covariance.basis == "dct"


def kind_of(sites: dict[str, SiteShift], spread: float) -> str:
    """The kind of shift: the largest change at the first site, which is the input, decides.

    Noise raises the middle frequencies, and blur lowers them, relative to the lowest; contrast scales all of them;
    brightness moves the mean. A batch of few classes moves the last site more than the first; `spread` is how far its
    predictions spread over the classes, from 0 to 1.
    """
    first, *_, last = [*sites.values()] * 2
    if all(d.inside for found in sites.values() for d in _distances(found)):
        return NONE
    if spread < FEW_CLASSES and last.mean.value > max(d.value for d in _distances(first)):
        return CLASSES
    gain = first.gain.mean(0)
    scaled = float(gain.abs().amin()) if (gain > 0).all() or (gain < 0).all() else 0.0  # what all frequencies share
    sizes = {BRIGHTNESS: first.mean.value, CONTRAST: scaled, DETAIL: first.spectrum.value}
    both = zip(sizes.items(), _distances(first), strict=True)
    seen = {kind: size for (kind, size), distance in both if distance.score > NOTICEABLE and size > 0}
    kind = max(seen, key=lambda name: seen[name]) if seen else UNKNOWN
    if kind == BRIGHTNESS and first.level.mean().abs() < first.level.std(correction=0):
        return COLOUR
    if kind == DETAIL and (gain[1:-1] if len(gain) > 2 else gain[1:]).mean() > gain[0]:
        return NOISE
    return kind


def _shares(output: Any, statistics: Statistics, images: int) -> tuple[dict[str, float], float, Float[Tensor, "n"]]:
    """The share of every class by the mean prediction, over how many of them that spreads, and each image's confidence.

    Predictions spread over exp(entropy of their mean) classes. With K likewise of the training data, where that is
    known, n images show K (1 − e^{−n/K}) of them or so.
    """
    try:
        p = logits_of(output).double().softmax(-1)
    except InputError:
        p = torch.ones(images, 1)
    if p.ndim != 2 or len(p) != images or p.shape[1] < 2:
        return {}, 1.0, torch.ones(images, dtype=torch.float64)
    mean, classes = p.mean(0), p.shape[1]
    names = statistics.classes if len(statistics.classes) == classes else map(str, range(classes))
    known = statistics.class_shares
    usual = classes if known is None or len(known) != classes else _perplexity(known)
    shown = usual * (1 - exp(-images / usual))
    return dict(zip(names, mean.tolist(), strict=True)), _perplexity(mean) / shown, p.amax(-1)


def _perplexity(shares: Tensor) -> float:
    return float(torch.special.entr(shares).sum().exp())


def _distances(found: SiteShift) -> tuple[Distance, Distance, Distance]:
    return found.mean, found.variance, found.spectrum


def _cell(distance: Distance) -> str:
    return f"{distance.value:.2f} ({distance.limit:.2f}){'' if distance.inside else ' *'}"


def _worst_band(found: SiteShift) -> str:
    """The band whose energy has changed most."""
    gain = found.gain.mean(0)
    band = int(gain.abs().argmax())
    return f"{found.frequency[band]:.2f} cycles per pixel: × {exp(gain[band]):.2g}" if len(gain) > 1 else ""
