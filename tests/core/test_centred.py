import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from randomness import maps
from torch.testing import assert_close

from shiftmatch.core import pieces
from shiftmatch.core.centred import Centred
from shiftmatch.core.covariance import STRUCTURES, Covariance, View
from shiftmatch.core.moments import Moments
from shiftmatch.core.pieces import Rooms

ALL = [pytest.param(structure(), id=name) for name, structure in STRUCTURES.items()]


@pytest.fixture(autouse=True)
def several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4 * 3 * 4 * 5 * 8)


def _moments(batch: Centred, view: View) -> Moments:
    (moments,) = batch.summary.moments([view])
    return moments


@given(
    name=st.sampled_from(list(STRUCTURES)),
    images=st.integers(1, 13),
    offset=st.sampled_from([0.0, 1e-6, 3.0, 1e6]),
    seed=st.integers(0, 1000),
)
def test_moments_are_those_of_all_samples_at_once(name: str, images: int, offset: float, seed: int) -> None:
    x = maps(images, 3, 4, 5, seed=seed) + offset
    for view in STRUCTURES[name]().views(4):
        ours, obvious = _moments(Centred.of(x, Rooms(), [view]), view), Moments.of(view.open(x))
        assert ours.count == obvious.count
        assert_close(ours.mean, obvious.mean)
        assert_close(ours.scatter, obvious.scatter, rtol=1e-7, atol=1e-7 + 1e-10 * offset)


def test_images_that_differ_in_brightness_lose_no_digits_where_the_first_piece_is_unlike_the_rest() -> None:
    x = maps(40, 3, 4, 5).float()
    x[4:] += 1000
    for view in STRUCTURES["SpatialKronecker"]().views(4):
        ours, obvious = _moments(Centred.of(x, Rooms(), [view]), view), Moments.of(view.open(x.double()))
        assert_close(ours.scatter, obvious.scatter, rtol=1e-5, atol=0)


@pytest.mark.parametrize("structure", ALL)
def test_a_map_moves_features_and_their_moments(structure: Covariance) -> None:
    for view in structure.views(4):
        x = maps(11, 3, 4, 5, seed=3)
        samples = view.open(x)
        scale = maps(*samples.shape[:2], samples.shape[1], seed=4)
        offset = maps(*samples.shape[:3], seed=5)
        expected = view.close((scale @ samples.flatten(-2)).unflatten(-1, samples.shape[-2:]) + offset[..., None], x)
        moved = Centred.of(x, Rooms()).moved(view, scale, offset, [view])
        assert_close(moved.features(), expected)
        assert_close(_moments(moved, view).scatter, Moments.of(view.open(expected)).scatter)


@pytest.mark.parametrize("structure", ALL)
def test_memory_that_was_used_before_gives_the_same(structure: Covariance) -> None:
    rooms = Rooms()
    for seed, images in enumerate((11, 11, 4, 13)):
        x = maps(images, 3, 4, 5, seed=seed)
        batch, fresh = Centred.of(x, rooms), Centred.of(x, Rooms())
        for view in structure.views(4):
            groups, side, columns, _ = view.open(x).shape
            how = maps(groups, side, side, seed=7), maps(groups, side, columns, seed=8)
            batch, fresh = batch.moved(view, *how), fresh.moved(view, *how)
        out = torch.empty_like(x)
        batch.write(out)
        assert_close(out, fresh.features(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("structure", ALL)
def test_summaries_of_two_batches_are_that_of_both(structure: Covariance) -> None:
    x, views = maps(15, 3, 4, 5), structure.views(4)
    both = Centred.of(x[:6], Rooms(), views).summary + Centred.of(x[6:], Rooms(), views).summary
    for ours, view in zip(both.moments(views), views, strict=True):
        obvious = Moments.of(view.open(x))
        assert ours.count == obvious.count
        assert_close(ours.mean, obvious.mean)
        assert_close(ours.scatter, obvious.scatter)
