"""The reference networks of the experiments, each by the name that files use for it."""

from shiftmatch.models.registry import Architecture, build, names

__all__ = ["Architecture", "build", "names"]
