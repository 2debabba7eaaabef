import pytest

from shiftmatch.data.catalog import CATALOG, published
from shiftmatch.errors import InputError


@pytest.mark.parametrize("name", CATALOG)
def test_every_download_has_addresses_and_a_checksum_of_the_right_length(name: str) -> None:
    for item in published(name).downloads:
        algorithm, _, digest = item.checksum.partition(":")
        assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
        assert item.urls
        assert all(url.startswith("http") and url.endswith(item.file) for url in item.urls)


def test_checksums_are_of_files_that_the_set_has() -> None:
    for entry in CATALOG.values():
        assert set(entry.checksums) <= set(entry.files)


def test_no_two_downloads_share_a_place() -> None:
    places = [(item.into, item.file) for entry in CATALOG.values() for item in entry.downloads]
    assert len(set(places)) == len(places)


def test_an_unknown_set_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'cifar11'.*mnist.*cifar10"):
        published("cifar11")
