"""The step of a stream as a function: images and a memory in, logits and a memory out."""

from contextvars import ContextVar

import torch
from torch import Tensor

from shiftmatch.core.moments import BatchMoments, check_batch, merge
from shiftmatch.core.spectrum import ChannelMoments, Spectrum, apply
from shiftmatch.errors import ExportError
from shiftmatch.matching.inputs import logits_of
from shiftmatch.matching.instrument import counting_calls, instrument, without_sites
from shiftmatch.matching.matcher import PartTarget, SiteMatcher
from shiftmatch.matching.memory import StreamModel
from shiftmatch.matching.stream import AutoStreamModel
from shiftmatch.matching.twin import TwinModel

Memory = tuple[Tensor, Tensor, Tensor]
"""How many images it counts for, and the means and variances of all coefficients of all sites, one after the other."""


NO_AUTO = (
    "A network with strength='auto' decides for each batch how far to match, which a graph cannot do. Match or stream "
    "with strength='full' or 'moments'."
)


class StreamStep(TwinModel):
    """(images, count, mean, variance) ↦ (logits, count, mean, variance): a stream whose memory is in the open.

    It does what `shiftmatch.stream(…, refresh=1)` does, but for noticing changes: forget by lowering `count`.

    Args:
        camera: what `shiftmatch.stream` returned.

    >>> import shiftmatch as sm
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> step = StreamStep(sm.stream(net, sm.fit(net, torch.randn(64, 3, 8, 8))))
    >>> memory = step.start()
    >>> for image in torch.randn(5, 3, 8, 8):
    ...     logits, *memory = step(image[None], *memory)
    >>> memory[0]
    tensor(5.)
    """

    names = ("images", "count", "mean", "variance")
    outputs = ("logits", "new_count", "new_mean", "new_variance")

    def __init__(self, camera: StreamModel | AutoStreamModel) -> None:
        super().__init__()
        if isinstance(camera, AutoStreamModel):
            raise ExportError(NO_AUTO)
        if camera.statistics.batchnorm == "batch":
            raise ExportError("A stream with BatchNorm on batch statistics has no step. Fit with batchnorm='eval'.")
        self.statistics, self.window, self.sites = camera.statistics, camera.window, camera.sites
        matchers = [site for site in camera.sites if isinstance(site, SiteMatcher)]
        parts = {f"{m.site.name}|{i}": part for m in matchers for i, part in enumerate(m.parts)}
        self._shapes = {name: part.target["variance"].shape for name, part in parts.items()}  # type: ignore[index]
        self.network = instrument(without_sites(camera.network), {m.site: _Stepping(m) for m in matchers})

    def start(self) -> Memory:
        """The memory of a stream that has not begun."""
        like = next(self.sites.buffers())
        size = sum(shape.numel() for shape in self._shapes.values())
        return like.new_zeros(()), like.new_zeros(size), like.new_zeros(size)

    def forward(self, images: Tensor, count: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """The logits of some images, and the memory with them in it."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        new = torch.scalar_tensor(images.shape[0], dtype=count.dtype, device=count.device)
        faded = torch.minimum(count, (self.window - new).clamp_min(1))
        parts = zip(self._shapes.items(), mean.split(sizes), variance.split(sizes), strict=True)
        memory = {name: BatchMoments(m.view(shape), v.view(shape), faded) for (name, shape), m, v in parts}
        token = _memory.set(memory)
        try:
            with counting_calls():
                logits = logits_of(self.network(images))
        finally:
            _memory.reset(token)
        columns = list(zip(*memory.values(), strict=True))[:2]
        means, variances = (torch.cat([x.flatten() for x in column]) for column in columns)
        return logits, faded + new, means, variances


_memory: ContextVar[dict[str, BatchMoments]] = ContextVar("memory")
"""During a call, in its thread: the memory of the sites that are passed has the new images in it."""


class _Stepping:
    """The operation at a site."""

    def __init__(self, matcher: SiteMatcher) -> None:
        self.matcher = matcher

    def __call__(self, x: Tensor) -> Tensor:
        site = self.matcher.site
        parts = zip(site.layout.split(x), self.matcher.parts, strict=True)
        return site.layout.join([self._moved(f"{site.name}|{i}", *part) for i, part in enumerate(parts)])  # type: ignore[arg-type]

    def _moved(self, name: str, x: Tensor, matcher: PartTarget) -> Tensor:
        structure, target, memory = matcher.covariance, matcher.target, _memory.get()
        assert isinstance(structure, Spectrum | ChannelMoments)
        z = structure.coefficients(x, target)
        images = torch.scalar_tensor(x.shape[0] // self.matcher.site.per_image, dtype=memory[name].mean.dtype)
        new = structure.summarise(z, images.to(x.device))
        check_batch(new)
        memory[name] = merge(memory[name], new)
        affine = structure.gain_and_offset(memory[name], target, matcher.prior)
        return structure.features(apply(z, affine), target, x.shape[2:]).to(x.dtype)
