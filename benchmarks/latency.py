"""How long one image takes, frozen and in a stream, and eight take matched, beside the plain network."""

from collections.abc import Callable, Mapping
from itertools import cycle

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, matched, pure, resnet20

import shiftmatch as sm

FEW, SEEN, TIMES = 8, 300, 40


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Ratios to the plain ResNet-20, eager; a run is 40 calls, so that a stream's maps are made anew in each."""
    network, x = resnet20(), images(SEEN, 3, 32)
    robust = matched(network, x)
    frozen, camera = sm.freeze(robust, x), sm.stream(network, robust.statistics)
    for part in x.split(10):
        camera(part)
    singles, few = cycle(x.split(1)), x[:FEW]

    def calls(model: torch.nn.Module) -> None:
        for _ in range(TIMES):
            model(next(singles))

    one = {"plain": network, "frozen": frozen, "stream": camera}
    seconds = timed({name: (lambda model=model: calls(model)) for name, model in one.items()}, settings)
    both = {"plain": network, "matched": robust}
    eight = timed({name: (lambda m=m: [m(few) for _ in range(10)]) for name, m in both.items()}, settings)
    return {
        "ResNet-20, 32 × 32, one image": ratios(seconds) | {"plain, ms": 1e3 * seconds["plain"] / TIMES},
        f"ResNet-20, 32 × 32, batch {FEW}": ratios(eight),
    }


def timed(runs: Mapping[str, Callable[[], object]], settings: Settings) -> dict[str, float]:
    """Median seconds, with the kernel and without."""
    without = {f"{name} without the kernel": pure(run) for name, run in runs.items() if name != "plain"}
    return medians(dict(runs) | without, settings.runs)


def ratios(seconds: Mapping[str, float]) -> dict[str, float]:
    """All of them beside the plain network's."""
    return {f"{name}/plain": taken / seconds["plain"] for name, taken in seconds.items() if name != "plain"}
