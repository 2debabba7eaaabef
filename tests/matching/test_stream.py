"""How far a stream matches: fixed, or decided from the images before."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from networks import InPlaceNet
from randomness import maps
from torch import Tensor
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.errors import FileFormatError, InputError, StatisticsMismatchError
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

NAMES = ("plain", "channel moments", "spectrum")


@pytest.fixture
def unaware(statistics: sm.Statistics) -> sm.Statistics:
    """Without moments by class: to a network that was not trained every change looks like one of classes."""
    return replace(statistics, sites={name: replace(entry, classes=()) for name, entry in statistics.items()})


@pytest.fixture
def x() -> Tensor:
    return 2 * maps(60, 3, 8, 8, seed=1) + 1


def test_channel_moments_only(net: InPlaceNet, statistics: sm.Statistics, x: Tensor) -> None:
    assert_close(
        sm.stream(net, statistics, strength="moments")(x), sm.match(net, statistics, strength="moments")(x).detach()
    )


def test_auto_averages_three_streams_by_how_sure_they_were(net: InPlaceNet, unaware: sm.Statistics, x: Tensor) -> None:
    camera = sm.stream(net, unaware, strength="auto", refresh=1)
    alone = [net, sm.stream(net, unaware, strength="moments", refresh=1), sm.stream(net, unaware, refresh=1)]
    said: list[Tensor] = []
    for image in x.split(1):
        found, p = camera(image), torch.stack([member(image).softmax(-1) for member in alone]).detach()
        said.append(p)
        decision = camera.explain()
        assert decision is not None
        weights = torch.tensor([decision.weights[name] for name in NAMES], dtype=torch.float64)
        mixed = (weights[:, None, None] * p).sum(0)
        assert_close(found, (mixed.log() / decision.temperature).log_softmax(-1))
    assert decision is not None
    recent = torch.cat(said, 1)
    entropy = -(recent * recent.log()).sum(-1).mean(-1)
    assert_close(torch.tensor([decision.entropies[name] for name in NAMES], dtype=torch.float64), entropy)
    assert (camera.images, camera.changes, decision.images) == (60, 0, 60)


def test_decisions_are_made_seldom_and_begin_anew_after_a_change(
    net: InPlaceNet, statistics: sm.Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    camera, count = sm.stream(net, statistics, strength="auto", window=80), 0
    decided = type(camera).explain

    def counted(self: sm.AutoStreamModel) -> object:
        nonlocal count
        count += 1
        return decided(self)

    monkeypatch.setattr(type(camera), "explain", counted)
    for image in maps(200, 3, 8, 8, seed=1).split(1):
        camera(image)
    assert count < 60
    assert {len(log_p) for log_p in camera._recent.values()} == {80}
    for image in (3 * maps(40, 3, 8, 8, seed=2) + 2).split(1):
        camera(image)
    assert camera.changes == 1
    assert max(len(log_p) for log_p in camera._recent.values()) <= 40
    camera.reset()
    assert (camera.explain(), camera.images) == (None, 0)


def test_its_memory_is_a_file(net: InPlaceNet, statistics: sm.Statistics, x: Tensor, tmp_path: Path) -> None:
    one, other = (sm.stream(net, statistics, strength="auto") for _ in range(2))
    one(x)
    one.save_memory(tmp_path / "memory")
    other.load_memory(tmp_path / "memory")
    assert other.images == 60
    assert torch.equal(other(x[:1]), one(x[:1]))
    sm.stream(net, statistics, strength="auto").save_memory(tmp_path / "empty")
    other.load_memory(tmp_path / "empty")
    assert (other.images, other.explain()) == (0, None)
    assert other(x).isfinite().all()
    elsewhere = sm.stream(net, sm.fit(net, maps(50, 3, 8, 8), progress=False), strength="auto")
    with pytest.raises(StatisticsMismatchError, match="other statistics"):
        elsewhere.load_memory(tmp_path / "memory")
    with pytest.raises(FileFormatError):
        sm.stream(net, statistics).load_memory(tmp_path / "memory")


def test_a_memory_that_is_refused_changes_nothing(
    net: InPlaceNet, statistics: sm.Statistics, x: Tensor, tmp_path: Path
) -> None:
    camera = sm.stream(net, statistics, strength="auto")
    camera(x)
    camera.save_memory(tmp_path / "memory")
    tensors, header = load_tensors(tmp_path / "memory", kind="memory of a stream, auto", version=1)
    spoilt = {name: value[:0] if name.startswith("full|") else value for name, value in tensors.items()}
    header = {name: header[name] for name in ("moments", "full")}
    save_tensors(tmp_path / "spoilt", spoilt, kind="memory of a stream, auto", version=1, header=header)
    before = camera.moments._parts["input|0"].moments
    with pytest.raises(FileFormatError):
        camera.load_memory(tmp_path / "spoilt")
    assert camera.images == 60
    assert camera.moments._parts["input|0"].moments is before


def test_other_strengths_are_refused(net: InPlaceNet, statistics: sm.Statistics) -> None:
    with pytest.raises(InputError, match="'moments' or 'auto'; got 'half'"):
        sm.stream(net, statistics, strength="half")  # type: ignore[call-overload]


@pytest.mark.parametrize("strength", ["full", "moments", "auto"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_converted_stream_goes_on_with_its_memory(
    net: InPlaceNet, unaware: sm.Statistics, x: Tensor, strength: str, dtype: torch.dtype
) -> None:
    tolerance = 1e-3 if dtype == torch.float32 else 0.1
    converted, same = (sm.stream(net, unaware, strength=strength) for _ in range(2))  # type: ignore[call-overload]
    for camera in (converted, same):
        camera(x[:20])
    found, expected = converted.to(dtype)(x[20:]), same(x[20:])
    assert found.dtype == dtype
    assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    assert (converted.images, net.training, next(net.parameters()).dtype) == (60, False, torch.float64)


def test_a_memory_goes_to_a_stream_of_another_precision(
    net: InPlaceNet, statistics: sm.Statistics, x: Tensor, tmp_path: Path
) -> None:
    first, second = sm.stream(net, statistics), sm.stream(net, statistics).float()
    first(x[:20])
    first.save_memory(tmp_path / "memory")
    second.load_memory(tmp_path / "memory")
    for image in x[20:24].split(1):
        assert_close(second(image).double(), first(image), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("strength", ["full", "moments", "auto"])
def test_an_empty_batch_changes_nothing(net: InPlaceNet, unaware: sm.Statistics, x: Tensor, strength: str) -> None:
    camera, other = (sm.stream(net, unaware, strength=strength) for _ in range(2))  # type: ignore[call-overload]
    for batch in (x[:20], x[20:25]):
        assert camera(x[:0]).shape == (0, 5)
        assert torch.equal(camera(batch), other(batch))
    assert camera.images == 25


@pytest.mark.parametrize("strength", ["full", "auto"])
def test_a_stream_is_in_evaluation_mode(net: InPlaceNet, statistics: sm.Statistics, strength: str) -> None:
    camera = sm.stream(net, statistics, strength=strength)  # type: ignore[call-overload]
    assert not camera.train().training
