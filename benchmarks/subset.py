"""Moments estimated on a part of each batch (`measured_on`): what it saves, and by how much it moves the outputs.

Real digits that ship with the package, corrupted, and the LeNets for them.
"""

import torch
from benchmarks.harness import Cases, Settings, medians

import shiftmatch as sm
from shiftmatch.corruptions import corrupt
from shiftmatch.demo import embedded

IMAGES, SUBSETS, CORRUPTION = 1000, (512, 256, 128), "gaussian_noise"


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Relative difference of logits, accuracy and time against measuring the whole batch."""
    digits, network = embedded.images(), embedded.posterior("ensemble").models()[0].eval()
    labels = digits.labels[:IMAGES]
    x = embedded.preprocess(corrupt(digits.images[:IMAGES], CORRUPTION, severity=3))
    statistics = embedded.statistics("ensemble", "SpatialKronecker")[0]
    whole = sm.match(network, statistics)
    exact, cases = whole(x), {f"whole batch of {IMAGES}": {"accuracy, %": _accuracy(whole(x), labels)}}
    for count in SUBSETS:
        quick = sm.match(network, statistics, measured_on=count)
        seconds = medians({"whole": lambda: whole(x), "quick": lambda quick=quick: quick(x)}, settings.runs)
        logits = quick(x)
        cases[f"measured on {count}"] = {
            "accuracy, %": _accuracy(logits, labels),
            "difference of logits": float((logits - exact).norm() / exact.norm()),
            "time/whole": seconds["quick"] / seconds["whole"],
        }
    return cases


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    return 100 * float((logits.argmax(1) == labels).float().mean())
