import errno
import json
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.utils.tensor_files import (
    ATTEMPTS,
    count_rows,
    load_header,
    load_row,
    load_tensors,
    save_rows,
    save_tensors,
)


def rows(count: int) -> list[dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    return [{"key": torch.randint(0, 255, (32,), dtype=torch.uint8), "x": torch.randn(3, 5)} for _ in range(count)]


def test_rows_are_stacked_as_any_safetensors_reader_sees_them(tmp_path: Path) -> None:
    written = rows(4)
    save_rows(tmp_path / "f", iter(written), count=4, header={"note": "é"}, kind="rows", version=1)
    stacked = load_file(tmp_path / "f")
    whole, header = load_tensors(tmp_path / "f", kind="rows", version=1)
    for name in ("key", "x"):
        expected = torch.stack([row[name] for row in written])
        assert torch.equal(stacked[name], expected)
        assert torch.equal(whole[name], expected)
        assert torch.equal(load_row(tmp_path / "f", 2, kind="rows", version=1)[name], expected[2])
    assert header["note"] == load_header(tmp_path / "f", kind="rows", version=1)["note"] == "é"


def test_a_wrong_number_of_rows_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="5 rows; there were 4"):
        save_rows(tmp_path / "f", rows(4), count=5, header={}, kind="rows", version=1)
    assert not list(tmp_path.iterdir())


def test_a_row_of_a_damaged_file_is_refused(tmp_path: Path) -> None:
    save_rows(tmp_path / "f", rows(4), count=4, header={}, kind="rows", version=1)
    (tmp_path / "f").write_bytes((tmp_path / "f").read_bytes()[:-8])
    with pytest.raises(FileFormatError, match="damaged"):
        load_row(tmp_path / "f", 0, kind="rows", version=1)


class OnGPU(torch.Tensor):
    """There is no GPU here: a tensor that has to come to the CPU before NumPy can see it."""

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise TypeError("can't convert a tensor on a GPU")

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor)


def test_tensors_may_be_on_another_device(tmp_path: Path) -> None:
    x = torch.randn(3).as_subclass(OnGPU)
    save_tensors(tmp_path / "f", {"x": x}, kind="tensors", version=1, header={})
    save_rows(tmp_path / "g", [{"x": x}], count=1, kind="rows", version=1, header={})
    assert torch.equal(load_tensors(tmp_path / "f", kind="tensors", version=1)[0]["x"], x.cpu())
    assert torch.equal(load_row(tmp_path / "g", 0, kind="rows", version=1)["x"], x.cpu())


def test_files_of_another_kind_or_a_newer_format_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    save_tensors(file, {"x": torch.zeros(2)}, kind="statistics", version=2, header={})
    assert torch.equal(load_tensors(file, kind="statistics", version=2)[0]["x"], torch.zeros(2))
    with pytest.raises(FileFormatError, match="does not hold a posterior, but statistics"):
        load_tensors(file, kind="a posterior", version=2)
    with pytest.raises(FileFormatError, match="has format 2 of statistics; this shiftmatch reads 1 at most: update it"):
        load_header(file, kind="statistics", version=1)
    save_file({"x": torch.zeros(2)}, file)
    with pytest.raises(FileFormatError, match="does not hold statistics, but a file of another program"):
        load_tensors(file, kind="statistics", version=2)
    with pytest.raises(DataNotFoundError, match="There is no file"):
        load_header(tmp_path / "nowhere", kind="statistics", version=2)


def test_one_changed_number_is_noticed(tmp_path: Path) -> None:
    whole, stacked = tmp_path / "whole", tmp_path / "stacked"
    save_tensors(whole, {"x": torch.arange(4.0)}, kind="k", version=1, header={})
    save_rows(stacked, [{"x": torch.arange(4.0)}] * 3, count=3, kind="k", version=1, header={})
    for file in (whole, stacked):
        file.write_bytes(file.read_bytes()[:-1] + b"\x41")  # 3.0 becomes 12.0
        with pytest.raises(FileFormatError, match="its numbers are not those that were written"):
            load_tensors(file, kind="k", version=1)
    with pytest.raises(FileFormatError, match="its numbers are not those that were written"):
        load_row(stacked, 2, kind="k", version=1)
    assert torch.equal(load_row(stacked, 1, kind="k", version=1)["x"], torch.arange(4.0)), "the others are sound"


def test_checksums_of_other_rows_than_there_are_do_not_hold(tmp_path: Path) -> None:
    header = {"kind": "k", "format": 1, "checksum": ["", ""]}
    save_file({"x": torch.zeros(3, 2)}, tmp_path / "f", {"shiftmatch": json.dumps(header)})
    with pytest.raises(FileFormatError, match="it has checksums of 2 rows"):
        load_tensors(tmp_path / "f", kind="k", version=1)


def test_rows_are_counted_only_where_all_tensors_have_as_many(tmp_path: Path) -> None:
    save_rows(tmp_path / "f", rows(4), count=4, header={}, kind="rows", version=1)
    assert count_rows(tmp_path / "f", kind="rows", version=1) == 4
    for tensors in ({"x": torch.zeros(3), "y": torch.zeros(4)}, {"x": torch.zeros(())}, {}):
        save_tensors(tmp_path / "g", tensors, kind="rows", version=1, header={})
        with pytest.raises(FileFormatError, match="have not one number of rows"):
            count_rows(tmp_path / "g", kind="rows", version=1)


def test_a_full_disk_is_an_error_of_the_system_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "I/O error: No space left on device (os error 28)"

    def refuse(*_: object) -> None:
        raise SafetensorError(said)

    monkeypatch.setattr("shiftmatch.utils.tensor_files.save_file", refuse)
    with pytest.raises(OSError, match="No space left") as caught:
        save_tensors(tmp_path / "f", {"x": torch.zeros(2)}, kind="k", version=1, header={})
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "f"))
    said = "a tensor of a strange kind"
    with pytest.raises(SafetensorError, match="strange kind"):
        save_tensors(tmp_path / "f", {"x": torch.zeros(2)}, kind="k", version=1, header={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damaged", [False, True])
def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    def write(value: float) -> None:
        save_tensors(tmp_path / "f", {"x": torch.full((2,), value)}, kind="k", version=1, header={"value": value})

    def verify(path: Path, tensors: dict[str, torch.Tensor], known: object) -> None:
        if tensors["x"][0] < 3:  # another process writes meanwhile, three times in all
            write(float(tensors["x"][0]) + 1)
            if damaged:
                raise FileFormatError("half of it is of the file before")

    write(0.0)
    monkeypatch.setattr("shiftmatch.utils.tensor_files._verify", verify)
    tensors, header = load_tensors(tmp_path / "f", kind="k", version=1)
    assert (tensors["x"].tolist(), header["value"]) == ([3.0, 3.0], 3.0)


def test_a_file_that_never_rests_is_read_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(1000))
    monkeypatch.setattr("shiftmatch.utils.tensor_files._inode_and_time", lambda path: (0, next(moments)))
    save_tensors(tmp_path / "f", {"x": torch.ones(2)}, kind="k", version=1, header={})
    assert torch.equal(load_tensors(tmp_path / "f", kind="k", version=1)[0]["x"], torch.ones(2))
    assert next(moments) == 2 * ATTEMPTS
