"""A hash of what a value is made of, so that results are not used for other networks, images or settings by mistake."""

import copyreg
import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache, partial
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, no_type_check

import numpy as np
import torch
from torch import Tensor, nn

from shiftmatch.errors import UnhashableError

DATA = (bool, int, float, str, tuple, list, np.ndarray, Tensor, nn.Module)
"""What a function may use of its module and is read; other functions are not followed."""

HOOKS = ("_forward_pre_hooks", "_forward_hooks")
INTERNAL = vars(nn.Module()).keys() - {"_parameters", "_buffers", "_modules", "training"}
"""What PyTorch keeps in every module, and which changes nothing that it computes; hooks are read apart."""

PROTOCOL = 4
"""Of pickle, by whose rules the state of an object is what it is made of."""


def content_hash(value: object) -> str:
    """SHA-256 over the content of a value: weights, settings, images; of a function its code and the data it uses.

    The content of an object is its class, with the code of its methods, and what pickle would keep of it: a class
    that remembers what it has seen, or keeps a cache, leaves that out in `__getstate__`. Paths do not count, as the
    same data may lie elsewhere. What has no such content (a lock, a file, a scripted module) is refused with
    `UnhashableError`.

    >>> content_hash({"a": torch.ones(2)}) == content_hash({"a": torch.ones(2)}) != content_hash({"a": torch.zeros(2)})
    True
    """
    reader = _Reader()
    reader.add(value)
    return reader.digest.hexdigest()


def weights_hash(model: nn.Module) -> str:
    """SHA-256 of the names, shapes and values of parameters and buffers, batch counters aside.

    >>> net = nn.Linear(2, 2)
    >>> weights_hash(net) == weights_hash(net)
    True
    """
    return hashlib.sha256(repr(weight_hashes(model)).encode()).hexdigest()


def weight_hashes(model: nn.Module) -> dict[str, str]:
    """Sixteen digits for every parameter and buffer, so that it can be said which one differs.

    >>> list(weight_hashes(nn.Linear(2, 2)))
    ['weight', 'bias']
    """
    tensors = {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)}
    return {name: _tensor_hash(x) for name, x in tensors.items() if not name.endswith("num_batches_tracked")}


def _tensor_hash(tensor: Tensor) -> str:
    values = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{values.dtype} {tuple(values.shape)}".encode())
    digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


@no_type_check  # of every part by itself; the tests, which check types at run time, would spend most of their time here
class _Reader:
    """Goes through a value, part by part; a part that holds itself is entered once."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.entered: set[int] = set()

    def add(self, value: object) -> None:
        if isinstance(value, nn.Module):
            value = getattr(value, "_orig_mod", value)  # what torch.compile was given
        if id(value) in self.entered:
            return
        self.entered.add(id(value))
        self.write(type(value).__qualname__)
        self.read(value)
        self.entered.remove(id(value))

    def write(self, part: str | bytes) -> None:
        """With its length before it, so that `ab, c` is not `a, bc`."""
        content = part.encode() if isinstance(part, str) else part
        self.digest.update(len(content).to_bytes(8, "big"))
        self.digest.update(content)

    def read(self, value: object) -> None:
        match value:
            case None | bool() | int() | float() | str() | bytes() | torch.dtype() | CodeType():
                self.write(_constant(value))
            case type():
                self.write(f"{value.__module__} {value.__qualname__} {_code_of(value)}")
            case PurePath():
                pass
            case ModuleType():
                self.write(value.__name__)
            case Tensor():
                self.write(f"{value.dtype} {tuple(value.shape)}")
                self.write(_bytes(value))
            case np.ndarray() if value.dtype != object:
                self.write(f"{value.dtype} {value.shape}")
                self.write(value.tobytes())
            case Sequence():
                self.write(str(len(value)))
                for item in value:
                    self.add(item)
            case _:
                self.add(_parts(value))


def _parts(value: object) -> list[object]:
    """What a value is made of that is made of others."""
    match value:
        case FunctionType():
            ours = value.__module__.startswith("shiftmatch.")
            return _function_parts(inspect.unwrap(value) if ours else value)  # tests wrap ours to check types
        case MethodType():
            return [value.__func__, value.__self__]
        case partial():
            return [value.func, value.args, value.keywords]
        case Mapping():
            return [part for item in value.items() for part in item]
        case Set():
            return [sorted(map(content_hash, value))]
        case _:
            return _state(value)


def _function_parts(function: Any) -> list[object]:
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    around = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    data = {name: item for name, item in around.items() if isinstance(item, DATA)}
    return [function.__qualname__, function.__code__, function.__defaults__, function.__kwdefaults__, enclosed, data]


def _state(value: object) -> list[object]:
    """By the rules of pickle: what makes an object, from what, and the state that it then gets."""
    try:
        reduced = value.__reduce_ex__(PROTOCOL)
    except Exception as error:
        raise UnhashableError(
            f"The content of {type(value).__qualname__} cannot be told ({error}), so a result that depends on it "
            "could be taken for another. Leave it out of the state that the object around it gives pickle "
            "(__getstate__), or do without a folder of results."
        ) from error
    if isinstance(reduced, str):
        return [getattr(value, "__module__", ""), reduced]
    make, arguments, state, *items = *reduced, None
    if isinstance(value, nn.Module) and make is copyreg.__newobj__ and isinstance(state, Mapping):  # type: ignore[attr-defined]
        state = _module_state(state)
    return [make, arguments, state, *(list(item) if isinstance(item, Iterator) else item for item in items)]


def _module_state(state: Mapping[str, object]) -> dict[str, object]:
    """Parameters, buffers (batch counters aside), parts, hooks without their numbers, and what its class adds."""
    kept = {name: part for name, part in state.items() if name not in INTERNAL}
    buffers = state.get("_buffers")
    if isinstance(buffers, Mapping):
        kept["_buffers"] = {name: buffer for name, buffer in buffers.items() if name != "num_batches_tracked"}
    found = [state.get(name) for name in HOOKS]
    return kept | {"hooks": [list(hooks.values()) for hooks in found if isinstance(hooks, Mapping)]}


def _bytes(tensor: Tensor) -> bytes:
    try:
        content: bytes = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    except (RuntimeError, NotImplementedError) as error:
        raise UnhashableError(f"The content of a {tensor.layout} tensor cannot be read: {error}") from error
    return content


@cache
def _code_of(kind: type) -> str:
    """A hash of the methods of a class and of those it comes from."""
    digest = hashlib.sha256()
    for parent in kind.__mro__[:-1]:
        for name, member in vars(parent).items():
            function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
            if isinstance(function, FunctionType):
                digest.update(f"{parent.__qualname__} {name} {_constant(function.__code__)}".encode())
    return digest.hexdigest()


def _constant(value: object) -> str:
    """A value that holds no others, as text; code without the places in files that it came from."""
    if isinstance(value, frozenset):
        return str(sorted(map(repr, value)))  # in no order that would last
    if not isinstance(value, CodeType):
        return repr(value)
    return f"{value.co_code!r} {value.co_names} {[_constant(constant) for constant in value.co_consts]}"
