import torch
from hypothesis import given
from hypothesis import strategies as st
from randomness import maps, randn
from torch.testing import assert_close

from shiftmatch.core.basis import dct_matrix
from shiftmatch.core.distance import BANDS, ENERGY_FLOOR, band_masks, fingerprint, measure_fingerprint, shift
from shiftmatch.core.moments import Moments

SPREAD = torch.randn(1, 4, 1, 500, generator=torch.Generator().manual_seed(0)).double()


@given(st.floats(-5, 5), st.floats(0.1, 5))
def test_moved_and_stretched_features_are_as_far_as_the_formula_says(offset: float, scale: float) -> None:
    train, test = Moments.of(SPREAD), Moments.of(scale * (SPREAD - SPREAD.mean(-1, keepdim=True)) + offset)
    mean = (offset - train.mean).square().sum()
    spread = train.covariance.diagonal(dim1=-2, dim2=-1).sum()
    expected = ((mean + (scale - 1) ** 2 * spread) / spread).sqrt()
    assert_close(shift(test, train), float(expected), rtol=1e-5, atol=1e-5)


def test_it_is_symmetric_but_for_the_unit() -> None:
    mixed = Moments.of(torch.einsum("ij,gjkn->gikn", torch.randn(4, 4).double(), SPREAD))
    train = Moments.of(SPREAD)
    unit, other = (m.covariance.diagonal(dim1=-2, dim2=-1).sum().sqrt() for m in (train, mixed))
    assert_close(shift(mixed, train) * float(unit), shift(train, mixed) * float(other), rtol=1e-5, atol=1e-5)
    assert shift(train, train) < 1e-6


def test_constant_groups_do_no_harm() -> None:
    dead = torch.cat([SPREAD, torch.ones_like(SPREAD)])
    assert shift(Moments.of(dead), Moments.of(dead)) < 1e-6


def test_a_fingerprint_is_the_loop_over_channels_and_bands() -> None:
    x = maps(3, 2, 8, 6)
    rows, cols = dct_matrix(8), dct_matrix(6)
    for image, found in zip(x, fingerprint(x), strict=True):
        expected = []
        for channel in image:
            energy = (rows @ channel @ cols.mT).square().flatten()
            for band in range(BANDS):
                inside = [
                    e
                    for k, e in enumerate(energy)
                    if k
                    and band == sum((k // 6 / 8) ** 2 + (k % 6 / 6) ** 2 >= 2.0 ** (j - BANDS) for j in range(1, BANDS))
                ]
                mean = torch.stack(inside).mean() if inside else torch.zeros(())
                expected.append(float((mean + ENERGY_FLOOR).log()))
        assert_close(found, torch.tensor([*expected, *image.mean((1, 2)).tolist()]).double())


def test_every_frequency_but_zero_is_in_one_band() -> None:
    for space in [(32, 32), (28, 28), (5,), (3, 4, 5), (1, 1)]:
        counts = band_masks(space).sum(0)
        assert counts[0] == 0
        assert (counts[1:] == 1).all()


def test_features_without_space_are_their_own_fingerprint() -> None:
    x = maps(4, 3)
    assert torch.equal(fingerprint(x), x)
    assert measure_fingerprint(x) is None


def test_noise_raises_and_blur_lowers_the_last_band() -> None:
    clean = maps(100, 1, 16, 16)
    noisy = clean + randn(100, 1, 16, 16, seed=1)
    blurred = torch.nn.functional.avg_pool2d(clean, 3, stride=1, padding=1)
    last = [fingerprint(x)[:, BANDS - 1].mean() for x in (blurred, clean, noisy)]
    assert last == sorted(last)


def test_moments_of_fingerprints_add() -> None:
    x = maps(20, 3, 8, 8)
    first, second, whole = map(measure_fingerprint, (x[:7], x[7:], x))
    assert first is not None
    assert second is not None
    assert whole is not None
    assert_close((first + second).scatter, whole.scatter)
