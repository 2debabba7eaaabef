"""Borrow a network, visit its sites, give it back unchanged."""

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from greenlet import getcurrent, greenlet
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks
from torch.overrides import TorchFunctionMode

from shiftmatch.errors import StatisticsMismatchError
from shiftmatch.matching.site import INPUT, Site
from shiftmatch.matching.trace import function_name, module_address, numbered

Visitor: TypeAlias = Callable[[Site, Tensor, bool], Tensor | None]
"""Called with every site's tensor, and whether it may be written to; a tensor that is returned replaces it."""

MAKERS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm),
)
"""Layers whose output is new memory that nobody else has seen."""


@contextmanager
def borrowed(model: nn.Module) -> Iterator[None]:
    """Run a network in evaluation mode; every module's own mode comes back, also after an error."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def visiting(model: nn.Module, sites: Iterable[Site], visit: Visitor) -> Iterator[None]:
    """Call visit(site, tensor, whether it is ours) at every site that a forward pass meets.

    Passes in greenlets of their own are counted apart.
    """
    by_name = {site.name: site for site in sites}
    met: defaultdict[greenlet, Counter[str]] = defaultdict(Counter)

    def meet(name: str, value: Any, ours: bool = False) -> Any:
        here = met[getcurrent()]
        here[name] += 1
        site = by_name.get(numbered(name, here[name]))
        changed = visit(site, value, ours) if site and isinstance(value, Tensor) else None
        return value if changed is None else changed

    functions: dict[str, set[str]] = defaultdict(set)
    for site in by_name.values():
        if not site.is_input:
            functions[site.module].add(site.function)
    with ExitStack() as hooks:
        hooks.enter_context(model.register_forward_pre_hook(_on_inputs(meet), with_kwargs=True))
        for name, watched in functions.items():
            module = submodule(model, name)
            if "" in watched:
                hooks.enter_context(module.register_forward_hook(_on_output(name, meet)))
            if watched - {""}:
                watch = _Watch(name, watched, meet)
                hooks.enter_context(module.register_forward_pre_hook(watch.begin))
                hooks.enter_context(module.register_forward_hook(watch.end, always_call=True))
        yield


def is_watched(model: nn.Module) -> bool:
    """Whether hooks that are not ours see what its modules get and return."""
    return bool(_global_forward_hooks or _global_forward_pre_hooks) or any(
        module._forward_hooks or module._forward_pre_hooks for module in model.modules()
    )


def named_inputs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
    """The floating-point inputs of a call by the name of their site, positional and by keyword alike.

    >>> import torch
    >>> list(named_inputs(nn.Linear(2, 2), (torch.zeros(1, 2),), {}))
    ['input']
    """
    values = dict(zip(_positional_names(model, len(args)), args, strict=True)) | kwargs
    found = [name for name, value in values.items() if _is_features(value)]
    return {INPUT if len(found) == 1 else f"{INPUT}[{name}]": values[name] for name in found}


def submodule(model: nn.Module, name: str) -> nn.Module:
    """The module of that name."""
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise StatisticsMismatchError(
            f"These sites belong to another network: {type(model).__name__} has no module {name!r}. "
            "Fit again with shiftmatch.fit(model, batches), or look at shiftmatch.sites(model, example)."
        ) from None


def _on_inputs(meet: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    def hook(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        changed = {id(value): meet(name, value) for name, value in named_inputs(model, args, kwargs).items()}
        return tuple(changed.get(id(x), x) for x in args), {k: changed.get(id(x), x) for k, x in kwargs.items()}

    return hook


def _on_output(name: str, meet: Callable[..., Any]) -> Callable[..., Any]:
    def hook(module: nn.Module, args: object, output: Any) -> Any:
        return meet(module_address(name), output, ours=_only_we_have_seen_what_it_returns(module))

    return hook


def _only_we_have_seen_what_it_returns(module: nn.Module) -> bool:
    compiled_or_replaced = module._compiled_call_impl is not None or "forward" in vars(module)
    watched_by_others = len(module._forward_hooks) > 1 or bool(_global_forward_hooks)
    return type(module) in MAKERS and not compiled_or_replaced and not watched_by_others


class _Watch(TorchFunctionMode):
    """Meets the values of some functions while a module's forward pass runs."""

    def __init__(self, name: str, functions: set[str], meet: Callable[..., Any]) -> None:
        super().__init__()
        self._name, self._functions, self._meet = name, functions, meet

    def begin(self, module: nn.Module, args: object) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    def end(self, module: nn.Module, args: object, output: object) -> None:
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        name = function_name(func)
        return self._meet(f"{self._name}:{name}", output) if name in self._functions else output


def _positional_names(model: nn.Module, count: int) -> list[str]:
    parameters = inspect.signature(model.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else str(i) for i in range(count)]


def _is_features(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2
