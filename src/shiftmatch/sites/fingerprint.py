"""A fingerprint of a network's weights, so that statistics are not used with another network by mistake."""

import hashlib

import torch
from torch import nn


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of the names, shapes and values of parameters and buffers, batch counters aside.

    >>> net = nn.Linear(2, 2)
    >>> fingerprint(net) == fingerprint(net)
    True
    """
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, torch.Tensor) or name.endswith("num_batches_tracked"):
            continue
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
