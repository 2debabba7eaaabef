"""stream: the network that matches images to the last ones seen. How far it matches is fixed, or decided on the way."""

from math import inf
from os import PathLike
from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum
from shiftmatch.errors import InputError
from shiftmatch.matching.inputs import Inputs, logits_of
from shiftmatch.matching.match import PriorImages, prior_of
from shiftmatch.matching.matched import MatchedModel
from shiftmatch.matching.memory import GROWTH, KIND, REFRESH, WINDOW, StreamModel
from shiftmatch.matching.observed import PlainModel
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.strength import MOMENTS, PLAIN, SPECTRUM, Decision, decide, known_shares, nested_family
from shiftmatch.matching.twin import EvalModel
from shiftmatch.utils.files import parsing
from shiftmatch.utils.parallel import restoring_grad_mode
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

FORMAT = 1


@overload
def stream(
    model: nn.Module,
    statistics: Statistics,
    *,
    window: int = WINDOW,
    refresh: int = REFRESH,
    strength: Literal["auto"],
    prior_images: PriorImages | None = None,
) -> "AutoStreamModel": ...
@overload
def stream(
    model: nn.Module,
    statistics: Statistics,
    *,
    window: int = WINDOW,
    refresh: int = REFRESH,
    strength: Literal["full", "moments"] = "full",
    prior_images: PriorImages | None = None,
) -> StreamModel: ...
def stream(
    model: nn.Module,
    statistics: Statistics,
    *,
    window: int = WINDOW,
    refresh: int = REFRESH,
    strength: str = "full",
    prior_images: PriorImages | None = None,
) -> "StreamModel | AutoStreamModel":
    """The network that matches each image by the moments of the last images of the stream.

    Args:
        model: the trained network; it stays as it was.
        statistics: what `fit` has measured in it, with Spectrum or ChannelMoments.
        window: how many images the memory counts for at most; older ones fade.
        refresh: after how many images the maps are updated, at most; with 1, each image counts for its own map.
        strength: how far to match. "full", "moments" for channel moments only, or "auto", which averages over both and
            the plain network, weighted by how sure each has been of the images lately: three passes.
        prior_images: as for `match`.

    >>> from shiftmatch.matching.match import fit
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(64, 3, 8, 8)
    >>> camera = stream(net, fit(net, images))
    >>> torch.cat([camera(image[None]) for image in images]).shape, camera.images
    (torch.Size([64, 10]), 64)
    """
    for name, count in {"window": window, "refresh": refresh}.items():
        if count < 1:
            raise InputError(f"{name} is a number of images, 1 or more; got {count}.")
    for entry in statistics.values():
        if not isinstance(entry.covariance, Spectrum | ChannelMoments):
            raise InputError(
                f"A stream needs statistics whose map has no eigendecomposition; {entry.site.name!r} was fitted with "
                f"{type(entry.covariance).__name__}. Fit with covariance=shiftmatch.Spectrum() or ChannelMoments()."
            )
    matched = MatchedModel(model, statistics, prior=prior_of(prior_images))
    full = StreamModel(matched, model, window, refresh)
    if strength == "full":
        return full
    prior = Prior(matched.sites[0].prior.moments, inf)  # type: ignore[union-attr, arg-type]
    less = MatchedModel(model, statistics, prior=prior, check_weights=False)
    moments = StreamModel(less, model, window, refresh)
    match strength:
        case "moments":
            return moments
        case "auto":
            return AutoStreamModel(PlainModel(model, statistics), moments, full)
    raise InputError(f"The strength of a stream is 'full', 'moments' or 'auto'; got {strength!r}.")


