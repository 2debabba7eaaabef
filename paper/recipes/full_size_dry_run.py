"""A dry run of CIFAR-10-C at its published size: two corruptions, whose content costs nothing to make.

Writes 10,000 x 5 images per corruption in the published layout, evaluates two methods on them in two runs, the second
of which resumes the first, and says how long that took and how much memory. The accuracies mean nothing: the network
is small and untrained. From a clone, with CIFAR-10 fetched:

    python -m paper.recipes.full_size_dry_run --folder /tmp/dry-run
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from shiftmatch.corruptions import names
from shiftmatch.data.catalog import published
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.evaluation.methods import method_named, predictor
from shiftmatch.evaluation.suites import cifar10_c, training_batches
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.utils.files import data_folder, save_result

CORRUPTIONS = ("brightness", "contrast")
SEVERITIES = (1, 2, 3, 4, 5)


def write_layout(root: Path, source: Path) -> int:
    """CIFAR-10 linked, and CIFAR-10-C beside it: every severity a shift of the pixels. Returns the bytes written."""
    clean, folder = load("cifar10", root=source), root / published("cifar10-c").folder
    folder.mkdir(parents=True, exist_ok=True)
    linked = root / "cifar-10-batches-bin"
    if not linked.exists():
        linked.symlink_to((source / "cifar-10-batches-bin").resolve())
    pixels = clean.images[torch.arange(len(clean))].permute(0, 2, 3, 1).numpy()
    for number, name in enumerate(CORRUPTIONS):
        shape = (len(SEVERITIES) * len(pixels), *pixels.shape[1:])
        images = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.uint8, shape=shape)
        for severity in SEVERITIES:
            images[(severity - 1) * len(pixels) : severity * len(pixels)] = pixels // (1 + number) + 8 * severity
        images.flush()
    np.save(folder / "labels.npy", np.tile(clean.labels.numpy().astype(np.uint8), len(SEVERITIES)))
    return sum(file.stat().st_size for file in folder.glob("*.npy"))


def small_network() -> nn.Module:
    """Two convolutions, so that the time goes into everything else."""
    layers = [nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(784, 10)]
    return nn.Sequential(*layers).eval()


def run(folder: Path, source: Path) -> dict[str, object]:
    """The dry run; what it took."""
    assert set(CORRUPTIONS) <= set(names("cifar10-c"))
    written = write_layout(folder, source)
    prepare, network = Preprocessing(std=(0.25,)), small_network()
    suite = cifar10_c(folder, corruptions=CORRUPTIONS)
    train = training_batches(suite, prepare, 2000)
    methods = {name: predictor(method_named(name), network, train) for name in ("plain", "ShiftMatch")}
    seconds, rows = {}, 0
    for part, severities in {
        "three severities": (1, 3, 5),
        "resumed, all five": SEVERITIES,
        "again": SEVERITIES,
    }.items():
        start = time.perf_counter()
        part_of_suite = cifar10_c(folder, corruptions=CORRUPTIONS, severities=severities)
        scores = evaluate(methods, part_of_suite, ["accuracy", "ece"], preprocess=prepare, folder=folder / "cells")
        seconds[part], rows = round(time.perf_counter() - start, 1), len(scores)
    scores.save(folder / "scores.csv")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    return {
        "source": suite.source.replace(str(folder), "the folder"),
        "images per cell": len(suite),
        "cells": 2 * (1 + len(list(suite.cells()))),
        "rows": rows,
        "MB on disk": round(written / 1e6),
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "peak memory, MB": round(peak),
        "standard error of an accuracy": max(row.stderr or 0 for row in scores.where(metric="accuracy")),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where to work; 310 MB")
    parser.add_argument("--out", type=Path, help="where to keep what it took (JSON)")
    given = parser.parse_args()
    torch.manual_seed(0)
    found = run(given.folder, data_folder())
    print(json.dumps(found, indent=1))
    if given.out:
        settings = {"corruptions": CORRUPTIONS, "severities": SEVERITIES, "batch size": 1000, "seed": 0}
        save_result(given.out, command="python -m paper.recipes.full_size_dry_run", settings=settings, result=found)
