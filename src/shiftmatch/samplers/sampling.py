"""What a sampler is, and sample(): the one loop that every sampler runs in, and that resumes after an interruption."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, final, runtime_checkable

import torch
from torch import Tensor, nn

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models import Architecture
from shiftmatch.samplers.posterior import Params, Posterior, frozen_hash, params_of
from shiftmatch.utils.files import parsing
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import restoring_grad_mode, track
from shiftmatch.utils.processes import map_over_processes
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

SEPARATOR = "/"
STATE, DRAW = "the state of a run", "a draw"
VERSION = 2


@runtime_checkable
class State(Protocol):
    """A NamedTuple of tensors and of mappings of tensors, one of which is `params`.

    Scalar fields are recorded after every iteration; all fields are stored, so that a run can be resumed.
    """

    @property
    def params(self) -> Params: ...

    def _asdict(self) -> dict[str, Tensor | Params]: ...


S = TypeVar("S", bound=State)


@final
@dataclass(frozen=True)
class Sampler(Generic[S]):
    """A sampler is two functions: `init` makes the first state, `step` the next state from the one before.

    Args:
        init: parameters in, a state out: a NamedTuple with `params`.
        step: a state and a generator in, the next state out.
        settings: everything else that the draws depend on: a run is resumed only with the same.
        warm_up: so many first steps tune or fit something, so that their draws are not of the posterior.

    >>> from typing import NamedTuple
    >>> class Walk(NamedTuple):
    ...     params: Params
    >>> def step(state, generator):
    ...     return Walk({name: x + torch.randn(x.shape, generator=generator) for name, x in state.params.items()})
    >>> walk = Sampler(Walk, step)
    >>> len(sample(walk, {"x": torch.zeros(2)}, draws=5, generator=torch.Generator(), progress=False))
    5
    """

    init: Callable[[Params], S]
    step: Callable[[S, torch.Generator], S]
    settings: Mapping[str, object] = field(default_factory=dict)
    warm_up: int = 0


@restoring_grad_mode()
def sample(
    sampler: Sampler[S],
    start: nn.Module | Params,
    *,
    draws: int,
    generator: torch.Generator,
    burn_in: int = 0,
    thin: int = 1,
    folder: str | os.PathLike[str] | None = None,
    architecture: Architecture | None = None,
    progress: bool = True,
) -> Posterior:
    """Run one chain: `burn_in` iterations that are thrown away, then `draws` that are kept, `thin` steps to each.

    The scalars of every state (acceptance, energy error, …) are in `posterior.info["trace"]`.

    **A posterior around a trained network**: start from its weights, with BatchNorm in eval mode, and either SGHMC for
    all parameters, or full-batch HMC for some of them. A temperature below 1 keeps the draws near the trained weights.

    Args:
        sampler: such as `hmc` or `sghmc` return.
        start: a network, or some of its parameters: `params_of(network, "fc.*")` samples those of the last layer and
            leaves the others as they are.
        draws: how many to keep.
        generator: fixes everything random.
        burn_in: how many to throw away first.
        thin: steps to each draw.
        folder: state and draws are written there after each iteration; the same call resumes after an interruption, and
            gives the same draws bit for bit. More draws than before extend the run; another density, prior, data set,
            sampler, start or seed is refused.
        architecture: the name and settings of the network, kept in files so that they can be opened without it.
        progress: whether to show a bar.

    >>> from shiftmatch.samplers import convergence_summary, hmc, log_posterior
    >>> seeded = torch.Generator().manual_seed(0)
    >>> trained = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    >>> images = torch.randn(50, 4, generator=seeded)
    >>> labels = (images[:, 0] > 0).long()
    >>> density = log_posterior(trained, (images, labels), prior_scale=1.0, temperature=0.5)
    >>> sampler = hmc(density, step_size=0.1, trajectory=1.0, tune=20)
    >>> posterior = sample(sampler, params_of(trained, "3.*"), draws=50, burn_in=20, generator=seeded)
    >>> list(posterior.params), len(posterior.models(trained))
    (['3.weight', '3.bias'], 50)
    >>> print(convergence_summary(posterior, images, trained))
    R-hat ...
    """
    if burn_in * thin < sampler.warm_up:
        raise InputError(
            f"The first {sampler.warm_up} steps of this sampler are for tuning, and no draw of them may be kept: "
            f"burn_in={burn_in} of {thin} steps each is too short. Use burn_in={-(-sampler.warm_up // thin)} or more."
        )
    params = params_of(start) if isinstance(start, nn.Module) else start
    settings = {"seed": generator.initial_seed(), "burn_in": burn_in, "thin": thin}
    state = sampler.init(params)
    done, kept = 0, list[Params]()
    trace: dict[str, list[float]] = {}
    run = RunFolder(Path(folder), settings | _described(sampler, params)) if folder else None
    if run and (restored := run.restore(state, generator)):
        state, done, trace, kept = restored
    for iteration in track(range(done, burn_in + draws), "sampling", show=progress):
        for _ in range(thin):
            state = sampler.step(state, generator)
        _record(trace, state)
        if iteration >= burn_in:
            kept.append(state.params)
            if run:
                run.save_draw(len(kept) - 1, state.params)
        if run:
            run.save(state, generator, iteration + 1, trace, len(kept))
    cut = {name: values[: burn_in + draws] for name, values in trace.items()}  # the folder may hold a longer run
    info = settings | {"trace": cut} | _frozen(sampler, params)
    return Posterior.of(kept[:draws], architecture=architecture, info=info)


def sample_chains(
    sampler: Sampler[S],
    starts: Sequence[nn.Module | Params],
    *,
    draws: int,
    seed: int,
    folder: str | os.PathLike[str] | None = None,
    across_processes: bool = False,
    **options: Any,
) -> Posterior:
    """One chain from each start, merged; R̂ compares them.

    Args:
        sampler: such as `hmc` or `sghmc` return.
        starts: a network, or parameters, for each chain.
        draws: how many to keep of each.
        seed: chains have the seeds seed, seed + 1, …
        folder: as for `sample`; each chain has a folder of its own in it.
        across_processes: whether the chains are spread over the processes of torch.distributed.
        **options: those of `sample`.

    >>> from shiftmatch.samplers import FromFunction, hmc
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> starts = [{"x": torch.zeros(2)}, {"x": torch.ones(2)}]
    >>> posterior = sample_chains(hmc(normal, step_size=0.1, trajectory=1.0), starts, draws=3, seed=0, progress=False)
    >>> posterior.chains
    (3, 3)
    """

    def chain(index: int) -> Posterior:
        generator = torch.Generator().manual_seed(seed + index)
        place = Path(folder) / f"chain-{index}" if folder else None
        return sample(sampler, starts[index], draws=draws, generator=generator, folder=place, **options)

    run: Callable[[Sequence[int]], Iterable[Posterior]] = partial(map, chain)
    indices = range(len(starts))
    return Posterior.merge(map_over_processes(run, indices) if across_processes else [*run(indices)])


@final
@dataclass(frozen=True)
class RunFolder:
    """Where one run keeps its state and draws, written so that a kill at any moment loses at most one iteration.

    `settings` tell it apart from other runs.
    """

    path: Path
    settings: Mapping[str, Any]

    def save(
        self, state: State, generator: torch.Generator, done: int, trace: Mapping[str, list[float]], draws: int
    ) -> None:
        """Store everything that the next iteration depends on, in one atomic file."""
        tensors = {name: value.clone() for name, value in flatten(state).items()}  # some may share memory
        tensors["generator"] = generator.get_state()
        header = {"settings": self.settings, "iterations": done, "trace": trace, "draws": draws}
        save_tensors(self._state, tensors, kind=STATE, version=VERSION, header=header)

    def save_draw(self, index: int, params: Params) -> None:
        """Store one draw. It is written before the state that counts it, so a kill in between changes nothing."""
        save_tensors(self._draw(index), params, kind=DRAW, version=VERSION, header={})

    def restore(
        self, like: S, generator: torch.Generator
    ) -> tuple[S, int, dict[str, list[float]], list[Params]] | None:
        """The last state, the iterations, trace and draws so far, with the generator set back; None without a run."""
        if not self._state.exists():
            return None
        tensors, header = load_tensors(self._state, kind=STATE, version=VERSION)
        with parsing(self._state, "its run", "Delete the folder to start afresh."):
            self._check(header["settings"])
            generator.set_state(tensors.pop("generator"))
            trace = {str(name): [float(value) for value in values] for name, values in header["trace"].items()}
            draws = [self._stored_draw(index, like) for index in range(header["draws"])]
            done = int(header.get("iterations", len(next(iter(trace.values()), []))))  # files of before lack it
            return unflatten(tensors, like), done, trace, draws

    def _stored_draw(self, index: int, like: State) -> Params:
        tensors, _ = load_tensors(self._draw(index), kind=DRAW, version=VERSION)
        with parsing(self._draw(index), "its draw", "Delete the folder to start afresh."):
            return _onto(tensors, like.params)

    @property
    def _state(self) -> Path:
        return self.path / "state.safetensors"

    def _draw(self, index: int) -> Path:
        return self.path / f"draw-{index:05d}.safetensors"

    def _check(self, stored: Mapping[str, Any]) -> None:
        names = sorted(stored.keys() | self.settings.keys())
        other = [name for name in names if stored.get(name) != self.settings.get(name)]
        if other:
            was, now = ({name: settings.get(name) for name in other} for settings in (stored, self.settings))
            raise InputError(
                f"{self.path} holds another run: it differs in {', '.join(other)} ({was} there, {now} here). "
                "Use the same settings to resume it, or another folder to start afresh."
            )


def flatten(state: State) -> dict[str, Tensor]:
    """The tensors of a state by name; those of a mapping are named field/key."""
    flat: dict[str, Tensor] = {}
    for name, value in state._asdict().items():
        flat |= {name: value} if isinstance(value, Tensor) else {f"{name}{SEPARATOR}{k}": v for k, v in value.items()}
    return flat


def unflatten(tensors: Mapping[str, Tensor], like: S) -> S:
    """The inverse of `flatten`, with the structure and the devices of the state `like`."""
    expected = flatten(like)
    if tensors.keys() != expected.keys():
        raise FileFormatError(
            f"The stored state has {sorted(tensors.keys() ^ expected.keys())} more or less than this sampler's. "
            f"Resume with the sampler and the network that began the run, or use another folder."
        )
    found = _onto(tensors, expected)
    fields = {
        name: found[name] if isinstance(value, Tensor) else {k: found[f"{name}{SEPARATOR}{k}"] for k in value}
        for name, value in like._asdict().items()
    }
    return type(like)(**fields)


def _onto(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Params:
    return {name: tensors[name].to(value.device) for name, value in like.items()}


def _described(sampler: Sampler[S], start: Params) -> dict[str, Any]:
    """The settings of a sampler, short enough to compare and to show; what is not a number or a word as a hash."""
    density = sampler.settings.get("density")
    parts = dict(sampler.settings) | {"start": start}
    if settings := getattr(density, "settings", None):
        del parts["density"]
        parts |= {f"density.{name}": value for name, value in settings(start).items()}
    plain = (int, float, str, type(None))
    return {name: value if isinstance(value, plain) else content_hash(value)[:16] for name, value in parts.items()}


def _frozen(sampler: Sampler[S], params: Params) -> dict[str, Any]:
    """If some parameters of a network are sampled only: a hash of the others, which the draws go with."""
    model = getattr(sampler.settings.get("density"), "model", None)
    if not isinstance(model, nn.Module) or {name for name, _ in model.named_parameters()} <= params.keys():
        return {}
    return {"frozen": frozen_hash(model, params)}


def _record(trace: dict[str, list[float]], state: State) -> None:
    for name, value in state._asdict().items():
        if isinstance(value, Tensor) and value.dim() == 0:
            trace.setdefault(name, []).append(value.item())
