"""Test-time batchnorm: BatchNorm layers that normalise with the statistics of the batch at hand."""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core.moments import shrinkage_for
from shiftmatch.errors import InputError
from shiftmatch.matching.inputs import Inputs
from shiftmatch.matching.twin import TwinModel, twin_of

BatchNormMode: TypeAlias = Literal["eval", "batch"]
"""Whether BatchNorm layers normalise with their running statistics or with those of the batch."""


def adapt_batchnorm(model: nn.Module, *, prior_images: float | int = 0) -> "BatchNormModel":
    """The network with BatchNorm on the statistics of each batch: test-time batchnorm.

    The running statistics are mixed in with weight N/(N+n), N = `prior_images`, for a batch of n images.

    Args:
        model: the trained network; it stays as it was.
        prior_images: how many images N the running statistics count for; 0 trusts only the batch.

    >>> net = nn.BatchNorm1d(1, affine=False)
    >>> adapt_batchnorm(net)(torch.tensor([[10.0], [30.0]])).round(decimals=3)
    tensor([[-1.],
            [ 1.]])
    """
    if not any(map(has_source_statistics, model.modules())):
        raise InputError(
            f"{type(model).__name__} has no BatchNorm layer with running statistics. "
            "Match its channel moments instead: shiftmatch.fit(model, data, covariance=shiftmatch.ChannelMoments())."
        )
    return BatchNormModel(model, prior_images)


class BatchNormModel(TwinModel):
    """A network whose BatchNorm layers use the batch; it shares its weights with the network that it is made from."""

    def __init__(self, model: nn.Module, prior_images: float | int) -> None:
        super().__init__()
        self.network = twin_of(model)
        self.prior_images = prior_images
        use_batch_statistics(self.network, prior_images)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, in evaluation mode but for BatchNorm."""
        inputs = Inputs(args, kwargs).on(self.network)
        return self.network(*inputs.args, **inputs.kwargs)


def use_batch_statistics(twin: nn.Module, prior_images: float | int = 0) -> None:
    """Let every BatchNorm layer of a twin normalise with the statistics of its batch."""
    for module in filter(has_source_statistics, twin.modules()):
        module.forward = _BatchStatistics(module, prior_images)


class _BatchStatistics:
    """The forward pass of a BatchNorm layer, with the statistics of the batch in place of the running ones."""

    def __init__(self, layer: nn.Module, prior_images: float | int) -> None:
        self.layer, self.prior_images = layer, prior_images

    def __call__(self, x: Tensor) -> Any:
        return type(self.layer).forward(self._with_statistics_of(x), x)

    def _with_statistics_of(self, x: Tensor) -> nn.Module:
        """A copy of the layer for this call, so that calls in other threads do not see its statistics."""
        if len(x) == 0:
            return self.layer
        buffers = self.layer._buffers
        mean, var = buffers["running_mean"], buffers["running_var"]
        assert mean is not None
        assert var is not None
        batch_mean, batch_var = batch_mean_and_var(x.to(mean.dtype))
        weight = shrinkage_for(self.prior_images, len(x))
        layer: nn.Module = object.__new__(type(self.layer))
        vars(layer).update(vars(self.layer))
        layer._buffers = buffers | {
            "running_mean": torch.lerp(batch_mean, mean, weight),
            "running_var": torch.lerp(batch_var, var, weight),
        }
        return layer


def batch_mean_and_var(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel of a batch, without gradients."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    var, mean = torch.var_mean(x.detach(), dim=axes, correction=0)
    return mean, var


def has_source_statistics(module: nn.Module) -> bool:
    """Whether this is a BatchNorm layer with running statistics."""
    return isinstance(module, _BatchNorm) and module.running_mean is not None
