"""export: a matched or frozen network as one file for other runtimes, its adaptation included."""

import errno
import json
import logging
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftmatch.core.spectrum import ChannelMoments, Spectrum
from shiftmatch.deploy.step import NO_AUTO, StreamStep
from shiftmatch.errors import ExportError, FileFormatError, InputError
from shiftmatch.matching.inputs import Inputs
from shiftmatch.matching.match import MatchedModel
from shiftmatch.matching.memory import StreamModel
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.stream import AutoStreamModel
from shiftmatch.matching.strength import AutoMatchedModel
from shiftmatch.utils.files import atomic_path, parsing
from shiftmatch.utils.hashing import weights_hash

OPSET = 20
"""The version of the ONNX operators that graphs use."""

KEY = "shiftmatch"
"""Where the metadata lies in a file: a JSON text."""

MAX_METADATA_BYTES = 1 << 24
"""A thousand classes and sites take a hundredth of it."""

SUFFIXES = (".onnx", ".pt2")


def export(
    model: nn.Module,
    path: str | PathLike[str],
    example: object = None,
    *,
    classes: Iterable[str] = (),
    preprocessing: Mapping[str, Any] | None = None,
    opset: int = OPSET,
) -> Path:
    """Write the graph of a network: ONNX (`.onnx`) or a torch.export program (`.pt2`); any batch size fits.

    The graph measures each batch and moves it to the training statistics, which are constants in it. Spectrum in the
    DCT basis and ChannelMoments can be exported; the other structures need eigendecompositions, which runtimes lack.

    Args:
        model: what `match`, `freeze` or `stream` returned, or a plain network. The memory of a stream is in the open:
            its graph is a `StreamStep`, with three more inputs and outputs.
        path: the file to write; its suffix says which format.
        example: a batch as the network takes it; zeros of the fitted shape unless given.
        classes: the names of the classes, kept in the file; those of the statistics unless given.
        preprocessing: how pixels become inputs, kept in the file; that of the statistics unless given.
        opset: the version of the ONNX operators.

    >>> import shiftmatch as sm, tempfile
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> robust = sm.match(net, sm.fit(net, torch.randn(200, 3, 8, 8), classes=map(str, range(10))))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = export(robust, f"{folder}/net.pt2")
    ...     exported_metadata(file)["classes"][:2]
    ['0', '1']
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise InputError(f"The name of an exported network ends with {' or '.join(SUFFIXES)}; got {path.name!r}.")
    _check_structures(model)
    inputs = _few(model, example)
    wrapped: _Tensors | StreamStep = _Tensors(model, inputs)
    batch = {0: torch.export.Dim.DYNAMIC}
    tensors: tuple[Tensor, ...] = tuple(inputs.tensors())
    shapes: tuple[Any, ...] = (tuple(batch if x.ndim else {} for x in tensors),)
    found = _metadata(model, inputs, tuple(classes), preprocessing)
    if isinstance(model, StreamModel):
        wrapped = StreamStep(model)
        tensors, shapes = (tensors[0], *wrapped.start()), (batch, {}, {}, {})
        found["protocol"] |= {"window": model.window, "state": {"count": [], "mean": [len(tensors[2])]}}
        found["protocol"]["state"]["variance"] = found["protocol"]["state"]["mean"]
    metadata = json.dumps(found)
    with torch.no_grad():
        wrapped(*tensors)  # what is wrong with the example is said in our words
    with _quiet():
        program = _program(wrapped, tensors, shapes)
        if path.suffix == ".pt2":
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                torch.export.save(program, file, extra_files={KEY: metadata})
        else:
            _write_onnx(program, path, wrapped, metadata, opset)
    return path


def exported_metadata(path: str | PathLike[str]) -> dict[str, Any]:
    """What an exported network says of itself: preprocessing, classes, protocol and sizes."""
    with parsing(path, "an exported network", "Export it again."):
        found = _onnx_entry(Path(path)) if Path(path).suffix == ".onnx" else _pt2_entry(Path(path))
        if found is None:
            raise FileFormatError(f"{path} was not written by shiftmatch.export: it has no entry {KEY!r}.")
        return dict(json.loads(found))


def _onnx_entry(path: Path) -> str | None:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        properties = onnx.load(path, load_external_data=False).metadata_props
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return {prop.key: prop.value for prop in properties}.get(KEY)


def _pt2_entry(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as file:
            entry = next((one for one in file.infolist() if one.filename.endswith(f"/extra/{KEY}")), None)
            if entry and entry.file_size > MAX_METADATA_BYTES:
                raise ValueError(f"{entry.file_size:,} bytes of metadata")
            return file.read(entry).decode() if entry else None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which a place before the beginning gives
            raise
        raise ValueError(str(error)) from error


class _Tensors(nn.Module):
    """A network with tensors in and one tensor out, as a graph has them."""

    outputs = ("logits",)

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs
        positional = [str(i) for i, x in enumerate(inputs.args) if isinstance(x, Tensor)]
        keywords = [name for name, x in inputs.kwargs.items() if isinstance(x, Tensor)]
        self.names = ["images"] if len(positional + keywords) == 1 else [f"input_{n}" for n in positional] + keywords

    def forward(self, *tensors: Tensor) -> Tensor:
        left = iter(tensors)

        def given(value: Any) -> Any:
            return next(left) if isinstance(value, Tensor) else value

        args = [given(value) for value in self.inputs.args]
        output = self.model(*args, **{name: given(value) for name, value in self.inputs.kwargs.items()})
        if isinstance(output, Mapping):
            output = output["logits"]
        found: Tensor = output[0] if isinstance(output, tuple) else output
        return found


def _program(wrapped: nn.Module, tensors: tuple[Tensor, ...], shapes: Any) -> torch.export.ExportedProgram:
    try:
        with torch.no_grad():
            return torch.export.export(wrapped, tensors, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ExportError(
            f"torch.export cannot trace this network: {lines[0]} The network itself still runs; the whole message is "
            "above. Networks whose path depends on the values of tensors cannot be exported."
        ) from error


def _write_onnx(
    program: torch.export.ExportedProgram, path: Path, wrapped: _Tensors | StreamStep, metadata: str, opset: int
) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise ExportError(
            f"ONNX needs {error.name}: pip install 'shiftmatch[export]', or write a .pt2 file."
        ) from error
    try:
        names, outputs = list(wrapped.names), list(wrapped.outputs)
        graph = torch.onnx.export(
            program, dynamo=True, opset_version=opset, input_names=names, output_names=outputs, verbose=False
        )
        assert graph is not None
    except torch.onnx.errors.OnnxExporterError as error:
        raise ExportError(
            f"ONNX (opset {opset}) has no operator for a part of this network: {error.args[0]} A .pt2 file may hold it."
        ) from error
    graph.model.metadata_props[KEY] = metadata
    with atomic_path(path) as temporary:
        graph.save(temporary, external_data=False)


def _check_structures(model: nn.Module) -> None:
    if isinstance(model, AutoMatchedModel | AutoStreamModel):
        raise ExportError(NO_AUTO)
    if not isinstance(model, MatchedModel | StreamModel):
        return
    for entry in model.statistics.values():
        kind = entry.covariance
        if not isinstance(kind, ChannelMoments) and not (isinstance(kind, Spectrum) and kind.basis == "dct"):
            raise ExportError(
                f"{kind} at site {entry.site.name!r} cannot be exported: it needs an eigendecomposition or complex "
                "numbers in the graph. Fit with covariance=shiftmatch.Spectrum() or shiftmatch.ChannelMoments(), "
                "or use this network from PyTorch."
            )


def _few(model: nn.Module, example: object) -> Inputs:
    """Two images as the network takes them: enough to trace, and one would be taken for a fixed size."""
    if example is None:
        statistics = getattr(model, "statistics", None)
        if not isinstance(statistics, Statistics) or len(statistics.inputs) != 1:
            raise InputError("Pass an example: a batch of inputs as this network takes it.")
        example = torch.zeros(2, *next(iter(statistics.inputs.values())))
    inputs = Inputs.of(example).on(model)
    total = inputs.images

    def two(value: Any) -> Any:
        batched = isinstance(value, Tensor) and value.ndim and len(value) == total
        return torch.cat([value[:1], value[-1:]]) if batched else value

    return Inputs(tuple(map(two, inputs.args)), {name: two(value) for name, value in inputs.kwargs.items()})


def _metadata(
    model: nn.Module, inputs: Inputs, classes: tuple[str, ...], preprocessing: Mapping[str, Any] | None
) -> dict[str, Any]:
    statistics: Statistics | None = getattr(model, "statistics", None)
    found: dict[str, Any] = {
        "versions": {"shiftmatch": version("shiftmatch"), "torch": torch.__version__},
        "inputs": [list(x.shape[1:]) for x in inputs.tensors()],
        "network": weights_hash(model),
        "classes": list(classes or getattr(statistics, "classes", ())),
        "preprocessing": dict(preprocessing or getattr(statistics, "preprocessing", {})),
        "protocol": {"method": "plain"},
    }
    if statistics is None:
        return found
    found["protocol"] = {
        "method": {MatchedModel: "matched", StreamModel: "stream"}.get(type(model), "frozen"),
        "covariance": sorted({type(entry.covariance).__name__ for entry in statistics.values()}),
        "batchnorm": statistics.batchnorm,
        "training_images": statistics.images,
        "sites": {name: list(entry.site.shape) for name, entry in statistics.items()},
        "prior_images": {site.site.name: list(site.prior) for site in getattr(model, "sites", [])},
    }
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch's exporter says of its own code and of torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
