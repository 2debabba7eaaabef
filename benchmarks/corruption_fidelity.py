"""ResNet-20 on our corruptions and on the published ones, severity 5: python -m benchmarks.corruption_fidelity."""

from tests.references.cifar_resnet import accuracy, cifar_test, resnet20
from tests.references.published_accuracy import IMAGES, PUBLISHED
from tests.shared_data import DATA, SHARED

from shiftmatch.corruptions import corrupt, frost_source


def main() -> None:
    """Print one line per corruption: our accuracy, the published one, the difference."""
    model = resnet20(SHARED / "weights" / "resnet20.safetensors")
    images, labels = cifar_test(DATA / "cifar-10-batches-bin", IMAGES)
    print(f"{IMAGES} test images, seed 0, frost: {frost_source()}")
    for name, published in PUBLISHED.items():
        ours = accuracy(model, corrupt(images, name, severity=5), labels)
        print(f"{name:20s} {ours:6.2f} {published:6.1f} {ours - published:+6.2f}", flush=True)


if __name__ == "__main__":
    main()
