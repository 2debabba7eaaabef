import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from networks import InPlaceNet
from randomness import maps
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.core.covariance import STRUCTURES, Covariance
from shiftmatch.errors import DataNotFoundError, FileFormatError, StatisticsMismatchError


@pytest.fixture
def net() -> InPlaceNet:
    torch.manual_seed(0)
    return InPlaceNet().double().eval()


@pytest.mark.parametrize("structure", STRUCTURES.values())
def test_what_is_loaded_is_what_was_saved(net: InPlaceNet, structure: type[Covariance], tmp_path: Path) -> None:
    x = maps(50, 3, 4, 5)
    statistics = sm.fit(net, x, covariance=structure(), note="pixels / 255", progress=False)
    statistics.save(tmp_path / "net.safetensors")
    loaded = sm.Statistics.load(tmp_path / "net.safetensors")
    assert str(loaded) == str(statistics)
    assert (loaded.note, loaded.inputs, loaded.weights) == (statistics.note, statistics.inputs, statistics.weights)
    for name, entry in statistics.items():
        assert loaded[name].site == entry.site
        assert loaded[name].covariance == entry.covariance
        for ours, theirs in zip(entry.parts, loaded[name].parts, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert one.count == other.count
                rounding = 1e-6 if structure is sm.Spectrum else 1e-13  # spectra are kept in single precision
                assert_close(one.mean, other.mean, rtol=rounding, atol=rounding)
                assert_close(one.scatter, other.scatter, rtol=rounding, atol=rounding)
    assert statistics.fingerprint is not None
    assert loaded.fingerprint is not None
    assert loaded.fingerprint.count == 50
    assert_close(loaded.fingerprint.scatter, statistics.fingerprint.scatter)


def test_a_structure_may_be_named_by_its_class(net: InPlaceNet) -> None:
    statistics = sm.fit(net, maps(50, 3, 4, 5), covariance=sm.Kronecker, progress=False)
    assert all(entry.covariance == sm.Kronecker() for entry in statistics.values())


def test_the_file_is_what_the_documentation_says(net: InPlaceNet, tmp_path: Path) -> None:
    sm.fit(net, maps(50, 3, 4, 5), progress=False).save(tmp_path / "net.safetensors")
    with safe_open(tmp_path / "net.safetensors", framework="pt") as file:
        header = json.loads(file.metadata()["shiftmatch"])
    assert header["kind"] == "statistics"
    assert header["format"] == 2
    assert header["sites"][0]["site"]["name"] == "input"
    assert header["sites"][0]["counts"] == [[50]]
    assert set(header["versions"]) == {"torch", "shiftmatch"}
    assert load_file(tmp_path / "net.safetensors")["input|0.0|covariance"].shape == (3 * 4 * 5, 1)


def test_merging_two_halves_is_fitting_the_whole(net: InPlaceNet) -> None:
    x = maps(60, 3, 4, 5)
    whole = sm.fit(net, x, progress=False)
    merged = sm.fit(net, x[:23], progress=False) + sm.fit(net, x[23:], progress=False)
    assert merged.images == 60
    for name, entry in whole.items():
        for ours, theirs in zip(entry.parts[0], merged[name].parts[0], strict=True):
            assert_close(ours.scatter, theirs.scatter, rtol=1e-10, atol=1e-10)
    assert whole.fingerprint is not None
    assert merged.fingerprint is not None
    assert_close(merged.fingerprint.scatter, whole.fingerprint.scatter)


def test_files_without_fingerprints_are_still_read_and_merge_to_none(net: InPlaceNet, tmp_path: Path) -> None:
    x = maps(60, 3, 4, 5)
    new = sm.fit(net, x, progress=False)
    replace(new, fingerprint=None).save(tmp_path / "old.safetensors")
    old = sm.Statistics.load(tmp_path / "old.safetensors")
    assert old.fingerprint is None
    assert (old + new).fingerprint is None


def test_statistics_of_different_settings_do_not_merge(net: InPlaceNet) -> None:
    x = maps(60, 3, 4, 5)
    with pytest.raises(StatisticsMismatchError, match="batchnorm differs: 'eval' and 'batch'"):
        sm.fit(net, x, progress=False) + sm.fit(net, x, batchnorm="batch", progress=False)


class TestBadFiles:
    @pytest.fixture
    def path(self, net: InPlaceNet, tmp_path: Path) -> Path:
        sm.fit(net, maps(50, 3, 4, 5), progress=False).save(tmp_path / "net.safetensors")
        return tmp_path / "net.safetensors"

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DataNotFoundError, match=r"nothing\.safetensors"):
            sm.Statistics.load(tmp_path / "nothing.safetensors")

    @pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.999])
    def test_truncated(self, path: Path, part: float) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)])
        with pytest.raises(FileFormatError, match="damaged"):
            sm.Statistics.load(path)

    def test_newer_format(self, path: Path) -> None:
        self._rewrite(path, format=99)
        with pytest.raises(FileFormatError, match=r"format 99.*update"):
            sm.Statistics.load(path)

    def test_another_kind(self, path: Path, tmp_path: Path) -> None:
        self._rewrite(path, kind="posterior")
        with pytest.raises(FileFormatError, match="does not hold statistics, but posterior"):
            sm.Statistics.load(path)
        save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
        with pytest.raises(FileFormatError, match="another program"):
            sm.Statistics.load(tmp_path / "other.safetensors")

    def test_a_missing_tensor_is_noticed(self, path: Path) -> None:
        tensors = load_file(path)
        del tensors["block.bn1|0.0|mean"]
        save_file(tensors, path, {"shiftmatch": json.dumps(self._header(path))})
        with pytest.raises(FileFormatError, match="damaged"):
            sm.Statistics.load(path)

    def test_a_flipped_byte_is_noticed(self, path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[-5] ^= 1
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="its numbers are not those that were written"):
            sm.Statistics.load(path)

    def test_nothing_is_half_written(self, net: InPlaceNet, path: Path) -> None:
        before = path.read_bytes()
        broken = sm.fit(net, maps(50, 3, 4, 5), note="x", progress=False)
        object.__setattr__(broken, "note", {1, 2})  # no JSON
        with pytest.raises(TypeError):
            broken.save(path)
        assert path.read_bytes() == before
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def _header(self, path: Path) -> dict[str, object]:
        with safe_open(path, framework="pt") as file:
            header: dict[str, object] = json.loads(file.metadata()["shiftmatch"])
        return header

    def _rewrite(self, path: Path, **changes: object) -> None:
        save_file(load_file(path), path, {"shiftmatch": json.dumps(self._header(path) | changes)})


