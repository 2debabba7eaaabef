from dataclasses import replace

import pytest
import torch
from networks import InPlaceNet
from randomness import maps
from torch import Tensor
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.errors import InputError

INFINITY = float("inf")


@pytest.fixture
def statistics(net: InPlaceNet) -> sm.Statistics:
    """Without moments by class: to a network that was not trained every change looks like one of classes."""
    found = sm.fit(net, maps(400, 3, 8, 8), progress=False)
    return replace(found, sites={name: replace(entry, classes=()) for name, entry in found.items()})


@pytest.fixture
def x() -> Tensor:
    return 2 * maps(50, 3, 8, 8, seed=1) + 1


def test_fixed_strengths_are_members_of_the_nested_family(
    net: InPlaceNet, statistics: sm.Statistics, x: Tensor
) -> None:
    moments = sm.fit(net, maps(400, 3, 8, 8), covariance=sm.ChannelMoments, progress=False)
    expected = {
        0: net(x),
        "moments": sm.match(net, moments, prior_images=16)(x),
        "full": sm.match(net, statistics, prior_images=(16, 300))(x),
        1: sm.match(net, statistics)(x),
        0.5: sm.match(net, statistics, prior_images=(32, 600))(x),
    }
    for strength, wanted in expected.items():
        assert_close(sm.match(net, statistics, strength=strength)(x), wanted, rtol=1e-6, atol=1e-6)  # type: ignore[call-overload]


def test_auto_is_the_mean_of_probabilities_weighted_by_confidence(
    net: InPlaceNet, statistics: sm.Statistics, x: Tensor
) -> None:
    members = [net, sm.match(net, statistics, strength="moments"), sm.match(net, statistics)]
    p = torch.stack([member(x).softmax(-1) for member in members])
    entropy = -(p * p.log()).sum(-1).mean(-1)
    weights = 4.0 ** -torch.arange(3) / (entropy + 0.02) ** 12  # what matches further has to make the network surer
    weights = weights / weights.sum()
    robust = sm.match(net, statistics, strength="auto")
    decision = robust.explain(x)
    mixed = (weights[:, None, None] * p).sum(0)
    assert_close(robust(x), (mixed.log() / decision.temperature).log_softmax(-1), rtol=1e-6, atol=1e-6)
    assert_close(torch.tensor(list(decision.weights.values()), dtype=torch.float64), weights.detach())
    assert_close(robust(x).exp().sum(-1), torch.ones(50, dtype=torch.float64))
    assert (robust(x).argmax(-1) == mixed.argmax(-1)).all()
    assert "surest" in str(decision)


def test_an_unshifted_batch_takes_one_plain_pass(
    net: InPlaceNet, statistics: sm.Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = maps(50, 3, 8, 8, seed=1)
    robust = sm.match(net, statistics, strength="auto")
    monkeypatch.setattr(sm.MatchedModel, "forward", None)  # a call of it fails
    assert_close(robust(clean), net(clean).log_softmax(-1))
    decision = robust.explain(clean)
    assert (decision.weights, decision.temperature) == ({"plain": 1.0}, 1.0)
    assert "within sampling error" in str(decision)
    with pytest.raises(TypeError):
        robust(clean + 1)


def test_one_image_is_never_called_unshifted(net: InPlaceNet, statistics: sm.Statistics) -> None:
    robust = sm.match(net, statistics, strength="auto")
    assert len(robust.explain(maps(1, 3, 8, 8, seed=1)).weights) == 3


def test_converting_it_leaves_the_network_alone(net: InPlaceNet, statistics: sm.Statistics, x: Tensor) -> None:
    robust = sm.match(net, statistics, strength="auto").float()
    assert robust(x.float()).dtype == torch.float32
    assert all(p.dtype == torch.float64 for p in net.parameters())


def test_confidence_does_not_exceed_agreement(net: InPlaceNet, statistics: sm.Statistics, x: Tensor) -> None:
    robust = sm.match(net, statistics, strength="auto")
    one, other = (sm.match(net, statistics, strength=s)(x).argmax(-1) for s in ("moments", 1))
    agreement = (one == other).double().mean()
    assert robust(x).exp().amax(-1).mean() <= max(agreement, 1 / 5) + 1e-3 or robust.explain(x).temperature == 8


def test_an_empty_batch_and_members(net: InPlaceNet, statistics: sm.Statistics, x: Tensor) -> None:
    assert sm.match(net, statistics, strength="auto")(x[:0]).shape == (0, 5)
    predict = sm.average(sm.match_members([net, net], [statistics, statistics], strength="auto"))
    assert_close(predict(x), sm.match(net, statistics, strength="auto")(x).exp().detach())


def test_what_cannot_be_decided_is_refused(net: InPlaceNet, statistics: sm.Statistics) -> None:
    rows = sm.fit(net, maps(100, 3, 8, 8), covariance=sm.SpatialKronecker, progress=False)
    with pytest.raises(InputError, match="SpatialKronecker"):
        sm.match(net, rows, strength="auto")
    for bad in ("strong", 2, -0.5):
        with pytest.raises(InputError, match="strength"):
            sm.match(net, statistics, strength=bad)  # type: ignore[arg-type]


@pytest.fixture
def mixed() -> Tensor:
    """Every third image is dim."""
    x = maps(90, 3, 8, 8, seed=1)
    x[::3] /= 6
    return x


def test_each_group_is_matched_by_itself(net: InPlaceNet, statistics: sm.Statistics, mixed: Tensor) -> None:
    robust = sm.match(net, statistics, strength="auto")
    dim = torch.arange(90) % 3 == 0
    found = robust(mixed)
    for part in (dim, ~dim):
        assert torch.equal(found[part], robust(mixed[part]))
    decision = robust.explain(mixed)
    assert [group.images for group in decision.groups] == [30, 60]
    assert sum(decision.weights.values()) == pytest.approx(1)
    assert "2 groups (30, 60), which are matched apart. Group 1: " in str(decision)


def test_inputs_by_keyword_and_other_sizes(net: InPlaceNet, statistics: sm.Statistics, mixed: Tensor) -> None:
    robust = sm.match(net, statistics, strength="auto")
    assert torch.equal(robust(x=mixed), robust(mixed))
    with pytest.warns(sm.errors.OtherSizeWarning):
        assert robust(maps(30, 3, 10, 10)).shape == (30, 5)
