from pathlib import Path

import pytest
import torch
from networks import GroupNormNet, SmallBatchNormNet
from torch import Tensor, nn
from torch.testing import assert_close

from shiftmatch.core.covariance import Covariance, SpatialKronecker
from shiftmatch.core.spectrum import ChannelMoments, Spectrum
from shiftmatch.errors import InputError
from shiftmatch.evaluation.methods import DEFAULT, METHODS, PRIOR_IMAGES, method_named, predictor
from shiftmatch.matching.average import average
from shiftmatch.matching.batchnorm import adapt_batchnorm
from shiftmatch.matching.match import fit, match
from shiftmatch.metrics import METRICS
from shiftmatch.models import Architecture, build
from shiftmatch.samplers.posterior import Posterior, params_of
from shiftmatch.utils.hashing import weights_hash

ONLY_WITH_BATCHNORM = ("batchnorm-running", "ShiftMatch + batchnorm")


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


TRAIN = images(300, 1).split(100)
TEST = 2 * images(150, 2) + 1

every_method = pytest.mark.parametrize("name", METHODS)


@every_method
def test_every_method_takes_a_network_an_ensemble_and_a_posterior(name: str) -> None:
    networks = [SmallBatchNormNet(seed) for seed in range(3)]
    draws = Posterior.of([network.state_dict() for network in networks])
    before = [weights_hash(network) for network in networks]
    apart = [predictor(METHODS[name], network, TRAIN)(TEST) for network in networks]
    together = predictor(METHODS[name], networks, TRAIN)(TEST)
    assert_close(together, torch.stack(apart).mean(0), atol=1e-5, rtol=0)
    assert_close(predictor(METHODS[name], draws.models(SmallBatchNormNet()), TRAIN)(TEST), together, atol=1e-5, rtol=0)
    assert [weights_hash(network) for network in networks] == before
    assert not any(network.training for network in networks)


@every_method
def test_networks_without_batchnorm_are_taken_or_refused_in_words(name: str) -> None:
    network = GroupNormNet().eval()
    if name in ONLY_WITH_BATCHNORM:
        with pytest.raises(InputError, match=r"GroupNormNet has no BatchNorm.*Leave it out"):
            predictor(METHODS[name], network, TRAIN)
    else:
        assert_close(predictor(METHODS[name], network, TRAIN)(TEST).sum(-1), torch.ones(len(TEST)))


@pytest.mark.parametrize("name", ["plain", DEFAULT, "Tent"])
def test_a_network_in_training_mode_is_evaluated_and_stays_in_it(name: str) -> None:
    network, resting = SmallBatchNormNet().train(), SmallBatchNormNet()
    before = weights_hash(network)
    assert_close(predictor(METHODS[name], network, TRAIN)(TEST), predictor(METHODS[name], resting, TRAIN)(TEST))
    assert network.training
    assert weights_hash(network) == before


@pytest.mark.parametrize(
    "name", [DEFAULT, "ShiftMatch: rows and columns", "CORAL", "channel moments", "ShiftMatch: input only"]
)
def test_on_the_training_images_matching_changes_nothing(name: str) -> None:
    network, x = SmallBatchNormNet(), torch.cat(list(TRAIN))
    assert_close(METHODS[name](network, TRAIN)(x), network(x), atol=1e-3, rtol=1e-3)


def test_a_posterior_that_names_its_network_is_a_member() -> None:
    lenets = [build("lenet").eval() for _ in range(2)]
    posterior = Posterior.of([params_of(net) for net in lenets], architecture=None)
    x = torch.randn(240, 1, 28, 28)
    expected = predictor(METHODS[DEFAULT], lenets, [x])(x + 1)
    found = predictor(METHODS[DEFAULT], posterior.models(build("lenet")), [x])(x + 1)
    assert_close(found, expected, atol=1e-6, rtol=0)


def test_statistics_of_members_may_be_kept_in_a_file(tmp_path: Path) -> None:
    networks = [SmallBatchNormNet(seed) for seed in range(3)]
    kept = predictor(METHODS["ShiftMatch: input only"], networks, TRAIN, path=tmp_path / "statistics")
    assert (tmp_path / "statistics").exists()
    assert_close(kept(TEST), predictor(METHODS["ShiftMatch: input only"], networks, TRAIN)(TEST), atol=1e-5, rtol=0)


