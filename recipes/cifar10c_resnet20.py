"""The headline: a released ResNet-20 on CIFAR-10-C at severity 5, plain, with test-time batchnorm, and matched.

    python recipes/cifar10c_resnet20.py --weights resnet20.safetensors

Writes results/cifar10c_resnet20.json: accuracy per corruption and method, with seed, versions and settings. CIFAR-10
is read from the data folder (`shiftmatch data get cifar10`); the weights are those that Y. Idelbayev has released
with "Proper ResNet Implementation for CIFAR10", depth 20, as safetensors.
"""

import argparse
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch.progress import track
from shiftmatch.provenance import save_result

RESULT = Path(__file__).parents[1] / "results" / "cifar10c_resnet20.json"
MEAN, STD = torch.tensor([0.485, 0.456, 0.406])[:, None, None], torch.tensor([0.229, 0.224, 0.225])[:, None, None]
TRAIN, TEST, BATCH, SEVERITY, SEED = 4000, 1000, 1000, 5, 0

Scores = dict[str, dict[str, float]]


def normalised(pixels: Tensor) -> Tensor:
    return (pixels / 255 - MEAN) / STD


def methods(network: nn.Module) -> dict[str, nn.Module]:
    train = normalised(sm.data.load("cifar10", "train").images[torch.arange(TRAIN)]).split(500)
    return {
        "plain": network,
        "test-time batchnorm": sm.adapt_batchnorm(network),
        "channel moments": sm.match(network, sm.fit(network, train, covariance=sm.ChannelMoments())),
        "ShiftMatch, paper's setting": sm.match(network, sm.fit(network, train, preset=sm.paper(pixel_std=0.226))),
        "ShiftMatch": sm.match(network, sm.fit(network, train)),
    }


@torch.no_grad()
def accuracy(predict: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    pairs = zip(pixels.split(BATCH), labels.split(BATCH), strict=True)
    correct = sum(int((predict(normalised(x)).argmax(1) == y).sum()) for x, y in pairs)
    return round(100 * correct / len(labels), 2)


def run(weights: Path) -> Scores:
    """Accuracy by corruption and method; `clean` and `mean` stand among the corruptions."""
    network = sm.models.build("cifar_resnet", depth=20)
    network.load_state_dict(load_file(weights))
    predictors = methods(network.eval())
    suite = sm.suites.cifar10_c(corruptions=sm.corruptions.PAPER, severities=(SEVERITY,), limit=TEST, seed=SEED)

    def scored(pixels: Tensor) -> dict[str, float]:
        return {name: accuracy(predict, pixels, suite.labels) for name, predict in predictors.items()}

    rows = {name: scored(suite.images(name, SEVERITY)) for name in track(suite.corruptions, "corruptions")}
    mean = {name: round(sum(row[name] for row in rows.values()) / len(rows), 2) for name in predictors}
    rows |= {"clean": scored(suite.clean.images[torch.arange(TEST)]), "mean": mean}
    settings = {"train": TRAIN, "test": TEST, "batch": BATCH, "severity": SEVERITY, "seed": SEED, "suite": suite.source}
    save_result(RESULT, command="python recipes/cifar10c_resnet20.py", settings=settings, result=rows)
    return rows


def show(rows: Scores) -> None:
    table = Table("corruption", *rows["mean"], title=f"CIFAR-10-C, severity {SEVERITY}, ResNet-20: accuracy in %")
    for corruption, row in rows.items():
        style = "bold" if corruption == "mean" else ""
        table.add_row(corruption, *(f"{value:.1f}" for value in row.values()), style=style)
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    show(run(parser.parse_args().weights))