def test_covariances_and_sites_that_differ_do_not_merge(net: InPlaceNet) -> None:
    x = maps(60, 3, 4, 5)
    spectrum = sm.fit(net, x, progress=False)
    with pytest.raises(StatisticsMismatchError, match="covariance differs"):
        spectrum + sm.fit(net, x, covariance=sm.ChannelMoments, progress=False)
    with pytest.raises(StatisticsMismatchError, match="same sites"):
        spectrum + sm.fit(net, x, sites=["input"], progress=False)
    assert list(spectrum + sm.fit(net, x, progress=False)) == list(spectrum)


def test_a_covariance_that_is_not_known_here_is_named(
    net: InPlaceNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sm.fit(net, maps(50, 3, 4, 5), covariance=sm.ChannelJoint, progress=False).save(tmp_path / "net")
    monkeypatch.delitem(STRUCTURES, "ChannelJoint")
    with pytest.raises(FileFormatError, match=r"'ChannelJoint', which is not known here.*register_covariance"):
        sm.Statistics.load(tmp_path / "net")


def test_statistics_are_described_as_a_table(statistics: sm.Statistics, capsys: pytest.CaptureFixture[str]) -> None:
    statistics.describe()
    head, columns, _, *rows = capsys.readouterr().out.splitlines()
    assert head == f"{len(statistics)} sites, 400 images, BatchNorm: eval"
    assert columns.split() == ["site", "covariance", "shape", "numbers"]
    assert [row.split()[0] for row in rows] == list(statistics)
    assert rows[0].split() == ["input", "Spectrum", "3", "×", "8", "×", "8", str(2 * 3 * 8 * 8)]
