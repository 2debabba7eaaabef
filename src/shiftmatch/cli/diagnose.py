"""`shiftmatch diagnose`: what has shifted in images, and whether matching is advised."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftmatch.cli import options as o
from shiftmatch.cli.output import PARTIAL, say, tell_problems, writing


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
    from shiftmatch.cli.preparing import fitting, preparation
    from shiftmatch.data.image_set import open_images
    from shiftmatch.errors import InputError
    from shiftmatch.matching.diagnosis import diagnose as compare

    if plot and plot.suffix not in (".png", ".svg"):
        raise InputError(f"A picture is a .png or an .svg file; got --plot {plot}.")
    model = open_network(network, weights, device=device, random=random_weights)
    (known,) = open_statistics(statistics, of_members=False)
    options: dict[str, Any] = {"mean": mean, "std": std, "size": size, "grey": grey}
    prepare = preparation(network, model, known, allow_other=allow_other_preprocessing, **options)
    images, _ = fitting(model, open_images(data, prepare), device=device, statistics=known)
    batches = images.batches(batch_size)
    inputs, index = next(iter(batches))
    found = compare(model, known, inputs[:batch_size].to(device))
    if plot:
        from shiftmatch.report.figure_files import save_figure
        from shiftmatch.report.figures import spectra

        with writing(plot):
            save_figure(spectra(found), plot)
    tell_problems(batches.problems, images.notes, images=len(images))
    if as_json:
        names = [images.names[position] for position in index[:batch_size].tolist()]
        typer.echo(json.dumps({**found.to_dict(), "names": names, "refused": batches.problems.refused}))
    else:
        say(str(found))
    if batches.problems.refused:
        raise typer.Exit(PARTIAL)
