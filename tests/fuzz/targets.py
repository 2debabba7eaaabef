"""Everything that reads a file: whole files to begin with, what damages them, and the reader."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import unwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import made_scores
import numpy as np
import torch
from fuzz.mutate import (
    Mutate,
    damage,
    damage_gzip,
    damage_json,
    damage_pickle,
    damage_png,
    damage_safetensors,
    damage_tar,
    damage_zip,
)
from PIL import Image
from safetensors.torch import save_file
from scipy.io import savemat
from torch import Tensor

import shiftmatch as sm
from shiftmatch.data.download import PROVENANCE, Record, read_provenance, unpack
from shiftmatch.data.image_set import open_images
from shiftmatch.data.images import Labelled
from shiftmatch.data.readers import read_arrays, read_cifar, read_idx, read_matlab
from shiftmatch.deploy.export import KEY, exported_metadata
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.store import CellFolder, CellScores
from shiftmatch.matching.members import load_members
from shiftmatch.metrics.registry import Measured
from shiftmatch.models import Architecture, Preprocessing, load_weights
from shiftmatch.samplers import import_hmc

Strength: TypeAlias = Literal["full", "auto"]

NETWORK = Architecture("mlp", {"inputs": 4, "hidden": [3], "classes": 2})
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4), np.uint8)
PREPROCESSING = Preprocessing(mean=(0.5,) * 3, std=(0.5,) * 3)


@dataclass(frozen=True)
class Target:
    """A reader: the name of the file that is damaged, whole ones, how it is damaged, and how it is read."""

    file: str
    seeds: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    mutate: Mutate = damage


def _bytes(path: Path, write: Callable[[Path], object]) -> bytes:
    write(path)
    return path.read_bytes()


def _statistics(folder: Path) -> list[bytes]:
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    x, path = torch.rand(64, 1, 4, 4, generator=torch.Generator().manual_seed(0)), folder / "x.safetensors"
    kinds = (sm.Spectrum, sm.SpatialKronecker, sm.ChannelMoments)
    return [_bytes(path, sm.fit(net.eval(), x, covariance=kind(), progress=False).save) for kind in kinds]


def _read_statistics(path: Path) -> object:
    statistics = sm.Statistics.load(path)
    return str(statistics), len(statistics)


def _posterior(folder: Path) -> list[bytes]:
    draws = [dict(NETWORK.build().named_parameters()) for _ in range(2)]
    values = [{name: value.detach() for name, value in draw.items()} for draw in draws]
    return [_bytes(folder / "x.safetensors", sm.Posterior.of(values, architecture=NETWORK).save)]


def _read_posterior(path: Path) -> object:
    posterior = sm.Posterior.load(path)
    return len(posterior), posterior[0] if len(posterior) else None


def _scores(suffix: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        made_scores.everything(n=10).save(folder / "scores.csv")
        return [(folder / f"scores{suffix}").read_bytes()]

    return seeds


def _read_scores(path: Path) -> object:
    return Scores.load(path.with_suffix(".csv")).means()


def _samples(_: Path) -> list[bytes]:
    rng = np.random.default_rng(0)
    shapes = {"linear": (4, 3), "linear_1": (3, 2)}
    params = {
        f"mlp/~/{name}": {"w": rng.random(shape, np.float32), "b": rng.random(shape[1], np.float32)}
        for name, shape in shapes.items()
    }
    chains = {name: {leaf: np.stack([value] * 2) for leaf, value in leaves.items()} for name, leaves in params.items()}
    contents: list[Any] = [{"params": params, "accepted": np.bool_(True)}, {"params": chains, "step": np.float64(2)}]
    return [pickle.dumps(content, protocol) for content in contents for protocol in (3, 4)]


def _read_samples(path: Path) -> object:
    return len(import_hmc([path], NETWORK))


def _idx(*shape: int) -> Callable[[Path], list[bytes]]:
    def seeds(_: Path) -> list[bytes]:
        return [bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes() + bytes(int(np.prod(shape)))]

    return seeds


def _read_idx(path: Path) -> object:
    images, labels = path.with_name("images-idx"), path.with_name("labels-idx")
    return _touch(*read_idx([images, labels]))


def _touch(images: Any, labels: Tensor) -> object:
    found = Labelled(images, labels, "set", "a file")
    return found.images[torch.arange(len(found))].float().sum(), labels.sum()


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(_: Path) -> list[bytes]:
    file = io.BytesIO()
    np.savez(file, images=PIXELS, labels=np.array([0, 1]))
    return [file.getvalue()]


def _read_own(path: Path) -> object:
    found = open_images(path, replace(PREPROCESSING, size=6))
    return found.inputs(torch.arange(len(found))).sum(), found.labels


def _read_arrays(path: Path) -> object:
    return _touch(*read_arrays([path.with_name("x.npy"), path.with_name("y.npy")]))


def _images(kind: str) -> Callable[[Path], list[bytes]]:
    def seeds(_: Path) -> list[bytes]:
        files = []
        for mode in ("RGB", "L"):
            file = io.BytesIO()
            Image.fromarray(PIXELS[0].transpose(1, 2, 0)).resize((20, 16)).convert(mode).save(file, kind)
            files.append(file.getvalue())
        return files

    return seeds


def _archive(kind: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        (folder / "a").mkdir(exist_ok=True)
        (folder / "a" / "b.bin").write_bytes(bytes(200))
        if kind == "zip":
            with zipfile.ZipFile(folder / "x.zip", "w") as packed:
                packed.write(folder / "a" / "b.bin", "a/b.bin")
        else:
            with tarfile.open(folder / "x.zip", f"w:{kind}") as tar:  # type: ignore[call-overload]
                tar.add(folder / "a", "a")
        return [(folder / "x.zip").read_bytes()]

    return seeds


def _unpack(path: Path) -> object:
    with TemporaryDirectory(dir=path.parent) as folder:
        unpack(path, Path(folder))
        return sorted(Path(folder).rglob("*"))


def _weights(suffix: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        state, save = NETWORK.build().state_dict(), torch.save if suffix == ".pt" else save_file
        return [_bytes(folder / f"x{suffix}", lambda path: save(state, path))]

    return seeds


def _read_weights(path: Path) -> object:
    load_weights(network := NETWORK.build(), path)
    return network


def _matlab(folder: Path) -> list[bytes]:
    arrays = {"X": PIXELS.transpose(2, 3, 1, 0), "y": np.array([[1], [10]])}

    def saved(*, packed: bool) -> bytes:
        return _bytes(folder / "x.mat", lambda path: savemat(str(path), arrays, do_compression=packed))

    return [saved(packed=False), saved(packed=True)]


def _record(_: Path) -> list[bytes]:
    return [json.dumps({"downloads": {"a.zip": "https://example.org"}, "checksums": {"a.zip": "md5:0"}}).encode()]


def _provenance(_: Path) -> list[bytes]:
    return [json.dumps({"made by": "shiftmatch 0.1.0", "suite": "mnist-c", "seed": 0, "frost": "published"}).encode()]


def _read_record(path: Path) -> object:
    return Record.read("set", path.parent.parent)


DIGITS = torch.rand(64, 1, 4, 4, generator=torch.Generator().manual_seed(0))


@cache
def _network() -> tuple[torch.nn.Module, sm.Statistics]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    return net.eval(), sm.fit(net, DIGITS, progress=False)


def _members(folder: Path) -> list[bytes]:
    path = folder / "members.safetensors"
    sm.fit_members([_network()[0]] * 2, DIGITS, path)
    return [path.read_bytes()]


def _read_members(path: Path) -> object:
    members = unwrap(load_members)(path)  # the type checks of the test run would read some of the members themselves
    return len(members), members[0], members[-1]


def _matched(folder: Path) -> list[bytes]:
    return [_bytes(folder / "x.safetensors", sm.match(*_network()).save)]


def _memory(strength: Strength) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        (camera := sm.stream(*_network(), strength=strength))(DIGITS[:8])
        return [_bytes(folder / "x.safetensors", camera.save_memory)]

    return seeds


def _read_memory(strength: Strength) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        (camera := _camera(strength)).load_memory(path)
        return camera(DIGITS[:1])

    return read


@cache
def _camera(strength: Strength) -> sm.StreamModel | sm.AutoStreamModel:
    return sm.stream(*_network(), strength=strength)


def _run(file: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        _resume(folder / "run")
        return [(folder / "run" / file).read_bytes()]

    return seeds


def _resume(folder: Path) -> object:
    generator, start = torch.Generator().manual_seed(0), {"w": torch.zeros(3)}
    sampler = sm.samplers.sgld(sm.samplers.FromFunction(_log_normal), step_size=0.1)
    return sm.sample(sampler, start, draws=1, generator=generator, folder=folder, progress=False)


def _read_run(path: Path) -> object:
    return _resume(path.parent)


def _log_normal(params: Mapping[str, Tensor]) -> Tensor:
    return -params["w"].square().sum() / 2


def _cell(folder: Path) -> list[bytes]:
    store = CellFolder(folder / "cells", {})
    store.save(CELL, "plain", "", CellScores({"accuracy": Measured(0.5, 0.1)}, np.array([True, False])))
    (file,) = (folder / "cells").iterdir()
    return [file.read_bytes()]


CELL = ("contrast", 3)


def _read_cell(path: Path) -> object:
    store = CellFolder(path.parent, {})
    file = store._file(CELL, "plain", "")
    assert file is not None
    file.write_bytes(path.read_bytes())
    return store.load(CELL, "plain", "")


def _exported(suffix: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        metadata, path = json.dumps({"classes": ["a", "b"], "protocol": {"method": "plain"}}), folder / f"x{suffix}"
        if suffix == ".onnx":
            from onnx import helper, save

            graph = helper.make_model(helper.make_graph([], "graph", [], []))
            helper.set_model_props(graph, {KEY: metadata})
            save(graph, path)
        else:
            with zipfile.ZipFile(path, "w") as file:
                file.writestr(f"x/extra/{KEY}", metadata)
                file.writestr("x/data", bytes(100))
        return [path.read_bytes()]

    return seeds


TARGETS: dict[str, Target] = {
    "statistics": Target("x.safetensors", _statistics, _read_statistics, damage_safetensors),
    "posterior": Target("x.safetensors", _posterior, _read_posterior, damage_safetensors),
    "members": Target("x.safetensors", _members, _read_members, damage_safetensors),
    "matched network": Target("x.safetensors", _matched, lambda path: sm.load(path, _network()[0]), damage_safetensors),
    "stream memory": Target("x.safetensors", _memory("full"), _read_memory("full"), damage_safetensors),
    "auto stream memory": Target("x.safetensors", _memory("auto"), _read_memory("auto"), damage_safetensors),
    "run state": Target("state.safetensors", _run("state.safetensors"), _read_run, damage_safetensors),
    "run draw": Target("draw-00000.safetensors", _run("draw-00000.safetensors"), _read_run, damage_safetensors),
    "exported .pt2": Target("x.pt2", _exported(".pt2"), exported_metadata, damage_zip),
    "exported .onnx": Target("x.onnx", _exported(".onnx"), exported_metadata),
    "evaluated cell": Target("cell.json", _cell, _read_cell, damage_json),
    "scores table": Target("scores.csv", _scores(".csv"), _read_scores),
    "scores provenance": Target("scores.json", _scores(".json"), _read_scores, damage_json),
    "scores correctness": Target("scores.safetensors", _scores(".safetensors"), _read_scores, damage_safetensors),
    "published samples": Target("model_step_1.pt", _samples, _read_samples, damage_pickle),
    "weights .pt": Target("x.pt", _weights(".pt"), _read_weights, damage_zip),
    "weights .safetensors": Target("x.safetensors", _weights(".safetensors"), _read_weights, damage_safetensors),
    "idx images": Target("images-idx", _idx(3, 4, 5), _read_idx),
    "idx labels": Target("labels-idx", _idx(3), _read_idx),
    "cifar": Target("x.bin", lambda _: [bytes(3073 * 2)], lambda path: _touch(*read_cifar([path]))),
    "matlab": Target("x.mat", _matlab, lambda path: _touch(*read_matlab([path]))),
    "npy images": Target("x.npy", lambda _: [_npy(PIXELS.transpose(0, 2, 3, 1).copy())], _read_arrays),
    "npy labels": Target("y.npy", lambda _: [_npy(np.array([0, 1]))], _read_arrays),
    "own npy": Target("x.npy", lambda _: [_npy(PIXELS), _npy(PIXELS / np.float32(255))], _read_own),
    "own npz": Target("x.npz", _npz, _read_own, damage_zip),
    **{
        f"image {kind}": Target(f"x.{kind.lower()}", _images(kind), _read_own, damage_png if kind == "PNG" else damage)
        for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
    },
    "zip": Target("x.zip", _archive("zip"), _unpack, damage_zip),
    "tar": Target("x.tar", _archive(""), _unpack, damage_tar),
    "tar.gz": Target("x.tar.gz", _archive("gz"), _unpack, damage_gzip),
    "gz": Target("x.gz", lambda _: [gzip.compress(bytes(300))], _unpack, damage_gzip),
    "set provenance": Target(PROVENANCE, _provenance, lambda path: read_provenance(path.parent), damage_json),
    "download record": Target(".records/set.json", _record, _read_record, damage_json),
}
"""By name; the files beside the damaged one that a reader needs are those of the other targets."""
