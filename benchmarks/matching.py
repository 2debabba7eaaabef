"""What matching costs beside the plain forward pass, in the pieces in which that is fastest and in one piece."""

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, matched, pure, resnet20
from torch import Tensor, nn

BATCHES = (16, 64, 256, 1000)
PIECES = (8, 16, 32, 64, 128, 256)


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Matched/plain of ResNet-20 at several batch sizes."""
    small, x = resnet20(), images(max(BATCHES), 3, 32)
    return {f"ResNet-20, 32 × 32, batch {size}": ratios(small, x[:size], settings) for size in BATCHES}


def ratios(network: nn.Module, x: Tensor, settings: Settings) -> dict[str, float]:
    """Matched beside plain, in pieces and whole."""
    robust, piece = matched(network, x), best_piece(network, x)

    def in_pieces() -> Tensor:
        return torch.cat([network(part) for part in x.split(piece)])

    runs = {"in pieces": in_pieces, "plain": lambda: network(x), "matched": lambda: robust(x)}
    seconds = medians(runs | {"pure": pure(runs["matched"])}, settings.runs)
    return {
        "matched/plain in its best pieces": seconds["matched"] / seconds["in pieces"],
        "the same without the kernel": seconds["pure"] / seconds["in pieces"],
        "matched/plain": seconds["matched"] / seconds["plain"],
        "images per piece": piece,
        "plain in its best pieces, s": seconds["in pieces"],
    }


def best_piece(network: nn.Module, x: Tensor) -> int:
    """How many images at a time the plain network is fastest with."""
    sizes = [size for size in PIECES if size < len(x)] + [len(x)]
    few = x[:256]
    seconds = medians({str(n): (lambda n=n: [network(part) for part in few.split(n)]) for n in sizes}, 3)
    return min(sizes, key=lambda size: seconds[str(size)])
