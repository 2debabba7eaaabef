"""Distances that know their sampling error, and what they say a batch has shifted by."""

import json
from collections.abc import Callable

import pytest
import torch
from networks import InPlaceNet
from randomness import maps, randn
from released import cifar, normalised, resnet20
from shared_data import needs_data, needs_shared
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

import shiftmatch as sm
from shiftmatch.core.distance import site_shift
from shiftmatch.errors import BatchTooSmallError, InputError, StatisticsMismatchError
from shiftmatch.metrics import auroc
from shiftmatch.report import spectra

CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "noise": lambda x: x + randn(*x.shape, seed=5),
    "loss of detail": lambda x: avg_pool2d(x, 3, stride=1, padding=1),
    "contrast": lambda x: 0.4 * (x - x.mean((0, 2, 3), keepdim=True)) + x.mean((0, 2, 3), keepdim=True),
    "brightness": lambda x: x + 1.0,
    "colour": lambda x: x + torch.tensor([1.0, 0.0, -1.0]).reshape(-1, 1, 1),
}


def smooth(images: int, seed: int) -> Tensor:
    """Images that are correlated in space and differ in their contrast, as natural ones do."""
    contrast = 1 + 0.3 * randn(images, 1, 1, 1, seed=seed + 1000)
    level = 0.5 * randn(images, 3, 1, 1, seed=seed + 2000)
    return contrast * (maps(images, 3, 8, 8, seed=seed) - 1) + level


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return InPlaceNet().double().eval()


@pytest.fixture(scope="module")
def statistics(net: nn.Module) -> sm.Statistics:
    return sm.fit(net, smooth(1000, 0), progress=False)


def test_images_like_those_of_training_are_within_sampling_error(net: nn.Module, statistics: sm.Statistics) -> None:
    found = [sm.diagnose(net, statistics, smooth(64, 10 + i)) for i in range(40)]
    assert sum(one.shifted for one in found) <= 2
    scores = torch.tensor(
        [[d.score for d in (s.mean, s.variance, s.spectrum)] for f in found for s in f.sites.values()]
    )
    assert scores.mean(0).abs().max() < 0.5  # standard scores, as far as that goes
    assert ((scores.std(0) > 0.6) & (scores.std(0) < 1.4)).all()


@pytest.mark.parametrize("kind", CHANGES)
def test_what_has_shifted_is_named(net: nn.Module, statistics: sm.Statistics, kind: str) -> None:
    found = sm.diagnose(net, statistics, CHANGES[kind](smooth(100, 7)))
    assert found.kind == kind
    assert found.shifted
    assert found.advised
    assert found.sentence.startswith(f"Shifted, by {kind}: ")
    assert "input" in found.worst


