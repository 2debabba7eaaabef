"""ResNet-20 on our corruptions and on the published ones, severity 5: python -m benchmarks.corruption_fidelity."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from references.published_accuracy import IMAGES, PUBLISHED
from released import accuracy, cifar, resnet20

from shiftmatch.corruptions import corrupt, frost_source
from shiftmatch.provenance import save_result

RESULT = Path(__file__).parents[1] / "results" / "corruption_fidelity.json"


def main() -> None:
    """Print one line per corruption: our accuracy, the published one, the difference; write them down."""
    model, (images, labels) = resnet20(), cifar("test", IMAGES)
    settings = {"images": IMAGES, "severity": 5, "seed": 0, "frost": frost_source()}
    print(settings)
    rows = {}
    for name, published in PUBLISHED.items():
        ours = round(accuracy(model, corrupt(images, name, severity=5), labels, batch=250), 2)
        rows[name] = {"ours": ours, "published generator": published}
        print(f"{name:20s} {ours:6.2f} {published:6.1f} {ours - published:+6.2f}", flush=True)
    save_result(RESULT, command="python -m benchmarks.corruption_fidelity", settings=settings, result=rows)


if __name__ == "__main__":
    main()
