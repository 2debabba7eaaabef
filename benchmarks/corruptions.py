"""Speed of the paper's sixteen corruptions on 10,000 CIFAR-sized images: python -m benchmarks.corruptions."""

import time
from pathlib import Path

import torch

from shiftmatch.corruptions import PAPER, corrupt
from shiftmatch.provenance import save_result

RESULT = Path(__file__).parents[1] / "results" / "corruption_speed.json"
IMAGES, SEVERITY, THREADS = 10_000, 5, 1


def main() -> None:
    """Print and write down the seconds that each corruption takes, by the clock and of processor time."""
    torch.set_num_threads(THREADS)
    images = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
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


if __name__ == "__main__":
    main()
