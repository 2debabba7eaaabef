"""Every figure and table of the paper by name, each at the sizes that it can be run at."""

from collections.abc import Mapping
from dataclasses import replace

from paper.around import AroundReleased
from paper.augmentation import COMBINATIONS, EVERY, FEW, Augmentation, WithBatchNorm
from paper.blur import UndoneBlur
from paper.cifar import BATCHNORM, PAPER, PLAIN, SPECTRUM, CifarSetting, ReleasedSetting
from paper.designs import Designs
from paper.detection import Detection
from paper.diagnosis import Diagnosing
from paper.few_classes import FewClasses
from paper.gains import AFTER, INPUT, JOINT, ONE_SHOT, Ablation, Gains, Mixture
from paper.harm import METHODS as HARM_METHODS
from paper.harm import NoHarm
from paper.imagenet import ImageNet, Sample
from paper.mnist import Ensemble, MnistPosteriors
from paper.recipes.cifar_released_posterior import Around
from paper.run import Entry, Experiment
from paper.severity import Calibration, PerCorruption, SeverityCurves
from paper.sizes import BatchSizes
from paper.timing import Timing
from paper.training import NETWORKS, SGD
from shiftmatch.errors import InputError

SIZES = ("small", "paper")
"""What users choose between; tests have a size of their own, `tiny`."""


def _by_size(tiny: Experiment, small: Experiment, paper: Experiment) -> dict[str, Experiment]:
    return {"tiny": tiny, "small": small, "paper": paper}


_FEW = ("gaussian_noise", "motion_blur", "contrast", "jpeg_compression")
"""One corruption of each kind."""

CIFAR = {
    "tiny": CifarSetting(
        NETWORKS["tiny"],
        images=10,
        train=20,
        batch=10,
        corruptions=("contrast",),
        severities=(1, 5),
        workers=1,
    ),
    "small": CifarSetting(NETWORKS["small"], images=1000, train=4000, batch=1000, severities=(1, 3, 5)),
    "paper": CifarSetting(),
}
"""The setting of Figures 1 and 4 and of the appendix."""

_SEVERE = replace(CIFAR["small"], severities=(5,))
_ABLATION = {
    "tiny": Ablation(CIFAR["tiny"], SGD, (INPUT, AFTER, JOINT, ONE_SHOT)),
    "small": Ablation(replace(_SEVERE, corruptions=_FEW), SGD, (INPUT, AFTER, JOINT, ONE_SHOT)),
    "paper": Ablation(CIFAR["paper"]),
}
_AFFORDED = (PLAIN, BATCHNORM, PAPER, SPECTRUM)
_CURVES = {
    "tiny": SeverityCurves(CIFAR["tiny"], drawn=replace(CIFAR["tiny"], severities=(5,))),
    "small": SeverityCurves(CIFAR["small"], (PLAIN, PAPER, SPECTRUM), drawn=replace(_SEVERE, images=500, batch=500)),
    "paper": SeverityCurves(),
}
_MIXED = CIFAR | {"small": replace(_SEVERE, corruptions=_FEW)}
_DETECTION = {
    "tiny": Detection(CIFAR["tiny"], ("fashion-mnist",), depth=8),
    "small": Detection(CIFAR["small"], ("fashion-mnist", "mnist"), draws=10, depth=20),
    "paper": Detection(),
}
_SAMPLE = ImageNet(Sample(), images=250, train=(50, 250), batch=250, corruptions=_FEW, severities=(5,), workers=2)
_SAMPLE_TINY = ImageNet(Sample(), images=6, train=(6,), batch=6, corruptions=("contrast",), severities=(5,))
_RELEASED = {
    "tiny": ReleasedSetting(
        {(8,): EVERY, (8, 8): FEW}, images=10, train=20, batch=10, corruptions=("contrast",), severities=(5,), workers=1
    ),
    "small": ReleasedSetting({(20,): EVERY, (32,): FEW, (20, 32): FEW}, images=2000, train=4000, severities=(1, 3, 5)),
    "paper": ReleasedSetting({(20,): EVERY, (32,): EVERY, (20, 32): FEW}),
}
_FEW_CLASSES = FewClasses(few=((1, 50), (2, 50), (5, 50)), iid=50, runs=((0.1, 50), (1.0, 50)), mixed=50)
_FEW_CLASSES_TINY = FewClasses(8, 40, 20, ((1, 2), (2, 2)), 1, ((0.1, 1),), 1, ("contrast",), ("fog + snow + frost",))
_WITH_BATCHNORM = {
    "tiny": replace(_RELEASED["tiny"], methods={(8,): COMBINATIONS}),
    "small": replace(_RELEASED["small"], methods={(20,): COMBINATIONS}, severities=(5,)),
    "paper": replace(_RELEASED["paper"], methods={(20,): COMBINATIONS, (32,): COMBINATIONS}),
}
_HARM = ReleasedSetting({(20,): HARM_METHODS, (32,): HARM_METHODS}, 1000, 4000, 200, severities=(1, 3, 5), workers=1)

