"""What is measured, drawn and written of a network: `shiftmatch sites`, `fit`, `sample`, `import-hmc` and `export`."""

from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftmatch.cli import options as o
from shiftmatch.cli.output import finish, join_processes, tell, writing
from shiftmatch.errors import InputError, NonFiniteError


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
    from shiftmatch.cli.preparing import open_prepared
    from shiftmatch.core.covariance import covariance_named
    from shiftmatch.matching.match import fit as measure
    from shiftmatch.matching.members import fit_members
    from shiftmatch.models.preprocessing import channel_moments
    from shiftmatch.utils.processes import gather_objects, share

    rank, processes = join_processes()
    settings: dict[str, Any] = {"covariance": covariance_named(covariance), "across_processes": processes > 1}
    with writing(out, data, weights, posterior) as place:
        members = open_members(network, weights, posterior, device=device, random=random_weights)
        images, some = open_prepared(data, network, members[0], device=device, mean=mean, std=std, size=size, grey=grey)
        input_mean, input_std = channel_moments(some)
        known = images.preprocessing.as_dict() | {"input_mean": input_mean, "input_std": input_std}
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
    measured = len(images) - len(batches.problems.refused)
    found = {"out": out, "images": measured, "classes": images.classes}
    words = f"The statistics of {measured:,} images are in {out}"
    finish(images, batches.problems, words, found, as_json=as_json)


def sites(
    network: o.Network,
    shape: Annotated[str, typer.Argument(help="Of one input, such as 3x224x224.")],
    *,
    everywhere: Annotated[bool, typer.Option("--all", help="The output of every module, to choose from.")] = False,
    device: o.Device = "cpu",
    as_json: o.AsJson = False,
) -> None:
    """List the places of a network where features would be matched.

    Example: shiftmatch sites lenet 1x28x28
    """
    from shiftmatch.cli.loading import example_of, open_network
    from shiftmatch.cli.preparing import check_runs
    from shiftmatch.matching.sites import sites as find

    model, example = open_network(network, device=device), example_of(shape).to(device)
    check_runs(model, example, "Give the shape of one of its inputs: channels x rows x columns.")
    found = find(model, example, at="module" if everywhere else "pre-activation")
    tell(str(found), [asdict(site) for site in found], as_json=as_json)


