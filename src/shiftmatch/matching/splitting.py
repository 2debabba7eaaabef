"""One call of a network as several, on pieces of its batch; and whether a network may be called like that."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from shiftmatch.matching.hooks import visiting
from shiftmatch.matching.lockstep import Lockstep
from shiftmatch.matching.site import Site

FEW, PIECE = 5, 3
"""The images on which a network is tried, and how many come together."""

ALIKE = 1e-4
"""Outputs that differ by less than this part of the largest are the same: rounding depends on the size of a batch."""


class IndivisibleError(Exception):
    """What a network returns for pieces of a batch cannot be put together."""


@final
@dataclass(frozen=True)
class Call:
    """The arguments of a network for a batch of `images` images."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    images: int

    def of(self, model: nn.Module) -> Any:
        return model(*self.args, **self.kwargs)

    def at(self, images: slice | Tensor, count: int) -> "Call":
        """The same for some of the images."""
        leaves, form = tree_flatten((self.args, self.kwargs))
        args, kwargs = tree_unflatten([x[images] if _is_batch(x, self.images) else x for x in leaves], form)
        return Call(args, kwargs, count)

    def split(self, size: int) -> list["Call"]:
        """The same for pieces of the batch of about that many images, all alike."""
        count = max(1, round(self.images / size))
        ends = [self.images * i // count for i in range(count + 1)]
        return [self.at(slice(first, last), last - first) for first, last in pairwise(ends)]

    @property
    def tensors(self) -> list[Tensor]:
        return [x for x in tree_flatten((self.args, self.kwargs))[0] if isinstance(x, Tensor)]

    @property
    def form(self) -> str:
        """What is the same in calls that differ only in their tensors."""
        leaves, form = tree_flatten((self.args, self.kwargs))
        return f"{form} {[None if isinstance(x, Tensor) else x for x in leaves]}"


def joined(outputs: Sequence[Any], sizes: Sequence[int]) -> Any:
    """What a network returns for a batch, from what it returns for its pieces: tensors, or containers of them.

    >>> joined([{"logits": torch.zeros(2, 3)}, {"logits": torch.ones(1, 3)}], [2, 1])["logits"][:, 0]
    tensor([0., 0., 1.])
    """
    leaves, forms = zip(*map(tree_flatten, outputs), strict=True)
    if any(form != forms[0] for form in forms):
        raise IndivisibleError
    return tree_unflatten([_joined_leaf(parts, sizes) for parts in zip(*leaves, strict=True)], forms[0])


def _joined_leaf(parts: Sequence[Any], sizes: Sequence[int]) -> Any:
    if all(_is_batch(part, size) for part, size in zip(parts, sizes, strict=True)):
        return torch.cat(list(parts))
    if parts[0] is None and not any(part is not None for part in parts):
        return None
    raise IndivisibleError


def _is_batch(value: object, images: int) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == images


@torch.no_grad()
def treats_images_apart(model: nn.Module, call: Call, sites: Iterable[Site] = ()) -> bool:
    """Whether a network gives each image the same whatever comes with it, and keeps nothing: tried on a few images.

    It is tried on a copy that shares the weights, with passes that take turns at the sites. A network that looks at
    values to decide what to do next is taken for one that may decide otherwise for a whole batch.

    >>> x = torch.randn(9, 4)
    >>> treats_images_apart(nn.Linear(4, 2), Call((x,), {}, 9)), treats_images_apart(nn.Softmax(0), Call((x,), {}, 9))
    (True, False)
    """
    lockstep = Lockstep()

    def wait(site: Site, x: Tensor, ours: bool) -> None:
        lockstep.together(site.name, None, lambda parts: None)

    few = call.at(torch.arange(FEW) * (call.images // FEW), FEW)
    try:
        twin = deepcopy(model, {id(weight): weight for weight in model.parameters()}).eval()
        before = _contents(twin, few)
        with _Decisions() as decisions:  # type: ignore[no-untyped-call]
            whole = few.of(twin)
            with visiting(twin, sites, wait):
                parts = few.split(PIECE)
                outputs = lockstep.run([partial(part.of, twin) for part in parts])
                pieces = joined(outputs, [part.images for part in parts])
        return not decisions.met and _same(before, _contents(twin, few)) and _alike(whole, pieces)
    except Exception:  # whatever it is, the network runs on the whole batch, and says there what is wrong
        return False


class _Decisions(TorchDispatchMode):
    """Notices numbers that leave their tensor."""

    met = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.met = self.met or func.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.equal)
        return func(*args, **(kwargs or {}))


def _contents(model: nn.Module, call: Call) -> list[tuple[object, int]]:
    """Everything that a forward pass could leave behind, with the number of times that tensors have been written to."""
    held = chain(call.tensors, *(_spread(value) for module in model.modules() for value in vars(module).values()))
    return [(value, value._version if isinstance(value, Tensor) else 0) for value in held]


def _spread(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value


def _same(before: Sequence[tuple[object, int]], now: Sequence[tuple[object, int]]) -> bool:
    return len(before) == len(now) and all(a is b and m == n for (a, m), (b, n) in zip(before, now, strict=True))


def _alike(whole: Any, pieces: Any) -> bool:
    """Whether outputs are equal but for rounding, and differ between images, or else nothing would be known."""
    ours, theirs = (tree_flatten(tree)[0] for tree in (whole, pieces))
    pairs = [(a.double(), b.double()) for a, b in zip(ours, theirs, strict=True) if isinstance(a, Tensor)]
    close = all(a.shape == b.shape and bool(((a - b).abs() <= ALIKE * a.abs().max()).all()) for a, b in pairs)
    return close and any(bool((a[1:] != a[:-1]).any()) for a, _ in pairs)
