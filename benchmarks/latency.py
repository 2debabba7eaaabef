"""How long one image takes, frozen and in a stream, and eight take matched, beside the plain network."""

from itertools import cycle

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, matched, resnet20

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
    seconds = medians({name: (lambda model=model: calls(model)) for name, model in one.items()}, settings.runs)
    both = {"plain": network, "matched": robust}
    eight = medians({name: (lambda m=m: [m(few) for _ in range(10)]) for name, m in both.items()}, settings.runs)
    ratios = {f"{name}/plain": seconds[name] / seconds["plain"] for name in ("frozen", "stream")}
    return {
        "ResNet-20, 32 × 32, one image": ratios | {"plain, ms": 1e3 * seconds["plain"] / TIMES},
        f"ResNet-20, 32 × 32, batch {FEW}": {"matched/plain": eight["matched"] / eight["plain"]},
    }
