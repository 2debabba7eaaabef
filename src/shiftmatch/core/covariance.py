"""Structures that a covariance of features may have, each as the views of the features that it is measured in."""

from dataclasses import dataclass, field
from math import prod
from typing import Protocol, final, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from shiftmatch.core.linalg import Ridge
from shiftmatch.errors import InputError
from shiftmatch.shapes import Features

JITTER = 1e-4
"""Bounds what directions without variance are amplified by; hundred times the rounding of single precision."""

CHANNEL = 1  # axis 0 of features (b c *spatial) holds the images, axis 1 the channels, the rest is space


@final
@dataclass(frozen=True)
class View:
    """Features as samples of d × k matrices, one family per group: which axes are which; all others are samples."""

    along: tuple[int, ...] = ()
    group: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    def open(self, x: Features) -> Float[Tensor, "g d k n"]:
        """Rearrange features into samples; without a copy where their memory layout allows it."""
        roles = self._roles(x)
        sizes = [prod(x.shape[axis] for axis in axes) for axes in roles]
        return x.permute(*sum(roles, ())).reshape(sizes)

    def close(self, samples: Float[Tensor, "g d k n"], like: Features) -> Features:
        """Undo `open` for samples of those features."""
        order: tuple[int, ...] = sum(self._roles(like), ())
        inverse = [order.index(axis) for axis in range(like.ndim)]
        return samples.reshape([like.shape[axis] for axis in order]).permute(inverse)

    def _roles(self, x: Features) -> tuple[tuple[int, ...], ...]:
        """Axes by role; samples in the order of memory, so that they can be seen as one axis."""
        taken = self.group + self.along + self.columns
        samples = (axis for axis in range(x.ndim) if axis not in taken)
        return self.group, self.along, self.columns, tuple(sorted(samples, key=x.stride, reverse=True))


@dataclass(frozen=True)
class Tolerance:
    """The ridges of the two covariances. Equal ones keep matching the identity on training data."""

    test: Ridge = field(default=Ridge(jitter=JITTER))
    train: Ridge = field(default=Ridge(jitter=JITTER))


@runtime_checkable
class Covariance(Protocol):
    """A structure: the views in which moments are measured and matched, one after the other."""

    def __init__(self, tolerance: Tolerance = ...) -> None: ...

    @property
    def tolerance(self) -> Tolerance:
        """What keeps its roots finite."""
        ...

    @property
    def one_shot(self) -> bool:
        """Whether all views are measured on the same features, rather than each on what the one before has matched."""
        ...

    def views(self, ndim: int) -> tuple[View, ...]:
        """The views of features with `ndim` axes."""
        ...


def _space(ndim: int) -> range:
    return range(CHANNEL + 1, ndim)


_DENSE = (View(along=(CHANNEL,)),)


@final
@dataclass(frozen=True)
class SpatialKronecker:
    """Per channel: rows, then columns of what the rows have become, each with its own mean per axis.

    This is what produced the published figures. Features without spatial axes get their dense covariance.

    >>> SpatialKronecker().views(4)
    (View(along=(2,), group=(1,), columns=()), View(along=(3,), group=(1,), columns=()))
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = False

    def views(self, ndim: int) -> tuple[View, ...]:
        return tuple(View(along=(axis,), group=(CHANNEL,)) for axis in _space(ndim)) or _DENSE


@final
@dataclass(frozen=True)
class Kronecker:
    """Σ_c = R_c ⊗ C_c / σ²_c for every channel c, with one mean per feature: the paper's equation."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = True

    def views(self, ndim: int) -> tuple[View, ...]:
        space = _space(ndim)
        return (
            tuple(
                View(along=(axis,), group=(CHANNEL,), columns=tuple(other for other in space if other != axis))
                for axis in space
            )
            or _DENSE
        )


@final
@dataclass(frozen=True)
class SpatialFull:
    """One HW × HW covariance per channel."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = False

    def views(self, ndim: int) -> tuple[View, ...]:
        return (View(along=tuple(_space(ndim)), group=(CHANNEL,)),) if _space(ndim) else _DENSE


@final
@dataclass(frozen=True)
class ChannelJoint:
    """Rows, then columns, with one covariance that all channels share; each channel keeps its own means."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = False

    def views(self, ndim: int) -> tuple[View, ...]:
        return tuple(View(along=(axis,), columns=(CHANNEL,)) for axis in _space(ndim)) or _DENSE


@final
@dataclass(frozen=True)
class ChannelMoments:
    """Mean and variance per channel: test-time batchnorm for any network."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = False

    def views(self, ndim: int) -> tuple[View, ...]:
        return (View(group=(CHANNEL,)),)


@final
@dataclass(frozen=True)
class ChannelCovariance:
    """One C × C covariance over the channels, with every pixel a sample: what CORAL matches."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = False

    def views(self, ndim: int) -> tuple[View, ...]:
        return _DENSE


@final
@dataclass(frozen=True)
class Dense:
    """One covariance over all features, space included: exact, and affordable only where features are few."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    one_shot = False

    def views(self, ndim: int) -> tuple[View, ...]:
        return (View(along=tuple(range(CHANNEL, ndim))),)


STRUCTURES: dict[str, type[Covariance]] = {
    structure.__name__: structure
    for structure in (SpatialKronecker, Kronecker, SpatialFull, ChannelJoint, ChannelMoments, ChannelCovariance, Dense)
}
"""Structures by name, as files and the command line call them."""


def structure_named(name: str) -> Covariance:
    """The structure of that name, with its usual tolerance.

    >>> structure_named("ChannelMoments").one_shot
    False
    """
    if name not in STRUCTURES:
        raise InputError(f"There is no covariance {name!r}; choose one of {', '.join(STRUCTURES)}.")
    return STRUCTURES[name]()
