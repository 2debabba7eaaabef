"""The operation at one site: move a batch of features to the moments that they had in training."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from shiftmatch.core.covariance import ChannelMoments, Covariance, Spectrum
from shiftmatch.core.moments import Moments
from shiftmatch.core.spectrum import Prior
from shiftmatch.core.views import Target
from shiftmatch.errors import InputError, ShiftMatchError
from shiftmatch.matching.distributed import transport_across_processes
from shiftmatch.matching.statistics import SiteStatistics, part_covariance
from shiftmatch.shapes import Size

INFINITY = float("inf")
HALF_PRECISIONS = (torch.float16, torch.bfloat16, torch.complex32)


class PartMatcher(nn.Module):
    """Matches features (b c *spatial). Its buffers are the training moments; it has no other state."""

    def __init__(self, covariance: Covariance, train: Sequence[Moments], space: Sequence[int], prior: Prior) -> None:
        super().__init__()
        self.covariance, self.prior, self.across_processes = covariance, prior, False
        if isinstance(covariance, Spectrum) and (prior.shape == INFINITY or not space):  # only channel moments are left
            self.covariance, train = ChannelMoments(), covariance.channel_moments(train, space)
        for name, tensor in self.covariance.target(train, space).items():
            self.register_buffer(name, tensor)

    @property
    def target(self) -> Target:
        """Where features are moved to."""
        return self._buffers  # type: ignore[return-value]

    def forward(self, x: Tensor, images: Size) -> Tensor:
        """The features of that many images, matched."""
        if self.across_processes:
            return transport_across_processes(self.covariance, x, self.target, self.prior, int(images))
        return self.covariance.transport(x, self.target, self.prior, images)

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        """Statistics stay in single precision at least, and in double where roots are taken, whatever is asked for."""
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
    """Matches the tensor of one site, part by part: a map, and tokens apart from it."""

    def __init__(
        self,
        entry: SiteStatistics,
        prior: Prior | None,
        dtype: torch.dtype = torch.float64,
        across_processes: bool = False,
    ) -> None:
        super().__init__()
        self.across_processes = across_processes
        self.entry, self.prior = entry, Prior(*(entry.covariance.prior if prior is None else prior))
        self.site = entry.site
        self.parts = nn.ModuleList(self._parts(entry.site.shape)).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """The tensor with its features matched; an empty batch as it is."""
        if not torch.compiler.is_compiling():
            if len(x) == 0 and not self.across_processes:
                return x
            if tuple(x.shape[1:]) != self.site.shape:
                return self._resized(x)
        return self._matched(x, self.parts)

    def _matched(self, x: Tensor, matchers: Sequence[nn.Module] | nn.ModuleList) -> Tensor:
        layout, images = self.site.layout, x.shape[0] // self.site.per_image
        try:
            with without_autocast(x.device.type):
                return layout.join([m(part, images) for m, part in zip(matchers, layout.split(x), strict=True)])
        except ShiftMatchError as error:
            raise self.named(error) from None

    def named(self, error: ShiftMatchError) -> ShiftMatchError:
        """The error with the name of the site."""
        return type(error)(f"At site {self.site.name!r}: {error}")

    def _parts(self, shape: Sequence[int]) -> list[PartMatcher]:
        """A matcher for each part of tensors of that shape."""
        entry, spaces = self.entry, self.site.layout.spaces(self.site.shape)
        wanted = self.site.layout.spaces(shape)
        found = []
        for i, (fitted, space, to) in enumerate(zip(entry.parts, spaces, wanted, strict=True)):
            covariance, train = part_covariance(entry.covariance, i), fitted
            if isinstance(covariance, Spectrum) and space != to:
                train = covariance.resized(train, space, to)
            found.append(PartMatcher(covariance, train, to, self.prior))
            found[-1].across_processes = self.across_processes
        return found

    def _resized(self, x: Tensor) -> Tensor:
        """Match a map of another size than the one that was fitted."""
        shape, fitted = tuple(x.shape[1:]), self.site.shape
        layout, resizable = self.site.layout, isinstance(self.entry.covariance, Spectrum | ChannelMoments)
        channel = layout.channel - 1
        if layout.grid or not resizable or len(shape) != len(fitted) or shape[channel] != fitted[channel]:
            raise InputError(
                f"Site {self.site.name!r} has features of shape {shape}; they were {fitted} when it was fitted. "
                "Resize the images, or fit again on images of this size."
            )
        like = next(self.buffers())
        return self._matched(x, [part.to(like.device, like.dtype) for part in self._parts(shape)])


def without_autocast(device: str) -> AbstractContextManager[object]:
    """Statistics are taken in single precision, also on devices that know no other."""
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
