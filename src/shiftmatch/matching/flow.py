"""How information flows through a traced network: what lies on its main branch, what before a nonlinearity."""

from collections import defaultdict
from collections.abc import Iterator

from shiftmatch.matching.trace import Call, Node, Trace

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
        return node.index in self._main and leads_to_weights and not self._meets(node.index, BILINEAR)

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

    def _meets(self, index: int, functions: set[str]) -> bool:
        """Whether a value, rearranged or scaled, ends up in one of these functions."""
        passing = [
            n for n in self._consumers[index] if n.function in REARRANGING | PRODUCTS and len(set(n.inputs)) == 1
        ]
        return self._feeds(index, functions) or any(self._meets(node.index, functions) for node in passing)

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
