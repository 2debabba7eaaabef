"""Random weights to start from, drawn with the generator that is handed in."""

import torch
from torch import nn


def initialise(model: nn.Module, generator: torch.Generator, *, gain: float = 1.0) -> nn.Module:
    """Weights of dense and convolutional layers ~ truncated N(0, gain / fan-in), their biases 0; returns the model.

    >>> initialise(nn.Linear(4, 2), torch.Generator()).bias.tolist()
    [0.0, 0.0]
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            std = (gain / layer.weight[0].numel()) ** 0.5
            nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