def sample(
    network: o.Network,
    data: o.Data,
    *,
    out: Annotated[Path, typer.Option(help="The posterior file to write.")],
    weights: o.Weights = None,
    method: Annotated[str, typer.Option(help="hmc, sgld, sghmc, vi, or ensemble.")] = "hmc",
    draws: Annotated[int, typer.Option(min=1, help="Draws to keep of each chain, or members to train.")] = 20,
    chains: Annotated[int, typer.Option(min=1, help="Chains; the first starts from the weights given.")] = 1,
    burn_in: Annotated[
        int, typer.Option(min=0, help="Draws to throw away first; HMC tunes its step in them, VI is fitted.")
    ] = 20,
    step_size: Annotated[
        float, typer.Option(help="HMC: the first step. VI: Adam's. Others: learning rate of the mean loss.")
    ] = 1e-3,
    trajectory: Annotated[float, typer.Option(help="HMC: how long to follow each trajectory.")] = 0.1,
    steps: Annotated[int, typer.Option(min=1, help="Others: minibatch steps to a draw.")] = 100,
    batch_size: Annotated[int, typer.Option(min=1, help="Others: images in a minibatch.")] = 100,
    weight_decay: Annotated[float, typer.Option(min=0, help="The prior of each weight is N(0, 1 / this).")] = 100.0,
    folder: Annotated[
        Path | None, typer.Option(help="Keep the run here; the same command resumes after an interruption.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes everything random.")] = 0,
    mean: o.Mean = None,
    std: o.Std = None,
    size: o.Size = None,
    grey: o.Grey = None,
    device: o.Device = "cpu",
    as_json: o.AsJson = False,
) -> None:
    """Draw a posterior, or train an ensemble, on labelled images: class folders, or an .npz with images and labels.

    Under torchrun chains and members are spread over its processes.

    Example: shiftmatch sample lenet digits/ --method sghmc --step-size 0.01 --out digits.safetensors
    """
    from shiftmatch.cli.loading import architecture_named, open_network
    from shiftmatch.cli.preparing import count_classes, open_prepared
    from shiftmatch.data.image_set import Problems
    from shiftmatch.samplers.diagnostics import convergence_summary
    from shiftmatch.samplers.inference import LOOKED_AT, Inference

    settings = Inference(method, draws, burn_in, step_size, trajectory, steps, batch_size, weight_decay, seed, chains)
    if not (0 < step_size < inf and 0 < trajectory < inf):
        raise InputError(f"--step-size and --trajectory are above 0; got {step_size:g} and {trajectory:g}.")
    problems, (rank, processes) = Problems(), join_processes()
    with writing(out, data, weights) as place:
        start = open_network(network, weights, seed=seed, device=device)
        images, some = open_prepared(data, network, start, device=device, mean=mean, std=std, size=size, grey=grey)
        inputs, labels = (tensor.to(device) for tensor in images.training_data(problems))
        if (classes := count_classes(start, some)) <= labels.max():
            raise InputError(
                f"There are labels up to {labels.max()}, but the network has {classes} outputs, for labels from 0 on. "
                f"Take a network with an output for each class."
            )
        posterior = settings.run(
            start,
            (inputs, labels),
            folder=folder,
            architecture=architecture_named(network),
            across_processes=processes > 1,
        )
        if not all(values.isfinite().all() for values in posterior.params.values()):
            raise NonFiniteError("The draws are NaN or infinite: the sampler diverged. Take a smaller --step-size.")
        posterior.save(place)
    if rank:
        return
    convergence = convergence_summary(posterior, inputs[:LOOKED_AT], start)
    found = {"out": out, "draws": len(posterior), "chains": posterior.chains, "convergence": convergence}
    finish(images, problems, f"{len(posterior)} draws are in {out}\n{convergence}", found, as_json=as_json)


def import_hmc(
    files: Annotated[list[Path], typer.Argument(help="state-*.pkl or model_step_*.pt; leave out the burn-in.")],
    *,
    out: Annotated[Path, typer.Option(help="The posterior file to write.")],
    network: Annotated[str, typer.Option(help="The network of the samples: lenet, mlp or resnet20_frn.")],
    half: Annotated[bool, typer.Option(help="Store in half precision: half the size.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Convert published HMC samples without running any code in them; rejected draws are left out.

    Example: shiftmatch import-hmc samples/state-*.pkl --network resnet20_frn --out hmc.safetensors
    """
    import torch

    from shiftmatch.models import Architecture
    from shiftmatch.samplers.interop import import_hmc as convert

    with writing(out, *files):
        posterior = convert(files, Architecture(network))
        posterior.save(out, dtype=torch.float16 if half else None)
    found = {"out": out, "draws": len(posterior), "chains": posterior.chains}
    tell(f"{len(posterior)} draws in {len(posterior.chains)} chains are in {out}", found, as_json=as_json)


def export(
    network: o.Network,
    *,
    out: Annotated[Path, typer.Option(help="The file to write: .onnx, or .pt2 for a torch.export program.")],
    statistics: Annotated[Path, typer.Option(help="From `shiftmatch fit`.")],
    weights: o.Weights = None,
    prior_images: Annotated[
        float | None, typer.Option(min=0, help="So many images the training statistics count for.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write the graph of a matched network, its adaptation included, for batches of any size.

    Preprocessing, class names and protocol are kept in the file.

    Example: shiftmatch export mynets:resnet --weights net.safetensors --statistics net.stats --out net.onnx
    """
    from shiftmatch.cli.loading import open_network
    from shiftmatch.deploy.export import export as write
    from shiftmatch.matching.match import match
    from shiftmatch.matching.statistics import Statistics

    with writing(out, weights, statistics):
        robust = match(open_network(network, weights), Statistics.load(statistics), prior_images=prior_images)
        write(robust, out)
    tell(f"The matched network is in {out}", {"out": out}, as_json=as_json)
