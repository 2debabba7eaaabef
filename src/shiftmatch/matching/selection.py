"""Which places of a network become sites: found in the trace of one forward pass, narrowed by the user's choice.

`Flow` finds the main branch of a network, and what lies on it before and after a nonlinearity.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Literal, TypeAlias

from torch import nn

from shiftmatch.errors import InputError, ShiftMatchError, SiteError
from shiftmatch.matching.inputs import Inputs, is_features
from shiftmatch.matching.site import Layout, Site, Sites
from shiftmatch.matching.trace import Call, Node, Trace, trace
from shiftmatch.matching.twin import twin_of

Place: TypeAlias = Literal["pre-activation", "post-activation", "input", "module"]
"""Where sites may lie: `module` is the output of every module."""

Choice: TypeAlias = str | type[nn.Module] | Callable[[Site], bool] | Iterable[str | type[nn.Module]]
"""Which of them to take: name patterns (`layer1.*`), module types, or a function of the site."""

EXAMPLE = 4
"""Images that are enough to see what a forward pass does."""

MAX_PREFIX_TOKENS = 8
"""A sequence that is longer than a map by at most this many tokens is that map and tokens before it."""

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


def sites(model: nn.Module, example: Any, choose: Choice | None = None, *, at: Place = "pre-activation") -> Sites:
    """The sites of a network: its input and the pre-activations of its main branch, unless chosen otherwise.

    A twin of the network runs once on a few of the images.

    Args:
        model: the trained network; it stays as it was.
        example: a batch as a loader yields it: a tensor, a tuple of several inputs, or a dictionary.
        choose: names or patterns such as ["input", "layer1.*"], types of modules, or a function of the site; all unless
            given.
        at: "pre-activation", "activation", "input", or "module" for the output of every module.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> sites(net, torch.zeros(2, 3, 8, 8)).names
    ['input', '0']
    """
    inputs = Inputs(tuple(example)) if _several_inputs(example) else Inputs.of(example)
    few = inputs.on(model).at(slice(EXAMPLE))
    record = _watched(model, few)
    found = [_input_site(name, record.nodes[index]) for name, index in record.inputs.items()]
    if at != "input":
        found += _PLACES[at](record, few.images)
    if not found:
        raise SiteError(
            f"{type(model).__name__} has no place to match: none of its inputs is a batch of floating-point features."
        )
    return Sites(tuple(found if choose is None else _chosen(found, choose, model)))


def _several_inputs(example: object) -> bool:
    return isinstance(example, list | tuple) and all(map(is_features, example))


def _watched(model: nn.Module, inputs: Inputs) -> Trace:
    try:
        twin = twin_of(model)
        return trace(twin, inputs.named(twin), lambda: twin(*inputs.args, **inputs.kwargs))
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ShiftMatchError):
            raise
        shapes = ", ".join(str(tuple(x.shape[1:])) for x in inputs.tensors())
        raise InputError(
            f"{type(model).__name__} does not run on inputs of shape {shapes}: {error}. "
            "Pass batches as the network takes them: right channels and size, normalised, in floating point."
        ) from error


def _input_site(name: str, node: Node) -> Site:
    return Site(name, "input", node.shape[1:], Layout(channel=1))


def _pre_activations(record: Trace, images: int) -> list[Site]:
    return [_site(record, node, images) for node in Flow(record).pre_activations() if _is_batch(node, images)]


def _post_activations(record: Trace, images: int) -> list[Site]:
    return [_site(record, node, images) for node in Flow(record).post_activations() if _is_batch(node, images)]


def _modules(record: Trace, images: int) -> list[Site]:
    returned = dict.fromkeys(call.returns for call in sorted(record.calls, key=lambda call: call.returns))
    nodes = [record.nodes[index] for index in returned if index not in record.inputs.values()]
    return [_site(record, node, images) for node in nodes if len(node.shape) >= 2 and _is_batch(node, images)]


_PLACES = {"pre-activation": _pre_activations, "post-activation": _post_activations, "module": _modules}


def _is_batch(node: Node, images: int) -> bool:
    """Whether the first axis holds the images; a sequence-first layer has its steps there."""
    return node.batch == 0 and node.shape[0] % images == 0


def _site(record: Trace, node: Node, images: int) -> Site:
    """The site of a value, named by the innermost module that returns it, else by the function that made it."""
    call = next((call for call in record.calls if call.returns == node.index), None)
    name, kind = (call.address, type(call.module).__name__) if call else (node.address, node.function)
    calls = sum(name.partition("#")[0] == other.address.partition("#")[0] for other in record.calls) if call else 1
    source = _source(record, call) if call else ""
    return Site(name, kind, node.shape[1:], _layout(record, node), calls, node.shape[0] // images, source)


def _source(record: Trace, call: Call) -> str:
    """The module of a weight layer whose output nothing but this call takes, if there is one."""
    made = next((other for other in record.calls if other.returns == call.takes), None)
    taken = [node.index for node in record.nodes if call.takes in node.inputs]
    unshared = call.takes not in record.outputs and all(index in call.inside for index in taken)
    fresh = record.nodes[call.takes].function in WEIGHTS
    return made.address.partition("#")[0] if made and unshared and fresh else ""


def _layout(record: Trace, node: Node) -> Layout:
    """How to read a tensor; a sequence as long as the last convolution's map, or a little longer, is that map."""
    if len(node.shape) == 3 and node.channel == 2:
        for before in reversed(record.nodes[: node.index]):
            grid = tuple(size for axis, size in enumerate(before.shape) if axis not in (0, before.channel))
            prefix = node.shape[1] - prod(grid)
            if before.function == "conv2d" and 0 <= prefix <= MAX_PREFIX_TOKENS:
                return Layout(node.channel, grid, prefix)
    return Layout(node.channel)


