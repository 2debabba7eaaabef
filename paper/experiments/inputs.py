"""Clean training images as networks take them, and where the statistics that are measured on them are kept."""

from pathlib import Path

import torch
from torch import Tensor

from shiftmatch.data.images import Labelled
from shiftmatch.evaluation.suites import prepared_batches
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.utils.files import unsafe_characters
from shiftmatch.utils.sequences import LazySequence


def first_batches(source: Labelled, count: int, preprocess: Preprocessing, *, size: int) -> LazySequence[Tensor]:
    """The first `count` images, in nearly equal batches of at most `size` that are read when they are asked for.

    >>> digits = Labelled(torch.zeros(9, 1, 4, 4, dtype=torch.uint8), torch.arange(9), "digits", "made up")
    >>> [len(batch) for batch in first_batches(digits, 5, Preprocessing(), size=3)]
    [3, 2]
    """
    index = torch.arange(min(count, len(source)))
    return prepared_batches(source.images, index, preprocess, batch_size=size)


def statistics_file(folder: Path, network: str, method: str, images: int) -> Path:
    """Where the statistics of a network for a method are kept.

    >>> statistics_file(Path("runs"), "resnet20", "ShiftMatch: input only", 100).name
    'ShiftMatch_input_only-100.safetensors'
    """
    return folder / "statistics" / network / f"{unsafe_characters.sub('_', method)}-{images}.safetensors"
