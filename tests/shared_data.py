"""Where the tests find real data, and how they are skipped, visibly, where it is absent."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("SHIFTMATCH_SHARED", Path(__file__).parents[2] / "shared")) / "data"
DATA = Path(os.environ.get("SHIFTMATCH_DATA", Path.home() / ".cache" / "shiftmatch"))

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the reference data (shared/data) is not beside the project"
)


def needs_data(name: str) -> pytest.MarkDecorator:
    """Skip unless the published data set `name` (a folder of the data folder) has been fetched."""
    return pytest.mark.skipif(not (DATA / name).is_dir(), reason=f"{name} is not in {DATA}")
