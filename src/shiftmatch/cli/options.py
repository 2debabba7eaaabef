"""Arguments and options that several commands share, each with one wording."""

from pathlib import Path
from typing import Annotated

import typer

Network = Annotated[
    str, typer.Argument(help="module:function that returns the network, or lenet, mlp, cifar_resnet, resnet20_frn, …")
]
Data = Annotated[
    Path, typer.Argument(help="A folder of images (flat, or one folder per class), an .npy or an .npz file.")
]
Weights = Annotated[
    Path | None, typer.Option(help="A safetensors file with the network's state_dict, if the function loads none.")
]
Draws = Annotated[
    Path | None, typer.Option("--posterior", help="A posterior file: all its draws instead of one network.")
]
Mean = Annotated[
    str | None, typer.Option(help="Subtracted after dividing bytes by 255: one number, or one per channel, as 0.5,0.5.")
]
Std = Annotated[str | None, typer.Option(help="What is divided by after that, likewise.")]
Size = Annotated[
    int | None,
    typer.Option(min=1, help="Cut image files to so many rows and columns, after resizing the shorter side."),
]
Grey = Annotated[bool, typer.Option("--grey", help="Read image files in grey, as one channel.")]
Batch = Annotated[int, typer.Option(min=1, help="Images per batch, at least.")]
