"""Every figure and table of the paper by name, each at the sizes that it can be run at."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paper.experiments.ablation import AFTER, INPUT, JOINT, ONE_SHOT, Ablation
from paper.experiments.augmentation import (
    BATCHNORM,
    COMBINATIONS,
    EVERY,
    MATCHED,
    PAPER,
    PLAIN,
    Augmentation,
    WithBatchNorm,
)
from paper.experiments.blur import UndoneBlur
from paper.experiments.calibration import Calibration
from paper.experiments.cifar import CifarSetting
from paper.experiments.detection import Detection
from paper.experiments.experiment import Experiment
from paper.experiments.gains import Gains
from paper.experiments.imagenet import ImageNet
from paper.experiments.mixture import Mixture
from paper.experiments.mnist import MnistPosteriors
from paper.experiments.networks import SGD
from paper.experiments.photographs import Sample
from paper.experiments.released import ReleasedSetting
from paper.experiments.severity_curves import PerCorruption, SeverityCurves
from paper.experiments.sizes import NETWORKS
from paper.experiments.timing import Timing
from shiftmatch.demo.mnist import MnistDemo
from shiftmatch.errors import InputError

SIZES = ("small", "paper")
"""What users choose between; tests have a size of their own, `tiny`."""


@dataclass(frozen=True)
class Entry:
    """An experiment: its place in the paper, what that shows, and a value for each size with what it costs."""

    place: str
    shows: str
    sizes: Mapping[str, Experiment]
    cost: str
    """Of the size small: an estimate for two cores, once the networks are trained."""

    def at(self, size: str) -> Experiment:
        """The experiment at that size."""
        if size not in self.sizes:
            raise InputError(f"There is no size {size!r}; choose {' or '.join(SIZES)}.")
        return self.sizes[size]


def _by_size(tiny: Experiment, small: Experiment, paper: Experiment) -> dict[str, Experiment]:
    return {"tiny": tiny, "small": small, "paper": paper}


_FEW = ("gaussian_noise", "motion_blur", "contrast", "jpeg_compression")
"""One corruption of each kind."""

_SOME = (
    "gaussian_noise",
    "impulse_noise",
    "defocus_blur",
    "motion_blur",
    "frost",
    "fog",
    "contrast",
    "jpeg_compression",
)
"""Two of each kind."""

CIFAR = {
    "tiny": CifarSetting(
        NETWORKS["tiny"],
        images=20,
        train=40,
        batch=20,
        corruptions=("brightness", "contrast"),
        severities=(1, 5),
        workers=1,
    ),
    "small": CifarSetting(
        NETWORKS["small"], images=250, train=1000, batch=250, corruptions=_SOME, severities=(1, 3, 5)
    ),
    "paper": CifarSetting(),
}
"""The setting of Figures 1 and 4 and of the appendix."""

_ABLATION = {
    "tiny": Ablation(CIFAR["tiny"], SGD, (INPUT, AFTER, JOINT, ONE_SHOT)),
    "small": Ablation(replace(CIFAR["small"], corruptions=_FEW, severities=(5,)), SGD),
    "paper": Ablation(CIFAR["paper"]),
}
_MIXED = CIFAR | {"small": replace(CIFAR["small"], corruptions=_FEW, severities=(5,))}
_DETECTION = {
    "tiny": Detection(CIFAR["tiny"], ("fashion-mnist",)),
    "small": Detection(
        replace(CIFAR["small"], images=500, batch=500), ("fashion-mnist", "mnist"), MnistDemo(images=1000, draws=10)
    ),
    "paper": Detection(),
}
_SAMPLE = ImageNet(Sample(), images=250, train=(50, 250), batch=250, corruptions=_FEW, severities=(5,), workers=2)
_SAMPLE_TINY = ImageNet(Sample(), images=6, train=(6,), batch=6, corruptions=("contrast",), severities=(5,))
_RELEASED = {
    "tiny": ReleasedSetting(
        {8: EVERY}, images=20, train=40, batch=20, corruptions=("contrast",), severities=(5,), workers=1
    ),
    "small": ReleasedSetting(
        {20: EVERY, 32: (PLAIN, BATCHNORM, MATCHED, PAPER)}, images=2000, train=4000, severities=(1, 3, 5)
    ),
    "paper": ReleasedSetting({20: EVERY, 32: EVERY}),
}
_WITH_BATCHNORM = {
    "tiny": replace(_RELEASED["tiny"], methods={8: COMBINATIONS}),
    "small": replace(_RELEASED["small"], methods={20: COMBINATIONS}, severities=(5,)),
    "paper": replace(_RELEASED["paper"], methods={20: COMBINATIONS, 32: COMBINATIONS}),
}

EXPERIMENTS: Mapping[str, Entry] = {
    "fig1": Entry(
        "Figure 1",
        "CIFAR-10-C against severity: SGD, ensemble, SGLD, VI and HMC, each by itself and matched",
        {size: SeverityCurves(setting) for size, setting in CIFAR.items()},
        "7 min",
    ),
    "fig1-full": Entry(
        "Figure 6 (appendix)",
        "the same for each corruption",
        {size: PerCorruption(SeverityCurves(setting)) for size, setting in CIFAR.items()},
        "0 min after fig1",
    ),
    "fig2": Entry(
        "Figure 2",
        "a Gaussian blur undone by matching",
        _by_size(UndoneBlur(images=40, train=60, sigmas=(1.0,)), UndoneBlur(images=2000, train=10_000), UndoneBlur()),
        "1 min",
    ),
    "fig3": Entry(
        "Figure 3",
        "MNIST-C: HMC, the EmpCov prior, an ensemble, test-time batchnorm, ShiftMatch",
        _by_size(
            MnistPosteriors(100, 1, 100, ("fog", "translate"), workers=1),
            MnistPosteriors(2000, 20, 2000),
            MnistPosteriors(),
        ),
        "4 min",
    ),
    "fig4": Entry(
        "Figure 4, Tables 2 to 4",
        "SGD, ensemble and HMC, each plain, with test-time batchnorm, and matched",
        {size: Gains(setting) for size, setting in CIFAR.items()},
        "2 min after fig1",
    ),
    "fig5": Entry(
        "Figure 5",
        "ImageNet-C against the number of training images that statistics come from",
        _by_size(_SAMPLE_TINY, _SAMPLE, ImageNet()),
        "6 min",
    ),
    "ood": Entry(
        "Table 1",
        "other sets told apart by the largest probability, with and without matching",
        _DETECTION,
        "2 min",
    ),
    "ablation": Entry(
        "Figure 7 (appendix)",
        "other places to match at, and other structures of the covariance",
        _ABLATION,
        "6 min",
    ),
    "augmentation": Entry(
        "Figure 9 (appendix)",
        "CIFAR-10-C with networks trained with BatchNorm and augmentation: every method there is",
        {size: Augmentation(setting) for size, setting in _RELEASED.items()},
        "60 min",
    ),
    "shiftmatch-batchnorm": Entry(
        "Figure 8 (appendix)",
        "matching with test-time batchnorm on and off",
        {size: WithBatchNorm(setting) for size, setting in _WITH_BATCHNORM.items()},
        "2 min after augmentation",
    ),
    "ece": Entry(
        "Figure 10 (appendix)",
        "accuracy and calibration error against severity, and against each other",
        {size: Calibration(setting) for size, setting in CIFAR.items()},
        "0 min after fig1",
    ),
    "mixture": Entry(
        "Figure 11 (appendix)",
        "batches of which one half is clean",
        {size: Mixture(setting) for size, setting in _MIXED.items()},
        "1 min",
    ),
    "timing-overhead": Entry(
        "Appendix: 1.85 s against 1.15 s",
        "what matching costs at test time",
        _by_size(
            Timing(4, training=False, repeats=1, blocks=1), Timing(1000, training=False), Timing(10_000, training=False)
        ),
        "1 min",
    ),
    "timing-spatial-batchnorm": Entry(
        "Section 4.4: 0.77 s against 0.35 s",
        "what matching would cost in the forward passes of training",
        _by_size(Timing(4, training=True, repeats=1, blocks=1), Timing(128, training=True), Timing(128, training=True)),
        "1 min",
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
