"""What is done to a network: `shiftmatch sites`, `fit` (measure its statistics) and `export`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftmatch.cli import options as o
from shiftmatch.cli.options import AsJson, Device, Network, Weights
from shiftmatch.cli.output import PARTIAL, join_processes, say, tell_problems, writing


def fit(
    network: o.Network,
    data: o.Data,
    *,
    out: Annotated[Path, typer.Option(help="The statistics file to write.")],
    weights: o.Weights = None,
    random_weights: o.RandomWeights = False,
    posterior: o.Draws = None,
    covariance: Annotated[
        str,
        typer.Option(help="Spectrum, SpatialKronecker, Kronecker, SpatialFull, ChannelJoint, ChannelMoments or Dense."),
    ] = "Spectrum",
    mean: o.Mean = None,
    std: o.Std = None,
    size: o.Size = None,
    grey: o.Grey = None,
    batch_size: o.BatchSize = 200,
    device: o.Device = "cpu",
    as_json: o.AsJson = False,
) -> None:
    """Measure the statistics of clean training images: one pass, no labels, no gradients; torchrun shares the images.

    The file remembers how the images were prepared and, of class folders, the names of the classes, so that
    `shiftmatch predict` prepares others in the same way and knows what to call them.

    Example: shiftmatch fit nets.py:resnet train/ --weights net.pt --size 224
    --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --out net.stats
    """
    from shiftmatch.cli.loading import open_members
    from shiftmatch.cli.preparing import fitting, preparation
    from shiftmatch.core.covariance import covariance_named
    from shiftmatch.data.image_set import open_images
    from shiftmatch.matching.match import fit as measure
    from shiftmatch.matching.members import fit_members
    from shiftmatch.models.preprocessing import channel_moments
    from shiftmatch.utils.processes import gather_objects, share

    rank, processes = join_processes()
    settings: dict[str, Any] = {"covariance": covariance_named(covariance), "across_processes": processes > 1}
    with writing(out) as place:
        members = open_members(network, weights, posterior, device=device, random=random_weights)
        prepare = preparation(network, members[0], mean=mean, std=std, size=size, grey=grey)
        images, some = fitting(members[0], open_images(data, prepare), device=device)
        input_mean, input_std = channel_moments(some)
        known = prepare.as_dict() | {"input_mean": input_mean, "input_std": input_std}
        settings |= {"classes": images.classes, "preprocessing": known}
        batches = images.batches(min(batch_size, max(1, len(images) // processes)))
        batches = replace(batches, parts=share(batches.parts))
        if posterior is None:
            measure(members[0], batches, **settings).save(place)
        else:
            fit_members(members, batches, place, **settings)
    for other in gather_objects(batches.problems):
        batches.problems.refused.update(other.refused)
        batches.problems.changed.update(other.changed)
    if rank:
        return
    measured, refused = len(images) - len(batches.problems.refused), batches.problems.refused
    tell_problems(batches.problems, images.notes, images=len(images))
    if as_json:
        typer.echo(json.dumps({"out": str(out), "images": measured, "refused": refused, "classes": images.classes}))
    else:
        say(f"The statistics of {measured:,} images are in {out}")
    if refused:
        raise typer.Exit(PARTIAL)


def sites(
    network: Network,
    shape: Annotated[str, typer.Argument(help="Of one input, such as 3x224x224.")],
    *,
    everywhere: Annotated[bool, typer.Option("--all", help="The output of every module, to choose from.")] = False,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """List the places of a network where features would be matched.

    Example: shiftmatch sites lenet 1x28x28
    """
    from shiftmatch.cli.loading import example_of, open_network
    from shiftmatch.cli.preparing import check_runs
    from shiftmatch.matching.selection import sites as find

    model, example = open_network(network, device=device), example_of(shape).to(device)
    check_runs(model, example)
    found = find(model, example, at="module" if everywhere else "pre-activation")
    typer.echo(json.dumps([asdict(site) for site in found], indent=1) if as_json else str(found))


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
