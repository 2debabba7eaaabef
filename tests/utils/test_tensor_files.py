from pathlib import Path
from typing import NoReturn

import pytest
import torch
from safetensors.torch import load_file

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.utils.tensor_files import load_header, load_row, load_tensors, save_rows, save_tensors


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
