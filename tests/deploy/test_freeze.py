"""Fixed maps: what the reference batch gets, without statistics at run time."""

import pytest
import torch
from made_matched import corrupted, images, matched, small_network
from networks import GroupNormNet, SharedNet
from torch import nn
from torch.testing import assert_close
from transformers import ViTConfig, ViTForImageClassification

import shiftmatch as sm
from shiftmatch.core import kernels
from shiftmatch.errors import InputError


@pytest.mark.parametrize("covariance", [sm.Spectrum(), sm.Spectrum(basis="dft"), sm.ChannelMoments()], ids=repr)
def test_the_reference_batch_gets_what_live_matching_gives_it(covariance: sm.Covariance) -> None:
    robust, x = matched(covariance=covariance), corrupted(50)
    frozen = sm.freeze(robust, x)
    assert_close(frozen(x), robust(x), rtol=1e-4, atol=1e-5)
    assert_close(frozen(x[:1]), robust(x)[:1], rtol=1e-4, atol=1e-5)


def test_large_maps_are_moved_axis_by_axis() -> None:
    net, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3)).eval(), torch.randn(60, 1, 16, 16)
    robust = sm.match(net, sm.fit(net, x, progress=False))
    assert_close(sm.freeze(robust, 3 * x + 1)(3 * x + 1), robust(3 * x + 1), rtol=1e-4, atol=1e-5)


def test_channel_maps_are_folded_into_batchnorm_and_convolution() -> None:
    robust = matched(covariance=sm.ChannelMoments())
    frozen = sm.freeze(robust, corrupted(50))
    assert [str(site_map.extra_repr()) for site_map in frozen.maps] == ["input"]
    assert not torch.equal(frozen.network.get_parameter("1.weight"), robust.network.get_parameter("1.weight"))


def test_freezing_leaves_the_matched_network_and_the_users_own_as_they_were() -> None:
    net, x = small_network(), corrupted(50)
    robust = sm.match(net, sm.fit(net, images(100), covariance=sm.ChannelMoments(), progress=False), prior_images=16)
    before, plain = robust(x), net(x)
    sm.freeze(robust, x)
    assert torch.equal(robust(x), before)
    assert torch.equal(net(x), plain)


def test_matrix_structures_and_batch_statistics_are_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"SpatialKronecker at site .* Fit with covariance=shiftmatch.Spectrum"):
        sm.freeze(matched(covariance=sm.SpatialKronecker()), corrupted(50))
    with pytest.raises(InputError, match="batchnorm='eval'"):
        sm.freeze(matched(batchnorm="batch"), corrupted(50))
    with pytest.raises(InputError, match="frozen for"):
        sm.freeze(matched(), corrupted(50))(torch.zeros(1, 3, 9, 9))


def test_the_map_of_a_spectrum_takes_the_place_of_the_batchnorm_before_it() -> None:
    robust, x = matched(), corrupted(50)
    frozen, expected = sm.freeze(robust, x), robust(x)
    frozen.network.get_buffer("1.running_mean").fill_(7)  # nobody asks it any more
    assert_close(frozen(x), expected, rtol=1e-4, atol=1e-5)


def test_nothing_is_folded_into_weights_that_are_computed() -> None:
    computed = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8))
    net, x = nn.Sequential(computed, nn.ReLU(), nn.Linear(8, 3)).eval(), 3 * torch.randn(60, 4) + 1
    statistics = sm.fit(net, torch.randn(60, 4), covariance=sm.ChannelMoments(), progress=False)
    robust = sm.match(net, statistics, prior_images=4)
    assert_close(sm.freeze(robust, x)(x), robust(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("covariance", [sm.Spectrum(), sm.ChannelMoments()], ids=repr)
@pytest.mark.parametrize("build", [SharedNet, GroupNormNet])
def test_layers_called_twice_and_other_normalisations_keep_their_maps_apart(
    build: type[nn.Module], covariance: sm.Covariance
) -> None:
    torch.manual_seed(0)
    net, x = build().eval(), corrupted(50)
    robust = sm.match(net, sm.fit(net, images(100), covariance=covariance, progress=False), prior_images=16)
    frozen = sm.freeze(robust, x)
    assert_close(frozen(x), robust(x), rtol=1e-4, atol=1e-5)
    assert_close(frozen(x[:1]), robust(x)[:1], rtol=1e-4, atol=1e-5)


def test_maps_keep_their_precision_where_layers_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_kernels", None)  # they have no half precision anyway
    (site_map, *_), x = sm.freeze(matched(), corrupted(50)).maps, corrupted(20)
    expected = site_map(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = site_map(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_a_batchnorm_without_weights_keeps_its_map_beside_it() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    statistics = sm.fit(net.eval(), images(100), covariance=sm.ChannelMoments(), progress=False)
    robust, x = sm.match(net, statistics, prior_images=16), corrupted(50)
    frozen = sm.freeze(robust, x)
    assert [site_map.extra_repr() for site_map in frozen.maps] == ["input", "1"]
    assert_close(frozen(x), robust(x), rtol=1e-4, atol=1e-5)


def test_tokens_are_moved_part_by_part() -> None:
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=2
    )
    net = ViTForImageClassification(config).eval()
    robust, x = sm.match(net, sm.fit(net, images(100), progress=False), prior_images=16), corrupted(50)
    frozen = sm.freeze(robust, x)
    assert any(len(list(site_map.get_submodule("parts").children())) == 2 for site_map in frozen.maps), (
        "the class token has a map of its own"
    )
    assert_close(frozen(x).logits, robust(x).logits, rtol=1e-4, atol=1e-5)
    assert_close(frozen(x[:1]).logits, robust(x).logits[:1], rtol=1e-4, atol=1e-5)
