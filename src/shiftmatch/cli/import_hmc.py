"""`shiftmatch import-hmc`: published HMC samples as a posterior file."""

from pathlib import Path
from typing import Annotated

import typer


def import_hmc(
    files: Annotated[list[Path], typer.Argument(help="state-*.pkl or model_step_*.pt; leave out the burn-in.")],
    *,
    out: Annotated[Path, typer.Option(help="The posterior file to write.")],
    network: Annotated[str, typer.Option(help="The network of the samples: lenet, mlp or resnet20_frn.")],
    half: Annotated[bool, typer.Option(help="Store in half precision: half the size.")] = False,
) -> None:
    """Convert published HMC samples without running any code in them; rejected draws are left out."""
    import torch

    from shiftmatch.models import Architecture
    from shiftmatch.samplers.haiku import import_hmc as convert

    posterior = convert(files, Architecture(network))
    posterior.save(out, dtype=torch.float16 if half else None)
    typer.echo(f"{len(posterior)} draws in {len(posterior.chains)} chains are in {out}")
