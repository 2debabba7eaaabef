"""Arguments and options that several commands share, each with one wording."""

from pathlib import Path
from typing import Annotated

import typer

Network = Annotated[
    str,
    typer.Argument(
        help="module:function or file.py:function that returns the network; or lenet, mlp, cifar_resnet, "
        "cifar_resnet32, resnet20_frn, resnet50, which know how their images are prepared."
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        help="An image, a folder of images (flat, or one folder per class), an .npy or an .npz file of bytes or 0 to 1."
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(help="The network's weights, if the function loads none: safetensors, .pt or .pth, also checkpoints."),
]
RandomWeights = Annotated[
    bool, typer.Option("--random-weights", help="Take a named network without weights, as it is drawn at random.")
]
Draws = Annotated[
    Path | None, typer.Option("--posterior", help="A posterior file: all its draws instead of one network.")
]
Mean = Annotated[
    str | None,
    typer.Option(help="Subtracted from pixels in 0 to 1: one number, or one per channel. Default: the network's own."),
]
Std = Annotated[str | None, typer.Option(help="What is divided by after that, likewise.")]
Size = Annotated[
    int | None,
    typer.Option(min=1, help="Cut images to so many rows and columns. Default: the network's own, if it is known."),
]
Grey = Annotated[
    bool | None, typer.Option("--grey/--colour", help="Read images as one channel, or as three. Default: as for size.")
]
AllowOther = Annotated[
    bool,
    typer.Option(
        "--allow-other-preprocessing", help="Accept --mean and the like that differ from those at fitting or training."
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Images per batch, at least.")]
Device = Annotated[str, typer.Option(help="Where the network runs: cpu, cuda, cuda:1, mps.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
