import pytest

from shiftmatch.corruptions.registry import PAPER, SUITES, find, names
from shiftmatch.errors import InputError


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
