"""A site that does the work of its BatchNorm as well.

In evaluation mode a BatchNorm scales and shifts each channel, and so does matching. The kernel does both at once: it
reads what the layer takes and writes the matched features. Large features are matched in the memory of what the layer
takes, if nothing else looks at it: a thousand images of 224 × 224 pixels have features of several gigabytes, and the
output of a convolution, that of its BatchNorm and the matched features would be three of them.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core import kernels
from shiftmatch.core.covariance import Spectrum
from shiftmatch.core.spectrum import shrinkages_for
from shiftmatch.core.views import compute_dtype
from shiftmatch.errors import ShiftMatchError
from shiftmatch.matching.instrument import submodule
from shiftmatch.matching.maps import batchnorm_at, channel_affine
from shiftmatch.matching.matcher import PartMatcher, SiteMatcher, without_autocast
from shiftmatch.matching.sites import Site

LARGE = 256 << 20
"""Bytes of features from which on they are overwritten; below, memory is not what matters."""


class FusedSite:
    """The operation in the place of a BatchNorm: the layer and then the site, in one where that can be."""

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
        if torch.compiler.is_compiling() or self._is_watched(x) or tuple(x.shape[1:]) != matcher.site.shape:
            return self._one_after_the_other(x)
        (part,), images = matcher.parts, len(x) // matcher.site.per_image
        assert isinstance(part, PartMatcher)
        assert isinstance(part.covariance, Spectrum)
        served, overwritten = kernels.serve(x, part.target["mean"]), x.nbytes >= LARGE and self._is_free(x)
        if not served and not overwritten:
            return self._one_after_the_other(x)
        try:
            with without_autocast(x.device.type):
                before = channel_affine(layer, x.dtype)
                if not served:
                    return part.covariance.overwrite(x, part.target, part.prior, images, before)
                shrinkages, out = shrinkages_for(part.prior, images), x if overwritten else None
                return kernels.match(x, part.target, shrinkages, before, out)  # type: ignore[arg-type]
        except ShiftMatchError as error:
            raise matcher.named(error) from None

    def _one_after_the_other(self, x: Tensor) -> Tensor:
        assert self.layer is not None
        matched: Tensor = self.matcher(type(self.layer).forward(self.layer, x))
        return matched

    def _is_watched(self, x: Tensor) -> bool:
        """Whether somebody asks for the features between the two: a hook or a gradient."""
        layer = self.layer
        assert layer is not None
        learns = any(t is not None and t.requires_grad for t in (x, layer.weight, layer.bias))
        hooked = self.matcher._forward_pre_hooks or self.matcher._forward_hooks
        return bool(hooked) or (torch.is_grad_enabled() and learns)

    def _is_free(self, x: Tensor) -> bool:
        """Whether nobody else looks at what the layer takes, and coefficients can take its place."""
        hooked = self.source is None or self.source._forward_hooks or torch_module._global_forward_hooks
        dense = x.is_contiguous() or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
        return dense and x.dtype == compute_dtype(x) and not hooked


def fused_sites(network: nn.Module, matchers: Mapping[Site, SiteMatcher]) -> dict[Site, FusedSite]:
    """Operations for those sites that are the output of a BatchNorm."""
    return {
        site: FusedSite(matcher)
        for site, matcher in matchers.items()
        if _has_spectrum(matcher) and batchnorm_at(network, site) is not None
    }


def _has_spectrum(matcher: SiteMatcher) -> bool:
    return all(isinstance(part, PartMatcher) and "matrix0" in part.target for part in matcher.parts)
