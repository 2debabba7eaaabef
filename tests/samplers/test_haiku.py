"""Checkpoints in the published form, written here with fakes of the classes of Haiku and JAX."""

import os
import pickle
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models import Architecture
from shiftmatch.samplers.interop import import_hmc, read_checkpoint

Array = NDArray[np.float32]
Tree = dict[str, dict[str, Array]]


class FlatMapping:
    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.content,)


class TraceState(tuple[Any, ...]):
    __slots__ = ()


def reconstruct_array(*_: Any) -> None:
    raise AssertionError("only its name is needed")


FOREIGN: tuple[tuple[str, str, Any], ...] = (
    ("haiku._src.data_structures", "FlatMapping", FlatMapping),
    ("jax._src.array", "_reconstruct_array", reconstruct_array),
    ("optax._src.transform", "TraceState", TraceState),
)


@contextmanager
def foreign_modules() -> Iterator[None]:
    """Modules of the right names, so that pickle writes the globals that the published files contain."""
    before = dict(sys.modules)
    for full, name, value in FOREIGN:
        for module in (full.split(".")[0], full.rpartition(".")[0], full):
            sys.modules[module] = types.ModuleType(module)
        setattr(sys.modules[full], name, value)
        value.__module__, value.__qualname__, value.__name__ = full, name, name
    yield
    for module in sys.modules.keys() - before.keys():
        del sys.modules[module]
    sys.modules.update(before)


class JaxArray:
    def __init__(self, array: Array) -> None:
        self.array = array

    def __reduce__(self) -> tuple[Any, ...]:
        parts: Any = self.array.__reduce__()
        function, arguments, state = parts[:3]
        return reconstruct_array, (function, arguments, state, {"weak_type": False, "named_shape": {}})


def lenet_tree(seed: int) -> Tree:
    rng = np.random.default_rng(seed)
    shapes = {
        "conv2_d": (5, 5, 1, 6),
        "conv2_d_1": (5, 5, 6, 16),
        "linear": (400, 120),
        "linear_1": (120, 84),
        "linear_2": (84, 10),
    }
    return {name: {"w": _normal(rng, shape, 0.1), "b": _normal(rng, shape[-1:], 0.1)} for name, shape in shapes.items()}


def resnet_tree(seed: int) -> Tree:
    rng = np.random.default_rng(seed)
    widths = [(3, 3, 3, 16)] + [(3, 3, 16, 16)] * 6
    for before, after in ((16, 32), (32, 64)):
        widths += [(3, 3, before, after), (3, 3, after, after), (1, 1, before, after)] + [(3, 3, after, after)] * 4
    tree: Tree = {"linear": {"w": _normal(rng, (64, 10), 0.3), "b": _normal(rng, (10,), 0.3)}}
    for index, shape in enumerate(widths):
        suffix = f"_{index}" if index else ""
        tree[f"conv2_d{suffix}"] = {"w": _normal(rng, shape, 0.2), "b": _normal(rng, shape[-1:], 0.2)}
        channels = (1, 1, 1, shape[-1])
        tree[f"frn{suffix}"] = {leaf: _normal(rng, channels, 0.7) for leaf in ("tau", "beta", "gamma")}
    return tree


def _normal(rng: np.random.Generator, shape: tuple[int, ...], std: float) -> Array:
    return (std * rng.standard_normal(shape)).astype(np.float32)


# Reference networks in NumPy and NHWC, as slow and plain as possible.


