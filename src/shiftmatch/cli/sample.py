"""`shiftmatch sample`: draw a posterior of a network's weights."""

from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import Data, Grey, Mean, Network, Size, Std, Weights


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
    batch: Annotated[int, typer.Option(min=1, help="Others: images in a minibatch.")] = 100,
    weight_decay: Annotated[float, typer.Option(min=0, help="The prior of each weight is N(0, 1 / this).")] = 100.0,
    folder: Annotated[
        Path | None, typer.Option(help="Keep the run here; the same command goes on after a kill.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes everything random.")] = 0,
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    grey: Grey = False,
) -> None:
    """Draw a posterior, or train an ensemble, on labelled images: class folders, or an .npz with images and labels.

    Example: shiftmatch sample lenet digits/ --grey --mean 0.1307 --std 0.3081 --method sghmc --step-size 0.01
    --out digits.safetensors
    """
    import torch

    from shiftmatch.cli.loading import architecture_named, check_takes, known_preprocessing, open_network, preprocessing
    from shiftmatch.data.image_set import open_images
    from shiftmatch.samplers.inference import LOOKED_AT, Inference, verdict

    prepare = preprocessing(mean, std, size, grey=grey or None, base=known_preprocessing(network))
    images = open_images(data, prepare)
    settings = Inference(method, draws, burn_in, step_size, trajectory, steps, batch, weight_decay, seed, chains)
    start = open_network(network, weights, seed=seed)
    check_takes(start, images)
    posterior = settings.run(start, images.training_data(), folder=folder, architecture=architecture_named(network))
    posterior.save(out)
    typer.echo(f"{len(posterior)} draws are in {out}")
    typer.echo(verdict(posterior, images.inputs(torch.arange(min(LOOKED_AT, len(images)))), start))
