"""A blur, and what is left of it."""

import pytest
import torch
from paper.blur import (
    BLURRED,
    DFT,
    ERROR,
    KINDS,
    LEFT,
    PERIODIC,
    ROWS,
    UndoneBlur,
    blurred,
    one_over_f,
    relative_error,
    share_left,
    squared_errors,
    structures,
    undo,
)
from paper.claims import Verdict

from shiftmatch.evaluation.scores import Score, Scores


def test_the_blur_is_circular_gaussian_and_keeps_the_mean() -> None:
    point = torch.zeros(1, 1, 32, 32)
    point[..., 0, 0] = 1
    spread = blurred(point, 2.0)[0, 0]
    axis = torch.fft.fftfreq(32, 1 / 32)
    variance = (spread * axis.square()).sum()
    assert torch.isclose(spread.sum(), torch.tensor(1.0))
    assert torch.isclose(variance, torch.tensor(4.0), rtol=1e-3)


def test_the_error_is_relative_to_the_spread_of_the_truth() -> None:
    truth = torch.randn(10, 1, 4, 4, generator=torch.Generator().manual_seed(0)) + 5
    assert relative_error(truth, truth) == 0
    assert abs(relative_error(truth.mean().expand_as(truth), truth) - 1) < 1e-5


def test_a_diagonal_blur_leaves_the_other_diagonal_sharp() -> None:
    i = torch.arange(8)
    along, across = torch.cos(torch.pi * (i[:, None] + i) / 2), torch.cos(torch.pi * (i[:, None] - i) / 2)
    images = torch.stack([along, across])[:, None]
    changed = (blurred(images, 1.0, "diagonal") - images).abs().amax((1, 2, 3))
    assert changed[0] > 0.5
    assert changed[1] < 1e-5


def test_a_blur_is_called_undone_only_if_little_of_the_error_is_left() -> None:
    def verdict(left: float) -> Verdict:
        rows = [
            Score(BLURRED, PERIODIC, "blur", None, ERROR, 0.3, 0, 2000, None),
            Score(ROWS, PERIODIC, "blur", None, LEFT, left, 0, 2000, 0.005),
        ]
        (claim,) = UndoneBlur().compare(Scores(rows))
        return claim.verdict

    assert verdict(0.62) is Verdict.DIFFERS
    assert verdict(0.3) is Verdict.DIFFERS
    assert verdict(0.05) is Verdict.AGREES


def test_the_share_that_is_left_has_an_error_that_shrinks_with_the_images() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(4000, 1, 2, 2, generator=generator)
    before, after = (truth + scale * torch.randn(truth.shape, generator=generator) for scale in (2.0, 1.0))
    errors = [squared_errors(x, truth) for x in (after, before)]
    few, many = (share_left(*(error[:count] for error in errors)) for count in (100, 4000))
    assert abs(many.value - 0.5) < 3 * (many.stderr or 0)
    assert 4 < (few.stderr or 0) / (many.stderr or 1) < 10


@pytest.mark.parametrize("kind", KINDS)
def test_the_fourier_basis_undoes_blurs_in_every_direction(kind: str) -> None:
    images = one_over_f(3000, torch.Generator().manual_seed(0))
    train, sharp = images[:2000], images[2000:]
    blurry = blurred(sharp, 0.8, kind)
    assert relative_error(blurry, sharp) > 0.25
    assert relative_error(undo(structures()[DFT], train)(blurry), sharp) < 0.05


def test_mirrored_images_do_not_wrap_around() -> None:
    step = torch.zeros(1, 1, 8, 8)
    step[..., 4:] = 1
    assert blurred(step, 1.0, mirror=True)[..., 0].max() < 1e-3
    assert blurred(step, 1.0)[..., 0].max() > 0.2