def _chosen(found: list[Site], choose: Choice, model: nn.Module) -> list[Site]:
    if callable(choose) and not isinstance(choose, type):
        return [site for site in found if choose(site)] or _nothing_chosen(found, choose)
    rules = [choose] if isinstance(choose, str | type) else list(choose)
    for rule in rules:
        if not any(_follows(site, rule, model) for site in found):
            _nothing_chosen(found, rule)
    return [site for site in found if any(_follows(site, rule, model) for rule in rules)]


def _follows(site: Site, rule: str | type[nn.Module], model: nn.Module) -> bool:
    if isinstance(rule, str):
        return fnmatchcase(site.name, rule)
    return not site.is_input and isinstance(model.get_submodule(site.module), rule)


def _nothing_chosen(found: list[Site], rule: object) -> list[Site]:
    names = ", ".join(site.name for site in found)
    raise SiteError(
        f"No site fits {rule!r}. Those to choose from are: {names}. Other places: at='module' lists them all."
    )


class Flow:
    """Questions about a trace that the placement of sites asks."""

    def __init__(self, record: Trace) -> None:
        self.nodes = record.nodes
        self._consumers: dict[int, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for source in dict.fromkeys(node.inputs):
                self._consumers[source].append(node)
        self._ancestors = self._all_ancestors()
        self._main = self._reached_from(record.outputs)
        self._normalised = {node.inputs[0]: node.index for node in self.nodes if node.function in NORMS}
        self._normalised |= {call.takes: call.returns for call in record.calls if self._is_normaliser(call)}

    def pre_activations(self) -> list[Node]:
        """What weight layers yield, normalised if they are, on the main branch; but for attention and the logits."""
        units = {self._unit_end(node) for node in self.nodes if node.function in WEIGHTS and node.index in self._main}
        units |= {end for end in self._normalised.values() if self._feeds(end, NONLINEAR)}
        return [node for node in self.nodes if node.index in units and self._counts(node)]

    def post_activations(self) -> list[Node]:
        """The values of nonlinearities on the main branch."""
        return [node for node in self.nodes if node.function in NONLINEAR and self._counts(node)]

    def _counts(self, node: Node) -> bool:
        later = (after.index for after in self._weights() if after.index > node.index)
        leads_to_weights = any(self._ancestors[index] >> node.index & 1 for index in later)
        return node.index in self._main and leads_to_weights and not self._reaches(node.index, BILINEAR)

    def _weights(self) -> Iterator[Node]:
        return (node for node in self.nodes if node.function in WEIGHTS)

    def _unit_end(self, node: Node) -> int:
        """The value of a weight layer after the normalisation that follows it, if one does."""
        end = node.index
        while (after := self._normalised.get(self._rearranged(end))) is not None:
            end = after
        return end

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
        weights = sum(1 << node.index for node in self._weights())
        mine, yours = (ours & ~theirs & weights).bit_count(), (theirs & ~ours & weights).bit_count()
        return (one, other) if mine == yours else (one,) if mine > yours else (other,)

    def _is_gate_of(self, index: int, other: int) -> bool:
        """Whether a factor has been squashed, and not from the other factor itself, as in x · sigmoid(x)."""
        node = self.nodes[index]
        while node.function in REARRANGING and node.inputs:
            node = self.nodes[node.inputs[0]]
        return node.function in GATES and other not in node.inputs
