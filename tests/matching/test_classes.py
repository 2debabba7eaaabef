"""Batches of few classes: moments by class, the shares of a batch, and what is decided for it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from randomness import randn
from torch import Tensor, nn
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.errors import StatisticsMismatchError
from shiftmatch.matching.classes import ClassMoments, class_shares, extrapolated, image_moments, moment_distance
from shiftmatch.matching.observed import Observed
from shiftmatch.matching.strength import nested_family

CLASSES = 4


class Prototypes(nn.Module):
    """The class of an image is its brightest channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(CLASSES, CLASSES, 1, bias=False), nn.Linear(CLASSES, CLASSES)
        self.conv.weight.data = torch.eye(CLASSES)[:, :, None, None]
        self.head.weight.data, self.head.bias.data = 6 * torch.eye(CLASSES), torch.zeros(CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))  # type: ignore[no-any-return]


def images_of(labels: Tensor, seed: int = 0) -> Tensor:
    bright = nn.functional.one_hot(labels, CLASSES).double()
    return 2 * bright[:, :, None, None] + randn(len(labels), CLASSES, 8, 8, seed=seed)


@pytest.fixture
def net() -> Prototypes:
    return Prototypes().double().eval()


@pytest.fixture
def statistics(net: Prototypes) -> sm.Statistics:
    return sm.fit(net, images_of(torch.arange(400) % CLASSES), progress=False)


def accuracy(log_p: Tensor, labels: Tensor) -> float:
    return (log_p.argmax(-1) == labels).double().mean().item()


def test_moments_by_class_are_those_of_the_images_of_a_class() -> None:
    x, labels = images_of(torch.arange(60) % 3 % 2), torch.arange(60) % 3 % 2
    p = nn.functional.one_hot(labels, CLASSES).double()
    found = ClassMoments.of(x.mean((2, 3)), x.var((2, 3), correction=0), p)
    for k in (0, 1):
        assert_close(found.mean[k], x[labels == k].mean((0, 2, 3)))
        assert_close(found.variance[k], x[labels == k].var((0, 2, 3), correction=0))
    assert found.count.tolist() == [40, 20, 0, 0]
    mean, variance = found.mixture(found.count)
    assert_close(mean, x.mean((0, 2, 3)))
    assert_close(variance, x.var((0, 2, 3), correction=0))


@pytest.mark.parametrize("structure", [sm.Spectrum("dct"), sm.Spectrum("dft"), sm.ChannelMoments()])
def test_a_mixture_of_one_class_is_the_statistics_of_that_class(net: Prototypes, structure: sm.Spectrum) -> None:
    labels = torch.arange(400) % CLASSES
    whole = sm.fit(net, images_of(labels), covariance=structure, progress=False)
    own = sm.fit(net, images_of(labels)[labels == 2], covariance=structure, progress=False)
    moved = whole.with_class_shares(torch.eye(CLASSES)[2])
    for name in ("input", "conv"):
        targets = [structure.target(s[name].parts[0], (8, 8)) for s in (moved, own, whole)]
        prefix = "channel_" if isinstance(structure, sm.Spectrum) else ""
        for part in ("mean", "variance"):
            ours, theirs, before = (target[prefix + part] for target in targets)
            assert_close(ours, theirs, rtol=1e-3, atol=5e-3)
            assert (ours - before).abs().max() > 0.1


def test_training_shares_change_nothing(net: Prototypes, statistics: sm.Statistics) -> None:
    x = images_of(torch.arange(40) % CLASSES, seed=1)
    counts = statistics["input"].classes[0].count
    assert_close(sm.match(net, statistics.with_class_shares(counts))(x), sm.match(net, statistics)(x))


def test_shares_are_found_through_wrong_predictions() -> None:
    """The classifier is right in 80 % of the images; its mean prediction is not the shares, their likelihood is."""
    labels = (torch.arange(2000) % 10 == 0).long()  # one in ten
    heads = torch.rand(2000, generator=torch.Generator().manual_seed(0)) < 0.8
    said = torch.where(heads, labels, 1 - labels)
    log_p = torch.where(nn.functional.one_hot(said, 2).bool(), 0.8, 0.2).log()
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert log_p.exp().mean(0)[1] > 0.3
    assert class_shares(log_p, half)[1].item() == pytest.approx(0.1, abs=0.04)


def test_extrapolated_shares_are_shares() -> None:
    prior = torch.full((5,), 0.2, dtype=torch.float64)
    found = torch.tensor([0.5, 0.3, 0.1, 0.1, 0.0], dtype=torch.float64)
    assert_close(extrapolated(prior, prior, prior, 4.0), prior)
    far = extrapolated(prior, found, prior, 4.0)
    assert_close(far.sum(), torch.ones((), dtype=torch.float64))
    assert (far > 0).all()
    assert far[0] > 0.8


