"""The formulas of spectrum.py in one compiled call per site, with equal results; optional.

The kernels are built from `_kernels.c` where a C compiler is found, and left out silently where not; SHIFTMATCH_PURE=1
leaves them out, too. They take images in single precision on the CPU, contiguous or with channels last, without
gradients, tracing or compilation. All other features take PyTorch's operations.
"""

import os
from functools import cache
from importlib import import_module
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.core.basis import dct_matrix
from shiftmatch.core.moments import CONSTANT_RTOL, NOT_FINITE
from shiftmatch.core.views import Target
from shiftmatch.errors import NonFiniteError
from shiftmatch.shapes import Images

BASE = 8
"""What the kernel has under the same name: entries whose transform is a product with its matrix."""

FEW = 8192
"""Fewer numbers than this are not worth a second thread."""


def _load() -> ModuleType | None:
    if os.environ.get("SHIFTMATCH_PURE"):
        return None
    try:
        return import_module("shiftmatch.core._kernels")
    except ImportError:  # not built here, or not for this processor
        return None


_kernels = _load()


def serve(x: Tensor, *others: Tensor) -> bool:
    """Whether the kernels can take these features, and the other tensors that they would read."""
    return (
        _kernels is not None
        and type(x) is Tensor
        and x.ndim == 4
        and x.device.type == "cpu"
        and (x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last))
        and x.dtype == torch.float32
        and all(tensor.dtype == torch.float32 and tensor.is_contiguous() for tensor in others)
        and x.numel() > 0
        and not (x.requires_grad and torch.is_grad_enabled())
        and (_kernels.PARALLEL or torch.get_num_threads() == 1)
        and not (torch.compiler.is_compiling() or torch._C._is_tracing())
        and not torch._C._len_torch_dispatch_stack()
    )


def match(
    x: Images,
    target: Target,
    shrinkages: tuple[float, float, float],
    before: tuple[Tensor, Tensor] | None = None,
    out: Images | None = None,
) -> Images:
    """`Spectrum.transport`. Channels are scaled and shifted `before`, if that is given; `out` may be `x`."""
    assert _kernels is not None
    out, known = torch.empty_like(x) if out is None else out, tuple(target[name].data_ptr() for name in TARGET)
    affine = (before[0].data_ptr(), before[1].data_ptr()) if before else (0, 0)
    settings = (CONSTANT_RTOL**2, *shrinkages)
    if not _kernels.match(x.data_ptr(), out.data_ptr(), *_shape(x), known, settings, affine):
        raise NonFiniteError(NOT_FINITE)
    return out


TARGET = ("mean", "raised", "floor", "channel_mean", "channel_variance")
"""The tensors of a spectrum's target that the kernel reads, in its order."""


def measure(x: Images) -> tuple[Float[Tensor, "c f"], Float[Tensor, "c f"]]:
    """Mean and variance of every coefficient, summed in float64."""
    assert _kernels is not None
    mean, variance = torch.empty(2, x.shape[1], x.shape[2] * x.shape[3], dtype=torch.float64)
    _kernels.measure(x.data_ptr(), *_shape(x), mean.data_ptr(), variance.data_ptr())
    return mean, variance


def move(x: Images, gain: Tensor, offset: Tensor, z: Images | None = None) -> Images:
    """The features with coefficients gain · z + offset, both (c f); coefficients before that are written to `z`."""
    assert _kernels is not None
    out, keep = torch.empty_like(x), 0 if z is None else z.data_ptr()
    _kernels.move(x.data_ptr(), keep, out.data_ptr(), *_shape(x), gain.data_ptr(), offset.data_ptr())
    return out


def _shape(x: Images) -> tuple[int, ...]:
    """The sizes, the step from pixel to pixel, matrices and threads that every kernel takes."""
    b, c, h, w = x.shape
    step = 1 if x.is_contiguous() else c
    threads = torch.get_num_threads() if x.numel() >= FEW else 1
    return b, c, h, w, step, _matrices(h, w).data_ptr(), threads


@cache
def _matrices(h: int, w: int) -> Tensor:
    """What the transforms of both axes need, as `axis_of` in the kernel reads it."""
    return torch.cat([_tables(h), _tables(w)]).float()


def _tables(n: int) -> Tensor:
    """Matrices of the smallest transform that n entries are split into, and the rotations of all larger ones."""
    base, rotations = n, []
    while base > BASE and base % 2 == 0:
        base //= 2
    m = n // 2
    while m > base:
        angle = torch.pi * (2 * torch.arange(m // 2, dtype=torch.float64) + 1) / (4 * m)
        sign = (-1.0) ** torch.arange(m // 2)
        factors = [angle.cos(), angle.sin(), sign * angle.cos(), sign * angle.sin()]
        rotations.append(torch.stack(factors, -1).flatten())
        m //= 2
    second = dct_matrix(base) * (base / n) ** 0.5
    odd = 2 * torch.arange(base, dtype=torch.float64) + 1
    fourth = (2 / n) ** 0.5 * torch.cos(torch.pi / (4 * base) * odd[:, None] * odd.flip(0))
    parts = [second[::2, : (base + 1) // 2], second[1::2, : base // 2].flip(1), fourth]
    return torch.cat([part.flatten() for part in (*parts, *(part.mT for part in parts))] + rotations)