EXPERIMENTS: Mapping[str, Entry] = {
    "fig1": Entry(
        "Figure 1",
        "CIFAR-10-C against severity: SGD, ensemble, SGHMC, VI and HMC, each by itself and matched",
        _CURVES,
    ),
    "fig1-full": Entry(
        "Figure 6 (appendix)",
        "the same for each corruption",
        {size: PerCorruption(curves) for size, curves in _CURVES.items()},
    ),
    "fig2": Entry(
        "Figure 2",
        "how much of a blur matching undoes",
        _by_size(UndoneBlur(images=40, train=60, sigmas=(1.0,)), UndoneBlur(images=2000, train=4000), UndoneBlur()),
    ),
    "fig3": Entry(
        "Figure 3",
        "MNIST-C: HMC, the EmpCov prior, ensembles, test-time batchnorm, ShiftMatch",
        _by_size(
            MnistPosteriors(100, 1, 100, ("fog", "translate"), workers=1, ensemble=Ensemble(2, 40, 10, 3)),
            MnistPosteriors(2000, 20, 2000),
            MnistPosteriors(),
        ),
    ),
    "fig4": Entry(
        "Figure 4, Tables 2 to 4",
        "SGD, ensemble and HMC, each plain, with test-time batchnorm, and matched",
        {size: Gains(setting) for size, setting in CIFAR.items()} | {"small": Gains(CIFAR["small"], _AFFORDED)},
    ),
    "fig5": Entry(
        "Figure 5",
        "ImageNet-C against the number of training images that statistics come from",
        _by_size(_SAMPLE_TINY, _SAMPLE, ImageNet()),
    ),
    "ood": Entry(
        "Table 1",
        "other sets told apart by the largest probability, with and without matching",
        _DETECTION,
    ),
    "diagnosis": Entry(
        "not in the paper",
        "whether a diagnosis knows clean images, rises with severity, and names what has shifted",
        _by_size(
            Diagnosing(8, images=20, batch=10, orders=1, train=40, corruptions=("contrast",)),
            Diagnosing(),
            Diagnosing(train=50_000),
        ),
    ),
    "ablation": Entry(
        "Figure 7 (appendix)",
        "other places to match at, and other structures of the covariance",
        _ABLATION,
    ),
    "augmentation": Entry(
        "Figure 9 (appendix)",
        "CIFAR-10-C with networks trained with BatchNorm and augmentation, and their ensemble: every method there is",
        {size: Augmentation(setting) for size, setting in _RELEASED.items()},
    ),
    "shiftmatch-batchnorm": Entry(
        "Figure 8 (appendix)",
        "matching with test-time batchnorm on and off",
        {size: WithBatchNorm(setting) for size, setting in _WITH_BATCHNORM.items()},
    ),
    "ece": Entry(
        "Figure 10 (appendix)",
        "accuracy and calibration error against severity, and against each other",
        {size: Calibration(setting) for size, setting in CIFAR.items()}
        | {"small": Calibration(CIFAR["small"], (PLAIN, PAPER, SPECTRUM))},
    ),
    "mixture": Entry(
        "Figure 11 (appendix)",
        "batches of which one half is clean",
        {size: Mixture(setting) for size, setting in _MIXED.items()}
        | {"small": Mixture(_MIXED["small"], methods=_AFFORDED)},
    ),
    "no-harm": Entry(
        "beyond the paper",
        "strength='auto' in every cell against the better of the plain network and channel moments: CIFAR-10-C",
        _by_size(
            NoHarm(replace(_RELEASED["tiny"], methods={(8,): HARM_METHODS})),
            NoHarm(_HARM),
            NoHarm(replace(_HARM, images=10_000, workers=2), workers=2),
        ),
    ),
    "no-harm-mnist": Entry(
        "beyond the paper",
        "the same on MNIST-C: HMC and the ensemble",
        _by_size(
            NoHarm(digits=MnistPosteriors(60, 1, 60, ("fog",), workers=1)),
            NoHarm(digits=MnistPosteriors(2000, 4, 500)),
            NoHarm(digits=MnistPosteriors(10_000, 20, 500), workers=2),
        ),
    ),
    "no-harm-imagenet": Entry(
        "beyond the paper",
        "the same on a sample of ImageNet, with statistics of few pictures of other classes",
        _by_size(
            NoHarm(photographs=Sample(), corruptions=("contrast",), statistics=4, test=4, batch=4),
            NoHarm(photographs=Sample()),
            NoHarm(photographs=Sample(), workers=2),
        ),
    ),
    "designs": Entry(
        "beyond the paper",
        "designs that might gain more than the spectrum by itself, on images that no other table uses",
        _by_size(Designs(8, (0, 20), 40, ("contrast",)), Designs(), Designs(images=(4000, 10_000))),
    ),
    "batch-sizes": Entry(
        "beyond the paper",
        "from a thousand images in a batch to one at a time, in a stream that stays and in one that changes",
        _by_size(
            BatchSizes(8, 40, 40, (20, 8), ("contrast", "fog"), period=20, workers=1),
            BatchSizes(),
            BatchSizes(images=10_000),
        ),
    ),
    "posterior": Entry(
        "beyond the paper",
        "a posterior around a released network, matched, beside the network by itself",
        _by_size(
            AroundReleased(
                Around(8, images=20, batch=4, draws=2, burn_in=1, steps=1), 2, 10, 20, 10, 5, ("contrast",), workers=1
            ),
            AroundReleased(images=1000, train=4000, methods=(PLAIN, SPECTRUM)),
            AroundReleased(),
        ),
    ),
    "few-classes": Entry(
        "beyond the paper",
        "batches of few classes, classes that come in runs, and mixtures of corruptions",
        _by_size(_FEW_CLASSES_TINY, FewClasses(), replace(_FEW_CLASSES, train=50_000)),
    ),
    "timing-overhead": Entry(
        "Appendix: 1.85 s against 1.15 s",
        "what matching costs at test time",
        _by_size(
            Timing(4, training=False, repeats=1, blocks=1), Timing(1000, training=False), Timing(10_000, training=False)
        ),
    ),
    "timing-spatial-batchnorm": Entry(
        "Section 4.4: 0.77 s against 0.35 s",
        "what a batchnorm of spatial covariances costs in training",
        _by_size(Timing(4, training=True, repeats=1, blocks=1), Timing(128, training=True), Timing(128, training=True)),
    ),
}
"""By the names that the command line knows."""


def experiment_named(name: str) -> Entry:
    """The entry of that name.

    >>> experiment_named("fig2").place
    'Figure 2'
    """
    if name not in EXPERIMENTS:
        raise InputError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]
