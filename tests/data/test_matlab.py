from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from shiftmatch.data.matlab import parse_matlab

ARRAYS: dict[str, Any] = {
    "X": np.arange(120, dtype=np.uint8).reshape(2, 3, 4, 5),
    "y": np.array([[1], [10]], np.uint8),
    "long_name_of_doubles": np.linspace(0, 1, 7)[None],
    "s": np.array([[3]], np.int16),
    "n": np.array([[-3, 5]], np.int32),
    "f": np.array([[0.5]], np.float32),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_are_those_that_scipy_reads(compressed: bool, tmp_path: Path) -> None:
    file = tmp_path / "x.mat"
    savemat(str(file), ARRAYS, do_compression=compressed)
    expected, found = loadmat(str(file)), parse_matlab(file.read_bytes())
    assert found.keys() == ARRAYS.keys()
    for name, array in found.items():
        assert np.array_equal(array, expected[name])


@pytest.mark.parametrize("what", [{"words": "abc"}, {"z": np.array([[1j]])}, {"cell": np.array([[1], "a"], object)}])
def test_other_things_than_real_numbers_are_refused(what: dict[str, Any], tmp_path: Path) -> None:
    savemat(str(tmp_path / "x.mat"), what)
    with pytest.raises(ValueError, match="other things than arrays of real numbers"):
        parse_matlab((tmp_path / "x.mat").read_bytes())


def test_what_is_no_matlab_file_is_refused() -> None:
    with pytest.raises(ValueError, match="little-endian MATLAB 5"):
        parse_matlab(bytes(200))
