"""Results as files that say how they were made."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike
from typing import Any

from shiftmatch.utils.files import atomic_path

PACKAGES = ("shiftmatch", "torch", "numpy", "scipy", "pillow")


def versions() -> dict[str, str]:
    """The versions of what determines results.

    >>> list(versions())
    ['shiftmatch', 'torch', 'numpy', 'scipy', 'pillow']
    """
    return {package: version(package) for package in PACKAGES}


def save_result(path: str | PathLike[str], *, command: str, settings: Mapping[str, Any], result: Any) -> None:
    """Write a result as JSON with the command, the settings and the versions behind it."""
    record = {
        "command": command,
        "settings": dict(settings),
        "versions": versions(),
        "result": result,
    }
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")
