import colorsys

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.corruptions.digital import contrast, elastic_transform, jpeg_compression, pixelate, saturate
from shiftmatch.corruptions.noise import Generators

LEVELS = torch.randint(0, 256, (2, 3, 28, 33), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
X = LEVELS / 255
RNG = Generators.of(LEVELS, "digital")


def test_contrast_keeps_the_mean_and_scales_the_rest() -> None:
    flat = contrast(X, 0.25)
    assert_close(flat.mean((2, 3)), X.mean((2, 3)))
    assert_close(flat.std((2, 3)), 0.25 * X.std((2, 3)))


def test_pixelating_to_half_averages_squares_of_four() -> None:
    even = X[..., :32]
    squares = torch.nn.functional.avg_pool2d(even, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert_close(pixelate(even, 0.5), squares, rtol=0, atol=1.01 / 255)


def test_jpeg_of_high_quality_is_nearly_the_image_and_of_low_quality_is_not() -> None:
    smooth = torch.linspace(0, 1, 32).expand(1, 3, 32, 32)
    assert (jpeg_compression(smooth, 95) - smooth).abs().mean() < 0.01
    assert (jpeg_compression(X, 5) - X).abs().mean() > 0.05


def test_elastic_transform_without_strength_or_jitter_is_the_identity() -> None:
    assert_close(elastic_transform(X, RNG, 0, 0, 0), X)


def test_elastic_transform_without_jitter_moves_pixels_no_further_than_its_strength() -> None:
    ramp = torch.arange(33.0).expand(2, 1, 28, 33) / 33
    moved = elastic_transform(ramp, RNG, 2.0, 1.0, 0)
    assert 0 < (moved - ramp).abs().max() <= 2 / 33


def test_taking_the_saturation_away_leaves_grey() -> None:
    grey = saturate(X, 0, 0)
    assert_close(grey, X.amax(1, keepdim=True).expand_as(X))


@pytest.mark.parametrize(
    "x", [X[:1], torch.full((1, 3, 1, 1), 0.5), torch.zeros(1, 3, 1, 1)], ids=["colours", "grey", "black"]
)
def test_saturate_changes_the_saturation_of_hsv(x: Tensor) -> None:
    hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in x.flatten(2)[0].T.tolist()]
    stronger = [colorsys.hsv_to_rgb(h, min(2 * s + 0.1, 1), v) for h, s, v in hsv]
    assert_close(saturate(x, 2, 0.1).flatten(2)[0].T, torch.tensor(stronger))


def test_saturating_a_grey_image_dims_it_as_red_is_darker_than_grey() -> None:
    grey = X[:, :1]
    assert_close(saturate(grey, 2, 0.1), grey * (0.299 + 0.9 * (0.587 + 0.114)))