def conv(x: Array, leaves: dict[str, Array], stride: int = 1, *, same: bool = True) -> Array:
    w, b = leaves["w"], leaves["b"]
    kernel = w.shape[0]
    if same:
        total = max((-(-x.shape[1] // stride) - 1) * stride + kernel - x.shape[1], 0)
        margin = (total // 2, total - total // 2)
        x = np.pad(x, ((0, 0), margin, margin, (0, 0)))
    side = (x.shape[1] - kernel) // stride + 1
    out = np.zeros((len(x), side, side, w.shape[-1]), np.float32) + b
    for i in range(kernel):
        for j in range(kernel):
            window = x[:, i : i + stride * (side - 1) + 1 : stride, j : j + stride * (side - 1) + 1 : stride]
            out += window @ w[i, j]
    return out


def pool(x: Array) -> Array:
    n, h, w, c = x.shape
    pooled: Array = x.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4))
    return pooled


def lenet_reference(tree: Tree, x: Array) -> Array:
    def relu(y: Array) -> Array:
        return np.maximum(y, 0)

    x = pool(relu(conv(x, tree["conv2_d"])))
    x = pool(relu(conv(x, tree["conv2_d_1"], same=False)))
    x = x.reshape(len(x), -1)
    x = relu(x @ tree["linear"]["w"] + tree["linear"]["b"])
    x = relu(x @ tree["linear_1"]["w"] + tree["linear_1"]["b"])
    return x @ tree["linear_2"]["w"] + tree["linear_2"]["b"]


def resnet_reference(tree: Tree, x: Array) -> Array:
    def swish(y: Array) -> Array:
        out: Array = y / (1 + np.exp(-y))
        return out

    def unit(y: Array, index: int, stride: int = 1) -> Array:
        suffix = f"_{index}" if index else ""
        y = conv(y, tree[f"conv2_d{suffix}"], stride)
        frn = tree[f"frn{suffix}"]
        y = y / np.sqrt((y**2).mean((1, 2), keepdims=True) + 1e-6)
        out: Array = np.maximum(frn["gamma"] * y + frn["beta"], frn["tau"])
        return out

    x, index = swish(unit(x, 0)), 1
    for stack in range(3):
        for block in range(3):
            changes = stack > 0 and block == 0
            y = unit(swish(unit(x, index, 2 if changes else 1)), index + 1)
            shortcut = unit(x, index + 2, 2) if changes else x
            x, index = swish(shortcut + y), index + (3 if changes else 2)
    logits: Array = x.mean((1, 2)) @ tree["linear"]["w"] + tree["linear"]["b"]
    return logits


def write(path: Path, tree: Any, **more: Any) -> Path:
    content = {"params": FlatMapping({module: FlatMapping(leaves) for module, leaves in tree.items()}), **more}
    with foreign_modules():
        path.write_bytes(pickle.dumps(content, protocol=4))
    return path


@pytest.mark.parametrize("wrap", [lambda array: array, JaxArray], ids=["numpy", "jax"])
def test_a_lenet_checkpoint_gives_the_same_logits(tmp_path: Path, wrap: Any) -> None:
    tree = lenet_tree(0)
    wrapped = {module: {leaf: wrap(value) for leaf, value in leaves.items()} for module, leaves in tree.items()}
    trace = TraceState((np.zeros(3, np.float32),))
    file = write(tmp_path / "model_step_11.pt", wrapped, accepted=np.bool_(True), step_size=np.float32(3e-5), opt=trace)
    x = np.random.default_rng(1).standard_normal((4, 28, 28, 1)).astype(np.float32)
    model = import_hmc([file], Architecture("lenet")).models()[0]
    logits = model(torch.from_numpy(x).permute(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(logits, lenet_reference(tree, x), atol=1e-5)


def test_three_stacked_chains_of_the_resnet_give_the_same_logits(tmp_path: Path) -> None:
    trees = [[resnet_tree(10 * step + chain) for chain in range(3)] for step in range(2)]
    files = []
    for step, chains in enumerate(trees):
        stacked = {m: {leaf: np.stack([tree[m][leaf] for tree in chains]) for leaf in chains[0][m]} for m in chains[0]}
        files.append(write(tmp_path / f"state-{step}.pkl", stacked, net_state=FlatMapping({})))
    posterior = import_hmc(files[::-1], Architecture("resnet20_frn"))
    assert posterior.chains == (2, 2, 2)
    x = np.random.default_rng(1).standard_normal((2, 32, 32, 3)).astype(np.float32)
    for chain in range(3):
        for step in range(2):
            logits = posterior.models()[2 * chain + step](torch.from_numpy(x).permute(0, 3, 1, 2)).detach().numpy()
            np.testing.assert_allclose(logits, resnet_reference(trees[step][chain], x), atol=1e-5, rtol=1e-5)


def test_rejected_draws_are_left_out(tmp_path: Path) -> None:
    files = [write(tmp_path / f"model_step_{step}.pt", lenet_tree(step), accepted=step != 2) for step in (1, 2, 10)]
    posterior = import_hmc(files, Architecture("lenet"))
    assert len(posterior) == 2
    np.testing.assert_array_equal(posterior[1]["dense3.bias"], lenet_tree(10)["linear_2"]["b"])


def test_files_of_different_numbers_of_chains_are_refused(tmp_path: Path) -> None:
    pair = {module: {k: np.stack([v, v]) for k, v in leaves.items()} for module, leaves in lenet_tree(0).items()}
    files = [write(tmp_path / "state-1.pkl", lenet_tree(0)), write(tmp_path / "state-2.pkl", pair)]
    with pytest.raises(FileFormatError, match=r"state-1\.pkl: 1, state-2\.pkl: 2"):
        import_hmc(files, Architecture("lenet"))


class Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


def test_a_malicious_pickle_is_refused_by_name_and_runs_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    file = write(tmp_path / "model_step_1.pt", lenet_tree(0), extra=Malicious(trap))
    with pytest.raises(FileFormatError, match=r"(posix|nt)\.system"):
        read_checkpoint(file)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Malicious(trap)))  # the trap is real
    assert trap.exists()


class SmuggledFunction:
    """An allowed rebuilding function, asked to call one that is not."""

    def __reduce__(self) -> tuple[Any, ...]:
        return reconstruct_array, (np.dtype, ("f4",), (), {})


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({"weights": 1})])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state-0.pkl"
    file.write_bytes(content)
    with pytest.raises(FileFormatError):
        read_checkpoint(file)


