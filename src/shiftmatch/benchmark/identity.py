"""A hash of what a value is made of, so that results are not used for other networks, images or settings by mistake."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType

import torch
from torch import Tensor, nn

from shiftmatch.core.moments import Moments
from shiftmatch.sites.fingerprint import fingerprint


def identity(value: object) -> str:
    """SHA-256 over the content of a value: weights, settings, images; of a function its code and what it encloses.

    Measured moments count by their number alone, as their last digits depend on the number of threads; paths, not at
    all, as the same data may lie elsewhere.

    >>> identity({"a": torch.ones(2)}) == identity({"a": torch.ones(2)}) != identity({"a": torch.zeros(2)})
    True
    """
    digest = hashlib.sha256()
    for part in _parts(value):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _parts(value: object) -> Iterator[bytes]:
    yield type(value).__qualname__.encode()
    match value:
        case None | bool() | int() | float() | str() | bytes() | torch.dtype() | type():
            yield repr(value).encode()
        case Tensor():
            yield f"{value.dtype} {tuple(value.shape)}".encode()
            yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        case Moments():
            yield str(value.count).encode()
        case nn.Module():
            yield repr(value).encode()
            yield fingerprint(value).encode()
            yield from _parts({k: v for k, v in vars(value).items() if not k.startswith("_") and k != "training"})
        case FunctionType() | MethodType() | partial():
            yield from _function(value)
        case PurePath():
            return
        case Mapping() if not is_dataclass(value):
            for key, item in value.items():
                yield from _parts(key)
                yield from _parts(item)
        case Sequence():
            for item in value:
                yield from _parts(item)
        case _ if is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                yield from _parts(getattr(value, field.name))


def _function(value: FunctionType | MethodType | partial[object]) -> Iterator[bytes]:
    match value:
        case FunctionType():
            yield value.__qualname__.encode()
            yield from _code(value.__code__)
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
            yield from _parts([enclosed, value.__defaults__, value.__kwdefaults__])
        case MethodType():
            yield from _parts([value.__func__, value.__self__])
        case partial():
            yield from _parts([value.func, value.args, value.keywords])


def _code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    for constant in code.co_consts:
        yield from _code(constant) if isinstance(constant, CodeType) else [repr(constant).encode()]
