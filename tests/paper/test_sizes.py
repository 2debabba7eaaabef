"""Batches of all sizes, and streams that change."""

from pathlib import Path

import torch
from paper.sizes import BatchSizes

from shiftmatch.data.images import Labelled
from shiftmatch.evaluation.suites import Suite


def test_a_stream_that_changes_is_of_the_same_images_in_the_same_folder(tmp_path: Path) -> None:
    clean = Labelled(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.arange(4), "zeros", "made up")
    suite = Suite("cifar10-c", clean, ("brightness", "contrast"), (5,), seed=3, root=tmp_path)
    changing = BatchSizes(period=2).changing(suite)
    assert (changing.root, changing.seed, changing.period) == (tmp_path, 3, 2)
    bright, dull = (suite.images(name, 5) for name in ("brightness", "contrast"))
    assert torch.equal(changing.images("brightness", 5), torch.cat([bright[:2], dull[2:]]))
