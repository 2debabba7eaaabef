"""`shiftmatch predict`: labels for images, from a matched network or posterior."""

from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import Batch, Data, Draws, Grey, Mean, Network, Size, Std, Weights


def predict(
    network: Network,
    data: Data,
    *,
    out: Annotated[Path, typer.Option(help="The CSV file to write.")],
    statistics: Annotated[
        Path | None, typer.Option(help="From `shiftmatch fit`; without them the network predicts as it is.")
    ] = None,
    weights: Weights = None,
    posterior: Draws = None,
    prior: Annotated[
        float, typer.Option(min=0, help="So many images the training statistics count for; helps small batches.")
    ] = 0,
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    grey: Grey = False,
    batch: Batch = 500,
) -> None:
    """Write image, label, probability and entropy to a CSV file; images are prepared as the statistics remember it.

    Options for preparing the images, if there are any, take the place of what is remembered.

    Example: shiftmatch predict mynets:resnet photos/ --weights net.safetensors --statistics net.stats --out labels.csv
    """
    from shiftmatch.cli.loading import check_takes, known_preprocessing, open_members, open_statistics, preprocessing
    from shiftmatch.cli.predictions import predict_to_csv
    from shiftmatch.data.image_set import open_images
    from shiftmatch.matching.average import average
    from shiftmatch.matching.members import match_members

    networks = open_members(network, weights, posterior)
    known = open_statistics(statistics, of_members=posterior is not None) if statistics else None
    base = known_preprocessing(network, known[0] if known else None)
    images = open_images(data, preprocessing(mean, std, size, grey=grey or None, base=base))
    check_takes(networks[0], images)
    members = match_members(networks, known, prior_images=prior) if known else networks
    predict_to_csv(average(members), images, out, batch=batch)
    typer.echo(f"The predictions for {len(images):,} images are in {out}")
