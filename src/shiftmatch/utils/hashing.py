"""A hash of what a value is made of, so that results are not used for other networks, images or settings by mistake."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType

import numpy as np
import torch
from torch import Tensor, nn

DATA = (bool, int, float, str, tuple, list, np.ndarray, Tensor, nn.Module)
"""What a function may use of its module and is read; other functions are not followed."""


def content_hash(value: object) -> str:
    """SHA-256 over the content of a value: weights, settings, images; of a function its code and the data it uses.

    Paths do not count, as the same data may lie elsewhere.

    >>> content_hash({"a": torch.ones(2)}) == content_hash({"a": torch.ones(2)}) != content_hash({"a": torch.zeros(2)})
    True
    """
    reader = _Reader()
    reader.add(value)
    return reader.digest.hexdigest()


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of the names, shapes and values of parameters and buffers, batch counters aside.

    >>> net = nn.Linear(2, 2)
    >>> fingerprint(net) == fingerprint(net)
    True
    """
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, torch.Tensor) or name.endswith("num_batches_tracked"):
            continue
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class _Reader:
    """Goes through a value, part by part; a part that holds itself is entered once."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.entered: set[int] = set()

    def add(self, value: object) -> None:
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
            case None | bool() | int() | float() | str() | bytes() | torch.dtype() | type() | CodeType():
                self.write(_constant(value))
            case Tensor():
                self.write(f"{value.dtype} {tuple(value.shape)}")
                self.write(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
            case np.ndarray():
                self.add(torch.from_numpy(value))
            case nn.Module():
                self.write(f"{value!r} {fingerprint(value)}")
                self.add({k: v for k, v in vars(value).items() if not k.startswith("_") and k != "training"})
            case FunctionType():
                enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
                self.add([value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, enclosed])
                around = {name: value.__globals__.get(name) for name in value.__code__.co_names}
                self.add({name: item for name, item in around.items() if isinstance(item, DATA)})
            case MethodType():
                self.add([value.__func__, value.__self__])
            case partial():
                self.add([value.func, value.args, value.keywords])
            case Mapping() if not is_dataclass(value):
                self.add([part for item in value.items() for part in item])
            case Sequence():
                self.write(str(len(value)))
                for item in value:
                    self.add(item)
            case _ if is_dataclass(value):
                self.add([getattr(value, field.name) for field in fields(value)])


def _constant(value: object) -> str:
    """A value that holds no others, as text; code without the places in files that it came from."""
    if not isinstance(value, CodeType):
        return repr(value)
    return f"{value.co_code!r} {value.co_names} {[_constant(constant) for constant in value.co_consts]}"
