"""One forward pass recorded: which function made which tensor from which others, inside which module."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from shiftmatch.matching.site import INPUT
from shiftmatch.utils.parallel import restoring_grad_mode

CHANNELS_FIRST = {"conv1d", "conv2d", "conv3d", "batch_norm", "group_norm", "instance_norm"}
CHANNELS_LAST = {"linear", "layer_norm", "rms_norm"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
MOVES_AXES = {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims"}


@dataclass(frozen=True, eq=False)
class Node:
    """The value of one function call that depends on the network's input."""

    index: int
    function: str
    inputs: tuple[int, ...]  # nodes, in the order of the arguments; the network's inputs are nodes themselves
    shape: tuple[int, ...]
    channel: int  # which axis holds the channels
    batch: int  # which axis holds the images
    address: str  # module:function#call


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module that took and returned a tensor."""

    address: str  # module#call
    module: nn.Module
    takes: int
    returns: int
    inside: range  # the nodes made during the call


@dataclass(eq=False)
class Trace:
    """What a forward pass did."""

    nodes: list[Node] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)  # site name -> node
    outputs: tuple[int, ...] = ()


def tensors_in(value: object) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists, mappings and dataclasses.

    >>> len(list(tensors_in({"a": torch.ones(1), "b": [torch.ones(1), 3]})))
    2
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from tensors_in([getattr(value, entry.name) for entry in fields(value)])


@restoring_grad_mode()
@torch.no_grad()
def trace(model: nn.Module, inputs: dict[str, Tensor], run: Callable[[], object]) -> Trace:
    """Record what `run`, a forward pass of the model from those inputs, does; hooks stay in the model, a twin."""
    recorder = _Recorder(inputs)
    for name, module in model.named_modules():
        module.register_forward_pre_hook(recorder.entering(name))
        module.register_forward_hook(recorder.leaving, always_call=True, with_kwargs=True)
    with recorder:
        output = run()
    record = recorder.record
    record.outputs = tuple(dict.fromkeys(recorder.known(output)))
    return record


class _Recorder(TorchFunctionMode):
    def __init__(self, inputs: dict[str, Tensor]) -> None:
        super().__init__()
        self.record = Trace()
        self._made_by: dict[int, int] = {}  # id of a tensor -> the node it is the value of, as of now
        self._alive: list[Tensor] = []  # so that no id is used twice
        self._under_way: list[tuple[str, int]] = []  # modules, and how many nodes there were when they began
        self._calls: Counter[str] = Counter()
        for name, tensor in inputs.items():
            self.record.inputs[name] = self._add("input", (), tensor, (1, 0), name)

    def known(self, value: object) -> list[int]:
        return [self._made_by[id(tensor)] for tensor in tensors_in(value) if id(tensor) in self._made_by]

    def entering(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: object) -> None:
            self._calls[name] += 1
            self._under_way.append((name, len(self.record.nodes)))

        return hook

    def leaving(self, module: nn.Module, args: object, kwargs: object, output: object) -> None:
        name, start = self._under_way.pop()
        takes, returns = self.known((args, kwargs)), self.known(output)
        if takes and returns and isinstance(output, Tensor):
            inside = range(start, len(self.record.nodes))
            address = numbered(module_address(name), self._calls[name])
            self.record.calls.append(Call(address, module, takes[0], returns[0], inside))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        sources = tuple(self.known((args, kwargs)))  # before the call, which may work in place
        output = func(*args, **kwargs)
        name = function_name(func)
        self._calls.update(f"{module}:{name}" for module, _ in self._under_way)
        address = f"{self._under_way[-1][0]}:{name}"
        if sources:
            for tensor in filter(Tensor.is_floating_point, tensors_in(output)):
                source = self.record.nodes[sources[0]]
                axes = [find(func, tensor, source, args, kwargs) for find in (_channel_axis, _batch_axis)]
                self._add(name, sources, tensor, axes, numbered(address, self._calls[address]))
        return output

    def _add(self, function: str, sources: tuple[int, ...], tensor: Tensor, axes: Sequence[int], address: str) -> int:
        index, (channel, batch) = len(self.record.nodes), axes
        self.record.nodes.append(Node(index, function, sources, tuple(tensor.shape), channel, batch, address))
        self._made_by[id(tensor)] = index
        self._alive.append(tensor)
        return index


def function_name(func: Any) -> str:
    """`add` for add, add_ and __add__."""
    return str(func.__name__).strip("_")


def module_address(name: str) -> str:
    """What the output of a module is called: its name, but for a module that is called as the input is."""
    return f"{name}:" if name == INPUT else name


def numbered(name: str, call: int) -> str:
    """`name` for the first call, `name#2` for the second.

    >>> numbered("fc", 2)
    'fc#2'
    """
    return name if call == 1 else f"{name}#{call}"


_SIZES = (2, 3, 5, 7, 11, 13, 17, 19)


def _channel_axis(func: Any, made: Tensor, source: Node, args: Any, kwargs: Any) -> int:
    name = function_name(func)
    if name in CHANNELS_LAST | RECURRENT:
        return made.ndim - 1
    if name in CHANNELS_FIRST:
        return 1
    if name in MOVES_AXES:
        return _moved_axis(func, source.channel, made.ndim, args, kwargs)
    if made.ndim == len(source.shape):
        return source.channel
    return 2 if made.ndim == 3 else 1


def _batch_axis(func: Any, made: Tensor, source: Node, args: Any, kwargs: Any) -> int:
    if function_name(func) in MOVES_AXES:
        return _moved_axis(func, source.batch, made.ndim, args, kwargs)
    images = source.shape[source.batch] if source.shape else 0
    if made.ndim > source.batch and made.shape[source.batch] == images:
        return source.batch
    return next((axis for axis, size in enumerate(made.shape) if size == images), 0)


def _moved_axis(func: Any, axis: int, ndim: int, args: Any, kwargs: Any) -> int:
    """Do the same to a tensor whose axes differ in size."""
    probe = torch.empty(_SIZES[:ndim], device="meta")
    return int(func(probe, *args[1:], **kwargs).shape.index(_SIZES[axis]))