def test_a_jax_array_may_only_be_rebuilt_from_numpy(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="JAX"):
        read_checkpoint(write(tmp_path / "state-0.pkl", {}, extra=SmuggledFunction()))


def test_samples_of_another_network_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "model_step_1.pt", lenet_tree(0))
    with pytest.raises(InputError, match="shape"):
        import_hmc([file], Architecture("lenet", {"channels": 3, "size": 32}))
    shorter = {module: leaves for module, leaves in lenet_tree(0).items() if module != "linear_2"}
    with pytest.raises(InputError, match="no linear_2/w"):
        import_hmc([write(tmp_path / "model_step_2.pt", shorter)], Architecture("lenet"))


def test_real_haiku_gives_the_same_logits(tmp_path: Path) -> None:
    hk = pytest.importorskip("haiku", reason="dm-haiku is not installed")
    jax = pytest.importorskip("jax", reason="jax is not installed")

    def pool(x: Any) -> Any:
        return hk.avg_pool(x, (2, 2, 1), (2, 2, 1), "VALID")

    def forward(x: Any) -> Any:
        x = pool(jax.nn.relu(hk.Conv2D(6, 5, padding="SAME")(x)))
        x = pool(jax.nn.relu(hk.Conv2D(16, 5, padding="VALID")(x)))
        x = hk.Flatten()(x)
        for width in (120, 84):
            x = jax.nn.relu(hk.Linear(width)(x))
        return hk.Linear(10)(x)

    network = hk.without_apply_rng(hk.transform(forward))
    x = np.random.default_rng(1).standard_normal((4, 28, 28, 1)).astype(np.float32)
    params = network.init(jax.random.PRNGKey(0), x)
    file = tmp_path / "model_step_1.pt"
    file.write_bytes(pickle.dumps({"params": params}))
    model = import_hmc([file], Architecture("lenet")).models()[0]
    logits = model(torch.from_numpy(x).permute(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(logits, np.asarray(network.apply(params, x)), atol=1e-5)


def test_draws_that_were_all_rejected_are_no_posterior(tmp_path: Path) -> None:
    files = [write(tmp_path / f"model_step_{step}.pt", lenet_tree(step), accepted=False) for step in (1, 2)]
    with pytest.raises(InputError, match="None of the 2 files holds an accepted draw"):
        import_hmc(files, Architecture("lenet"))


def test_leaves_with_other_axes_or_chains_than_the_network_and_each_other_are_refused(tmp_path: Path) -> None:
    tree = lenet_tree(0)
    tree["linear"]["w"] = tree["linear"]["w"][None, None]
    with pytest.raises(InputError, match="linear/w has 3 axes; this network needs 2"):
        import_hmc([write(tmp_path / "model_step_1.pt", tree)], Architecture("lenet"))
    tree = {module: {leaf: np.stack([x] * 3) for leaf, x in leaves.items()} for module, leaves in lenet_tree(0).items()}
    tree["linear"]["b"] = tree["linear"]["b"][:2]
    with pytest.raises(FileFormatError, match=r"different numbers of chains: \[2, 3\]"):
        import_hmc([write(tmp_path / "model_step_2.pt", tree)], Architecture("lenet"))


@pytest.mark.parametrize("params", [{"linear": 3}, {"linear": {"w": [1.0]}}, {3: {"w": np.zeros(2)}}])
def test_parameters_that_are_no_arrays_by_name_are_refused(tmp_path: Path, params: Any) -> None:
    file = tmp_path / "state-0.pkl"
    file.write_bytes(pickle.dumps({"params": params}))
    with pytest.raises(FileFormatError, match="its 'params' are no arrays by name"):
        read_checkpoint(file)


@pytest.mark.parametrize("array", [np.array(["words"]), np.array([1j]), np.array([{"a": 1}], dtype=object)])
def test_arrays_of_other_things_than_numbers_are_refused(tmp_path: Path, array: NDArray[Any]) -> None:
    file = tmp_path / "state-0.pkl"
    file.write_bytes(pickle.dumps({"params": {"linear": {"w": array}}}))
    with pytest.raises(FileFormatError, match="nothing in it was run: it holds an array of"):
        read_checkpoint(file)


@pytest.mark.parametrize("kind", [">f4", "<f8", "i2", "?"])
def test_numbers_keep_their_values_whatever_their_type_and_order(tmp_path: Path, kind: str) -> None:
    numbers = np.asfortranarray(np.arange(6).reshape(2, 3)).astype(kind)
    file = tmp_path / "state-0.pkl"
    file.write_bytes(pickle.dumps({"params": {"linear": {"w": numbers}}, "step": numbers[1, 2]}))
    content = read_checkpoint(file)
    np.testing.assert_array_equal(content["params"]["linear"]["w"], numbers)
    assert content["step"] == numbers[1, 2]
