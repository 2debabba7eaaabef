"""The paper's table of detection: images of another kind told by the largest probability, with and without matching."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from pathlib import Path
from statistics import stdev

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import interpolate

from paper.cifar import (
    AUTO,
    MOMENTS,
    PAPER,
    PLAIN,
    ROWS,
    SPECTRUM,
    CifarSetting,
    Combination,
    networks_named,
    released_preprocess,
    released_statistics,
)
from paper.claims import CLEAN, Claim, beside, minus, stated
from paper.members import spread
from paper.mnist import EMPCOV
from paper.mnist import ENSEMBLE as MNIST_ENSEMBLE
from paper.mnist import HMC as MNIST_HMC
from paper.plots import bars_by_set
from paper.run import LEFT_OUT, Figures, Root
from paper.training import ENSEMBLE, HMC, SGD, preprocess
from shiftmatch.data.inventory import load
from shiftmatch.demo import embedded
from shiftmatch.evaluation.evaluate import Predictor, Preprocess
from shiftmatch.evaluation.scores import Mean, Score, Scores
from shiftmatch.matching.average import average
from shiftmatch.matching.diagnosis import diagnose
from shiftmatch.matching.match import match
from shiftmatch.matching.members import match_members
from shiftmatch.matching.statistics import Statistics
from shiftmatch.metrics.detection import auroc, familiarity, fpr95, maximum_probability
from shiftmatch.shapes import Images, Pixels
from shiftmatch.utils.files import versions
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import track
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

AUROC, FPR95 = "auroc", "fpr95"
KIND, VERSION = "confidences", 1
SIDE = 32
RESAMPLES = 200
FAMILIARITY = ", by familiarity"
"""Told by confidence, before and after matching, over the distance to training before it."""

_COLUMNS = (SGD, ENSEMBLE, HMC, f"{HMC} + {PAPER}")
PUBLISHED = {
    ("cifar10 · cifar100", AUROC): dict(zip(_COLUMNS, (0.780, 0.830, 0.851, 0.848), strict=True)),
    ("cifar10 · svhn", AUROC): dict(zip(_COLUMNS, (0.713, 0.788, 0.874, 0.920), strict=True)),
    ("cifar10 · cifar100", FPR95): dict(zip(_COLUMNS, (0.579, 0.490, 0.457, 0.480), strict=True)),
    ("cifar10 · svhn", FPR95): dict(zip(_COLUMNS, (0.625, 0.453, 0.299, 0.281), strict=True)),
}
WITHIN = 0.03
"""What a number may differ by and still count as the same."""

LITTLE = 0.05
"""A loss of AUROC up to this is what the paper calls a small detrimental effect."""


@dataclass(frozen=True)
class Detection:
    """CIFAR-10 networks shown other sets and, with `draws`, the shipped LeNets shown clothes.

    Known and other images are matched in batches of their own.
    """

    setting: CifarSetting = field(default_factory=CifarSetting)
    outside: tuple[str, ...] = ("cifar100", "svhn")
    draws: int = 0  # of the shipped LeNets, which are shown clothes
    depth: int | None = None  # of a released network, which is shown the same sets

    def run(self, data: Root, folder: Path) -> Scores:
        """AUROC and FPR95 of every method for every other set."""
        every = [Combination(kind, way) for way in (PLAIN, PAPER, SPECTRUM) for kind in (SGD, ENSEMBLE, HMC)]
        methods, missing = self.setting.predictors(every, data, folder)
        sets = {name: _colour(_first(name, self.setting.images, data)) for name in ("cifar10", *self.outside)}
        rows = detect(methods, sets, preprocess, self.setting.batch, folder)
        if self.draws:
            shipped = embedded.images().first(self.setting.images)
            digits = shipped.images[torch.arange(len(shipped))]
            shown = {"mnist": digits, "fashion-mnist": _first("fashion-mnist", self.setting.images, data)}
            lenets, distances = _lenets(self.draws)
            rows += detect(lenets, shown, embedded.preprocess, self.setting.batch, folder, distances=distances)
        if self.depth:
            name = networks_named((self.depth,))
            network, statistics = released_statistics(self.depth, self.setting.train, data, folder)
            ways = {SPECTRUM: match(network, statistics), AUTO: match(network, statistics, strength="auto")}
            made = {name: average([network])} | {f"{name} + {way}": average([made]) for way, made in ways.items()}
            distances = {name: Distances([network], [statistics])}
            rows += detect(made, sets, released_preprocess, self.setting.batch, folder, distances=distances)
        return Scores(rows, {LEFT_OUT: missing, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """Bars of both metrics, in groups by the other set."""
        return {metric: bars_by_set(scores, metric) for metric in (AUROC, FPR95)}

    def compare(self, scores: Scores) -> list[Claim]:
        """The published table where it has these sets; and that matching does little harm to AUROC.

        A cell is named by the known and the other set: another network may know what is other here.
        """
        found = {(row.data, row.metric, row.method): Mean(row.value, row.stderr, row.n) for row in scores}
        table = [
            beside(f"{sets}: {metric} of {method}", found[sets, metric, method], value, within=WITHIN)
            for (sets, metric), columns in PUBLISHED.items()
            for method, value in columns.items()
            if (sets, metric, method) in found
        ]
        harm, kept = [], []
        for (sets, metric, method), value in found.items():
            plain, matched, _ = method.partition(" + ")
            if metric != AUROC or not matched:
                continue
            change = minus(value, found[sets, metric, plain])
            if method.endswith((PAPER, ROWS, SPECTRUM)):
                what = f"{sets}: {method} does little harm to the AUROC of {plain}"
                harm.append(stated(what, change, (-LITTLE, inf)))
            elif method.endswith(FAMILIARITY):
                what = f"{sets}: the AUROC of {method} is not below that of {plain}"
                kept.append(stated(what, change, (0.0, inf)))
        return [*table, *harm, *kept]


@dataclass(frozen=True, eq=False)
class Distances:
    """How far images are from training before any matching: the geometric mean over the members."""

    members: Sequence[nn.Module]
    statistics: Sequence[Statistics]

    def __call__(self, x: Images) -> Float[Tensor, "n"]:
        pairs = zip(self.members, self.statistics, strict=True)
        return torch.stack([diagnose(*pair, x).image_distances.log() for pair in pairs]).mean(0).exp()


def detect(
    methods: Mapping[str, Predictor],
    sets: Mapping[str, Pixels],
    prepare: Preprocess,
    batch: int,
    folder: Path,
    *,
    distances: Mapping[str, Callable[[Images], Tensor]] | None = None,
) -> list[Score]:
    """Rows for every method and every set but the first, which holds the known images.

    Methods whose networks have distances to training, by their name without matching, are told by familiarity too.
    """
    inside, *others = sets
    rows, scores = [], {}
    for method, predict in track(methods.items(), "detecting", total=len(methods)):
        scores[method] = {name: _confidences(predict, pixels, prepare, batch, folder) for name, pixels in sets.items()}
    for plain, distance in (distances or {}).items():
        far = {name: torch.cat([distance(prepare(p)) for p in _parts(pixels, batch)]) for name, pixels in sets.items()}
        for method in [method for method in methods if method.split(" + ")[0] == plain]:
            both = [scores[name] for name in dict.fromkeys((plain, method))]
            scores[f"{method}{FAMILIARITY}"] = {name: familiarity(far[name], *(s[name] for s in both)) for name in sets}
    for method, sure in scores.items():
        for other in others:
            cell = (f"{inside} · {other}", CLEAN, None)
            pair = (sure[inside], sure[other])
            for metric, function in ((AUROC, auroc), (FPR95, fpr95)):
                rows.append(Score(method, *cell, metric, function(*pair), 0, len(pair[1]), _error(function, *pair)))
    return rows


def _error(function: Callable[[Tensor, Tensor], float], known: Float[Tensor, "n"], other: Float[Tensor, "m"]) -> float:
    """The standard error of a metric, by drawing both kinds of images anew."""
    generator = torch.Generator().manual_seed(0)
    drawn = [
        [x[torch.randint(len(x), (len(x),), generator=generator)] for x in (known, other)] for _ in range(RESAMPLES)
    ]
    return stdev(function(*pair) for pair in drawn)


def _confidences(
    predict: Predictor, pixels: Pixels, prepare: Preprocess, batch: int, folder: Path
) -> Float[Tensor, "n"]:
    """The largest probability of each image, kept on disk."""
    file = folder / "confidences" / f"{content_hash([predict, pixels, prepare, batch])[:16]}.safetensors"
    if not file.exists():
        sure = torch.cat([maximum_probability(predict(prepare(part))) for part in _parts(pixels, batch)])
        save_tensors(file, {"confidence": sure}, kind=KIND, version=VERSION, header={})
    return load_tensors(file, kind=KIND, version=VERSION)[0]["confidence"]


def _parts(pixels: Pixels, batch: int) -> Sequence[Pixels]:
    return pixels.tensor_split(-(-len(pixels) // batch))


def _lenets(draws: int) -> tuple[dict[str, Predictor], dict[str, Distances]]:
    """The shipped LeNets, plain and matched to the statistics that ship with them; their distances by plain name."""
    ways = {"Spectrum": SPECTRUM, "SpatialKronecker": ROWS, "ChannelMoments": MOMENTS}
    methods: dict[str, Predictor] = {}
    distances = {}
    for name, kind in ((MNIST_HMC, "gaussian"), (EMPCOV, "empcov"), (MNIST_ENSEMBLE, "ensemble")):
        members = spread(embedded.posterior(kind), draws)
        known = {c: embedded.statistics(kind, c) for c in embedded.SHIPPED[kind]}
        known = {c: statistics[:: ceil(len(statistics) / draws)] for c, statistics in known.items()}
        methods[name], distances[name] = average(members), Distances(members, known["Spectrum"])
        methods |= {f"{name} + {ways[c]}": average(match_members(members, found)) for c, found in known.items()}
    return methods, distances


def _first(name: str, count: int, data: Root) -> Pixels:
    source = load(name, "test", root=data, limit=count)
    return source.images[torch.arange(len(source))]


def _colour(pixels: Pixels) -> UInt8[Tensor, "b 3 32 32"]:
    """Images of any size and one or three channels as CIFAR's: 3 × 32 × 32."""
    if pixels.shape[-2:] != (SIDE, SIDE):
        larger = interpolate(pixels.float(), size=(SIDE, SIDE), mode="bilinear", antialias=True)
        pixels = larger.round().clamp(0, 255).to(torch.uint8)
    return pixels.expand(-1, 3, -1, -1)
