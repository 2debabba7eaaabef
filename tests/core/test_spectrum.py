import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import maps, randn
from references import slow
from torch.testing import assert_close

from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum
from shiftmatch.errors import InputError

INFINITY = float("inf")
BASES = pytest.mark.parametrize("basis", ["dct", "dft"])


def transported(test: torch.Tensor, train: torch.Tensor, prior: Prior, basis: str = "dct") -> torch.Tensor:
    structure = Spectrum(basis)
    return structure.transport(test, structure.target(structure.measure(train), train.shape[2:]), prior, len(test))


@given(st.sampled_from([0.0, 3.0, 50.0, INFINITY]), st.sampled_from([0.0, 7.0, 200.0, INFINITY]))
@settings(max_examples=16)
def test_both_priors_equal_the_slow_version(moments: float, shape: float) -> None:
    train, test = maps(60, 3, 5, 4), maps(31, 3, 5, 4, seed=1, scale=2.0, shift=1.0)
    expected = slow.spectrum(test.numpy(), train.numpy(), moments, shape)
    np.testing.assert_allclose(transported(test, train, Prior(moments, shape)), expected, rtol=1e-9, atol=1e-9)


@BASES
@given(st.sampled_from([0.0, 16.0, 1000.0]))
def test_without_a_shape_it_is_channel_moments(basis: str, prior: float) -> None:
    train, test = maps(60, 3, 5, 4), maps(31, 3, 5, 4, seed=1, scale=2.0, shift=1.0)
    moments = ChannelMoments()
    expected = moments.transport(test, moments.target(moments.measure(train), ()), Prior(prior, prior), len(test))
    assert_close(transported(test, train, Prior(prior, INFINITY), basis), expected, rtol=1e-9, atol=1e-9)


@BASES
@pytest.mark.parametrize("shape", [(2, 6), (2, 4, 6), (2, 3, 4, 2)])
def test_channel_moments_follow_from_the_spectrum(basis: str, shape: tuple[int, ...]) -> None:
    x = maps(40, *shape, shift=3.0)
    ours = Spectrum(basis).channel_moments(Spectrum(basis).measure(x), shape[1:])[0]
    theirs = ChannelMoments().measure(x)[0]
    assert ours.count == theirs.count
    assert_close(ours.mean, theirs.mean)
    assert_close(ours.scatter, theirs.scatter)


@BASES
def test_merging_two_halves_is_measuring_the_whole(basis: str) -> None:
    x, structure = maps(50, 2, 4, 5), Spectrum(basis)
    merged = structure.measure(x[:13])[0] + structure.measure(x[13:])[0]
    whole = structure.measure(x)[0]
    assert_close(merged.mean, whole.mean)
    assert_close(merged.scatter, whole.scatter)


def test_a_huge_offset_costs_no_accuracy() -> None:
    x = maps(200, 2, 4, 4).float()
    assert_close(
        transported(x + 1000, x.double(), Prior(0, 0)), transported(x, x.double(), Prior(0, 0)), atol=2e-3, rtol=0
    )


def test_the_fourier_basis_undoes_every_stationary_blur() -> None:
    train, test = (_waves(4000, seed) for seed in (0, 1))
    for shift in [(0, 1), (1, 0), (1, 1), (1, -1)]:
        blurred = 0.6 * test + 0.2 * (test.roll(shift, (2, 3)) + test.roll([-s for s in shift], (2, 3)))
        found = transported(blurred, train, Prior(0, 0), "dft")
        error, before = ((x - test).norm() / test.norm() for x in (found, blurred))
        assert before > 0.2
        assert error < 0.1, (shift, error)


def _waves(images: int, seed: int) -> torch.Tensor:
    """Stationary images that wrap around, with a spectrum that falls with frequency."""
    frequencies = torch.fft.fftfreq(8)[:, None].square() + torch.fft.rfftfreq(8).square()
    z = torch.fft.rfft2(randn(images, 1, 8, 8, seed=seed), norm="ortho")
    x: torch.Tensor = torch.fft.irfft2(z / (0.1 + frequencies.sqrt()), s=(8, 8), norm="ortho")
    return x


def test_another_size_is_resampled() -> None:
    small, large = maps(2000, 2, 8, 8), maps(2000, 2, 12, 12, seed=1)
    structure = Spectrum()
    (found,) = structure.resized(structure.measure(small), (8, 8), (12, 12))
    (wanted,) = structure.measure(large)
    assert_close(found.mean.reshape(2, -1)[:, 0], wanted.mean.reshape(2, -1)[:, 0], rtol=0.05, atol=0.1)
    ratio = (found.covariance / wanted.covariance).log().abs()
    assert ratio.mean() < 0.25
    with pytest.raises(InputError, match="DCT"):
        Spectrum("dft").resized(Spectrum("dft").measure(small), (8, 8), (12, 12))


def test_an_unknown_basis_is_refused() -> None:
    with pytest.raises(InputError, match="dct, dft"):
        Spectrum("wavelets")


@pytest.mark.parametrize("space", [(70,), (5, 4), (9, 11), (2, 3, 4), (5, 6, 7)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("channels_last", [False, True])
def test_working_in_place_gives_what_the_plain_formula_gives(
    space: tuple[int, ...], dtype: torch.dtype, channels_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks are made so small that there are several, the last one shorter than the others."""
    monkeypatch.setattr("shiftmatch.core.views.CHUNK_BYTES", 5 * 3 * 8 * int(np.prod(space)))
    train, test = randn(60, 3, *space).to(dtype), 2 * randn(31, 3, *space, seed=1).to(dtype) + 1
    if channels_last:
        test = test.movedim(1, -1).contiguous().movedim(-1, 1)
    spectrum, before = Spectrum(), test.clone()
    target = {k: v.to(dtype) for k, v in spectrum.target(spectrum.measure(train), space).items()}
    found = spectrum.transport(test, target, Prior(3, 7), len(test))
    expected = spectrum.transport(test.clone().requires_grad_(), target, Prior(3, 7), len(test)).detach()
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert torch.equal(test, before)
    assert found.stride() == test.stride()
