import gzip
import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_sets import make_images, make_labels, write_cifar10, write_mnist, write_pictures
from mirror import mirror
from shared_data import DATA, SHARED, needs_data, needs_shared

from shiftmatch.data import catalog
from shiftmatch.data.catalog import Download, published
from shiftmatch.data.inventory import get, inspect, is_stored, layout_of, load, load_corrupted
from shiftmatch.data.writing import write_corrupted
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def offer(monkeypatch: pytest.MonkeyPatch, name: str, *downloads: Download, split: str | None = None) -> None:
    """For the time of a test, let the catalog offer other downloads and know no checksums of unpacked files."""
    monkeypatch.setenv("no_proxy", "*")
    entry = published(name)
    splits = {split: entry.splits[split]} if split else entry.splits
    entry = replace(entry, downloads=downloads, checksums={}, splits=splits)
    monkeypatch.setattr(catalog, "CATALOG", {**catalog.CATALOG, name: entry})


def packed_cifar(tmp_path: Path) -> bytes:
    """A little CIFAR-10 in an archive like the published one."""
    write_cifar10(tmp_path / "made")
    test = (tmp_path / "made" / "cifar-10-batches-bin" / "test_batch.bin").read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in published("cifar10").files:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(test)
            archive.addfile(member, io.BytesIO(test))
    return buffer.getvalue()


def test_a_set_is_fetched_unpacked_checked_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, root = packed_cifar(tmp_path), tmp_path / "data"
    with mirror({"cifar.tar.gz": archive}) as server:
        offer(monkeypatch, "cifar10", Download("cifar.tar.gz", md5(archive), (server.url,)))
        assert inspect("cifar10", root=root).state == "absent"
        status = get("cifar10", root=root)
        get("cifar10", root=root)
        assert len(server.asked) == 1, "a set that is there is not fetched again"
    assert (status.state, status.detail, status.source) == ("holds", "recorded at download", server.url)
    assert status.bytes == 6 * 20 * 3073
    assert len(load("cifar10", "train", root=root)) == 100
    assert not (root / "cifar.tar.gz").exists()


def test_a_file_that_changed_is_reported_and_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, root = packed_cifar(tmp_path), tmp_path / "data"
    with mirror({"cifar.tar.gz": archive}) as server:
        offer(monkeypatch, "cifar10", Download("cifar.tar.gz", md5(archive), (server.url,)))
        get("cifar10", root=root)
        victim = root / "cifar-10-batches-bin" / "data_batch_3.bin"
        content = bytearray(victim.read_bytes())
        content[1000] ^= 1
        victim.write_bytes(content)
        status = inspect("cifar10", root=root)
        assert status.state == "damaged"
        assert str(victim) in status.detail
        assert get("cifar10", root=root).state == "holds"
        victim.unlink()
        assert get("cifar10", root=root).state == "holds"


def test_an_archive_put_there_by_hand_is_verified_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed_cifar(tmp_path)
    offer(monkeypatch, "cifar10", Download("cifar.tar.gz", md5(archive), ("http://127.0.0.1:9",)))
    (tmp_path / "cifar.tar.gz").write_bytes(archive[:-1])
    with pytest.raises(FileFormatError, match=r"cifar.tar.gz.*expected md5:"):
        get("cifar10", root=tmp_path)
    (tmp_path / "cifar.tar.gz").write_bytes(archive)
    assert get("cifar10", root=tmp_path).source == "put there by hand"
    assert len(load("cifar10", root=tmp_path)) == 20


def test_a_set_of_several_downloads_goes_on_with_the_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path / "made")
    made = {file.name: file.read_bytes() for file in (tmp_path / "made" / "mnist").iterdir()}
    packed = {f"{name}.gz": gzip.compress(content) for name, content in made.items()}
    with mirror(dict(list(packed.items())[:1])) as server:
        downloads = [Download(name, md5(content), (server.url,), into="mnist") for name, content in packed.items()]
        offer(monkeypatch, "mnist", *downloads, split="test")
        with pytest.raises(DataNotFoundError):
            get("mnist", root=tmp_path)
        assert inspect("mnist", root=tmp_path).state == "incomplete"
        server.files.update(packed)
        assert get("mnist", root=tmp_path).state == "holds"
        assert [name for name, _ in server.asked].count(downloads[0].file) == 1
    assert len(load("mnist", root=tmp_path)) == 30


def test_files_without_a_known_checksum_are_called_unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path)
    offer(monkeypatch, "cifar10", split="test")
    assert inspect("cifar10", root=tmp_path).state == "unchecked"


