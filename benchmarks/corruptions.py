"""Speed of the paper's sixteen corruptions on CIFAR-sized images; python -m benchmarks.corruptions writes it down."""

import time
from pathlib import Path

import torch
from benchmarks.harness import Cases, Settings, medians

from shiftmatch.corruptions import PAPER, corrupt
from shiftmatch.utils.files import save_result

RESULT = Path(__file__).parents[1] / "paper" / "results" / "corruption_speed.json"
IMAGES, SEVERITY, THREADS = 10_000, 5, 1
FEW = 500
"""Images of each corruption where all subjects are measured."""


def run(settings: Settings) -> Cases:
    """Images per second through all sixteen."""
    images = _images(FEW)
    runs = {"all": lambda: [corrupt(images, name, severity=SEVERITY) for name in PAPER]}
    taken = medians(runs, min(3, settings.runs))
    return {f"the paper's {len(PAPER)}, 32 × 32": {"images per s": FEW * len(PAPER) / taken["all"]}}


def main() -> None:
    """Print and write down the seconds that each corruption takes, by the clock and of processor time."""
    torch.set_num_threads(THREADS)
    images = _images(IMAGES)
    print(f"{IMAGES} images 3x32x32, severity {SEVERITY}, {THREADS} threads; seconds: clock, processor")
    rows: dict[str, dict[str, float]] = {}
    for name in PAPER:
        before = time.perf_counter(), time.process_time()
        corrupt(images, name, severity=SEVERITY)
        clock, processor = time.perf_counter() - before[0], time.process_time() - before[1]
        rows[name] = {"clock": round(clock, 2), "processor": round(processor, 2)}
        print(f"{name:20s} {clock:6.2f} {processor:6.2f}", flush=True)
    rows["all"] = {kind: round(sum(row[kind] for row in rows.values()), 2) for kind in ("clock", "processor")}
    print(f"{'all':20s} {rows['all']['clock']:6.2f} {rows['all']['processor']:6.2f}")
    settings = {"images": IMAGES, "severity": SEVERITY, "threads": THREADS, "seed": 0}
    save_result(RESULT, command="python -m benchmarks.corruptions", settings=settings, result=rows)


def _images(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


if __name__ == "__main__":
    main()