def test_its_parts_are_printed_and_written(net: nn.Module, statistics: sm.Statistics) -> None:
    clean, noisy = (sm.diagnose(net, statistics, x) for x in (smooth(100, 7), CHANGES["noise"](smooth(100, 7))))
    assert str(clean).startswith("Not shifted: 100 images")
    assert "Matching is not needed." in str(clean)
    assert noisy.distance > clean.distance
    assert "*" in str(noisy)
    assert json.loads(json.dumps(noisy.to_dict()))["kind"] == "noise"
    assert sum(noisy.shares.values()) == pytest.approx(1)
    assert 0.7 < clean.image_distances.mean() < 1.3
    other = sm.diagnose(net, statistics, 4 * smooth(100, 7) + 3)
    assert auroc(-clean.image_distances, -other.image_distances) > 0.9
    assert torch.equal(clean.confidences, net(smooth(100, 7)).softmax(-1).amax(-1))
    panels = [axes for axes in spectra(noisy).axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [name for name, s in noisy.sites.items() if len(s.frequency) > 1]


def test_a_batch_of_one_class_is_not_taken_for_a_corruption() -> None:
    """The last site, which tells classes apart, has moved more than the images."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    upper = torch.cat([torch.ones(32), torch.zeros(32)]) / 32
    state = {"1.weight": torch.stack([-upper, upper]), "3.weight": 30 * torch.eye(2)}
    net.load_state_dict(state | {"1.bias": torch.zeros(2), "3.bias": torch.zeros(2)})
    x, labels = randn(600, 1, 8, 8), torch.arange(600) % 2
    x[:, :, :4] += 0.3 * (2 * labels[:, None, None, None] - 1)
    statistics = sm.fit(net, x[:400], progress=False, classes=("cat", "dog"))
    found = sm.diagnose(net, statistics, x[401::2])
    assert found.kind == "few classes"
    assert not found.advised
    assert max(found.shares, key=lambda name: found.shares[name]) == "dog"
    assert "dog" in found.sentence
    assert sm.diagnose(net, statistics, x[400:]).kind == "none"


def test_dense_layers_and_constant_features_have_distances_too() -> None:
    train, test = randn(500, 3, 1), randn(50, 3, 1, seed=1)
    moments = sm.Spectrum().measure(train[..., 0])[0]
    same, moved, scaled, dead = (
        site_shift(x[..., 0], moments, 50) for x in (test, test + 1, 3 * test, torch.ones(50, 3, 1).double())
    )
    assert same.mean.inside
    assert same.variance.inside
    assert not moved.mean.inside
    assert moved.variance.inside
    assert not scaled.variance.inside
    assert not dead.mean.inside
    assert all(found.spectrum.inside for found in (same, moved, scaled))


def test_what_cannot_be_diagnosed_is_said_in_words(net: nn.Module, statistics: sm.Statistics) -> None:
    with pytest.raises(BatchTooSmallError, match="2 images at least"):
        sm.diagnose(net, statistics, smooth(1, 0))
    with pytest.raises(InputError, match=r"covariance=shiftmatch.Spectrum\(\)"):
        sm.diagnose(net, sm.fit(net, smooth(50, 0), preset="paper", progress=False), smooth(50, 0))
    with pytest.raises(StatisticsMismatchError, match="are not those"):
        sm.diagnose(InPlaceNet().double().eval(), statistics, smooth(50, 0))
    with pytest.raises(InputError, match="uint8"):
        sm.diagnose(net, statistics, torch.zeros(4, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(sm.errors.NonFiniteError, match="At site 'input'"):
        sm.diagnose(net, statistics, smooth(4, 0) * torch.inf)


@pytest.mark.slow
@needs_shared
@needs_data("cifar-10-batches-bin")
def test_a_released_network_and_real_images() -> None:
    network = resnet20()
    statistics = sm.fit(network, normalised(cifar("train", 1000)[0]).split(500), progress=False)
    pixels = cifar("test", 200)[0]
    assert sm.diagnose(network, statistics, normalised(pixels)).kind == "none"
    noisy = (pixels + 20 * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 255)
    assert sm.diagnose(network, statistics, normalised(noisy)).kind == "noise"


def test_features_that_shift_where_images_do_not_are_something_unknown(statistics: sm.Statistics) -> None:
    torch.manual_seed(1)
    other = InPlaceNet().double().eval()
    found = sm.diagnose(other, statistics, smooth(100, 7), check_weights=False)
    assert found.shifted
    assert "the images look as usual, the network's features do not" in found.sentence
    assert "input" not in found.worst


def test_a_network_that_gives_no_logits_is_diagnosed_by_its_features_alone() -> None:
    class Described(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act = nn.Conv2d(3, 4, 3), nn.ReLU()

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"features": self.act(self.conv(x))}

    net = Described().double().eval()
    statistics = sm.fit(net, smooth(500, 0), progress=False)
    found = sm.diagnose(net, statistics, smooth(100, 7) + 1.0)
    assert (found.kind, found.shares) == ("brightness", {})
    assert not sm.diagnose(net, statistics, smooth(100, 7)).shifted


def test_a_diagnosis_is_printed_with_its_sites(
    net: nn.Module, statistics: sm.Statistics, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sm.diagnose(net, statistics, smooth(100, 7))
    found.describe()
    shown = capsys.readouterr().out
    assert found.sentence in shown
    assert all(name in shown for name in statistics)
