"""Networks as the transformers library builds them: other people's code, without a download."""

import pytest
import torch
from randomness import maps
from torch import nn
from torch.testing import assert_close
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

import shiftmatch as sm


def vit() -> nn.Module:
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=32,
            patch_size=8,
        )
    )


def convnext() -> nn.Module:
    return ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[4, 8, 8, 8], depths=[1, 1, 2, 1]))


def resnet() -> nn.Module:
    return ResNetForImageClassification(ResNetConfig(embedding_size=4, hidden_sizes=[8, 16], depths=[1, 2]))


@pytest.mark.parametrize("build", [vit, convnext, resnet])
def test_training_images_keep_their_logits_and_others_are_moved(build: object) -> None:
    torch.manual_seed(0)
    net = build().double().eval()  # type: ignore[operator]
    train = maps(200, 3, 32, 32)
    statistics = sm.fit(net, train.split(200), progress=False)
    robust = sm.match(net, statistics, prior_images=0)
    with torch.no_grad():
        plain, matched = net(pixel_values=train).logits, robust(pixel_values=train).logits
        assert_close(matched, plain, rtol=1e-6, atol=1e-6)
        corrupted = 3 * train + 1
        repaired, spoilt = robust(corrupted).logits, net(corrupted).logits
        assert_close(repaired, plain, rtol=1e-3, atol=1e-3)
        assert not torch.allclose(spoilt, plain, rtol=1e-3, atol=1e-3)


def test_tokens_are_read_as_the_grid_of_patches_with_the_class_token_apart() -> None:
    found = {site.name: site for site in sm.sites(vit(), torch.randn(2, 3, 32, 32))}
    assert len(found) == 1 + 1 + 2 * 3  # input, patches, and per layer: attention out, MLP in, MLP out
    tokens = [site for site in found.values() if site.shape[0] == 17]
    assert tokens
    assert all(site.layout == sm.Layout(channel=2, grid=(4, 4), prefix=1) for site in tokens)
    assert not any(
        name.endswith(("query", "key", "value", "q_proj", "k_proj", "v_proj", "classifier")) for name in found
    )


def test_channels_last_maps_are_found_out() -> None:
    found = {site.name.rsplit(".", 1)[-1]: site for site in sm.sites(convnext(), torch.randn(2, 3, 32, 32))}
    assert found["pwconv1"].layout.channel == 3


def test_shortcut_projections_are_left_out() -> None:
    assert not any("shortcut" in name for name in sm.sites(resnet(), torch.randn(2, 3, 32, 32)).names)


def test_the_table_of_sites_says_how_tokens_are_read() -> None:
    shown = str(sm.sites(vit(), torch.randn(2, 3, 32, 32)))
    assert "16 channels of 4 × 4 + 1 apart" in shown
    assert "3 channels of 32 × 32" in shown
