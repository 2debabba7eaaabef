"""References that learn while they predict: a running average of BatchNorm statistics, and Tent."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.matching.average import average
from shiftmatch.matching.batchnorm import batch_mean_and_var, has_source_statistics

Setup: TypeAlias = Callable[[nn.Module], Callable[[Tensor], Tensor]]
"""From a copy of a network to a function that may change it with every batch."""

MOMENTUM = 0.1
"""The part that each batch has in the running average; that of PyTorch's BatchNorm."""

TENT_LEARNING_RATE = 1e-3


class OnlineModel(nn.Module):
    """A network that changes with what it sees. `reset` makes it forget; the network given stays as it was."""

    def __init__(self, model: nn.Module, setup: Setup) -> None:
        super().__init__()
        self.model, self.setup = model, setup
        self._predict: Callable[[Tensor], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of a batch, after all that it has seen since the last reset."""
        if self._predict is None:
            self._predict = self.setup(copy.deepcopy(self.model).eval())
        return self._predict(x)

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._predict = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what has been seen, so that each process that it is sent to begins anew."""
        return self.__dict__ | {"_predict": None}


@final
@dataclass(frozen=True, eq=False)
class EpisodicAverage:
    """The average of networks that change with what they see; `reset` makes them forget."""

    members: Sequence[OnlineModel]

    def __call__(self, images: Tensor) -> Tensor:
        return average(self.members)(images)

    def reset(self) -> None:
        """Begin a new episode."""
        for member in self.members:
            member.reset()


def running_batchnorm(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """BatchNorm on an exponential running average over the batches, which begins with the source statistics.

    >>> net = nn.BatchNorm1d(1, affine=False).eval()
    >>> _ = running_batchnorm(net)(torch.tensor([[10.0], [30.0]]))
    >>> net.running_mean, net.running_var
    (tensor([2.]), tensor([10.9000]))
    """
    for layer in filter(has_source_statistics, network.modules()):
        layer.register_forward_pre_hook(_average_in)
    return network.__call__


def _average_in(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
    running = layer._buffers["running_mean"], layer._buffers["running_var"]
    for buffer, measured in zip(running, batch_mean_and_var(args[0]), strict=True):
        assert buffer is not None
        buffer.lerp_(measured.to(buffer.dtype), MOMENTUM)


def tent(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """Tent (Wang et al., 2021): after each batch one step of Adam on the entropy of its predictions.

    BatchNorm normalises with the batch; only the scales and shifts of normalisation layers are learned.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
    >>> _ = tent(net)(torch.randn(8, 2))
    >>> bool((net[1].bias != 0).all())
    True
    """
    for layer in filter(has_source_statistics, network.modules()):
        layer._buffers |= {"running_mean": None, "running_var": None}
    learned = scales_and_shifts(network.requires_grad_(False))
    optimiser = torch.optim.Adam([parameter.requires_grad_() for parameter in learned], lr=TENT_LEARNING_RATE)

    def predict_and_learn(x: Tensor) -> Tensor:
        with torch.enable_grad():
            logits: Tensor = network(x)
            log_p = functional.log_softmax(logits, -1)
            optimiser.zero_grad()
            entropy = -(log_p.exp() * log_p).sum(-1).mean()
            entropy.backward()
        optimiser.step()
        return logits.detach()

    return predict_and_learn


def check_batchnorm(network: nn.Module) -> None:
    """Refuse a network without BatchNorm."""
    if not any(map(has_source_statistics, network.modules())):
        raise InputError(
            f"{type(network).__name__} has no BatchNorm layer with running statistics, which this method changes. "
            "Leave it out; 'batchnorm' and 'ShiftMatch' take every network."
        )


def scales_and_shifts(network: nn.Module) -> list[nn.Parameter]:
    """The parameters of normalisation layers, of whatever kind: those of classes called something with norm.

    >>> len(scales_and_shifts(nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2))))
    2
    """
    found = [p for module in network.modules() if _normalises(module) for p in module.parameters(recurse=False)]
    if not found:
        raise InputError(
            f"Tent learns the scales and shifts of normalisation layers, and {type(network).__name__} has none. "
            "Leave Tent out, or compare with 'batchnorm', which takes every network."
        )
    return found


def _normalises(module: nn.Module) -> bool:
    return any("norm" in kind.__name__.lower() for kind in type(module).__mro__)
