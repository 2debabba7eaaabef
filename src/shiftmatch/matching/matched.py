"""The matched network: a twin of a network that moves every batch to the statistics of its training data."""

from contextlib import nullcontext
from os import PathLike
from typing import Any, TypeAlias
from warnings import warn

import torch
from torch import nn

from shiftmatch.core.spectrum import Prior
from shiftmatch.errors import (
    BatchTooSmallError,
    InputError,
    OtherSizeWarning,
    SmallBatchWarning,
    StatisticsMismatchError,
)
from shiftmatch.matching.inputs import Inputs, check_images
from shiftmatch.matching.instrument import counting_calls, instrument, needs_call_counts, submodule
from shiftmatch.matching.matcher import SiteMatcher, fused_sites
from shiftmatch.matching.sites import times
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.twin import TwinModel
from shiftmatch.utils.files import parsing
from shiftmatch.utils.hashing import weight_hashes
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "matched network", 1
"""What files of matched networks call themselves, and the newest form of them."""

Shapes: TypeAlias = dict[str, tuple[int, ...]]
"""Of the network's inputs by name, without the batch axis."""

FEW_IMAGES = 100
"""Statistics of fewer images are so noisy that accuracy on clean images falls, unless a prior helps."""


class MatchedModel(TwinModel):
    """A network that matches every batch to its training statistics.

    It is a twin of the network with the same weights and the matching built in, so that it can be called from several
    threads, compiled and exported.

    Args:
        model: the trained network; it stays as it was.
        statistics: what `fit` has measured in it.
        prior: how many images the training statistics count for.
        check_weights: whether to refuse a network with other weights than the one that was fitted.
        across_processes: whether the batches of all processes under torch.distributed are matched as one.

    >>> import shiftmatch as sm
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> robust = sm.match(net, sm.fit(net, torch.randn(300, 4)))
    >>> type(robust).__name__, robust(torch.randn(100, 4)).shape
    ('MatchedModel', torch.Size([100, 3]))
    """

    def __init__(
        self,
        model: nn.Module,
        statistics: Statistics,
        *,
        prior: Prior | None = None,
        check_weights: bool = True,
        across_processes: bool = False,
    ) -> None:
        super().__init__()
        for entry in statistics.values():
            if not entry.site.is_input:
                submodule(model, entry.site.module)
        if check_weights:
            require_weights(model, statistics)
        self.statistics, self.prior, self.across_processes = statistics, prior, across_processes
        dtype = next((torch.float64 for p in model.parameters() if p.dtype == torch.float64), torch.float32)
        matchers = {entry.site: SiteMatcher(entry, prior, dtype, across_processes) for entry in statistics.values()}
        self.sites = nn.ModuleList(matchers.values())
        fused = fused_sites(model, matchers) if statistics.batchnorm == "eval" and not across_processes else {}
        self.network = instrument(model, {**matchers, **fused}, statistics.batchnorm, instead=fused)
        for operation in fused.values():
            operation.connect(self.network)
        self._counts_calls = needs_call_counts(matchers)
        self.sites.to(next((p.device for p in model.parameters()), None))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, for features matched to those of its training data."""
        if not torch.compiler.is_compiling():
            inputs = self.checked(Inputs(args, kwargs))
            args, kwargs = inputs.args, dict(inputs.kwargs)
        with counting_calls() if self._counts_calls else nullcontext():
            return self.network(*args, **kwargs)

    def save(self, path: str | PathLike[str]) -> None:
        """Write what matching needs, without the weights of the network; `load` reads it, bit for bit."""
        buffers = {name: torch.view_as_real(x) if x.is_complex() else x for name, x in self.sites.state_dict().items()}
        tensors = {f"statistics/{name}": x for name, x in self.statistics.tensors(torch.float64).items()}
        tensors |= {f"sites/{name}": x.detach().cpu().clone() for name, x in buffers.items()}
        header = self.statistics.header() | {"prior": list(self.prior) if self.prior else None}
        save_tensors(path, tensors, kind=KIND, version=FORMAT, header=header)

    def extra_repr(self) -> str:
        return f"{len(self.statistics)} sites, prior_images={tuple(self.prior) if self.prior else 'default'}"

    def checked(self, inputs: Inputs) -> Inputs:
        """The inputs on the network's device and in its precision; refused if they cannot be matched."""
        inputs = check_images(inputs).on(self.network)
        named = inputs.named(self.network)
        shapes = {name: tuple(x.shape[1:]) for name, x in named.items()}
        check_shapes(shapes, self.statistics)
        if shapes != self.statistics.inputs:
            warn(
                f"The statistics were measured on {_listed(self.statistics.inputs)} and get {_listed(shapes)}: spectra "
                "are resampled. Fit again on images of this size for exact statistics.",
                OtherSizeWarning,
                stacklevel=4,
            )
        self._check_size(max(map(len, named.values())))
        return inputs

    def _check_size(self, images: int) -> None:
        """Refuse one image, and warn of few, where no prior helps."""
        if self.across_processes or any(max(site.prior) > 0 for site in self._modules["sites"]):  # type: ignore[union-attr]
            return
        advice = "mix in the training statistics: shiftmatch.match(model, statistics, prior_images=32)."
        if images == 1:
            raise BatchTooSmallError(f"One image has no statistics of its own to match. Pass a batch, or {advice}")
        enough = max(FEW_IMAGES, self.statistics.images_wanted)
        if 0 < images < enough:
            warn(
                f"{images} images are few to take statistics from ({enough} or more work well here); "
                f"matching may harm clean images. Pass larger batches, or {advice}",
                SmallBatchWarning,
                stacklevel=5,
            )


