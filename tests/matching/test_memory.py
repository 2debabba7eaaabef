from pathlib import Path

import pytest
import torch
from networks import InPlaceNet, SharedNet
from randomness import maps
from torch import Tensor
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.errors import InputError, StatisticsMismatchError


def test_the_first_batch_is_matched_as_match_does(net: InPlaceNet, statistics: sm.Statistics) -> None:
    x = 2 * maps(64, 3, 8, 8, seed=1) + 1
    assert_close(sm.stream(net, statistics)(x), sm.match(net, statistics)(x).detach())


def test_single_images_come_to_what_a_batch_gives(net: InPlaceNet, statistics: sm.Statistics) -> None:
    x = 2 * maps(300, 3, 8, 8, seed=1) + 1
    camera = sm.stream(net, statistics, window=300)
    single = torch.cat([camera(image[None]) for image in x])
    whole, plain = sm.match(net, statistics)(x), net(x)
    late = slice(200, None)
    assert (single[late] - whole[late]).norm() < 0.3 * (plain[late] - whole[late]).norm()
    assert camera.images == 300
    assert camera.changes == 0


def test_maps_are_made_anew_seldom_and_hardly_differ(net: InPlaceNet, statistics: sm.Statistics) -> None:
    x = 2 * maps(200, 3, 8, 8, seed=1) + 1
    seldom, always = sm.stream(net, statistics), sm.stream(net, statistics, refresh=1)
    frame = torch.empty(1, 3, 8, 8, dtype=torch.float64)
    found = torch.cat([seldom(frame.copy_(image)) for image in x])  # a camera may use one tensor for all
    wanted, plain = torch.cat([always(image[None]) for image in x]), net(x)
    assert (found - wanted).norm() < 0.1 * (plain - wanted).norm()
    bad = torch.full_like(frame, float("nan"))
    with pytest.raises(sm.errors.NonFiniteError):
        seldom(bad)
    assert seldom(x).isfinite().all()


def test_a_change_is_noticed_and_forgotten_faster(net: InPlaceNet, statistics: sm.Statistics) -> None:
    before, after = maps(200, 3, 8, 8, seed=1), 3 * maps(100, 3, 8, 8, seed=2) + 2
    camera = sm.stream(net, statistics)
    for image in [*before, *after]:
        last = camera(image[None])
    assert camera.changes == 1
    slow = sm.stream(net, statistics)
    slow._notice = lambda features: None  # type: ignore[method-assign]
    for image in [*before, *after]:
        unaware = slow(image[None])
    wanted = sm.match(net, statistics)(after)[-1:]
    assert (last - wanted).norm() < (unaware - wanted).norm()


def test_memory_is_a_file(net: InPlaceNet, statistics: sm.Statistics, tmp_path: Path) -> None:
    x = maps(40, 3, 8, 8, seed=1)
    one, other = sm.stream(net, statistics), sm.stream(net, statistics)
    for image in x:
        one(image[None])
    one.save_memory(tmp_path / "memory")
    other.load_memory(tmp_path / "memory")
    assert other.images == 40
    assert torch.equal(one(x[:1]), other(x[:1]))
    elsewhere = sm.stream(net, sm.fit(net, maps(50, 3, 8, 8), progress=False))
    with pytest.raises(StatisticsMismatchError, match="other statistics"):
        elsewhere.load_memory(tmp_path / "memory")


def test_reset_begins_anew_and_streams_do_not_share(net: InPlaceNet, statistics: sm.Statistics) -> None:
    x = maps(20, 3, 8, 8, seed=1)
    one, other = sm.stream(net, statistics), sm.stream(net, statistics)
    first = one(x[:1])
    one(5 * x)
    assert torch.equal(other(x[:1]), first)
    one.reset()
    assert torch.equal(one(x[:1]), first)


def test_modules_that_are_called_twice_have_two_memories() -> None:
    torch.manual_seed(0)
    net = SharedNet().double().eval()
    x = maps(200, 3, 8, 8)
    camera = sm.stream(net, sm.fit(net, x, progress=False))
    assert_close(camera(x), net(x).detach(), rtol=1e-6, atol=1e-6)
    assert {"conv|0", "conv#2|0"} <= camera._parts.keys()


def test_what_cannot_be_streamed_is_refused(net: InPlaceNet) -> None:
    rows = sm.fit(net, maps(100, 3, 8, 8), covariance=sm.SpatialKronecker, progress=False)
    with pytest.raises(InputError, match=r"SpatialKronecker.*Spectrum"):
        sm.stream(net, rows)
    with pytest.raises(InputError, match="window"):
        sm.stream(net, rows, window=0)


def test_nan_is_refused_and_not_remembered(net: InPlaceNet, statistics: sm.Statistics) -> None:
    camera, x = sm.stream(net, statistics), maps(4, 3, 8, 8)
    bad: Tensor = torch.full_like(x, float("nan"))
    with pytest.raises(sm.errors.NonFiniteError):
        camera(bad)
    assert camera(x).isfinite().all()


def test_images_of_another_size_are_refused_by_the_name_of_the_site(net: InPlaceNet, statistics: sm.Statistics) -> None:
    camera = sm.stream(net, statistics)
    with pytest.raises(InputError, match=r"has features of shape .*Resize the images, .*or fit again"):
        camera(maps(5, 3, 9, 9))