def test_test_time_batchnorm_is_channel_moments_where_there_is_no_batchnorm() -> None:
    network, bare = SmallBatchNormNet(), GroupNormNet().eval()
    assert_close(METHODS["batchnorm"](network, TRAIN)(TEST), adapt_batchnorm(network)(TEST))
    assert_close(
        METHODS["batchnorm-prior"](network, TRAIN)(TEST), adapt_batchnorm(network, prior_images=PRIOR_IMAGES)(TEST)
    )
    matched = match(bare, fit(bare, TRAIN, covariance=ChannelMoments(), progress=False), prior_images=PRIOR_IMAGES)
    assert_close(METHODS["batchnorm-prior"](bare, TRAIN)(TEST), matched(TEST))


@pytest.mark.parametrize(
    ("name", "covariance"), [(DEFAULT, Spectrum()), ("ShiftMatch: rows and columns", SpatialKronecker())]
)
def test_a_method_is_what_match_does_with_its_structure(name: str, covariance: Covariance) -> None:
    network = SmallBatchNormNet()
    matched = match(network, fit(network, TRAIN, covariance=covariance, progress=False))
    assert_close(METHODS[name](network, TRAIN)(TEST), matched(TEST))
    assert not torch.allclose(matched(TEST), network(TEST), atol=1e-2)


def test_the_default_method_is_the_default_of_fit() -> None:
    network = SmallBatchNormNet()
    assert_close(method_named("ShiftMatch")(network, TRAIN)(TEST), match(network, fit(network, TRAIN))(TEST))


def test_coral_matches_the_covariance_between_channels() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).eval()
    seen: dict[str, Tensor] = {}
    network[0].register_forward_pre_hook(lambda module, args: seen.update(x=args[0]))
    mixing = torch.tensor([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.5]])
    METHODS["CORAL"](network, TRAIN)(torch.einsum("dc,bchw->bdhw", mixing, images(200, 3)) + 1)
    after, train = (x.movedim(1, 0).flatten(1) for x in (seen["x"], torch.cat(list(TRAIN))))
    assert_close(after.cov(), train.cov(), atol=2e-3, rtol=0)
    assert_close(after.mean(1), train.mean(1), atol=1e-3, rtol=0)


def test_methods_are_found_by_name() -> None:
    assert method_named(" shiftmatch ") is METHODS["ShiftMatch: spectrum"]
    assert method_named("shiftmatch: Rows and Columns") is METHODS["ShiftMatch: rows and columns"]
    with pytest.raises(InputError, match=r"no method 'shiftmatsch'; choose among plain, batchnorm"):
        method_named("shiftmatsch")


def test_the_documentation_names_every_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert all(f"| `{method.name}` | {method.about} |" in page for method in METHODS.values())
    assert all(f"| `{metric}` |" in page for metric in METRICS)


def test_the_papers_floor_at_the_input_follows_the_pixels() -> None:
    flat = TEST * torch.linspace(1e-3, 1, 8)  # columns of little variance, so that the floor matters
    network = SmallBatchNormNet()
    coarse, fine = (method_named("ShiftMatch (paper)", pixel_std=std)(network, TRAIN) for std in (0.01, 1.0))
    assert not torch.allclose(average([coarse])(flat), average([fine])(flat), atol=1e-3)


def test_statistics_in_a_file_are_measured_once_for_the_same_images_and_as_many_members(tmp_path: Path) -> None:
    networks, file = [SmallBatchNormNet(seed) for seed in range(3)], tmp_path / "statistics"
    found = predictor(METHODS[DEFAULT], networks, TRAIN, path=file)(TEST)
    before = file.stat().st_mtime_ns
    assert torch.equal(predictor(METHODS[DEFAULT], networks, TRAIN, path=file)(TEST), found)
    assert file.stat().st_mtime_ns == before
    for members, batches in ((networks[:2], TRAIN), (networks[:2], TRAIN[:2])):
        expected = predictor(METHODS[DEFAULT], members, batches)(TEST)
        assert_close(predictor(METHODS[DEFAULT], members, batches, path=file)(TEST), expected, atol=1e-5, rtol=0)
        assert file.stat().st_mtime_ns > before
        before = file.stat().st_mtime_ns


def test_a_posterior_that_knows_its_network_is_taken_as_it_is() -> None:
    architecture = Architecture("mlp", {"inputs": 3 * 8 * 8, "hidden": (4,), "classes": 5})
    draws = Posterior.of([params_of(architecture.build()) for _ in range(3)], architecture=architecture)
    for name in ("plain", DEFAULT):
        expected = predictor(METHODS[name], list(draws.models()), TRAIN)(TEST)
        assert_close(predictor(METHODS[name], draws, TRAIN)(TEST), expected, atol=1e-6, rtol=0)
