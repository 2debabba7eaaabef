import json
from pathlib import Path

from shiftmatch.utils.provenance import PACKAGES, save_result


def test_a_result_says_how_it_was_made(tmp_path: Path) -> None:
    save_result(tmp_path / "a" / "b.json", command="make it", settings={"seed": 0}, result={"accuracy": 99.5})
    record = json.loads((tmp_path / "a" / "b.json").read_text())
    assert record["result"] == {"accuracy": 99.5}
    assert record["command"] == "make it"
    assert set(record["versions"]) == set(PACKAGES)
