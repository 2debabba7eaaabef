"""How far to match, decided without labels: an average over the nested family, weighted by the network's confidence."""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.matching.inputs import logits_of
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.twin import twin_of

CONFIDENCE_WEIGHT = 15.0
"""τ of the weights exp(−τ · mean entropy); 10 to 30 are alike."""

MAX_TEMPERATURE, TEMPERATURE_STEPS = 8.0, 30
NAMES = ("plain", "channel moments", "spectrum")


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided for a batch, and why."""

    weights: dict[str, float]
    entropies: dict[str, float]
    temperature: float

    def __str__(self) -> str:
        best = max(self.weights, key=lambda name: self.weights[name])
        shares = ", ".join(f"{name} {weight:.0%}" for name, weight in self.weights.items())
        surer = ", ".join(f"{name} {entropy:.2f}" for name, entropy in self.entropies.items())
        return (
            f"The network is surest of this batch with {best}: weights {shares} (mean entropy in nats: {surer}); "
            f"probabilities at temperature {self.temperature:.2f}."
        )


class AutoMatchedModel(nn.Module):
    """A network that averages over how far it matches: plain, channel moments, spectrum. Three passes per batch.

    It returns log-probabilities, which can be used wherever logits can.
    """

    def __init__(self, statistics: Statistics, plain: nn.Module, moments: nn.Module, full: nn.Module) -> None:
        super().__init__()
        self.statistics, self.members = statistics, nn.ModuleList([plain, moments, full])

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "b k"]:
        """The logarithm of the weighted mean of the members' probabilities, at a temperature found without labels."""
        return self._decided(*args, **kwargs)[1]

    def explain(self, *args: Any, **kwargs: Any) -> Decision:
        """What is decided for a batch. Nothing is kept, so threads may ask at once."""
        with torch.no_grad():
            return self._decided(*args, **kwargs)[0]

    def train(self, mode: bool = True) -> "AutoMatchedModel":
        """Stays in evaluation mode."""
        return self

    def _decided(self, *args: Any, **kwargs: Any) -> tuple[Decision, Float[Tensor, "b k"]]:
        matched_first = reversed(self.members)  # it checks the inputs, in words
        log_p = torch.stack([logits_of(m(*args, **kwargs)).log_softmax(-1) for m in matched_first][::-1])
        entropies = -(log_p.exp() * log_p).sum(-1).mean(-1) if log_p.shape[1] else log_p.new_zeros(len(log_p))
        log_weights = (-CONFIDENCE_WEIGHT * entropies.detach()).log_softmax(0)
        mixed = torch.logsumexp(log_p + log_weights[:, None, None], 0)
        temperature = agreement_temperature(mixed.detach(), log_p[1].argmax(-1), log_p[2].argmax(-1))
        weights = dict(zip(NAMES, log_weights.exp().tolist(), strict=True))
        decision = Decision(weights, dict(zip(NAMES, entropies.tolist(), strict=True)), temperature)
        return decision, (mixed / temperature).log_softmax(-1)


def agreement_temperature(log_p: Float[Tensor, "b k"], one: Tensor, other: Tensor) -> float:
    """The temperature, 1 or more, at which mean confidence is the share of images that two members agree about.

    Agreement follows accuracy and needs no labels (Jiang et al., 2022). Predictions stay the same.

    >>> sure = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).log_softmax(-1)
    >>> agreement_temperature(sure, torch.tensor([0, 1]), torch.tensor([0, 1]))
    1.0
    >>> agreement_temperature(sure, torch.tensor([0, 1]), torch.tensor([0, 0])) > 2
    True
    """
    if len(log_p) == 0:
        return 1.0
    agreement = (one == other).double().mean().item()
    low, high = 1.0, MAX_TEMPERATURE
    if _confidence(log_p, low) <= agreement:
        return low
    for _ in range(TEMPERATURE_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _confidence(log_p, middle) > agreement else (low, middle)
    return high


def _confidence(log_p: Tensor, temperature: float) -> float:
    return (log_p / temperature).softmax(-1).amax(-1).double().mean().item()


class PlainModel(nn.Module):
    """The network as it is, in evaluation mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.network = twin_of(model)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.network(*args, **kwargs)
