"""The operation at a site: move a batch of features to the training moments, perhaps with the BatchNorm before it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core import kernels
from shiftmatch.core.covariance import Covariance
from shiftmatch.core.moments import Moments
from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum, shrinkages_for, transport_in_chunks
from shiftmatch.core.views import Target, compute_dtype
from shiftmatch.errors import ShiftMatchError
from shiftmatch.matching.distributed import transport_across_processes
from shiftmatch.matching.instrument import submodule
from shiftmatch.matching.maps import batchnorm_before, channel_affine
from shiftmatch.matching.sites import Site
from shiftmatch.matching.statistics import SiteStatistics

INFINITY = float("inf")
HALF_PRECISIONS = (torch.float16, torch.bfloat16, torch.complex32)

LARGE = 256 << 20
"""Features of so many bytes are matched in the memory of what their BatchNorm takes; below, memory matters less."""


class PartTarget(nn.Module):
    """Where the features (b c *spatial) of one part of a site are moved to: its buffers are the training moments."""

    def __init__(
        self, covariance: Covariance, train: Sequence[Moments], space: Sequence[int], to: Sequence[int], prior: Prior
    ) -> None:
        super().__init__()
        if isinstance(covariance, Spectrum) and space != to:  # maps of another size than those that were fitted
            train = covariance.resized(train, space, to)
        if isinstance(covariance, Spectrum) and (prior.shape == INFINITY or not to):  # only channel moments are left
            train = covariance.channel_moments(train, to)
            covariance = ChannelMoments()
        self.covariance, self.prior = covariance, prior
        for name, tensor in covariance.target(train, to).items():
            self.register_buffer(name, tensor)

    @property
    def target(self) -> Target:
        """The buffers by name."""
        return self._buffers  # type: ignore[return-value]

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        """Conversions keep the statistics in single precision at least, and in double where roots are taken."""
        before, exact = dict(self._buffers), not isinstance(self.covariance, ChannelMoments | Spectrum)
        for name, old in before.items():  # a conversion to real numbers would discard the imaginary parts
            if old is not None and old.is_complex():
                self._buffers[name] = torch.view_as_real(old)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self._buffers[name]
            if old is None or new is None:
                continue
            if exact or new.dtype in HALF_PRECISIONS:
                self._buffers[name] = old.to(new.device)
            elif old.is_complex():
                self._buffers[name] = torch.view_as_complex(new.contiguous())
        return self


class SiteMatcher(nn.Module):
    """Matches the tensor of one site, part by part: its map, and each token before the map."""

    def __init__(
        self,
        entry: SiteStatistics,
        prior: Prior | None,
        dtype: torch.dtype = torch.float64,
        across_processes: bool = False,
    ) -> None:
        super().__init__()
        self.entry, self.site, self.across_processes = entry, entry.site, across_processes
        self.prior = Prior(*(entry.covariance.prior if prior is None else prior))
        self.parts = nn.ModuleList(self._parts(entry.site.shape)).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """The tensor with its features matched; an empty batch is returned as it is."""
        parts: Iterable[nn.Module] = self.parts
        if not torch.compiler.is_compiling():
            if len(x) == 0 and not self.across_processes:
                return x
            if tuple(x.shape[1:]) != self.site.shape:
                parts = self._resized(x)
        layout, images, moved = self.site.layout, x.shape[0] // self.site.per_image, []
        with measuring_at(self.site, x):
            for part, features in zip(parts, layout.split(x), strict=True):
                assert isinstance(part, PartTarget)
                arguments = features, part.target, part.prior, images
                if self.across_processes:
                    moved.append(transport_across_processes(part.covariance, *arguments))
                else:
                    moved.append(part.covariance.transport(*arguments))
        return layout.join(moved)

    def _parts(self, shape: Sequence[int]) -> list[PartTarget]:
        """The targets of the parts of tensors of that shape."""
        parts = zip(self.entry.structures(), self.site.layout.spaces(shape), strict=True)
        return [PartTarget(*structure, to, self.prior) for structure, to in parts]

    def _resized(self, x: Tensor) -> list[PartTarget]:
        """The targets for a map of another size than the one that was fitted."""
        shape, fitted, layout = tuple(x.shape[1:]), self.site.shape, self.site.layout
        resizable, channel = isinstance(self.entry.covariance, Spectrum | ChannelMoments), layout.channel - 1
        if layout.grid or not resizable or len(shape) != len(fitted) or shape[channel] != fitted[channel]:
            self.site.check_shape(x)
        like = next(self.buffers())
        return [part.to(like.device, like.dtype) for part in self._parts(shape)]


class FusedSite:
    """The operation in the place of a BatchNorm: the layer and the site after it, in one step where that can be.

    In evaluation mode a BatchNorm scales and shifts each channel, and so does matching; the kernel does both at once.
    Large features are matched in the memory of what the layer takes, if nothing else reads that: otherwise the output
    of a convolution, that of its BatchNorm and the matched features are three tensors of several gigabytes.
    """

    def __init__(self, matcher: SiteMatcher) -> None:
        self.matcher = matcher
        self.layer: _BatchNorm | None = None
        self.source: nn.Module | None = None

    def connect(self, network: nn.Module) -> None:
        """Find the layers in the network that this is built into."""
        site = self.matcher.site
        self.layer = submodule(network, site.module)  # type: ignore[assignment]
        self.source = submodule(network, site.source) if site.source else None

    def __call__(self, x: Tensor) -> Tensor:
        layer, matcher = self.layer, self.matcher
        assert layer is not None
        if not (torch.compiler.is_compiling() or self._is_watched(x) or tuple(x.shape[1:]) != matcher.site.shape):
            (part,), images = matcher.parts, len(x) // matcher.site.per_image
            assert isinstance(part, PartTarget)
            assert isinstance(part.covariance, Spectrum)
            served, overwritten = kernels.serve(x, part.target["mean"]), x.nbytes >= LARGE and self._is_free(x)
            if served or overwritten:
                with measuring_at(matcher.site, x):
                    before = channel_affine(layer, x.dtype)
                    if not served:
                        return transport_in_chunks(part.covariance, x, part.target, part.prior, images, before=before)
                    shrinkages, out = shrinkages_for(part.prior, images), x if overwritten else None
                    return kernels.match(x, part.target, shrinkages, before, out)  # type: ignore[arg-type]
        matched: Tensor = matcher(type(layer).forward(layer, x))
        return matched

    def _is_watched(self, x: Tensor) -> bool:
        """Whether a hook or a gradient needs the features between the two."""
        layer = self.layer
        assert layer is not None
        learns = any(t is not None and t.requires_grad for t in (x, layer.weight, layer.bias))
        hooked = self.matcher._forward_pre_hooks or self.matcher._forward_hooks
        return bool(hooked) or (torch.is_grad_enabled() and learns)

    def _is_free(self, x: Tensor) -> bool:
        """Whether nothing else reads what the layer takes, and its memory can hold the coefficients."""
        hooked = self.source is None or self.source._forward_hooks or torch_module._global_forward_hooks
        dense = x.is_contiguous() or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
        return dense and x.dtype == compute_dtype(x) and not hooked


def fused_sites(network: nn.Module, matchers: Mapping[Site, SiteMatcher]) -> dict[Site, FusedSite]:
    """Operations for those sites that are the output of a BatchNorm."""

    def has_dct(matcher: SiteMatcher) -> bool:
        return all(isinstance(part, PartTarget) and "matrix0" in part.target for part in matcher.parts)

    return {
        site: FusedSite(matcher)
        for site, matcher in matchers.items()
        if has_dct(matcher) and batchnorm_before(network, site) is not None
    }


@contextmanager
def measuring_at(site: Site, x: Tensor) -> Iterator[None]:
    """In single precision at least, whatever autocast asks for; errors say at which site they occurred."""
    try:
        with without_autocast(x.device.type):
            yield
    except ShiftMatchError as error:
        raise type(error)(f"At site {site.name!r}: {error}") from None


def without_autocast(device: str) -> AbstractContextManager[object]:
    """Without autocast, on devices that have it: statistics are taken in single precision at least."""
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
