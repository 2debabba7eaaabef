"""The reference networks of the experiments, each by the name that files use for it, and reading weights."""

from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.models.registry import Architecture, build, names
from shiftmatch.models.weights import load_weights

__all__ = ["Architecture", "Preprocessing", "build", "load_weights", "names"]
