"""Speed of the paper's sixteen corruptions on 10,000 CIFAR-sized images: python -m benchmarks.corruptions."""

import time

import torch

from shiftmatch.corruptions import PAPER, corrupt

IMAGES = 10_000
SEVERITY = 5


def main() -> None:
    """Print the seconds that each corruption takes, by the clock and of processor time."""
    images = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    print(f"{IMAGES} images 3x32x32, severity {SEVERITY}, {torch.get_num_threads()} threads; seconds: clock, processor")
    clock, processor = 0.0, 0.0
    for name in PAPER:
        before = time.perf_counter(), time.process_time()
        corrupt(images, name, severity=SEVERITY)
        taken = time.perf_counter() - before[0], time.process_time() - before[1]
        clock, processor = clock + taken[0], processor + taken[1]
        print(f"{name:20s} {taken[0]:6.2f} {taken[1]:6.2f}", flush=True)
    print(f"{'all':20s} {clock:6.2f} {processor:6.2f}")


if __name__ == "__main__":
    main()
