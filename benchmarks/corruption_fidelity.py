"""ResNet-20 on our corruptions and on the published ones, severity 5: python -m benchmarks.corruption_fidelity."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from references.published_accuracy import IMAGES, PUBLISHED
from released import accuracy, cifar, resnet20

from shiftmatch.corruptions import corrupt, frost_source


def main() -> None:
    """Print one line per corruption: our accuracy, the published one, the difference."""
    model, (images, labels) = resnet20(), cifar("test", IMAGES)
    print(f"{IMAGES} test images, seed 0, frost: {frost_source()}")
    for name, published in PUBLISHED.items():
        ours = accuracy(model, corrupt(images, name, severity=5), labels, batch=250)
        print(f"{name:20s} {ours:6.2f} {published:6.1f} {ours - published:+6.2f}", flush=True)


if __name__ == "__main__":
    main()
