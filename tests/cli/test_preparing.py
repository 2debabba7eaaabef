from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import shiftmatch as sm
from shiftmatch.cli.preparing import (
    check_moments,
    check_preparation,
    check_runs,
    check_variance,
    count_classes,
    fitting,
    preparation,
)
from shiftmatch.data.image_set import open_images
from shiftmatch.data.images import Labelled
from shiftmatch.errors import InputError, StatisticsMismatchError
from shiftmatch.models import Preprocessing

COLOUR = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))


def statistics(**known: Any) -> sm.Statistics:
    return sm.fit(COLOUR, torch.randn(60, 3, 8, 8), preprocessing=known)


def test_options_go_before_statistics_and_statistics_before_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    known = Preprocessing((0.4,), (0.2,), size=20)
    stats = statistics(**known.as_dict())
    assert preparation("lenet", COLOUR) == sm.models.Architecture("lenet").preprocessing
    assert preparation("lenet", COLOUR, stats) == known
    assert not capsys.readouterr().err
    assert preparation("lenet", COLOUR, stats, mean="0.5", grey=True) == Preprocessing((0.5,), (0.2,), 20, grey=True)
    assert "fitted on images prepared with mean=0.4; these are prepared with mean=0.5" in capsys.readouterr().err
    with pytest.raises(StatisticsMismatchError, match=r"grey=False; .* grey=True\. .*--allow-other-preprocessing"):
        preparation("lenet", COLOUR, stats, grey=True, allow_other=False)
    with pytest.raises(StatisticsMismatchError, match=r"lenet says that .* std=0\.3081; these .* std=0\.5"):
        preparation("lenet", COLOUR, std="0.5", allow_other=False)
    assert preparation("mine:net", COLOUR, size=8) == Preprocessing(size=8)


def test_a_users_network_may_say_how_its_images_are_prepared() -> None:
    network: Any = nn.Identity()
    network.pretrained_cfg = {
        "mean": (0.5, 0.5, 0.5),
        "std": (0.1, 0.1, 0.1),
        "input_size": (3, 288, 288),
        "crop_pct": 0.9,
    }
    assert preparation("mine:net", network) == Preprocessing((0.5,) * 3, (0.1,) * 3, size=288, resize=320)
    network.preprocessing = Preprocessing(size=9)
    assert preparation("mine:net", network).size == 9


@pytest.mark.parametrize("text", ["half", "0.5;0.5", ""])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="one number"):
        preparation("lenet", COLOUR, mean=text)


def test_grey_arrays_enter_a_colour_network_with_three_channels(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((20, 8, 8)))
    images, some = fitting(COLOUR, open_images(tmp_path / "x.npy", Preprocessing()))
    assert some.shape == (16, 3, 8, 8)
    assert images.inputs(torch.arange(2)).shape == (2, 3, 8, 8)
    assert "three equal channels" in images.notes[0]


def test_a_network_for_other_images_is_told() -> None:
    with pytest.raises(InputError, match="does not take images of shape 1 × 8 × 8"):
        check_runs(COLOUR, torch.zeros(2, 1, 8, 8))


def test_a_network_that_does_not_classify_is_refused_in_words() -> None:
    assert count_classes(nn.Flatten(), torch.zeros(2, 3, 1, 1)) == 3
    with pytest.raises(InputError, match=r"shape \(2, 3, 8, 8\) for 2 images; expected \(2, K\)"):
        count_classes(nn.Identity(), torch.zeros(2, 3, 8, 8))


def test_preprocessing_that_does_not_fit_batchnorm_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=None))
    network(x := torch.randn(64, 3, 8, 8))
    network.eval()
    check_variance(network, x)
    assert not capsys.readouterr().err
    check_variance(network, x / 4)
    assert "Check --mean and --std" in capsys.readouterr().err.replace("\n", " ")


def test_inputs_far_from_those_at_fitting_are_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    stats = statistics(input_mean=[0.0] * 3, input_std=[1.0] * 3, mean=[0.5])
    x = torch.randn(16, 3, 8, 8)
    check_moments(stats, x)
    check_moments(statistics(mean=[0.5]), x)
    assert not capsys.readouterr().err
    for far in (x + 3, x / 5, x * 100):
        check_moments(stats, far)
        assert "at fitting they had 0.00, 0.00, 0.00 ± 1.00, 1.00, 1.00" in capsys.readouterr().err


def test_wrong_preprocessing_is_noticed_without_batchnorm_by_what_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    images = torch.cat([torch.randint(0, 120, (40, 1, 4, 4)), torch.randint(110, 256, (40, 1, 4, 4))]).byte()
    order = torch.randperm(80)
    clean = Labelled(images[order], (order >= 40).long(), "dark and light", "made up")
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    network[1].weight.data, network[1].bias.data = torch.tensor([[-1.0], [1.0]]).expand(2, 16), torch.zeros(2)
    for fine in (Preprocessing((0.5,), (0.5,)), Preprocessing((0.5,), (0.2,))):
        check_preparation(network, clean, fine)
    assert not capsys.readouterr().err
    check_preparation(network, clean, Preprocessing())
    said = capsys.readouterr().err
    assert "with mean 0.00 and std 1.00" in said
    assert "with --mean 0.5 --std 0.5 it would be 100%" in said
