"""`shiftmatch export`: a matched network as one file for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import Network, Weights


def export(
    network: Network,
    *,
    out: Annotated[Path, typer.Option(help="The file to write: .onnx, or .pt2 for a torch.export program.")],
    statistics: Annotated[Path, typer.Option(help="From `shiftmatch fit`.")],
    weights: Weights = None,
    prior_images: Annotated[
        float | None, typer.Option(min=0, help="So many images the training statistics count for.")
    ] = None,
) -> None:
    """Write the graph of a matched network, its adaptation included, for batches of any size.

    Preprocessing, class names and protocol are kept in the file.

    Example: shiftmatch export mynets:resnet --weights net.safetensors --statistics net.stats --out net.onnx
    """
    from shiftmatch.cli.loading import open_network
    from shiftmatch.deploy.export import export as write
    from shiftmatch.matching.match import match
    from shiftmatch.matching.statistics import Statistics

    robust = match(open_network(network, weights), Statistics.load(statistics), prior_images=prior_images)
    write(robust, out)
    typer.echo(f"The matched network is in {out}")