def load(path: str | PathLike[str], model: nn.Module, *, check_weights: bool = True) -> MatchedModel:
    """The matched network that `MatchedModel.save` has written, bit for bit, over the weights of `model`.

    Args:
        path: the file.
        model: the network with its weights, which the file does not hold.
        check_weights: whether to refuse other weights than those that were matched.

    >>> import shiftmatch as sm, tempfile
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> robust = sm.match(net, sm.fit(net, torch.randn(300, 4)), prior_images=8)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     robust.save(file.name)
    ...     same = sm.load(file.name, net)
    >>> images = torch.randn(5, 4)
    >>> torch.equal(same(images), robust(images))
    True
    """
    tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
    with parsing(path, "its matched network", "Match the network and save it again."):
        statistics = Statistics.assemble(header, {name.removeprefix("statistics/"): x for name, x in tensors.items()})
        prior = Prior(*header["prior"]) if header["prior"] else None
        robust = MatchedModel(model, statistics, prior=prior, check_weights=check_weights)
        own = robust.sites.state_dict()
        for name in own:
            saved = tensors[f"sites/{name}"]
            own[name] = torch.view_as_complex(saved) if own[name].is_complex() else saved
        robust.sites.load_state_dict(own)
    return robust


def require_weights(model: nn.Module, statistics: Statistics) -> None:
    """Refuse a network with other weights than the one that was fitted."""
    ours, theirs = weight_hashes(model), statistics.weights
    odd = next((name for name in [*theirs, *ours] if ours.get(name) != theirs.get(name)), None)
    if odd is not None:
        raise StatisticsMismatchError(
            f"The weights of this {type(model).__name__} are not those that the statistics were measured with: "
            f"{odd!r} differs. Fit again with shiftmatch.fit(model, data), or pass check_weights=False if that is "
            "meant, such as another precision."
        )


def check_shapes(shapes: Shapes, statistics: Statistics) -> None:
    """Refuse inputs that cannot be those of the fitted network; maps of another size are judged by the sites."""
    fitted = statistics.inputs

    def fits(shape: tuple[int, ...], known: tuple[int, ...]) -> bool:
        return shape == known or (len(shape) == len(known) > 1 and shape[0] == known[0])

    if shapes.keys() != fitted.keys() or not all(fits(shape, fitted[name]) for name, shape in shapes.items()):
        raise InputError(
            f"The statistics were measured for inputs of shape {_listed(fitted)} ; "
            f"got {_listed(shapes)}. Resize the images, or fit again on images of this shape."
        )


def _listed(shapes: Shapes) -> str:
    return ", ".join(map(times, shapes.values())) or "nothing that is an image"
