"""How far ONNX Runtime is from eager PyTorch, with live matching, on real corrupted images."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from benchmarks.harness import Cases, Settings, apart
from benchmarks.networks import (
    cifar,
    prepared,
    released_efficientnet_lite0,
    released_resnet20,
    vision_transformer,
)
from torch import Tensor, nn
from torch.nn import functional

import shiftmatch as sm
from shiftmatch.matching.inputs import logits_of

TRAIN, TEST, SINGLES = 200, 200, 30
BATCHES = (1, 16, 200)
CORRUPTION, SEVERITY = "gaussian_noise", 3
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "ResNet-20, released weights": (released_resnet20, 32),
    "transformers ViT, random weights": (vision_transformer, 32),
    "EfficientNet-Lite0, released weights, images resized to 224 × 224": (released_efficientnet_lite0, 224),
}


def run(settings: Settings) -> Cases:
    """The largest difference of logits for each batch size and for single images with memory, and the accuracies."""
    return {name: apart(compared, *case, settings) for name, case in NETWORKS.items()}


@torch.no_grad()
def compared(build: Callable[[], nn.Module], side: int, settings: Settings) -> dict[str, float]:
    """The figures of one network."""
    torch.set_num_threads(settings.threads)
    network, (clean, _), (pixels, labels) = build(), cifar("train", TRAIN), cifar("test", TEST)
    train, test = (_sized(x, side) for x in (clean, sm.corrupt(pixels, CORRUPTION, severity=SEVERITY)))
    statistics = sm.fit(network, train.split(50), progress=False)
    robust, camera = sm.match(network, statistics), sm.stream(network, statistics, refresh=1)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        session = _session(robust, Path(folder) / "net.onnx", settings)
        for count in BATCHES:
            eager, exported = logits_of(robust(test[:count])), _outputs(session, [test[:count]])[0]
            found[f"largest difference, batch {count}"] = float((exported - eager).abs().max())
        for name, logits in (("eager", eager), ("ONNX Runtime", exported)):
            found[f"accuracy, {name}, batch {TEST}, %"] = 100 * float((logits.argmax(-1) == labels).float().mean())
        found[f"same class, batch {TEST}, %"] = 100 * float((exported.argmax(-1) == eager.argmax(-1)).float().mean())
        session, memory = _session(camera, Path(folder) / "camera.onnx", settings), [*sm.StreamStep(camera).start()]
        furthest = 0.0
        for image in test[:SINGLES, None]:
            exported, *memory = _outputs(session, [image, *memory])
            furthest = max(furthest, float((exported - logits_of(camera(image))).abs().max()))
        found[f"largest difference, {SINGLES} single images with memory"] = furthest
    return found


def _sized(pixels: Tensor, side: int) -> Tensor:
    inputs = prepared(pixels)
    return inputs if side == inputs.shape[-1] else functional.interpolate(inputs, size=side, mode="bilinear")


def _session(model: nn.Module, path: Path, settings: Settings) -> object:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings.threads
    sm.export(model, path)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _outputs(session: object, tensors: list[Tensor]) -> list[Tensor]:
    names = [entry.name for entry in session.get_inputs()]  # type: ignore[attr-defined]
    given = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
    return [torch.from_numpy(array) for array in session.run(None, given)]  # type: ignore[attr-defined]