class AutoStreamModel(EvalModel):
    """A stream that averages over how far it matches: plain, channel moments, spectrum. Three passes per image.

    Weights are those of `strength="auto"`, from the predictions for the images of the window; after a change of the
    corruption the window starts again. Where class shares differ from training, they are left out of the weights;
    features are still matched to those of all training data.
    It returns log-probabilities, which can be used wherever logits can.

    Args:
        plain: the network as it is.
        moments: the stream that matches channel moments.
        full: the stream that matches in full.

    >>> import shiftmatch as sm
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(64, 3, 8, 8)
    >>> camera = sm.stream(net, sm.fit(net, images), strength="auto")
    >>> torch.allclose(camera(images).exp().sum(-1), torch.ones(64))  # log-probabilities
    True
    >>> sorted(camera.explain().weights)
    ['channel moments', 'plain', 'spectrum']
    """

    def __init__(self, plain: PlainModel, moments: StreamModel, full: StreamModel) -> None:
        super().__init__()
        self.statistics, self.plain, self.moments, self.full = full.statistics, plain, moments, full
        self._recent: dict[str, Tensor] = {}
        self._decision: Decision | None = None
        self._undecided = 0

    @restoring_grad_mode()
    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "b k"]:
        """The logarithm of the weighted mean of the members' probabilities for one or more images."""
        inputs, changes = Inputs(args, kwargs), self.full.changes
        members: dict[str, nn.Module] = {SPECTRUM: self.full, MOMENTS: self.moments, PLAIN: self.plain}
        found = {name: logits_of(member(*inputs.args, **inputs.kwargs)) for name, member in members.items()}
        answers = {name: found[name].log_softmax(-1) for name in (PLAIN, MOMENTS, SPECTRUM)}
        if self.full.changes > changes:
            self._recent = {}
        before, window = self._recent, self.full.window
        self._recent = {name: torch.cat([before.get(name, p[:0]).to(p), p])[-window:] for name, p in answers.items()}
        self._undecided += inputs.images
        if self._decision is None or self._undecided >= min(self.full.refresh, self._counted // GROWTH):
            self._decide()
        assert self._decision is not None
        return self._decision.answer(answers)

    def explain(self) -> Decision | None:
        """What is decided for the next images, from the last ones; None before the first."""
        if not self._recent:
            return None
        prior = known_shares(self._recent[SPECTRUM], self.statistics)
        return decide(nested_family(self._recent, prior), (MOMENTS, SPECTRUM))

    @property
    def images(self) -> int:
        """How many there have been since the last reset."""
        return self.full.images

    @property
    def changes(self) -> int:
        """How often the corruption has changed since then."""
        return self.full.changes

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._recent, self._decision, self._undecided = {}, None, 0
        self.moments.reset()
        self.full.reset()

    def save_memory(self, path: str | PathLike[str]) -> None:
        """Write the memory, so that another process can go on with it."""
        tensors, headers = {f"recent|{name}": log_p.cpu().clone() for name, log_p in self._recent.items()}, {}
        for name, member in (("moments", self.moments), ("full", self.full)):
            own, headers[name] = member.memory()
            tensors |= {f"{name}|{key}": tensor for key, tensor in own.items()}
        self._decide()  # as it is decided where the file is read
        save_tensors(path, tensors, kind=f"{KIND}, auto", version=FORMAT, header=headers)

    def load_memory(self, path: str | PathLike[str]) -> None:
        """Go on with a memory that `save_memory` has written for the same statistics."""
        tensors, headers = load_tensors(path, kind=f"{KIND}, auto", version=FORMAT)
        with parsing(path, "its memory", "Go on without it."):
            own: dict[str, dict[str, Tensor]] = {"recent": {}, "moments": {}, "full": {}}
            for name, tensor in tensors.items():
                owner, _, key = name.partition("|")
                own[owner][key] = tensor
            recent = {name: own["recent"][name] for name in (PLAIN, MOMENTS, SPECTRUM)} if own["recent"] else {}
            if len({(x.shape, x.dtype) for x in recent.values()}) > 1 or any(x.ndim != 2 for x in recent.values()):
                raise ValueError("the members' answers have different shapes")
            moments = self.moments.read(own["moments"], headers["moments"], path)
            full = self.full.read(own["full"], headers["full"], path)
        self.moments.remember(moments)
        self.full.remember(full)
        self._recent = recent
        self._decide()

    @property
    def _counted(self) -> int:
        return len(next(iter(self._recent.values())))

    def _decide(self) -> None:
        self._decision, self._undecided = self.explain(), 0
