"""`shiftmatch sites`: where a network would be matched."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from shiftmatch.cli.options import AsJson, Device, Network


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
