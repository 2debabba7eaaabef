"""`shiftmatch sample`: draw a posterior of a network's weights; `shiftmatch import-hmc`: take a published one."""

from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import Data, Device, Grey, Mean, Network, Size, Std, Weights
from shiftmatch.cli.output import PARTIAL, join_processes, say, tell_problems, writing


def sample(
    network: Network,
    data: Data,
    *,
    out: Annotated[Path, typer.Option(help="The posterior file to write.")],
    weights: Weights = None,
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
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    grey: Grey = None,
    device: Device = "cpu",
) -> None:
    """Draw a posterior, or train an ensemble, on labelled images: class folders, or an .npz with images and labels.

    Under torchrun chains and members are spread over its processes.

    Example: shiftmatch sample lenet digits/ --method sghmc --step-size 0.01 --out digits.safetensors
    """
    from shiftmatch.cli.loading import architecture_named, open_network
    from shiftmatch.cli.preparing import fitting, preparation
    from shiftmatch.data.image_set import Problems, open_images
    from shiftmatch.samplers.diagnostics import convergence_summary
    from shiftmatch.samplers.inference import LOOKED_AT, Inference

    settings = Inference(method, draws, burn_in, step_size, trajectory, steps, batch_size, weight_decay, seed, chains)
    problems, (rank, processes) = Problems(), join_processes()
    with writing(out) as place:
        start = open_network(network, weights, seed=seed, device=device)
        prepare = preparation(network, start, mean=mean, std=std, size=size, grey=grey)
        images, _ = fitting(start, open_images(data, prepare), device=device)
        inputs, labels = (tensor.to(device) for tensor in images.training_data(problems))
        posterior = settings.run(
            start,
            (inputs, labels),
            folder=folder,
            architecture=architecture_named(network),
            across_processes=processes > 1,
        )
        posterior.save(place)
    if rank:
        return
    tell_problems(problems, images.notes, images=len(images))
    say(f"{len(posterior)} draws are in {out}")
    say(convergence_summary(posterior, inputs[:LOOKED_AT], start))
    if problems.refused:
        raise typer.Exit(PARTIAL)


def import_hmc(
    files: Annotated[list[Path], typer.Argument(help="state-*.pkl or model_step_*.pt; leave out the burn-in.")],
    *,
    out: Annotated[Path, typer.Option(help="The posterior file to write.")],
    network: Annotated[str, typer.Option(help="The network of the samples: lenet, mlp or resnet20_frn.")],
    half: Annotated[bool, typer.Option(help="Store in half precision: half the size.")] = False,
) -> None:
    """Convert published HMC samples without running any code in them; rejected draws are left out.

    Example: shiftmatch import-hmc samples/state-*.pkl --network resnet20_frn --out hmc.safetensors
    """
    import torch

    from shiftmatch.models import Architecture
    from shiftmatch.samplers.interop import import_hmc as convert

    with writing(out):
        posterior = convert(files, Architecture(network))
        posterior.save(out, dtype=torch.float16 if half else None)
    say(f"{len(posterior)} draws in {len(posterior.chains)} chains are in {out}")