def test_a_set_of_the_users_making_is_named_as_such_and_not_overwritten(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    write_corrupted("cifar10-c", root=tmp_path, corruptions=["contrast"])
    assert inspect("cifar10-c", root=tmp_path).source == "written by shiftmatch corrupt"
    with pytest.raises(InputError, match="Move it away"):
        get("cifar10-c", root=tmp_path)


def test_what_is_missing_comes_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=rf"{tmp_path}.*shiftmatch data get svhn.*test_32x32.mat"):
        load("svhn", root=tmp_path)
    with pytest.raises(DataNotFoundError, match=rf"no free download.*image-net.org.*{tmp_path}/imagenet"):
        get("imagenet", root=tmp_path)
    with pytest.raises(InputError, match="'valid'; it has train, test"):
        load("mnist", "valid", root=tmp_path)


@needs_shared
@needs_data("cifar-10-batches-bin")
@needs_data("mnist")
def test_the_real_pixels_are_those_that_the_published_generators_were_given() -> None:
    cifar, mnist = (load(name, root=DATA, limit=200).images[torch.arange(100)] for name in ("cifar10", "mnist"))
    with np.load(SHARED / "cifar10c_reference.npz") as reference:
        assert np.array_equal(cifar.permute(0, 2, 3, 1), reference["clean"])
    with np.load(SHARED / "mnistc_reference.npz") as reference:
        assert np.array_equal(mnist[:, 0], reference["identity"][:100])


@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param("mnist", ([5, 0, 4, 1, 9], [7, 2, 1, 0, 4]), marks=needs_data("mnist")),
        pytest.param("fashion-mnist", ([9, 0, 0, 3, 0], [9, 2, 1, 1, 6]), marks=needs_data("fashion-mnist")),
        pytest.param("cifar10", ([6, 9, 9, 4, 1], [3, 8, 8, 0, 6]), marks=needs_data("cifar-10-batches-bin")),
    ],
)
def test_the_real_sets(name: str, first: tuple[list[int], list[int]]) -> None:
    train, test = load(name, "train", root=DATA), load(name, "test", root=DATA)
    assert (train.labels[:5].tolist(), test.labels[:5].tolist()) == first
    assert len(train) == (50_000 if name == "cifar10" else 60_000)
    shape = (3, 32, 32) if name == "cifar10" else (1, 28, 28)
    assert test.images[torch.arange(3)].shape == (3, *shape)
    if name == "mnist":
        assert test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    else:
        assert test.labels.bincount().tolist() == [1000] * 10
    assert inspect(name, root=DATA).state == "holds"


def test_cifar_files_are_cut_by_severity(tmp_path: Path) -> None:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    whole = make_images(20, 32, 32, 3)
    np.save(folder / "contrast.npy", whole)
    np.save(folder / "labels.npy", np.tile(make_labels(4), 5))
    part = load_corrupted("cifar10-c", "contrast", 3, root=tmp_path)
    assert torch.equal(part.images[torch.arange(4)], torch.from_numpy(whole[8:12]).permute(0, 3, 1, 2))
    assert part.labels.tolist() == make_labels(4).tolist()
    assert is_stored("cifar10-c", "contrast", 3, root=tmp_path)
    assert not is_stored("cifar10-c", "brightness", 3, root=tmp_path)


def test_a_file_that_is_not_five_times_the_same_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CIFAR-10-C").mkdir()
    np.save(tmp_path / "CIFAR-10-C" / "contrast.npy", make_images(21, 32, 32, 3))
    np.save(tmp_path / "CIFAR-10-C" / "labels.npy", make_labels(21))
    with pytest.raises(FileFormatError, match=r"contrast.*21 images"):
        load_corrupted("cifar10-c", "contrast", 1, root=tmp_path)


def test_mnist_files_have_one_severity(tmp_path: Path) -> None:
    folder = tmp_path / "mnist_c" / "stripe"
    folder.mkdir(parents=True)
    np.save(folder / "test_images.npy", make_images(6, 28, 28, 1))
    np.save(folder / "test_labels.npy", make_labels(6).astype(np.int64))
    assert load_corrupted("mnist-c", "stripe", None, root=tmp_path).images[torch.arange(6)].shape == (6, 1, 28, 28)
    with pytest.raises(InputError, match="no severity 3"):
        load_corrupted("mnist-c", "stripe", 3, root=tmp_path)


def test_imagenet_folders_have_the_severity_in_their_path(tmp_path: Path) -> None:
    write_pictures(tmp_path / "ImageNet-C" / "contrast" / "2", size=(224, 224))
    assert len(load_corrupted("imagenet-c", "contrast", 2, root=tmp_path)) == 12
    assert is_stored("imagenet-c", "contrast", 2, root=tmp_path)
    assert not is_stored("imagenet-c", "contrast", 1, root=tmp_path)


def test_an_unknown_suite_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'cifar100-c'.*mnist-c, cifar10-c, imagenet-c"):
        layout_of("cifar100-c")
