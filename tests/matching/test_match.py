import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import ClassVar

import numpy as np
import pytest
import torch
from networks import BranchingNet, FusedNet, GroupNormNet, InPlaceNet, RawNet, SharedNet, TwoInputNet
from randomness import maps
from references import slow
from torch import Tensor, nn
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch import models
from shiftmatch.core.covariance import STRUCTURES
from shiftmatch.core.moments import Moments
from shiftmatch.core.spectrum import Prior
from shiftmatch.core.views import Target
from shiftmatch.errors import (
    BatchTooSmallError,
    InputError,
    NonFiniteError,
    ShiftMatchError,
    SmallBatchWarning,
    StatisticsMismatchError,
)

NETWORKS = [GroupNormNet, FusedNet, InPlaceNet, SharedNet]


def train_images(images: int = 300) -> Tensor:
    return maps(images, 3, 8, 8)


def ready(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    net = build().double()
    for module in net.modules():  # running statistics and affine parts that are not those of a new layer
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.get_buffer("running_mean"))
            nn.init.uniform_(module.get_buffer("running_var"), 0.5, 2.0)
            nn.init.normal_(module.weight)
    return net.eval()


def snapshot(net: nn.Module) -> tuple[object, ...]:
    state = {name: (id(value), value.clone()) for name, value in net.state_dict(keep_vars=True).items()}
    modules = [
        (module.training, len(module._forward_hooks), len(module._forward_pre_hooks)) for module in net.modules()
    ]
    return state, modules


def assert_unchanged(net: nn.Module, before: tuple[object, ...]) -> None:
    (old, modules), (new, now) = before, snapshot(net)
    assert modules == now
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    assert old.keys() == new.keys()
    assert all(old[name][0] == new[name][0] and torch.equal(old[name][1], new[name][1]) for name in old)


@pytest.mark.parametrize("batchnorm", ["eval", "batch"])
@pytest.mark.parametrize("build", NETWORKS)
def test_matching_training_data_is_the_identity(build: Callable[[], nn.Module], batchnorm: str) -> None:
    net, x = ready(build), train_images()
    robust = sm.match(net, sm.fit(net, [x], batchnorm=batchnorm, progress=False))
    expected = net(x) if batchnorm == "eval" else sm.adapt_batchnorm(net)(x) if _has_batchnorm(net) else net(x)
    assert_close(robust(x), expected, rtol=1e-8, atol=1e-8)


def _has_batchnorm(net: nn.Module) -> bool:
    return any(isinstance(module, nn.BatchNorm2d) for module in net.modules())


@pytest.mark.parametrize("build", NETWORKS)
def test_a_change_of_scale_and_level_is_undone(build: Callable[[], nn.Module]) -> None:
    net, x = ready(build), train_images()
    robust = sm.match(net, sm.fit(net, [x], progress=False), prior_images=0)
    assert_close(robust(0.3 * x - 2), net(x), rtol=1e-6, atol=1e-6)


def test_raw_functions_are_matched() -> None:
    net, x = ready(RawNet), maps(300, 3, 2, 2)
    robust = sm.match(net, sm.fit(net, [x], progress=False))
    assert_close(robust(x), net(x), rtol=1e-8, atol=1e-8)
    assert len(robust.statistics) == 3


def test_several_inputs_and_a_dataclass() -> None:
    net, x, facts = ready(TwoInputNet), train_images(), maps(300, 6)
    statistics = sm.fit(net, [((x, facts), torch.zeros(300))], progress=False)
    robust = sm.match(net, statistics, prior_images=0)
    assert_close(
        robust(3 * x, facts=facts + 1, scale=2.0).logits, net(x, facts, scale=2.0).logits, rtol=1e-6, atol=1e-6
    )


def test_a_net_that_branches_on_data() -> None:
    net, bright = ready(BranchingNet), train_images() + 5
    robust = sm.match(net, sm.fit(net, [bright], progress=False))
    assert_close(robust(bright), net(bright), rtol=1e-8, atol=1e-8)
    assert robust(-bright).isfinite().all()  # matched to bright images, so it takes the bright way
    inner = sm.match(net, sm.fit(net, [bright], sites=["stem", "bright"], progress=False))
    assert inner(-bright).isfinite().all()  # the dark way has no statistics, and is left alone


