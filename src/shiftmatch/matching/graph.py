"""The graph of one forward pass: which function made which tensor from which others, and where its main branch is."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from shiftmatch.matching.inputs import INPUT, Inputs
from shiftmatch.utils.parallel import restoring_grad_mode

CHANNELS_FIRST = {"conv1d", "conv2d", "conv3d", "batch_norm", "group_norm", "instance_norm"}
CHANNELS_LAST = {"linear", "layer_norm", "rms_norm"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
MOVES_AXES = {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims"}
WEIGHTS = {"linear", *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))}
NORMS = {"batch_norm", "group_norm", "layer_norm", "instance_norm", "rms_norm", "local_response_norm"}
NONLINEAR = set(
    "relu relu6 leaky_relu prelu rrelu elu selu celu gelu silu mish glu hardswish hardtanh hardsigmoid sigmoid "
    "logsigmoid tanh tanhshrink softplus softsign hardshrink softshrink threshold clamp clamp_min clip".split()
)
GATES = {"sigmoid", "hardsigmoid", "softmax", "hardtanh", "clamp"}
SUMS, PRODUCTS = {"add", "iadd", "radd"}, {"mul", "imul", "rmul"}
BILINEAR = {"matmul", "rmatmul", "bmm", "baddbmm", "einsum", "scaled_dot_product_attention"}
REARRANGING = set(
    "permute transpose movedim swapaxes contiguous flatten unflatten reshape view squeeze unsqueeze expand expand_as "
    "dropout dropout2d to float half getitem chunk split unbind".split()
)


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
def trace(twin: nn.Module, inputs: Inputs) -> Trace:
    """Record a forward pass. The hooks that this takes stay in the network, which is a twin made for it."""
    recorder = _Recorder(inputs.named(twin))
    for name, module in twin.named_modules():
        module.register_forward_pre_hook(recorder.entering(name))
        module.register_forward_hook(recorder.leaving, always_call=True, with_kwargs=True)
    with recorder:
        output = twin(*inputs.args, **inputs.kwargs)
    recorder.record.outputs = tuple(dict.fromkeys(recorder.known(output)))
    return recorder.record


class _Recorder(TorchFunctionMode):
    """Adds a node for each function call that depends on the inputs, and a call for each module."""

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
    """`name` for the first call, `name#2` for the second."""
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
    """Where an axis goes: the function is applied to a tensor whose axes all differ in size."""
    probe = torch.empty(_SIZES[:ndim], device="meta")
    return int(func(probe, *args[1:], **kwargs).shape.index(_SIZES[axis]))


class Flow:
    """The main branch of a trace: shortcuts, gates and attention weights are left out."""

    def __init__(self, record: Trace) -> None:
        self.nodes = record.nodes
        self._consumers: dict[int, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for source in dict.fromkeys(node.inputs):
                self._consumers[source].append(node)
        self._weights = [node for node in self.nodes if node.function in WEIGHTS]
        self._ancestors = self._all_ancestors()
        self._main = self._reached_from(record.outputs)
        self._normalised = {node.inputs[0]: node.index for node in self.nodes if node.function in NORMS}
        self._normalised |= {call.takes: call.returns for call in record.calls if self._is_normaliser(call)}

    def pre_activations(self) -> list[Node]:
        """The outputs of weight layers, after the normalisation if one follows; without attention and logits."""
        units = {self._unit_end(node.index) for node in self._weights if node.index in self._main}
        units |= {end for end in self._normalised.values() if self._feeds(end, NONLINEAR)}
        return [node for node in self.nodes if node.index in units and self._counts(node)]

    def post_activations(self) -> list[Node]:
        """The values of nonlinearities on the main branch."""
        return [node for node in self.nodes if node.function in NONLINEAR and self._counts(node)]

    def _counts(self, node: Node) -> bool:
        """Whether a value is on the main branch, before another weight layer, and not an operand of attention."""
        later = (after.index for after in self._weights if after.index > node.index)
        leads_to_weights = any(self._ancestors[index] >> node.index & 1 for index in later)
        return node.index in self._main and leads_to_weights and not self._reaches(node.index, BILINEAR)

    def _unit_end(self, index: int) -> int:
        """The value of a weight layer after the normalisation that follows it, if one does."""
        while (after := self._normalised.get(self._rearranged(index))) is not None:
            index = after
        return index

    def _rearranged(self, index: int) -> int:
        while index not in self._normalised:
            after = [node for node in self._consumers[index] if node.function in REARRANGING]
            if len(after) != 1:
                break
            index = after[0].index
        return index

    def _feeds(self, index: int, functions: set[str]) -> bool:
        return any(node.function in functions for node in self._consumers[index])

    def _reaches(self, index: int, functions: set[str]) -> bool:
        """Whether a value, rearranged or scaled, ends up in one of these functions."""
        passing = [
            n for n in self._consumers[index] if n.function in REARRANGING | PRODUCTS and len(set(n.inputs)) == 1
        ]
        return self._feeds(index, functions) or any(self._reaches(node.index, functions) for node in passing)

    def _is_normaliser(self, call: Call) -> bool:
        inside = {self.nodes[index].function for index in call.inside}
        has_own = any(True for _ in call.module.parameters(recurse=False)) or bool(call.module._buffers)
        same_shape = self.nodes[call.takes].shape == self.nodes[call.returns].shape
        return bool(inside) and has_own and same_shape and not inside & (WEIGHTS | NONLINEAR | BILINEAR)

    def _all_ancestors(self) -> list[int]:
        """For each node the set of nodes that it is made from, itself included, as the bits of an integer."""
        ancestors: list[int] = []
        for node in self.nodes:
            bits = 1 << node.index
            for source in node.inputs:
                bits |= ancestors[source]
            ancestors.append(bits)
        return ancestors

    def _reached_from(self, outputs: tuple[int, ...]) -> set[int]:
        """Walk back from the outputs along the main branch only."""
        reached: set[int] = set()
        ahead = list(outputs)
        while ahead:
            index = ahead.pop()
            if index not in reached:
                reached.add(index)
                ahead += self._main_inputs(self.nodes[index])
        return reached

    def _main_inputs(self, node: Node) -> tuple[int, ...]:
        """The inputs of a node without shortcuts, gates and attention weights."""
        if node.function == "scaled_dot_product_attention":
            return node.inputs[2:]
        if len(node.inputs) != 2 or node.inputs[0] == node.inputs[1]:
            return node.inputs
        one, other = node.inputs
        if node.function in SUMS:
            return self._heavier(one, other)
        if node.function in PRODUCTS | BILINEAR:
            return tuple(a for a, b in ((one, other), (other, one)) if not self._is_gate_of(a, b)) or node.inputs
        return node.inputs

    def _heavier(self, one: int, other: int) -> tuple[int, ...]:
        """Of two branches that are added, the one with more weight layers of its own; both if they tie."""
        ours, theirs = self._ancestors[one], self._ancestors[other]
        weights = sum(1 << node.index for node in self._weights)
        mine, yours = (ours & ~theirs & weights).bit_count(), (theirs & ~ours & weights).bit_count()
        return (one, other) if mine == yours else (one,) if mine > yours else (other,)

    def _is_gate_of(self, index: int, other: int) -> bool:
        """Whether a factor is the value of a gate, but not of the other factor itself, as in x · sigmoid(x)."""
        node = self.nodes[index]
        while node.function in REARRANGING and node.inputs:
            node = self.nodes[node.inputs[0]]
        return node.function in GATES and other not in node.inputs
