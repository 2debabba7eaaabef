"""Train FRN ResNet-20s on CIFAR-10, one after the other; the same command resumes after an interruption.

    nohup nice -n 19 python -m paper.recipes.cifar_frn 0 1 2 --weights FOLDER &
    python -m paper.recipes.cifar_frn 0 1 2 --pack              # half precision and logs into paper/networks
    python -m paper.recipes.cifar_frn 0 1 --draws               # SGHMC around the packed ones: how good each draw is

40,960 training images, no augmentation, no label smoothing, AdamW with a one-cycle learning rate. One core trains a
member in about 900 CPU seconds because (1) the network is compiled in channels-last order, (2) a member
starts from the convolutions of a released BatchNorm ResNet (`FOLDER/resnet20.safetensors`, or some blocks of resnet32),
which differs in normalisation, activation and shortcuts: right after the transplant the first member is right for 58 %
of 384 test images. That network had seen all 50,000 training images, with crops and flips. `--start fresh` starts from
random weights instead. State and log are in paper/runs/cifar_frn; the state is 3.4 MB for a member.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from paper.recipes.transplant import MEAN, STD, calibrate, transplant
from paper.training import NETWORKS, SGHMC, SHIPPED, shipped_member
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import OneCycleLR

from shiftmatch.data import load
from shiftmatch.models import Architecture
from shiftmatch.models.layers import SameConv2d, initialise
from shiftmatch.models.resnets import ResNetFRN
from shiftmatch.samplers.diagnostics import distinct_draws
from shiftmatch.samplers.posterior import Posterior, params_of

RUNS = Path(__file__).parents[1] / "runs" / "cifar_frn"
SOURCES = {0: ("resnet20", (0, 1, 2)), 1: ("resnet32", (0, 1, 4)), 2: ("resnet32", (0, 2, 3))}
"""The released network that a member starts from, and the blocks that are taken of each stack."""

CALIBRATION, QUICK_TEST, TEST, TEST_DRAWS = 384, 2000, 10_000, 2000
SAVE_EVERY, LOG_EVERY = 20, 40


@dataclass(frozen=True)
class Recipe:
    """How a member is trained; `sharpness` scales activations so that swish is close to the ReLU of the start."""

    epochs: int = 3
    images: int = 40_960
    batch_size: int = 128
    rate: float = 2e-3
    weight_decay: float = 0.1
    sharpness: float = 4.0
    start: str = "released"

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches."""
        return self.images // self.batch_size

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.epochs * self.steps_per_epoch


class Run:
    """A member in training: network, optimiser, schedule and the number of steps taken."""

    def __init__(self, recipe: Recipe, member: int, weights: Path) -> None:
        self.recipe, self.member, self.step = recipe, member, 0
        self.network = start(recipe, member, weights)
        self.optimiser = torch.optim.AdamW(self.network.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay)
        steps = recipe.steps + 1
        self.schedule = OneCycleLR(self.optimiser, recipe.rate, steps, pct_start=0.15, cycle_momentum=False)

    def save(self, file: Path) -> None:
        """Write all that is needed to go on."""
        parts = {name: getattr(self, name).state_dict() for name in ("network", "optimiser", "schedule")}
        torch.save({"recipe": asdict(self.recipe), "step": self.step, **parts}, file.with_suffix(".tmp"))
        file.with_suffix(".tmp").replace(file)

    def load(self, file: Path) -> None:
        """Go on where `save` was."""
        state: dict[str, Any] = torch.load(file, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise SystemExit(f"{file} was begun with {state['recipe']}; move it away or use the same settings.")
        for name in ("network", "optimiser", "schedule"):
            getattr(self, name).load_state_dict(state[name])
        self.step = state["step"]

    def train_step(self, model: Callable[..., Tensor], images: Tensor, labels: Tensor) -> float:
        """One batch; the order of an epoch's images depends on the member and the epoch alone."""
        epoch, index = divmod(self.step, self.recipe.steps_per_epoch)
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 * self.member + epoch))
        chosen = order[index * self.recipe.batch_size : (index + 1) * self.recipe.batch_size]
        x = images[chosen].contiguous(memory_format=torch.channels_last)
        loss = functional.cross_entropy(model(x), labels[chosen])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        return loss.item()


def start(recipe: Recipe, member: int, folder: Path) -> ResNetFRN:
    """A member before training, in channels-last order."""
    network = ResNetFRN()
    initialise(network, torch.Generator().manual_seed(member), gain=2.0)
    if recipe.start == "released":
        name, blocks = SOURCES[member]
        transplant(network, load_file(folder / f"{name}.safetensors"), blocks, sharpness=recipe.sharpness)
        calibrate(network, pixels("train", CALIBRATION)[0])
    unpad(network)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return network


