"""Structures that a covariance of features may have, behind one interface."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, final, runtime_checkable

from torch import Tensor

from shiftmatch.core.linalg import Regularisation
from shiftmatch.core.moments import Moments, shrinkage_for
from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum
from shiftmatch.core.views import Target, View, measure_views, target_of, transport_views
from shiftmatch.errors import InputError
from shiftmatch.shapes import Features, Size

C = TypeVar("C")

CHANNEL = 1  # axis 0 of features (b c *spatial) holds the images, axis 1 the channels, the rest is space


@runtime_checkable
class Covariance(Protocol):
    """A structure: what is measured of features, and how a batch is moved to it. A frozen dataclass of settings.

    >>> isinstance(Spectrum(), Covariance), Spectrum().prior
    (True, Prior(moments=16.0, shape=300.0))
    """

    @property
    def prior(self) -> Prior:
        """How many images the training statistics count for, unless `match` is told otherwise."""

    def measure(self, x: Features) -> tuple[Moments, ...]:
        """The moments of one batch; those of two batches add."""

    def target(self, train: Sequence[Moments], space: Sequence[int]) -> dict[str, Tensor]:
        """What `transport` needs of the training moments, computed once, for maps of that size."""

    def transport(self, x: Features, target: Target, prior: Prior, images: Size) -> Features:
        """Move a batch of that many images to the target."""


@dataclass(frozen=True)
class ViewCovariance:
    """Base of the structures that are whitened and recoloured as matrices, view by view.

    A structure says which `views` features have. Each view is measured on what the one before has matched; with
    `one_shot` all are measured on the same features.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> class Rows(ViewCovariance):
    ...     def views(self, dimensions):
    ...         return (View(along=(2,), group=(1,)),)
    >>> Rows().views(4)
    (View(along=(2,), group=(1,), columns=()),)
    """

    regularisation: Regularisation = field(default_factory=Regularisation)
    one_shot: ClassVar[bool] = False
    prior: ClassVar[Prior] = Prior(0.0, 0.0)

    def views(self, ndim: int) -> tuple[View, ...]:
        """The views of features with `ndim` axes."""
        raise NotImplementedError

    def measure(self, x: Features) -> tuple[Moments, ...]:
        """The moments of one batch, one for each view."""
        return measure_views(self.views(x.ndim), x)

    def target(self, train: Sequence[Moments], space: Sequence[int]) -> dict[str, Tensor]:
        """Means, covariances and their roots."""
        return target_of(train, self.regularisation)

    def transport(self, x: Features, target: Target, prior: Prior, images: Size) -> Features:
        """Whiten and recolour, view by view."""
        if prior.moments != prior.shape:
            raise InputError(
                f"{type(self).__name__} takes one number of prior images; got {tuple(prior)}. Spectrum takes two."
            )
        weight, views = shrinkage_for(prior.moments, images), self.views(x.ndim)
        return transport_views(views, x, target, self.regularisation, shrinkage=weight, one_shot=self.one_shot)


_DENSE = (View(along=(CHANNEL,)),)
"""The view of features without space."""


def _space(ndim: int) -> range:
    return range(CHANNEL + 1, ndim)


@final
@dataclass(frozen=True)
class SpatialKronecker(ViewCovariance):
    """Per channel: rows, then columns of what the rows have become, each with its own mean per axis.

    This is what produced the published figures. Features without spatial axes get their dense covariance.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> SpatialKronecker().views(4)
    (View(along=(2,), group=(1,), columns=()), View(along=(3,), group=(1,), columns=()))
    """

    def views(self, ndim: int) -> tuple[View, ...]:
        return tuple(View(along=(axis,), group=(CHANNEL,)) for axis in _space(ndim)) or _DENSE


@final
@dataclass(frozen=True)
class Kronecker(ViewCovariance):
    """Σ_c = R_c ⊗ C_c / σ²_c for every channel c, with one mean per feature: the paper's equation.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> Kronecker().views(4)
    (View(along=(2,), group=(1,), columns=(3,)), View(along=(3,), group=(1,), columns=(2,)))
    """

    one_shot: ClassVar[bool] = True

    def views(self, ndim: int) -> tuple[View, ...]:
        space = _space(ndim)
        views = [View((axis,), (CHANNEL,), tuple(other for other in space if other != axis)) for axis in space]
        return tuple(views) or _DENSE


@final
@dataclass(frozen=True)
class SpatialFull(ViewCovariance):
    """One HW × HW covariance per channel.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> SpatialFull().views(4)
    (View(along=(2, 3), group=(1,), columns=()),)
    """

    def views(self, ndim: int) -> tuple[View, ...]:
        return (View(along=tuple(_space(ndim)), group=(CHANNEL,)),) if _space(ndim) else _DENSE


@final
@dataclass(frozen=True)
class ChannelJoint(ViewCovariance):
    """Rows, then columns, with one covariance that all channels share; each channel keeps its own means.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> ChannelJoint().views(4)
    (View(along=(2,), group=(), columns=(1,)), View(along=(3,), group=(), columns=(1,)))
    """

    def views(self, ndim: int) -> tuple[View, ...]:
        return tuple(View(along=(axis,), columns=(CHANNEL,)) for axis in _space(ndim)) or _DENSE


@final
@dataclass(frozen=True)
class ChannelCovariance(ViewCovariance):
    """One C × C covariance over the channels, with every pixel a sample: what CORAL matches.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> ChannelCovariance().views(4)
    (View(along=(1,), group=(), columns=()),)
    """

    def views(self, ndim: int) -> tuple[View, ...]:
        return _DENSE


@final
@dataclass(frozen=True)
class Dense(ViewCovariance):
    """One covariance over all features, space included: exact, and affordable only where features are few.

    Args:
        regularisation: what keeps the covariances of the batch and of training away from singular.

    >>> Dense().views(4)
    (View(along=(1, 2, 3), group=(), columns=()),)
    """

    def views(self, ndim: int) -> tuple[View, ...]:
        return (View(along=tuple(range(CHANNEL, ndim))),)


_BUILT_IN = (Spectrum, ChannelMoments, SpatialKronecker, Kronecker, SpatialFull, ChannelJoint, ChannelCovariance, Dense)

STRUCTURES: dict[str, type[Any]] = {structure.__name__: structure for structure in _BUILT_IN}
"""Structures by name, as files and the command line call them."""


def register_covariance(structure: type[C]) -> type[C]:
    """Make a structure known by its name, so that statistics with it can be loaded; usable as a class decorator.

    Args:
        structure: the class, whose name is written into files of statistics.

    >>> register_covariance(Spectrum) is STRUCTURES["Spectrum"]
    True
    """
    STRUCTURES[structure.__name__] = structure
    return structure


def covariance_named(name: str) -> Covariance:
    """The structure of that name, with its usual settings.

    >>> covariance_named("Spectrum")
    Spectrum(basis='dct', floor=0.0001)
    """
    if name not in STRUCTURES:
        raise InputError(f"There is no covariance {name!r}; choose one of {', '.join(STRUCTURES)}.")
    structure: Covariance = STRUCTURES[name]()
    return structure
