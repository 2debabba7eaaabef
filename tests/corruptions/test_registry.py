from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from shiftmatch.corruptions.registry import PAPER, SUITES, corrupt, find, names
from shiftmatch.errors import InputError

ALL = [(suite, name) for suite in SUITES for name in names(suite)]
SEVERITY = {suite: None if suite == "mnist-c" else 5 for suite in SUITES}
CHANGING = {"spatter", "saturate", "elastic_transform", "glass_blur", "snow", "fog", "frost"}
"""These change their character from level to level or dim the image too, so their distance from it need not grow."""
GROWING = [(suite, name) for suite, name in ALL if SUITES[suite].corruptions[name].levels and name not in CHANGING]


def pictures(count: int, channels: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Smooth shapes with some texture, so that every corruption has something to change."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, channels, 5, 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    texture = torch.rand(count, channels, height, width, generator=generator)
    return ((0.85 * smooth + 0.15 * texture) * 255).to(torch.uint8)


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_neither_batch_nor_order_matters(suite: str, name: str) -> None:
    images = pictures(100, 1 if suite == "mnist-c" else 3, 32, 28)
    whole = corrupt(images, name, severity=SEVERITY[suite], suite=suite, seed=3)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    shuffled = corrupt(images[order], name, severity=SEVERITY[suite], suite=suite, seed=3)
    alone = torch.cat(
        [corrupt(images[i : i + 1], name, severity=SEVERITY[suite], suite=suite, seed=3) for i in range(4)]
    )
    assert torch.equal(shuffled, whole[order])
    assert torch.equal(alone, whole[:4])


@pytest.mark.parametrize("name", ["gaussian_noise", "glass_blur", "snow", "frost", "elastic_transform", "spatter"])
def test_an_image_is_the_same_alone_and_among_a_thousand(name: str) -> None:
    images = pictures(1000, 3, 32, 32)
    whole = corrupt(images, name, severity=3)
    for index in (0, 500, 999):
        assert torch.equal(corrupt(images[index : index + 1], name, severity=3)[0], whole[index])


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_the_seed_matters_where_there_is_randomness(suite: str, name: str) -> None:
    images = pictures(4, 1, 28, 28)
    first, second = (corrupt(images, name, severity=SEVERITY[suite], suite=suite, seed=seed) for seed in (0, 1))
    assert torch.equal(first, second) != SUITES[suite].corruptions[name].random


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL), st.integers(28, 256), st.integers(28, 256), st.sampled_from([1, 3]), st.integers(1, 5))
def test_any_size_and_number_of_channels_is_taken(
    which: tuple[str, str], height: int, width: int, channels: int, severity: int
) -> None:
    suite, name = which
    level = severity if SUITES[suite].corruptions[name].levels else None
    images = pictures(2, channels, height, width)
    before = images.clone()
    once, twice = (corrupt(images, name, severity=level, suite=suite) for _ in range(2))
    assert once.dtype == torch.uint8
    assert once.shape == images.shape
    assert torch.equal(once, twice)
    assert torch.equal(images, before)


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_extreme_images_are_taken(suite: str, name: str) -> None:
    for level in (0, 255):
        flat = torch.full((1, 3, 28, 40), level, dtype=torch.uint8)
        assert corrupt(flat, name, severity=SEVERITY[suite], suite=suite).shape == flat.shape


@pytest.mark.parametrize(("suite", "name"), GROWING)
def test_a_higher_severity_is_farther_from_the_image(suite: str, name: str) -> None:
    images = pictures(12, 3, 64, 64)
    gaps = [
        (corrupt(images, name, severity=s, suite=suite).float() - images.float()).square().mean() for s in (1, 3, 5)
    ]
    assert gaps[0] < gaps[1] < gaps[2]


def test_without_a_severity_mnist_c_has_its_published_strength() -> None:
    images = pictures(3, 1, 28, 28)
    assert torch.equal(
        corrupt(images, "rotate", suite="mnist-c"), corrupt(images, "rotate", severity=2, suite="mnist-c")
    )


