import pickle
from pathlib import Path

import pytest
import torch
from made_sets import write_cifar10

from shiftmatch.data.job import Job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_cifar10(tmp_path, 20)
    return Job("cifar10-c", "cifar10", str(tmp_path), seed=1)


@pytest.mark.parametrize("size", [1, 7, 20, 500])
def test_pieces_cover_every_image_at_every_severity_once(job: Job, size: int) -> None:
    pieces = list(job.pieces("contrast", size))
    covered = [(piece.severity, position) for piece in pieces for position in range(piece.start, piece.stop)]
    assert covered == [(severity, position) for severity in range(1, 6) for position in range(20)]


def test_the_images_do_not_depend_on_the_pieces(job: Job) -> None:
    few, all_at_once = (torch.cat([job.images(p) for p in job.pieces("gaussian_noise", size)]) for size in (3, 20))
    assert torch.equal(few, all_at_once)


def test_a_job_sent_to_another_process_carries_no_images(job: Job) -> None:
    assert len(job.clean) == 20
    assert len(pickle.dumps(job)) < 1000


def test_the_provenance_is_free_of_folders(job: Job) -> None:
    assert job.root not in str(job.provenance())