def test_fitting_does_not_depend_on_the_batches() -> None:
    net, x = ready(InPlaceNet), train_images(200)
    forms: list[object] = [x, [x], list(x.split(7)), [(part, None) for part in x.split(50)], iter(x.split(33))]
    fitted = [sm.fit(net, form, progress=False) for form in forms]  # type: ignore[arg-type]
    for other in fitted[1:]:
        assert other.images == 200
        for name, entry in fitted[0].items():
            for ours, theirs in zip(entry.parts[0], other[name].parts[0], strict=True):
                assert_close(ours.mean, theirs.mean, rtol=1e-10, atol=1e-10)
                assert_close(ours.covariance, theirs.covariance, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("batchnorm", ["eval", "batch"])
def test_the_model_comes_back_unchanged(batchnorm: str) -> None:
    net, x = ready(InPlaceNet), train_images()
    net.block.train()  # type: ignore[union-attr]
    net.register_forward_hook(lambda *args: None)
    before = snapshot(net)
    robust = sm.match(net, sm.fit(net, [x], batchnorm=batchnorm, progress=False))
    assert_unchanged(net, before)
    robust(x)
    assert_unchanged(net, before)


@pytest.mark.parametrize("batchnorm", ["eval", "batch"])
def test_the_model_comes_back_unchanged_after_an_error(batchnorm: str) -> None:
    net, x = ready(InPlaceNet), train_images()
    robust = sm.match(net, sm.fit(net, [x], batchnorm=batchnorm, progress=False))
    before = snapshot(net)
    for bad in (torch.full_like(x, float("nan")), x * 1e300):
        with pytest.raises(NonFiniteError):
            robust(bad)
        assert_unchanged(net, before)

    def broken() -> Iterator[Tensor]:
        yield x
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        sm.fit(net, broken(), batchnorm=batchnorm, progress=False)
    assert_unchanged(net, before)


def test_the_paper_preset_is_the_authors_arithmetic_from_end_to_end() -> None:
    """One convolution with BatchNorm: matched input, batch statistics, matched pre-activation, in NumPy alone."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))
    net = net.double().eval()
    train, test = maps(120, 2, 6, 6).abs() / 8, maps(90, 2, 6, 6, seed=1, scale=2.0).abs() / 8
    robust = sm.match(net, sm.fit(net, [train], preset="paper", progress=False), prior_images=0)
    kernel = net[0].weight.detach().numpy()  # type: ignore[operator]
    x = slow.authors_matching(test.numpy(), train.numpy(), jitter=0.0, floor=1e-3)
    features, before = (slow.batch_normalised(slow.convolved(images, kernel)) for images in (x, train.numpy()))
    matched = np.maximum(slow.authors_matching(features, before, jitter=1e-3, floor=1e-8), 0)
    expected = net[4](torch.from_numpy(matched).flatten(1))
    with pytest.warns(SmallBatchWarning):
        assert_close(robust(test), expected, rtol=1e-9, atol=1e-9)


def test_prior_pulls_a_small_batch_toward_leaving_features_alone() -> None:
    net, x = ready(InPlaceNet), train_images()
    statistics = sm.fit(net, [x], progress=False)
    few = maps(8, 3, 8, 8, seed=5)
    priors = (1, 10, 100, 1e9, float("inf"))
    distances = [(sm.match(net, statistics, prior_images=n)(few) - net(few)).norm().item() for n in priors]
    assert distances == sorted(distances, reverse=True)
    assert distances[-2] < 1e-6
    assert distances[-1] < 1e-12
    assert_close(sm.match(net, statistics, prior_images=32)(x), net(x), rtol=1e-8, atol=1e-8)


def test_no_images_at_all() -> None:
    net, x = ready(InPlaceNet), train_images()
    for batchnorm in ("eval", "batch"):
        robust = sm.match(net, sm.fit(net, [x], batchnorm=batchnorm, progress=False))
        assert robust(x[:0]).shape == (0, 5)


def test_small_batches_are_warned_about() -> None:
    net, x = ready(InPlaceNet), train_images()
    statistics = sm.fit(net, [x], progress=False)
    with pytest.warns(SmallBatchWarning, match="prior_images=32"):
        sm.match(net, statistics, prior_images=0)(x[:20])
    sm.match(net, statistics)(x[:20])  # the default has a prior
    lenet = sm.fit(models.build("lenet"), torch.randn(64, 1, 28, 28), covariance=sm.SpatialKronecker, progress=False)
    assert lenet.images_wanted == 240


class TestBadInput:
    def test_empty_loader(self) -> None:
        with pytest.raises(BatchTooSmallError, match="empty"):
            sm.fit(ready(InPlaceNet), [], progress=False)
        with pytest.raises(BatchTooSmallError, match="empty"):
            sm.fit(ready(InPlaceNet), [train_images()[:0]], progress=False)

    def test_empty_batches_are_left_out(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        found = sm.fit(net, [x[:0], x, x[:0]], progress=False)
        assert found.images == len(x)
        assert torch.equal(found["input"].parts[0][0].mean, sm.fit(net, [x], progress=False)["input"].parts[0][0].mean)

    def test_one_image(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        with pytest.raises(BatchTooSmallError, match="at least 2"):
            sm.fit(net, x[:1], progress=False)
        robust = sm.match(net, sm.fit(net, x, progress=False))
        with pytest.raises(BatchTooSmallError, match="prior_images=32"):
            sm.match(net, robust.statistics, prior_images=0)(x[:1])
        assert robust(x[:1]).isfinite().all()

    def test_nan_names_the_site(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        robust = sm.match(net, sm.fit(net, x, progress=False))
        spoilt = x.clone()
        spoilt[3, 0, 0, 0] = float("nan")
        with pytest.raises(NonFiniteError, match="'input'"):
            robust(spoilt)
        with pytest.raises(NonFiniteError, match="'input'"):
            sm.fit(net, spoilt, progress=False)
        with torch.no_grad():
            net.block.conv2.weight[0, 0, 0, 0] = float("inf")  # type: ignore[union-attr, operator]
        with pytest.raises(NonFiniteError, match=r"'block\.bn2'"):
            sm.fit(net, x, progress=False)

    @pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8)])
    def test_other_shapes_than_fitted(self, shape: tuple[int, ...]) -> None:
        net = ready(InPlaceNet)
        robust = sm.match(net, sm.fit(net, train_images(), progress=False))
        with pytest.raises(InputError, match="3 × 8 × 8.*" + " × ".join(map(str, shape))):
            robust(torch.zeros(200, *shape, dtype=torch.float64))

    def test_the_network_cannot_run_on_them(self) -> None:
        with pytest.raises(InputError, match=r"InPlaceNet does not run on inputs of shape \(1, 8, 8\)"):
            sm.fit(ready(InPlaceNet), maps(20, 1, 8, 8), progress=False)

    def test_images_of_several_sizes(self) -> None:
        with pytest.raises(InputError, match="one size"):
            sm.fit(ready(InPlaceNet), [train_images(), maps(10, 3, 9, 9)], progress=False)

    def test_statistics_of_another_model(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        statistics = sm.fit(net, x, progress=False)
        with pytest.raises(StatisticsMismatchError, match=r"block\.bn1|no module 'block"):
            sm.match(ready(GroupNormNet), statistics)
        other = copy.deepcopy(net)
        with torch.no_grad():
            other.head.bias += 1  # type: ignore[union-attr, operator]
        with pytest.raises(StatisticsMismatchError, match="weights"):
            sm.match(other, statistics)
        sm.match(other, statistics, check_weights=False)

    @pytest.mark.parametrize("batch", [{"image": "a"}, ["a", "b"], 3, []])
    def test_batches_of_something_else(self, batch: object) -> None:
        with pytest.raises(InputError, match="A batch is a tensor"):
            sm.fit(ready(InPlaceNet), [batch], progress=False)

    def test_unknown_words(self) -> None:
        net, x = ready(InPlaceNet), train_images(10)
        with pytest.raises(InputError, match="default, paper"):
            sm.fit(net, x, preset="fast", progress=False)
        with pytest.raises(InputError, match="'eval'"):
            sm.fit(net, x, batchnorm="train", progress=False)
        statistics = sm.fit(net, x, progress=False)
        unchecked = inspect.unwrap(sm.match)  # tests check types first
        for bad in (-1, "a", (1, 2, 3), float("nan")):
            with pytest.raises(InputError, match="prior_images"):
                unchecked(net, statistics, prior_images=bad)
        with pytest.raises(InputError, match=r"Statistics\.load\('net\.stats'\)"):
            unchecked(net, "net.stats")

    def test_every_error_is_ours(self) -> None:
        assert issubclass(InputError, ShiftMatchError)
        assert issubclass(InputError, ValueError)


class TestAnOrdinaryModule:
    def test_state_dict_and_modes(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        robust = sm.match(net, sm.fit(net, x, progress=False))
        weights = {name for name in robust.state_dict() if name.startswith("network.")}
        assert weights == {f"network.{name}" for name in net.state_dict()}
        assert "sites.0.parts.0.mean" in robust.state_dict()
        robust.load_state_dict(robust.state_dict())
        assert not robust.train().network.training
        assert "3 sites, prior_images=default" in repr(robust)

    def test_it_runs_in_evaluation_mode_whatever_its_flag(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        robust = sm.match(net, sm.fit(net, x, progress=False))
        expected = robust(x)
        before = net.block.bn1.running_mean.clone()  # type: ignore[union-attr, operator]
        assert_close(robust.train()(x), expected)
        assert torch.equal(net.block.bn1.running_mean, before)  # type: ignore[union-attr, arg-type]

    def test_precision_follows_the_model(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        robust = sm.match(net, sm.fit(net, x, progress=False))
        exact = robust(x)
        single = robust.float()(x.float())
        assert single.dtype == torch.float32
        assert_close(single.double(), exact, rtol=1e-3, atol=1e-3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_close(robust(x.float()).double(), exact, rtol=0.1, atol=0.1)
        assert_close(robust.bfloat16()(x.bfloat16()).double(), exact, rtol=0.1, atol=0.1)

    def test_deepcopy_is_independent(self) -> None:
        net, x = ready(InPlaceNet), train_images()
        robust = sm.match(net, sm.fit(net, x, progress=False))
        twin, expected = copy.deepcopy(robust), robust(x)
        with torch.no_grad():
            net.head.weight.zero_()  # type: ignore[union-attr, operator]
        assert_close(twin(x), expected)

    def test_pickling_to_another_process(self, tmp_path: Path) -> None:
        net, x = models.build("lenet"), torch.randn(300, 1, 28, 28)
        robust = sm.match(net, sm.fit(net, x, progress=False))
        (tmp_path / "robust.pkl").write_bytes(pickle.dumps((robust, x)))
        code = (
            "import pickle, sys, torch\n"
            "robust, x = pickle.load(open(sys.argv[1], 'rb'))\n"
            "torch.save(robust(x).detach(), sys.argv[2])\n"
        )
        paths = [str(tmp_path / "robust.pkl"), str(tmp_path / "out.pt")]
        subprocess.run([sys.executable, "-c", code, *paths], check=True, env={"PYTHONPATH": _source()})
        assert_close(torch.load(tmp_path / "out.pt"), robust(x), rtol=1e-4, atol=1e-4)


def _source() -> str:
    return str(Path(sm.__file__).parents[1])


def test_test_time_batchnorm_equals_train_mode_and_goes_back() -> None:
    net, x = ready(InPlaceNet), train_images()
    before = snapshot(net)
    adapted = sm.adapt_batchnorm(net)(x)
    assert_unchanged(net, before)
    assert_close(sm.adapt_batchnorm(net, prior_images=1e12)(x), net(x), rtol=1e-6, atol=1e-6)
    assert_close(adapted, copy.deepcopy(net).train()(x))
    assert_close(sm.adapt_batchnorm(ready(FusedNet))(x), copy.deepcopy(ready(FusedNet)).train()(x))


def test_test_time_batchnorm_needs_batchnorm() -> None:
    with pytest.raises(InputError, match="ChannelMoments"):
        sm.adapt_batchnorm(GroupNormNet())


def test_the_batch_itself_is_not_written_over() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    images = maps(120, 3, 8, 8).float()
    robust, test = sm.match(network, sm.fit(network, images, progress=False)), 2 * images
    with torch.no_grad():
        robust(test)
    assert torch.equal(test, 2 * images)


def test_another_image_size_is_matched_by_a_resampled_spectrum() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).double()
    statistics = sm.fit(net, maps(2000, 3, 8, 8), progress=False)
    larger = maps(2000, 3, 12, 12, seed=1)
    with pytest.warns(sm.errors.OtherSizeWarning, match="3 × 8 × 8 and get 3 × 12 × 12"):
        moved = sm.match(net, statistics, prior_images=0)(2 * larger + 1)
    assert (moved - net(larger)).norm() < 0.3 * (net(2 * larger + 1) - net(larger)).norm()
    rows = sm.fit(net, maps(200, 3, 8, 8), covariance=sm.SpatialKronecker, progress=False)
    with pytest.warns(sm.errors.OtherSizeWarning), pytest.raises(InputError, match="Resize the images"):
        sm.match(net, rows, prior_images=1)(larger)


def test_spectra_in_the_fourier_basis_keep_their_imaginary_parts() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2)).eval()
    x = torch.randn(100, 1, 8, 8) + torch.arange(8.0)
    robust = sm.match(net, sm.fit(net, x, covariance=sm.Spectrum(basis="dft"), progress=False), prior_images=0)
    assert_close(robust(x), net(x), rtol=1e-3, atol=1e-3)


@dataclass(frozen=True)
class Stretched:
    """A structure of a user's own, with settings of its own, that counts how often targets are made."""

    factor: float = 1.0
    prior: ClassVar[Prior] = Prior(32.0, 32.0)
    inner: ClassVar[sm.ChannelMoments] = sm.ChannelMoments()
    targets: ClassVar[list[float]] = []

    def measure(self, x: Tensor) -> tuple[Moments, ...]:
        return self.inner.measure(x)

    def target(self, train: Sequence[Moments], space: Sequence[int]) -> dict[str, Tensor]:
        self.targets.append(self.factor)
        return self.inner.target(train, space)

    def transport(self, x: Tensor, target: Target, prior: Prior, images: int | torch.SymInt) -> Tensor:
        return self.factor * self.inner.transport(x, target, prior, images)


def test_a_structure_of_ones_own_keeps_its_settings_everywhere_and_its_targets_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x = ready(InPlaceNet), train_images(60)
    monkeypatch.setitem(STRUCTURES, "Stretched", Stretched)
    sm.fit(net, x, covariance=Stretched(factor=3.0), progress=False).save(tmp_path / "stats")
    statistics = sm.Statistics.load(tmp_path / "stats")
    assert {entry.covariance for entry in statistics.values()} == {Stretched(factor=3.0)}
    robust, hashes = sm.match(net, statistics), list[object]()
    made = len(Stretched.targets)
    assert Stretched.targets == [3.0] * made
    monkeypatch.setattr("shiftmatch.matching.matched.weight_hashes", hashes.append)
    for _ in range(3):
        robust(x)
    assert (len(Stretched.targets), hashes) == (made, [])


def test_names_are_what_they_are_called() -> None:
    assert {"corrupt", "evaluate", "export", "report", "suites"} <= set(dir(sm))
    assert set(sm.__all__) <= set(dir(sm))
    assert isinstance(sm.sites, FunctionType)
    assert find_spec("shiftmatch.sites") is None


def test_names_and_structures_that_there_are_not_are_refused() -> None:
    net, x = GroupNormNet(), torch.randn(20, 3, 8, 8)
    with pytest.raises(InputError, match="no preset 'papper'; choose one of default, paper, or pass a Preset"):
        sm.fit(net, x, preset="papper", progress=False)
    with pytest.raises(InputError, match=r"covariance is a structure such as shiftmatch\.Spectrum\(\); got"):
        sm.fit(net, x, covariance=int, progress=False)


def test_strength_is_decided_by_one_process_only() -> None:
    net, x = GroupNormNet(), torch.randn(20, 3, 8, 8)
    with pytest.raises(InputError, match="use 'full' across processes"):
        sm.match(net, sm.fit(net, x, progress=False), strength="auto", across_processes=True)  # type: ignore[call-overload]