def test_numpy_integers_and_paths_as_text_are_what_they_mean(tmp_path: Path) -> None:
    images = torch.full((2, 3, 32, 32), 100, dtype=torch.uint8)
    options: Any = {"severity": np.int64(3), "seed": np.int64(0), "frost": str(tmp_path)}
    assert torch.equal(corrupt(images, "frost", **options), corrupt(images, "frost", severity=3, frost=tmp_path))


def test_an_empty_batch_stays_empty() -> None:
    empty = torch.zeros(0, 3, 32, 32, dtype=torch.uint8)
    assert corrupt(empty, "fog", severity=1).shape == empty.shape


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(1, 3, 32, 32), r"0 to 255, got torch.float32.*\(images \* 255\).round\(\).to\(torch.uint8\)"),
        (np.zeros((1, 32, 32, 3)), r"0 to 255, got float64.*\(images \* 255\).round\(\).astype\(np.uint8\)"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.long), "got torch.int64"),
        (torch.zeros(3, 32, 32, dtype=torch.uint8), r"1 or 3 channels, got \(3, 32, 32\).*images\[None\]"),
        (
            np.zeros((3, 32, 32), np.uint8),
            r"got \(3, 32, 32\).*grey images \(batch, rows, columns\), images\[:, None\]",
        ),
        (np.zeros((32, 32), np.uint8), r"images\[None, None\]"),
        (torch.zeros(1, 32, 32, 3, dtype=torch.uint8), "permute"),
        (np.zeros((1, 32, 32, 4), np.uint8), "with 1 or 3 channels"),
        (torch.zeros(1, 3, 8, 32, dtype=torch.uint8), "at least 16 rows and columns"),
        ([[0, 1]], r"got list. .*np.asarray\(picture\)\[None\]"),
        (Image.new("RGB", (32, 32)), "got Image"),
    ],
)
def test_wrong_images_are_refused_with_what_is_allowed(images: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        corrupt(images, "fog", severity=1)


@pytest.mark.parametrize("name", ["fog", "jpeg_compression"])
@pytest.mark.parametrize("channels", [1, 3])
def test_numpy_arrays_come_back_as_they_came(name: str, channels: int) -> None:
    images = pictures(3, channels, 32, 28)
    expected = corrupt(images, name, severity=3)
    first, last = images.numpy(), images.permute(0, 2, 3, 1).contiguous().numpy()
    last.flags.writeable = False
    assert np.array_equal(corrupt(first, name, severity=3), expected.numpy())
    assert np.array_equal(corrupt(last, name, severity=3), expected.permute(0, 2, 3, 1).numpy())
    assert corrupt(last[:0], name, severity=3).shape == (0, 32, 28, channels)


def test_the_suites_have_their_corruptions() -> None:
    assert {suite: len(names(suite)) for suite in SUITES} == {"cifar10-c": 19, "imagenet-c": 19, "mnist-c": 15}
    assert len(PAPER) == 16
    assert set(PAPER) <= set(names("imagenet-c"))


def test_randomness_is_known() -> None:
    fixed = {name for name, corruption in SUITES["cifar10-c"].corruptions.items() if not corruption.random}
    assert fixed == {
        "defocus_blur",
        "zoom_blur",
        "brightness",
        "contrast",
        "pixelate",
        "jpeg_compression",
        "gaussian_blur",
        "saturate",
    }


@pytest.mark.parametrize(
    ("suite", "name", "severity", "allowed"),
    [
        ("cifar", "fog", 1, "cifar10-c, imagenet-c, mnist-c"),
        ("cifar10-c", "fogg", 1, "gaussian_noise, shot_noise"),
        ("mnist-c", "frost", 1, "canny_edges"),
        ("cifar10-c", "fog", 6, "1 to 5"),
        ("cifar10-c", "fog", 0, "1 to 5"),
        ("cifar10-c", "fog", None, "severity=1 to severity=5"),
        ("mnist-c", "stripe", 2, "Leave severity out"),
    ],
)
def test_errors_list_what_is_allowed(suite: str, name: str, severity: int | None, allowed: str) -> None:
    with pytest.raises(InputError, match=allowed):
        find(suite, name, severity)
