import hashlib
import random
from pathlib import Path

import pytest
from mirror import mirror

from shiftmatch.data.download import CHUNK, download
from shiftmatch.errors import DataNotFoundError

CONTENT = random.Random(0).randbytes(3 * CHUNK + 17)
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
REFUSED = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_a_file_arrives_with_the_bytes_it_was_sent(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}) as server:
        assert download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM) == f"{server.url}/set.bin"
    assert (tmp_path / "set.bin").read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [tmp_path / "set.bin"]


def test_a_broken_transfer_goes_on_where_it_broke(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}, cuts=(CHUNK + 5, 100)) as server:
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert [wanted for _, wanted in server.asked] == [None, f"bytes={CHUNK + 5}-", f"bytes={CHUNK + 105}-"]
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_a_later_call_goes_on_with_what_an_earlier_one_got(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}, cuts=(10, 10, 10)) as server:
        with pytest.raises(DataNotFoundError, match="too early"):
            download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert not (tmp_path / "set.bin").exists()
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert server.asked[-1] == ("set.bin", "bytes=30-")
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_a_mirror_that_cannot_resume_sends_everything_again(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}, cuts=(1000,), ranges=False) as server:
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("left_behind", [CONTENT, CONTENT + b"more", b"of another file", b""])
def test_whatever_an_earlier_call_left_behind_the_result_is_right(tmp_path: Path, left_behind: bytes) -> None:
    (tmp_path / "set.bin.part").write_bytes(left_behind)
    with mirror({"set.bin": CONTENT}) as server:
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_wrong_bytes_at_the_last_attempt_are_refused_too(tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"of another file")
    with mirror({"set.bin": CONTENT}, cuts=(5, 5)) as server:
        with pytest.raises(DataNotFoundError, match="expected sha256:"):
            download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_wrong_bytes_are_refused_and_not_kept(tmp_path: Path) -> None:
    with mirror({"set.bin": b"something else"}) as server:
        with pytest.raises(DataNotFoundError, match=f"expected {CHECKSUM}, found sha256:"):
            download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_next_mirror_is_tried_when_one_is_gone_lacks_the_file_or_has_other_bytes(tmp_path: Path) -> None:
    with mirror({}) as empty, mirror({"set.bin": b"?"}) as wrong, mirror({"set.bin": CONTENT}) as good:
        urls = [f"{server}/set.bin" for server in (REFUSED, empty.url, wrong.url, good.url)]
        assert download(urls, tmp_path / "set.bin", checksum=CHECKSUM) == urls[-1]
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_without_network_the_message_says_where_to_put_the_file(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "set.bin"
    with pytest.raises(DataNotFoundError) as caught:
        download([f"{REFUSED}/set.bin"], target, checksum=CHECKSUM)
    for part in (f"{REFUSED}/set.bin", "refused", f"put it at {target}", CHECKSUM):
        assert part in str(caught.value)
