"""`shiftmatch evaluate`: methods side by side on a corruption benchmark."""

import json
import shlex
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from shiftmatch.cli.options import AllowOther, AsJson, Device, Draws, Mean, Network, RandomWeights, Std, Weights
from shiftmatch.cli.output import complain, join_processes, say, show, writing

if TYPE_CHECKING:
    from shiftmatch.evaluation.scores import Scores

MAX_SHOWN = 8
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
            "ShiftMatch (that is, ShiftMatch: spectrum), ShiftMatch: auto, ShiftMatch: rows and columns, "
            "ShiftMatch + batchnorm, ShiftMatch (paper), ShiftMatch: Kronecker, ShiftMatch: SpatialFull, "
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
    random_weights: RandomWeights = False,
    posterior: Draws = None,
    mean: Mean = None,
    std: Std = None,
    allow_other_preprocessing: AllowOther = False,
    corruptions: Annotated[
        str | None, typer.Option(help="With commas between, or paper: the sixteen of the paper. Default: all.")
    ] = None,
    severities: Annotated[str | None, typer.Option(help="Such as 1,3,5. Default: all that the suite has.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many test images.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Test images that are predicted together, at most.")] = 1000,
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
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Compare methods under every corruption at every severity; the same command resumes after an interruption.

    Under torchrun the cells are spread over its processes.

    Example: shiftmatch evaluate cifar_resnet --weights resnet20.safetensors --suite cifar10-c --severities 1,3,5
    --limit 2000 --workers 2 --out scores.csv
    """
    import torch

    from shiftmatch.cli.loading import open_members
    from shiftmatch.cli.preparing import check_preparation, check_runs, check_variance, count_classes, preparation
    from shiftmatch.corruptions import PAPER
    from shiftmatch.evaluation import evaluate as evaluation
    from shiftmatch.evaluation.methods import METHODS, method_named, predictor
    from shiftmatch.evaluation.scores import BESIDE
    from shiftmatch.evaluation.streams import parse
    from shiftmatch.evaluation.suites import open_suite, training_batches
    from shiftmatch.metrics.registry import named
    from shiftmatch.utils.files import unsafe_characters
    from shiftmatch.utils.hashing import content_hash

    (rank, processes), cells = join_processes(), folder or out.with_suffix(".cells")
    chosen = PAPER if corruptions == "paper" else _words(corruptions)
    with writing(out, weights, posterior, train, beside=BESIDE) as place:
        images = open_suite(
            suite, root, corruptions=chosen or None, severities=_levels(severities), limit=limit, seed=seed
        )
        if stream is not None:
            parse(stream)  # mistakes are told before the work
        measures = [named(metric)[1] for metric in _words(metrics)]
        members = open_members(network, weights, posterior, device=device, random=random_weights)
        prepare = preparation(network, members[0], allow_other=allow_other_preprocessing, mean=mean, std=std)
        wanted = METHODS if methods == "all" else _words(methods)
        chosen_methods = [method_named(name, pixel_std=fmean(prepare.std)) for name in wanted]
        some = prepare(images.clean.images[torch.arange(min(16, len(images)))]).to(device)
        check_runs(members[0], some, f"Take a network for the images of {suite}, or another --suite.")
        classes = count_classes(members[0], some)
        check_variance(members[0], some)
        check_preparation(members[0], images.clean, prepare, device=device)
        batches = training_batches(images, prepare, train_images, path=train)
        predictors = {}
        for method in chosen_methods:
            file = f"statistics-{unsafe_characters.sub('_', method.name)}.safetensors"
            path = (place.parent if rank else cells) / file if posterior else None
            predictors[method.name] = predictor(method, members, batches, path=path)
        trained = sum(map(len, batches))
        note = {"command": _command(), "network": network, "weights": content_hash(members)}
        scores = evaluation.evaluate(
            predictors,
            images,
            measures,
            preprocess=prepare,
            batch_size=batch_size,
            stream=stream,
            folder=cells,
            workers=workers,
            device=device,
            across_processes=processes > 1,
            note=note | {"members": len(members), "training images": trained},
        )
        scores.save(place)
    if rank:
        return
    if as_json:
        means: dict[str, dict[str, float]] = {method: {} for method, _ in scores.mean()}
        for (method, metric), value in scores.mean().items():
            means[method][metric] = value
        typer.echo(json.dumps({"out": str(out), "mean": means}, indent=1))
    else:
        _show(scores)
        say(f"The scores are in {out}")
    _check_clean(scores, classes=classes)


def _show(scores: "Scores") -> None:
    from shiftmatch.report.markdown import lost_cells, means_table

    for metric in scores.values("metric"):
        if "/" not in metric:
            show(means_table(scores, metric))
    lost = lost_cells(scores)
    for method, corruption, severity, points in lost[:MAX_SHOWN]:
        level = "" if severity is None else f" {severity}"
        show(f"[yellow]{method} loses {points:.1f} points against plain on {corruption}{level}[/]")
    if len(lost) > MAX_SHOWN:
        show(f"… and in {len(lost) - MAX_SHOWN} other cells, by less.")


def _check_clean(scores: "Scores", *, classes: int) -> None:
    """A network that guesses on clean images has other weights, other classes or other inputs than it should."""
    clean = [row.value for row in scores.where(method="plain", corruption="clean", metric="accuracy")]
    if clean and clean[0] < 2 / classes:
        complain(
            f"the plain network is right on {clean[0]:.1%} of the clean images, hardly better than guessing among "
            f"{classes} classes. Check --weights, --mean and --std, and the order of the classes.",
            kind="warning",
        )


def _levels(text: str | None) -> list[int]:
    from shiftmatch.errors import InputError

    try:
        return [int(severity) for severity in _words(text)]
    except ValueError:
        raise InputError(f"Severities are numbers such as 1,3,5; got {text}.") from None


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _command() -> str:
    """The command line, with files by their names, so that it reads the same on every machine."""
    words = [word if not word.startswith("/") else Path(word).name for word in sys.argv[1:]]
    return shlex.join(["shiftmatch", *words])
