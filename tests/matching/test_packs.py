"""Saved networks and packs of statistics come back bit for bit; other preprocessing is refused by name."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from made_matched import corrupted, images, small_network

import shiftmatch as sm
from shiftmatch.errors import DataNotFoundError, ShiftMatchError, StatisticsMismatchError
from shiftmatch.matching import packs
from shiftmatch.matching.packs import check_protocol

STRUCTURES = [sm.Spectrum(), sm.Spectrum(basis="dft"), sm.ChannelMoments(), sm.SpatialKronecker()]


@pytest.mark.parametrize("covariance", STRUCTURES, ids=lambda structure: str(structure)[:20])
def test_a_matched_network_is_loaded_bit_for_bit(covariance: sm.Covariance, tmp_path: Path) -> None:
    net, x = small_network(), corrupted(150)
    statistics = sm.fit(net, images(100), covariance=covariance, preprocessing={"std": [0.5]}, progress=False)
    robust = sm.match(net, statistics, prior_images=12)
    robust.save(tmp_path / "net.matched")
    same = sm.load(tmp_path / "net.matched", net)
    assert torch.equal(same(x), robust(x))
    assert same.statistics.preprocessing == {"std": [0.5]}


def test_a_pack_is_read_bit_for_bit_and_its_card_says_what_it_is(tmp_path: Path) -> None:
    net, x = small_network(), corrupted(40)
    statistics = sm.fit(net, images(100), classes=["cat", "dog"], preprocessing={"mean": [0.5]}, progress=False)
    gain = {"data": "CIFAR-10-C", "metric": "accuracy", "plain": 70, "matched": 80, "gain": 10, "interval": "9 to 11"}
    statistics.save_pretrained(tmp_path, data="random numbers", gains=[gain])
    read = sm.Statistics.from_pretrained(tmp_path)
    assert torch.equal(sm.match(net, read)(x), sm.match(net, statistics)(x))
    card = (tmp_path / "README.md").read_text()
    for expected in ("random numbers", "images: 100", "cat, dog", "mean: [0.5]", "9 to 11", statistics.weights_hash):
        assert expected in card


READ = """
import torch, shiftmatch as sm
from made_matched import corrupted, small_network
net, x = small_network(), corrupted(150)
packed = sm.match(net, sm.Statistics.from_pretrained(folder), prior_images=12)
torch.save([sm.load(f"{folder}/net.matched", net)(x).detach(), packed(x).detach()], f"{folder}/found.pt")
"""


def test_another_process_gets_the_same_bits(tmp_path: Path) -> None:
    net, x = small_network(), corrupted(150)
    statistics = sm.fit(net, images(100), progress=False)
    robust = sm.match(net, statistics, prior_images=12)
    robust.save(tmp_path / "net.matched")
    statistics.save_pretrained(tmp_path, data="random numbers")
    settings = f"import sys; sys.path[:0] = {[str(Path(__file__).parents[1]), *sys.path]!r}; folder = {str(tmp_path)!r}"
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    subprocess.run([sys.executable, "-c", settings + READ], check=True, env=threads)
    expected = robust(x)
    assert all(torch.equal(found, expected) for found in torch.load(tmp_path / "found.pt"))


def test_the_hub_is_asked_where_there_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def upload_folder(repo_id: str, folder_path: Path) -> None:
        calls.append((repo_id, sorted(file.name for file in folder_path.iterdir())))
        for file in folder_path.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())

    hub = SimpleNamespace(
        create_repo=lambda name, exist_ok: calls.append(name),
        upload_folder=upload_folder,
        hf_hub_download=lambda repository, name: str(tmp_path / name),
    )
    monkeypatch.setattr(packs, "_hub", lambda: hub)
    statistics = sm.fit(small_network(), images(20), progress=False)
    assert statistics.push_to_hub("me/net").endswith("me/net")
    assert calls == ["me/net", ("me/net", ["README.md", "statistics.safetensors"])]
    assert sm.Statistics.from_pretrained("me/net").images == 20
    with pytest.raises(DataNotFoundError, match="owner/name"):
        sm.Statistics.from_pretrained("nowhere")


def test_one_changed_weight_is_refused_by_name(tmp_path: Path) -> None:
    net = small_network()
    sm.match(net, sm.fit(net, images(20), progress=False)).save(tmp_path / "net.matched")
    with torch.no_grad():
        net.get_parameter("3.weight")[0, 0, 0, 0] += 1
    with pytest.raises(StatisticsMismatchError, match=r"'3\.weight' differs"):
        sm.load(tmp_path / "net.matched", net)


def test_another_preprocessing_is_refused_by_name() -> None:
    fitted = {"mean": (0.5,), "std": (0.5,), "interpolation": "bilinear", "size": 32}
    check_protocol(fitted, {"mean": [0.5] * 3, "std": 0.5, "interpolation": "BILINEAR", "resize": 256})
    imagenet = {"mean": (0.5, 0.5, 0.5), "std": (0.229, 0.224, 0.225)}
    with pytest.raises(StatisticsMismatchError, match=r"std=0\.5; these are prepared with std=0\.229"):
        check_protocol(fitted, imagenet)
    with pytest.raises(StatisticsMismatchError, match="interpolation"):
        check_protocol(fitted, {"interpolation": "bicubic"})


def test_a_folder_without_statistics_and_a_hub_that_has_none_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataNotFoundError, match=r"is no pack of statistics: it has no file statistics\.safetensors"):
        sm.Statistics.from_pretrained(tmp_path)

    def refuse(repository: str, name: str) -> str:
        raise OSError(f"404 for {repository}/{name}")

    monkeypatch.setattr(packs, "_hub", lambda: SimpleNamespace(hf_hub_download=refuse))
    with pytest.raises(DataNotFoundError, match=r"no folder me/net, and the Hub gave none: 404 for me/net/stat"):
        sm.Statistics.from_pretrained("me/net")


def test_without_the_package_of_the_hub_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # an import that fails
    with pytest.raises(ShiftMatchError, match=r"pip install 'shiftmatch\[hub\]'"):
        sm.Statistics.from_pretrained("me/net")
