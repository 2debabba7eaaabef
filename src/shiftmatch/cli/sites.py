"""`shiftmatch sites`: where a network would be matched."""

from typing import Annotated

import typer

from shiftmatch.cli.options import Network


def sites(
    network: Network,
    shape: Annotated[str, typer.Argument(help="Of one input, such as 3x224x224.")],
    *,
    everywhere: Annotated[bool, typer.Option("--all", help="The output of every module, to choose from.")] = False,
) -> None:
    """List the places of a network where features would be matched.

    Example: shiftmatch sites lenet 1x28x28
    """
    from shiftmatch.cli.loading import example_of, open_network
    from shiftmatch.matching.selection import sites as find

    found = find(open_network(network), example_of(shape), at="module" if everywhere else "pre-activation")
    found.describe()