def test_distance_is_that_of_gaussians() -> None:
    x, train = images_of(torch.zeros(50, dtype=torch.int64)), images_of(torch.arange(400) % CLASSES, seed=1)
    (moments,) = sm.ChannelMoments().measure(train)
    test, known = (
        torch.distributions.Normal(y.mean((0, 2, 3)), y.var((0, 2, 3), correction=0).sqrt()) for y in (x, train)
    )
    expected = torch.distributions.kl_divergence(test, known)
    assert moment_distance(*image_moments(x), moments) == pytest.approx(expected.mean().item())
    assert moment_distance(*image_moments(train), moments) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("few", [(2,), (0, 3)])
def test_a_batch_of_few_classes_is_not_ruined(net: Prototypes, statistics: sm.Statistics, few: tuple[int, ...]) -> None:
    labels = torch.tensor(few).repeat(60)
    x = 0.6 * images_of(labels, seed=1) + 0.3
    robust = sm.match(net, statistics, strength="auto")
    if len(few) == 1:
        assert accuracy(sm.match(net, statistics)(x), labels) < 0.8
    assert accuracy(robust(x), labels) > 0.95
    decision = robust.explain(x)
    assert decision.few_classes
    assert sum(decision.shares[str(k)] for k in few) > 0.9
    assert "other class shares than training" in str(decision)


def test_a_batch_of_all_classes_is_answered_as_without_moments_by_class(
    net: Prototypes, statistics: sm.Statistics
) -> None:
    x = 0.6 * images_of(torch.arange(80) % CLASSES, seed=1) + 0.3
    without = replace(statistics, sites={n: replace(e, classes=()) for n, e in statistics.items()}, fingerprint=None)
    robust = sm.match(net, statistics, strength="auto")
    assert torch.equal(robust(x).argmax(-1), sm.match(net, without, strength="auto")(x).argmax(-1))
    assert not robust.explain(x).few_classes


def test_a_member_that_calls_everything_one_class_counts_for_nothing_in_a_batch_of_all_classes() -> None:
    prior = torch.full((CLASSES,), 1 / CLASSES, dtype=torch.float64)
    collapsed = torch.tensor([9.0, 0.0, 0.0, 0.0]).expand(80, CLASSES).log_softmax(-1)
    spread = (4 * torch.eye(CLASSES)).repeat(80 // CLASSES, 1).log_softmax(-1)
    unknown, known = (nested_family({"one": collapsed, "other": spread}, shares) for shares in (None, prior))
    assert unknown["one"].score > unknown["other"].score  # it is surer
    assert known["one"].score < known["other"].score - 10


def test_shares_that_bring_features_no_nearer_are_not_believed(
    net: Prototypes, statistics: sm.Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = 0.6 * images_of(torch.full((60,), 2), seed=1) + 0.3
    robust = sm.match(net, statistics, strength="auto")
    assert robust.explain(x).few_classes
    monkeypatch.setattr(Observed, "distance", property(lambda seen: 1.0))
    decision = robust.explain(x)
    assert (list(decision.weights), decision.few_classes) == (["plain", "channel moments", "spectrum"], False)
    assert decision.entropies["plain"] < 1  # which shares the batch has is not known, so they do not count


def test_threads_with_other_classes_do_not_see_each_other(net: Prototypes, statistics: sm.Statistics) -> None:
    robust = sm.match(net, statistics, strength="auto")
    batches = [images_of(torch.full((40,), k), seed=k) for k in range(CLASSES)] * 3
    with torch.no_grad():
        expected = [robust(x) for x in batches]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(torch.no_grad()(robust), batches), expected, strict=True):
            assert torch.equal(found, wanted)


def test_moments_by_class_merge_and_are_kept_in_files(
    net: Prototypes, statistics: sm.Statistics, tmp_path: Path
) -> None:
    x = images_of(torch.arange(400) % CLASSES)
    merged = sm.fit(net, x[:130], progress=False) + sm.fit(net, x[130:], progress=False)
    statistics.save(tmp_path / "net.stats")
    members = sm.fit_members([net], x, tmp_path / "members.stats")
    for other in (merged, sm.Statistics.load(tmp_path / "net.stats"), members[0]):
        for name, entry in statistics.items():
            (ours,), (theirs,) = entry.classes, other[name].classes
            for part in ("count", "mean", "variance"):
                assert_close(getattr(theirs, part), getattr(ours, part), rtol=1e-5, atol=1e-5)


class Features(Prototypes):
    """Its output is a map."""

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)  # type: ignore[no-any-return]


def test_without_classes_nothing_is_kept_by_class(net: Prototypes, statistics: sm.Statistics) -> None:
    found = sm.fit(Features().double(), images_of(torch.arange(20) % CLASSES), progress=False)
    assert found.class_shares is None
    with pytest.raises(StatisticsMismatchError, match="no moments by class"):
        found.with_class_shares(torch.ones(CLASSES))
    with pytest.raises(StatisticsMismatchError, match="of 4 classes"):
        statistics.with_class_shares(torch.ones(3))
    net.head = nn.Linear(CLASSES, 101).double()
    assert sm.fit(net, images_of(torch.arange(20) % CLASSES), progress=False).class_shares is None