def unpad(network: nn.Module) -> None:
    """Let convolutions of stride 1 pad by themselves, which is the same and makes no copy; in place."""
    for name, module in list(network.named_modules()):
        if isinstance(module, SameConv2d) and module.stride == (1, 1):
            margin = module.kernel_size[0] // 2
            inner = nn.Conv2d(module.in_channels, module.out_channels, 2 * margin + 1, padding=margin)
            inner.weight, inner.bias = module.weight, module.bias
            network.set_submodule(name, inner)


def pixels(split: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images of CIFAR-10 as the network takes them, channels last, and their labels."""
    data = load("cifar10", split, limit=count)
    raw = data.images[torch.arange(count)].float() / 255
    images = ((raw - MEAN[:, None, None]) / STD).contiguous(memory_format=torch.channels_last)
    return images, data.labels


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Fraction of images that are classified rightly."""
    with torch.no_grad():
        predicted = torch.cat([model(x).argmax(-1) for x in images.split(250)])
    return (predicted == labels).double().mean().item()


def train(recipe: Recipe, member: int, weights: Path, runs: Path = RUNS) -> None:
    """Train one member; state and log are written to `runs`."""
    folder = runs / f"member-{member}"
    folder.mkdir(parents=True, exist_ok=True)
    run, began, losses = Run(recipe, member, weights), time.process_time(), []
    if (folder / "state.pt").exists():
        run.load(folder / "state.pt")
    if run.step == recipe.steps:
        return
    (images, labels), (tests, truth) = pixels("train", recipe.images), pixels("test", TEST)
    model = torch.compile(run.network, dynamic=False)
    while run.step < recipe.steps:
        losses.append(run.train_step(model, images, labels))
        epoch_ends, finished = run.step % recipe.steps_per_epoch == 0, run.step == recipe.steps
        if run.step % LOG_EVERY == 0 or epoch_ends:
            row = {"step": run.step, "epoch": run.step / recipe.steps_per_epoch, "loss": sum(losses) / len(losses)}
            if epoch_ends:
                count = TEST if finished else QUICK_TEST
                row |= {"accuracy": accuracy(run.network, tests[:count], truth[:count]), "test_images": count}
            with (folder / "log.jsonl").open("a") as log:
                print(json.dumps(row | {"cpu_seconds": round(time.process_time() - began, 1)}), file=log)
            losses = []
        if run.step % SAVE_EVERY == 0 or finished:
            run.save(folder / "state.pt")


def pack(member: int, runs: Path = RUNS) -> None:
    """Write a finished member in half precision to paper/networks, with its log."""
    folder, name = runs / f"member-{member}", f"resnet20_frn-{member}"
    state: dict[str, Any] = torch.load(folder / "state.pt", weights_only=True)
    network = ResNetFRN()
    network.load_state_dict(state["network"])
    posterior = Posterior.of([params_of(network)], architecture=Architecture("resnet20_frn"))
    posterior.save(SHIPPED / f"{name}.safetensors", dtype=torch.float16)
    shipped = Posterior.load(SHIPPED / f"{name}.safetensors").models()[0]
    right = accuracy(shipped, *pixels("test", TEST))
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    record = {"recipe": state["recipe"], "steps": state["step"], "started from": SOURCES[member]}
    record |= {"accuracy of the packed network on 10,000 test images": right, "log": rows}
    (SHIPPED / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{name}: {right:.4f} of {TEST:,} clean test images")


def judge_draws() -> None:
    """Write how good each draw of SGHMC is that the figures use; drawn first, if they are missing."""
    networks = NETWORKS["small"]
    posterior, (images, labels) = networks.posterior(SGHMC), pixels("test", TEST_DRAWS)
    members = [shipped_member(index).models()[0] for index in range(networks.chains)]
    record = {
        "command": "python -m paper.recipes.cifar_frn 0 1 --draws",
        "settings": asdict(networks.sghmc)
        | {"images": networks.images, "batch": networks.batch, "seed": networks.seed},
        "test images": TEST_DRAWS,
        "accuracy of the members": [accuracy(member, images, labels) for member in members],
        "accuracy of draws": [accuracy(draw, images, labels) for draw in posterior.models()],
        "distinct draws": distinct_draws(posterior),
    }
    (SHIPPED / "resnet20_frn-sghmc.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("members", type=int, nargs="+", choices=SOURCES)
    parser.add_argument("--start", choices=["released", "fresh"], default="released")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--weights", type=Path, default=Path("weights"), help="the folder of the released networks")
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--draws", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.draws:
        judge_draws()
        return
    for member in given.members:
        if given.pack:
            pack(member, given.runs)
        else:
            train(Recipe(epochs=given.epochs, start=given.start), member, given.weights, given.runs)


if __name__ == "__main__":
    main()
