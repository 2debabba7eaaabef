"""Speed of the paper's sixteen corruptions on 10,000 CIFAR-sized images: python -m benchmarks.corruptions."""

import time

import torch

from shiftmatch.corruptions import PAPER, corrupt

IMAGES = 10_000
SEVERITY = 5


def main() -> None:
    """Print seconds per corruption and in all."""
    images = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    total = 0.0
    print(f"{IMAGES} images 3x32x32, severity {SEVERITY}, {torch.get_num_threads()} threads")
    for name in PAPER:
        start = time.perf_counter()
        corrupt(images, name, severity=SEVERITY)
        seconds = time.perf_counter() - start
        total += seconds
        print(f"{name:20s} {seconds:6.2f} s", flush=True)
    print(f"{'all':20s} {total:6.2f} s")


if __name__ == "__main__":
    main()
