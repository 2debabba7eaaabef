"""What matching costs, as ratios to the plain forward pass: python -m benchmarks.matching.

Plain and matched runs alternate in one process, so that a busy machine slows both; medians are compared.
"""

import statistics
import time
from collections.abc import Callable

import torch

import shiftmatch as sm

REPETITIONS = 7
THREADS = 2
BATCHES = (64, 256, 1000)


def seconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each run over alternating repetitions."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(REPETITIONS):
        for name, run in runs.items():
            before = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - before)
    return {name: statistics.median(values) for name, values in taken.items()}


@torch.no_grad()
def main() -> None:
    """Print matched/plain and fit/plain for ResNet-20 at several batch sizes."""
    torch.set_num_threads(THREADS)
    network = sm.models.build("cifar_resnet", depth=20).eval()
    images = torch.randn(max(BATCHES), 3, 32, 32, generator=torch.Generator().manual_seed(0))
    robust = sm.match(network, sm.fit(network, images, progress=False), prior=1)
    print(f"ResNet-20, 3x32x32, {THREADS} threads, median of {REPETITIONS} alternating runs")
    print(f"{'batch':>6}{'plain s':>10}{'matched/plain':>15}{'fit/plain':>11}")
    for batch in BATCHES:
        x = images[:batch]
        runs = {
            "plain": lambda x=x: network(x),
            "matched": lambda x=x: robust(x),
            "fit": lambda x=x: sm.fit(network, [x], sites=sm.Sites(_places(robust)), progress=False),
        }
        median = seconds(runs)
        ratios = (median[name] / median["plain"] for name in ("matched", "fit"))
        print(f"{batch:>6}{median['plain']:>10.3f}{next(ratios):>15.2f}{next(ratios):>11.2f}", flush=True)


def _places(robust: sm.MatchedModel) -> tuple[sm.Site, ...]:
    return tuple(entry.site for entry in robust.statistics.values())


if __name__ == "__main__":
    main()
