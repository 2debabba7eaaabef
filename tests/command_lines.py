"""The commands that there are, and the options of each, without running any."""

from collections.abc import Sequence
from typing import Any

import typer

from shiftmatch.cli import app


def command_at(words: Sequence[str], root: Any = None) -> Any:
    """The command of that name, such as ["data", "get"]; the whole without a name."""
    command: Any = root or typer.main.get_command(app)
    for word in words:
        assert word in command.commands, f"there is no command {word}"
        command = command.commands[word]
    return command


def leaves(command: Any, name: str = "") -> list[str]:
    """The names of all commands that do something, such as "fit" and "data get"."""
    below = getattr(command, "commands", {})
    return [leaf for word in below for leaf in leaves(below[word], f"{name} {word}".strip())] or [name]


LEAVES = leaves(typer.main.get_command(app))


def options_of(words: list[str]) -> tuple[list[str], set[str]]:
    """What is behind the command that these words name, and the options that it has."""
    depth = 0
    while hasattr(command_at(words[:depth]), "commands") and depth < len(words) and words[depth][0] not in "-C":
        depth += 1
    names = {name for option in command_at(words[:depth]).params for name in (*option.opts, *option.secondary_opts)}
    return words[depth:], names | {"--help", "--quiet", "--version"}
