"""Batches of every kind, in fit, sites, match and average alike."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from networks import InPlaceNet, TwoInputNet
from randomness import maps
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from transformers import BatchFeature, ViTConfig, ViTForImageClassification

import shiftmatch as sm
from shiftmatch.errors import InputError
from shiftmatch.matching.inputs import logits_of


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return InPlaceNet().eval()


@pytest.fixture
def x() -> Tensor:
    return maps(120, 3, 8, 8).float()


def test_dictionaries_as_collators_make_them() -> None:
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32)
    network, images = ViTForImageClassification(config).eval(), maps(40, 3, 32, 32).float()
    batches: list[Any] = [{"pixel_values": images, "labels": torch.zeros(40)}, BatchFeature({"pixel_values": images})]
    plain = sm.fit(network, images, progress=False)
    for batch in batches:
        assert list(sm.sites(network, batch)) == list(sm.sites(network, images))
        fitted = sm.fit(network, [batch], progress=False)
        assert_close(fitted["input"].parts[0][0].mean, plain["input"].parts[0][0].mean)
    robust = sm.match(network, plain)
    with torch.no_grad():
        assert_close(robust(pixel_values=images).logits, robust(images).logits)
        predict = sm.average([robust])
        assert_close(predict({"pixel_values": images}), robust(images).logits.softmax(-1))


def test_a_loader_of_three_tensors_is_told_how_to_pair_them() -> None:
    data = TensorDataset(torch.zeros(8, 3, 8, 8), torch.zeros(8, 6), torch.zeros(8))
    with pytest.raises(InputError, match=r"\(\(img, meta\), label\)"):
        sm.fit(TwoInputNet(), DataLoader(data, batch_size=4), progress=False)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_is_no_image_is_refused_in_words(net: nn.Module, x: Tensor) -> None:
    robust = sm.match(net, sm.fit(net, x, progress=False))
    with pytest.raises(InputError, match=r"uint8 pixels.*images / 255"):
        robust((x * 10).to(torch.uint8))
    with pytest.raises(InputError, match=r"torch\.from_numpy"):
        robust(x.numpy())
    with pytest.raises(InputError, match="uint8"):
        sm.fit(net, torch.zeros(8, 3, 8, 8, dtype=torch.uint8), progress=False)
    with pytest.raises(InputError, match="scripted or traced"):
        sm.fit(torch.jit.script(nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU())), x, progress=False)


def test_the_precision_of_the_network_is_taken(net: nn.Module, x: Tensor) -> None:
    robust = sm.match(net, sm.fit(net, x, progress=False))
    assert_close(robust(x.double()), robust(x))
    assert np.isfinite(robust(x.double()).detach().numpy()).all()


class Recurrent(nn.Module):
    """Images as sequences of rows; batch first, or steps first inside."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embed, self.lstm = nn.Linear(24, 6), nn.LSTM(6, 10, batch_first=batch_first)
        self.hidden, self.head = nn.Linear(10, 7), nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.relu(self.embed(x.permute(0, 2, 1, 3).flatten(2)))
        steps = self.lstm(steps if self.batch_first else steps.transpose(0, 1))[0]
        features = torch.relu(self.hidden(steps))
        out: Tensor = self.head(features.mean(1 if self.batch_first else 0))
        return out


@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_layers_are_read_right_or_left_out(batch_first: bool, x: Tensor) -> None:
    torch.manual_seed(0)
    found = {site.name: site for site in sm.sites(Recurrent(batch_first=batch_first), x)}
    assert found["embed"].layout.channel == 2
    if batch_first:
        assert found["hidden"].layout.channel == 2
        assert found["hidden"].shape == (8, 7)
    else:
        assert "hidden" not in found  # its first axis holds the steps


def test_a_compiled_network_is_matched_as_the_one_inside(net: nn.Module, x: Tensor) -> None:
    statistics = sm.fit(net, x, progress=False)
    compiled: Any = torch.compile(net, backend="eager")
    assert_close(sm.match(compiled, statistics, check_weights=False)(x), sm.match(net, statistics)(x))


class Shards(IterableDataset[tuple[Tensor, int]]):
    """Images that come one after the other, without a length, as from webdataset or a streamed Hugging Face set."""

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        yield from zip(self.images, range(len(self.images)), strict=True)


def test_streamed_data_without_a_length(net: nn.Module, x: Tensor) -> None:
    streamed = sm.fit(net, DataLoader(Shards(x), batch_size=50), progress=False)
    whole = sm.fit(net, x.split(50), progress=False)
    assert streamed.images == 120
    assert_close(streamed.tensors(torch.float64), whole.tensors(torch.float64))


def test_logits_are_found_in_what_networks_return() -> None:
    logits = torch.randn(2, 3)
    for output in (logits, {"logits": logits, "loss": None}, (logits, "features"), [logits]):
        assert logits_of(output) is logits
    for other in ({"scores": logits}, (), "logits", None):
        with pytest.raises(InputError, match=f"Expected logits.*got a {type(other).__name__}"):
            logits_of(other)
