"""Test-time batchnorm: BatchNorm layers that normalise with the statistics of the batch at hand."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.errors import InputError
from shiftmatch.matching.hooks import borrowed


def adapt_batchnorm(model: nn.Module, *, prior: float | int = 0) -> "BatchNormModel":
    """The network with BatchNorm on the statistics of each batch: test-time batchnorm.

    The running statistics are mixed in with weight N/(N+n), N = `prior`, for a batch of n images.

    >>> net = nn.BatchNorm1d(1, affine=False)
    >>> adapt_batchnorm(net)(torch.tensor([[10.0], [30.0]])).round(decimals=3)
    tensor([[-1.],
            [ 1.]])
    """
    if not any(map(has_source_statistics, model.modules())):
        raise InputError(
            f"{type(model).__name__} has no BatchNorm layer with running statistics. "
            "Match its channel moments instead: shiftmatch.fit(model, batches, covariance=shiftmatch.ChannelMoments())."
        )
    return BatchNormModel(model, prior)


class BatchNormModel(nn.Module):
    """A network whose BatchNorm layers use the batch; the network itself stays as it was."""

    def __init__(self, model: nn.Module, prior: float | int) -> None:
        super().__init__()
        self.model = model
        self.prior = prior

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, in evaluation mode but for BatchNorm."""
        with borrowed(self.model), batch_statistics(self.model, prior=self.prior):
            return self.model(*args, **kwargs)


@contextmanager
def batch_statistics(model: nn.Module, *, prior: float | int = 0) -> Iterator[None]:
    """Lend every BatchNorm layer the statistics of what it sees, in place of its running ones, and take them back."""
    with ExitStack() as stack:
        for module in filter(has_source_statistics, model.modules()):
            mean, var = module._buffers["running_mean"], module._buffers["running_var"]
            stack.callback(_set_statistics, module, mean, var)
            stack.enter_context(module.register_forward_pre_hook(_lend_batch_statistics(mean, var, prior)))
        yield


def _lend_batch_statistics(mean: Any, var: Any, prior: float | int) -> Callable[..., None]:
    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        batch_mean, batch_var = batch_mean_and_var(args[0].to(mean.dtype))
        weight = prior / (prior + len(args[0]))
        _set_statistics(module, torch.lerp(batch_mean, mean, weight), torch.lerp(batch_var, var, weight))

    return hook


def batch_mean_and_var(x: Tensor) -> tuple[Tensor, Tensor]:
    """What a BatchNorm layer measures of a batch: mean and variance of each channel, without gradients.

    >>> batch_mean_and_var(torch.tensor([[10.0], [30.0]]))
    (tensor([20.]), tensor([100.]))
    """
    axes = [axis for axis in range(x.ndim) if axis != 1]
    var, mean = torch.var_mean(x.detach(), dim=axes, correction=0)
    return mean, var


def _set_statistics(module: nn.Module, mean: Tensor | None, var: Tensor | None) -> None:
    module._buffers["running_mean"], module._buffers["running_var"] = mean, var


def has_source_statistics(module: nn.Module) -> bool:
    """Whether this is a BatchNorm layer that remembers the statistics of its training data.

    >>> has_source_statistics(nn.BatchNorm2d(3)), has_source_statistics(nn.GroupNorm(1, 3))
    (True, False)
    """
    return isinstance(module, _BatchNorm) and module.running_mean is not None
