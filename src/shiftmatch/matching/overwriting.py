"""Large batches: a site in the place of its BatchNorm, which works in the memory of what the layer takes.

A thousand images of 224 × 224 pixels have features of several gigabytes. The output of a convolution, that of its
BatchNorm and the matched features would be three of them; where nothing else looks at the first, it is enough.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core.covariance import Spectrum
from shiftmatch.core.views import compute_dtype
from shiftmatch.errors import ShiftMatchError
from shiftmatch.matching.instrument import submodule
from shiftmatch.matching.maps import batchnorm_at, channel_affine
from shiftmatch.matching.matcher import PartMatcher, SiteMatcher, without_autocast
from shiftmatch.matching.site import Site

LARGE = 256 << 20
"""Bytes of features from which on they are overwritten; below, memory is not what matters."""


class OverwritingSite:
    """The operation in the place of a BatchNorm: the layer and then the site, in one where features are large."""

    def __init__(self, matcher: SiteMatcher) -> None:
        self.matcher = matcher
        self.layer: _BatchNorm | None = None
        self.source: nn.Module | None = None

    def connect(self, network: nn.Module) -> None:
        """Find the layers in the network that this is built into."""
        site = self.matcher.site
        self.layer, self.source = submodule(network, site.module), submodule(network, site.source)  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        layer, matcher = self.layer, self.matcher
        assert layer is not None
        if torch.compiler.is_compiling() or x.nbytes < LARGE or not self._is_free(x):
            matched: Tensor = matcher(type(layer).forward(layer, x))
            return matched
        (part,), images = matcher.parts, len(x) // matcher.site.per_image
        assert isinstance(part, PartMatcher)
        assert isinstance(part.covariance, Spectrum)
        try:
            with without_autocast(x.device.type):
                return part.covariance.overwrite(x, part.target, part.prior, images, channel_affine(layer, x.dtype))
        except ShiftMatchError as error:
            raise matcher.named(error) from None

    def _is_free(self, x: Tensor) -> bool:
        """Whether nobody else looks at these features: no gradient, no hook; and they are as the site expects them."""
        hooked = self.source._forward_hooks or self.matcher._forward_pre_hooks or torch_module._global_forward_hooks  # type: ignore[union-attr]
        watched = torch.is_grad_enabled() and x.requires_grad
        dense = x.is_contiguous() or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
        fits = tuple(x.shape[1:]) == self.matcher.site.shape and x.dtype == compute_dtype(x)
        return dense and fits and not hooked and not watched


def overwriting_sites(network: nn.Module, matchers: Mapping[Site, SiteMatcher]) -> dict[Site, OverwritingSite]:
    """Operations for those sites whose BatchNorm is the only one to take what the layer before it makes."""
    return {
        site: OverwritingSite(matcher)
        for site, matcher in matchers.items()
        if site.source and _has_spectrum(matcher) and batchnorm_at(network, site) is not None
    }


def _has_spectrum(matcher: SiteMatcher) -> bool:
    return all(isinstance(part, PartMatcher) and "matrix0" in part.target for part in matcher.parts)
