"""ResNet-20 on our corruptions and on the published ones, and statistics of both.

python -m benchmarks.corruption_fidelity
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import torch
from fidelity import BANDS, TOLERANCE, cases, deviation, published_ice
from references.published_accuracy import IMAGES, PUBLISHED
from released import accuracy, cifar, resnet20

from shiftmatch.corruptions import SUITES, corrupt, frost_source
from shiftmatch.utils.files import save_result

SEEDS = range(6)
COMPARED = ["mean", "variance", *(f"band {band}" for band in range(BANDS))]
OTHERS = slice(2_100, 4_100)
"""Test images that neither the reference nor the table of accuracies has."""
RESULT = Path(__file__).parents[1] / "paper" / "results" / "corruption_fidelity.json"


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
    result = {"ResNet-20 accuracy": rows, "frost on other images": frost_on_other_images(), "in distribution": gaps()}
    save_result(RESULT, command="python -m benchmarks.corruption_fidelity", settings=settings, result=result)


def frost_on_other_images() -> dict[str, dict[str, float]]:
    """ResNet-20 on images that no frost was fitted to: ours, and pieces of the published ice solved for and laid over.

    Ice by the photograph it is from is not known, so the pieces are those of all; every second reference image gives
    some, which leaves the others for fitting.
    """
    everything, every_label = cifar("test", OTHERS.stop)
    model, images, labels = resnet20(), everything[OTHERS], every_label[OTHERS]
    ice = torch.from_numpy(published_ice(slice(1, None, 2)))
    chosen = ice[torch.from_numpy(np.random.default_rng(0).integers(0, len(ice), len(images)))]
    rows = {}
    for severity in (1, 3, 5):
        keep, weight = SUITES["cifar10-c"].corruptions["frost"].level(severity)
        theirs = (keep * images + weight * chosen).clamp(0, 255).byte()
        found = {"ours": corrupt(images, "frost", severity=severity), "published ice": theirs}
        rows[f"severity {severity}"] = {
            name: round(accuracy(model, x, labels, batch=250), 2) for name, x in found.items()
        }
        print("frost", severity, rows[f"severity {severity}"], flush=True)
    return rows


def gaps() -> dict[str, object]:
    """Where mean, variance or a band of the spectrum of our mean over seeds is off the one published draw by 5 %."""
    wide, count = {}, 0
    for case in cases(random=True):
        gap, spread = deviation(*case, SEEDS)
        compared = COMPARED[:2] if case[0] == "imagenet-c" else COMPARED  # two images are too few for a spectrum
        for what, off, noise in zip(compared, gap, spread, strict=False):
            if off > TOLERANCE:
                name = " ".join(str(part) for part in (*case, what))
                wide[name] = {"percent off": round(100 * float(off), 1), "spread": round(100 * float(noise), 1)}
                print(name, wide[name], flush=True)
        count += 1
    return {"cases": count, "seeds": len(SEEDS), "more than 5 percent off": wide}


if __name__ == "__main__":
    main()
