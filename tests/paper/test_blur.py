"""A blur, and what is left of it."""

import torch
from paper.experiments.blur import blurred, relative_error


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
