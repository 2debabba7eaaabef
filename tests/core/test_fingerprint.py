import pytest
import torch
from randomness import maps, randn
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.core.basis import dct_matrix
from shiftmatch.core.fingerprint import (
    BANDS,
    ENERGY_FLOOR,
    band_masks,
    find_groups,
    fingerprint,
    measure_fingerprint,
)


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


@pytest.fixture
def mixed() -> Tensor:
    """Every third image is dim."""
    x = maps(90, 3, 8, 8, seed=1)
    x[::3] /= 6
    return x


def test_groups_that_look_different_are_found(mixed: Tensor) -> None:
    train = measure_fingerprint(maps(400, 3, 8, 8))
    assert train is not None
    groups = find_groups(mixed, train)
    assert [group.tolist() for group in groups] == [
        [i for i in range(90) if i % 3 == 0],
        [i for i in range(90) if i % 3 != 0],
    ]
    four = torch.cat([mixed[::3], maps(60, 3, 8, 8, seed=2), 6 * maps(60, 3, 8, 8, seed=3)])
    assert [len(group) for group in find_groups(four, train)] == [30, 60, 60]


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0])
def test_a_homogeneous_batch_is_one_group(scale: float) -> None:
    train = measure_fingerprint(maps(400, 3, 8, 8))
    assert train is not None
    for seed in range(5):
        assert [len(group) for group in find_groups(scale * maps(100, 3, 8, 8, seed=seed), train)] == [100]
    for images in (0, 1, 23):
        assert len(find_groups(maps(images, 3, 8, 8), train)) == 1


def test_images_that_are_not_finite_are_not_divided(mixed: Tensor) -> None:
    train = measure_fingerprint(maps(400, 3, 8, 8))
    assert train is not None
    mixed[5, 0, 0, 0] = float("nan")
    assert [group.tolist() for group in find_groups(mixed, train)] == [list(range(90))]
