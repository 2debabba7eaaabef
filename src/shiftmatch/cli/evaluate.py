"""`shiftmatch evaluate`: methods side by side on a corruption benchmark."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import Draws, Mean, Network, Std, Weights

SHOWN = 8
"""Losses that are listed."""


def evaluate(
    network: Network,
    *,
    out: Annotated[Path, typer.Option(help="The table to write (CSV); how it was made goes beside it, as JSON.")],
    suite: Annotated[str, typer.Option(help="cifar10-c, imagenet-c or mnist-c.")] = "cifar10-c",
    methods: Annotated[
        str,
        typer.Option(
            help="With commas between, or all: plain, batchnorm, batchnorm-prior, batchnorm-running, channel moments, "
            "ShiftMatch, ShiftMatch + batchnorm, ShiftMatch (paper), ShiftMatch: Kronecker, ShiftMatch: SpatialFull, "
            "ShiftMatch: ChannelJoint, ShiftMatch: input only, ShiftMatch: after activations, CORAL, Tent."
        ),
    ] = "plain,batchnorm,ShiftMatch",
    metrics: Annotated[
        str,
        typer.Option(
            help="With commas between: accuracy, log_likelihood, brier, ece, ece_equal_count, confidence, aurc, "
            "reliability, risk_coverage."
        ),
    ] = "accuracy,log_likelihood,ece",
    weights: Weights = None,
    posterior: Draws = None,
    mean: Mean = None,
    std: Std = None,
    corruptions: Annotated[
        str | None, typer.Option(help="With commas between, or paper: the sixteen of the paper. Default: all.")
    ] = None,
    severities: Annotated[str | None, typer.Option(help="Such as 1,3,5. Default: all that the suite has.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many test images.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Test images that are predicted together, at most.")] = 1000,
    stream: Annotated[
        str | None, typer.Option(help="How images come, if not in order: iid, mixture:0.5, dirichlet:0.1.")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Clean training images: a folder, .npy or .npz. Default: the suite's own.")
    ] = None,
    train_images: Annotated[int, typer.Option(min=2, help="So many of them are used.")] = 4000,
    seed: Annotated[int, typer.Option(help="Fixes the corruptions and the order of a stream.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the scores do not depend on their number.")] = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Where finished cells are kept. Default: beside the table.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="Data folder. Default: $SHIFTMATCH_DATA, else the cache.")] = None,
) -> None:
    """Compare methods under every corruption at every severity; run the same command again to go on after a kill.

    Example: shiftmatch evaluate cifar_resnet --weights resnet20.safetensors --mean 0.485,0.456,0.406
    --std 0.229,0.224,0.225 --suite cifar10-c --severities 1,3,5 --limit 2000 --workers 2 --out scores.csv
    """
    from rich.console import Console

    from shiftmatch.cli.comparison import Comparison
    from shiftmatch.report.terminal import losses, means_table

    comparison = Comparison(
        network=network,
        suite=suite,
        methods=_words(methods),
        metrics=_words(metrics),
        weights=weights,
        posterior=posterior,
        mean=mean,
        std=std,
        corruptions=_words(corruptions),
        severities=_words(severities),
        limit=limit,
        batch=batch,
        stream=stream,
        train=train,
        train_images=train_images,
        seed=seed,
        root=root,
    )
    scores = comparison.run(folder or out.with_suffix(".cells"), workers=workers, command=_command())
    scores.save(out)
    console = Console()
    for metric in scores.values("metric"):
        if "/" not in metric:
            console.print(means_table(scores, metric))
    lost = losses(scores)
    for method, corruption, severity, points in lost[:SHOWN]:
        level = "" if severity is None else f" {severity}"
        console.print(f"[yellow]{method} loses {points:.1f} points against plain on {corruption}{level}[/]")
    if len(lost) > SHOWN:
        console.print(f"… and in {len(lost) - SHOWN} other cells, by less.")
    typer.echo(f"The scores are in {out}")


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _command() -> str:
    """The command line, with files by their names, so that it reads the same on every machine."""
    words = [word if not word.startswith("/") else Path(word).name for word in sys.argv[1:]]
    return shlex.join(["shiftmatch", *words])
