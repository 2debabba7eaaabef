"""`shiftmatch fit`: measure the statistics of a network on its training images."""

from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import Batch, Data, Draws, Grey, Mean, Network, Size, Std, Weights


def fit(
    network: Network,
    data: Data,
    *,
    out: Annotated[Path, typer.Option(help="The statistics file to write.")],
    weights: Weights = None,
    posterior: Draws = None,
    covariance: Annotated[
        str, typer.Option(help="SpatialKronecker, Kronecker, SpatialFull, ChannelJoint, ChannelMoments or Dense.")
    ] = "SpatialKronecker",
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    grey: Grey = False,
    batch: Batch = 200,
) -> None:
    """Measure the statistics of clean training images: one pass, no labels, no gradients.

    The file remembers how the images were prepared, so that `shiftmatch predict` prepares others in the same way.

    Example: shiftmatch fit mynets:resnet train/ --weights net.safetensors --size 224
    --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --out net.stats
    """
    import json

    from shiftmatch.cli.loading import check_takes, known_preprocessing, open_members, preprocessing
    from shiftmatch.core.covariance import covariance_named
    from shiftmatch.data.image_set import open_images
    from shiftmatch.matching.match import fit as measure
    from shiftmatch.matching.members import fit_members

    prepare = preprocessing(mean, std, size, grey=grey or None, base=known_preprocessing(network))
    images = open_images(data, prepare)
    members = open_members(network, weights, posterior)
    check_takes(members[0], images)
    note = json.dumps({"preprocessing": prepare.as_dict()})
    structure, batches = covariance_named(covariance), images.batches(batch)
    if posterior is None:
        measure(members[0], batches, covariance=structure, note=note).save(out)
    else:
        fit_members(members, batches, out, covariance=structure, note=note)
    typer.echo(f"The statistics of {len(images):,} images are in {out}")
