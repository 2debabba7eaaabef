"""`shiftmatch predict`: labels for images, from a matched network or posterior; `diagnose`: what has shifted."""

import csv
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftmatch.cli import options as o
from shiftmatch.cli.output import complain, finish, writing
from shiftmatch.errors import InputError, NonFiniteError

if TYPE_CHECKING:
    from shiftmatch.data.image_set import Batches
    from shiftmatch.matching.average import Average

COLUMNS = ("image", "label", "probability", "entropy", "problem")
Row = tuple[str, str, str]


def predict(
    network: o.Network,
    data: o.Data,
    *,
    out: Annotated[Path, typer.Option(help="The CSV file to write.")],
    statistics: Annotated[
        Path | None, typer.Option(help="From `shiftmatch fit`; without them the network predicts as it is.")
    ] = None,
    weights: o.Weights = None,
    random_weights: o.RandomWeights = False,
    posterior: o.Draws = None,
    prior_images: Annotated[
        float | None, typer.Option(min=0, help="So many images the training statistics count for; helps small batches.")
    ] = None,
    mean: o.Mean = None,
    std: o.Std = None,
    size: o.Size = None,
    grey: o.Grey = None,
    allow_other_preprocessing: o.AllowOther = False,
    batch_size: o.BatchSize = 500,
    device: o.Device = "cpu",
    as_json: o.AsJson = False,
) -> None:
    """Write image, label, probability, entropy and problem to a CSV file, one row per image.

    Images are prepared, and classes called, as the statistics remember it; options that say something else are
    refused unless that is allowed. An image that cannot be read has a row that says why, and the exit code is 3.

    Example: shiftmatch predict nets.py:resnet photos/ --weights net.pt --statistics net.stats --out labels.csv
    """
    from shiftmatch.cli.loading import open_members, open_statistics
    from shiftmatch.cli.preparing import count_classes, open_prepared
    from shiftmatch.matching.average import average
    from shiftmatch.matching.members import match_members

    if prior_images is not None and not statistics:
        raise InputError("--prior-images weighs the statistics of training, and there are none. Pass --statistics too.")
    with writing(out, data, statistics, weights, posterior):
        networks = open_members(network, weights, posterior, device=device, random=random_weights)
        known = open_statistics(statistics, of_members=posterior is not None) if statistics else None
        first = known[0] if known else None
        options: dict[str, Any] = {"mean": mean, "std": std, "size": size, "grey": grey}
        options |= {"device": device, "allow_other": allow_other_preprocessing}
        images, some = open_prepared(data, network, networks[0], first, **options)
        # Names of classes are those of the training folder; what folders test images lie in says nothing.
        classes, outputs = first.classes if first else (), count_classes(networks[0], some)
        if classes and len(classes) != outputs:
            complain(
                f"the statistics name {len(classes)} classes, the network has {outputs} outputs: classes are written "
                f"as numbers.",
                kind="warning",
            )
            classes = ()
        members = match_members(networks, known, prior_images=prior_images) if known else networks
        batches = images.batches(batch_size)
        rows = _predict(average(members), batches, classes, device)
        _write(out, images.names, rows, batches.problems.refused)
    words = f"The predictions for {len(rows):,} images are in {out}"
    finish(images, batches.problems, words, {"out": out, "images": len(rows)}, as_json=as_json)


def _predict(predictor: "Average", batches: "Batches", classes: Sequence[str], device: str) -> dict[int, Row]:
    """For the position of each image: its label, the probability of that, and the entropy in nats."""
    from shiftmatch.utils.parallel import track

    rows: dict[int, Row] = {}
    for inputs, index in track(batches, "predicting", total=len(batches)):
        found = predictor.predict(inputs.to(device))
        probabilities, entropies = found.probabilities.cpu(), found.entropy.cpu()
        if not (finite := probabilities.isfinite().all(-1)).all():
            name = batches.source.names[int(index[~finite][0])]
            raise NonFiniteError(
                f"The network's outputs are NaN or infinite, for {name} to begin with. Check its weights and how the "
                f"images are prepared (--mean, --std)."
            )
        confidence, labels = probabilities.max(-1)
        for position, label, p, entropy in zip(index.tolist(), labels.tolist(), confidence, entropies, strict=True):
            rows[position] = (classes[label] if classes else str(label), f"{p:.6f}", f"{entropy:.6f}")
    return rows


def _write(out: Path, names: Sequence[str], rows: Mapping[int, Row], refused: Mapping[str, str]) -> None:
    from shiftmatch.utils.files import atomic_path

    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((name, *rows.get(i, ("", "", "")), refused.get(name, "")) for i, name in enumerate(names))


def diagnose(
    network: o.Network,
    data: o.Data,
    *,
    statistics: Annotated[Path, typer.Option(help="From `shiftmatch fit`.")],
    plot: Annotated[
        Path | None, typer.Option(help="A picture (.png or .svg): the spectrum over that of training, site by site.")
    ] = None,
    weights: o.Weights = None,
    random_weights: o.RandomWeights = False,
    mean: o.Mean = None,
    std: o.Std = None,
    size: o.Size = None,
    grey: o.Grey = None,
    allow_other_preprocessing: o.AllowOther = False,
    batch_size: Annotated[
        int, typer.Option(min=2, help="So many of the images, drawn at random, are looked at.")
    ] = 500,
    device: o.Device = "cpu",
    as_json: o.AsJson = False,
) -> None:
    """Say what images have shifted by, where in the network, and whether matching is advised.

    Images are prepared as the statistics remember it. The exit code is 0 whether they have shifted or not, and 3 if
    some of them cannot be read.

    Example: shiftmatch diagnose nets.py:resnet photos/ --weights net.pt --statistics net.stats --plot spectra.png
    """
    from shiftmatch.cli.loading import open_network, open_statistics
    from shiftmatch.cli.preparing import open_prepared
    from shiftmatch.matching.diagnosis import diagnose as compare

    if plot:  # mistakes, and a missing matplotlib, are told before the work
        from shiftmatch.report.figures import save_figure, spectra

        if plot.suffix not in (".png", ".svg"):
            raise InputError(f"A picture is a .png or an .svg file; got --plot {plot}.")
    with writing(plot, data, statistics, weights) if plot else nullcontext():
        model = open_network(network, weights, device=device, random=random_weights)
        (known,) = open_statistics(statistics, of_members=False)
        options: dict[str, Any] = {"mean": mean, "std": std, "size": size, "grey": grey}
        options |= {"device": device, "allow_other": allow_other_preprocessing}
        images, _ = open_prepared(data, network, model, known, **options)
        batches = images.batches(batch_size)
        inputs, index = next(iter(batches))
        found = compare(model, known, inputs[:batch_size].to(device))
        if plot:
            save_figure(spectra(found), plot)
    names = [images.names[position] for position in index[:batch_size].tolist()]
    finish(images, batches.problems, str(found), found.to_dict() | {"names": names}, as_json=as_json)
