"""A twin of a network with operations built in at its sites, once; state that a call needs lives in that call."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from shiftmatch.errors import StatisticsMismatchError
from shiftmatch.matching.batchnorm import BatchNormMode, use_batch_statistics
from shiftmatch.matching.graph import function_name, module_address, numbered
from shiftmatch.matching.inputs import Inputs
from shiftmatch.matching.sites import Site
from shiftmatch.matching.twin import twin_of

Operation: TypeAlias = Callable[[Tensor], Tensor]
"""What is done to the features of a site."""

_calls: ContextVar[Counter[str]] = ContextVar("shiftmatch_calls")
"""How often modules and functions have been called in the current forward pass of this thread."""


def instrument(
    model: nn.Module,
    operations: Mapping[Site, Operation],
    batchnorm: BatchNormMode = "eval",
    *,
    instead: Collection[Site] = (),
) -> nn.Module:
    """The twin of a network that applies an operation to the features of every site, with BatchNorm as wanted.

    At the sites `instead` the operation takes the place of the module, and computes its output as well.

    >>> from shiftmatch.matching.sites import Layout
    >>> site = Site("0", "Linear", (2,), Layout(channel=1))
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> instrument(net, {site: torch.zeros_like})(torch.ones(1, 2))
    tensor([[0., 0.]])
    """
    twin = twin_of(model)
    if batchnorm == "batch":
        use_batch_statistics(twin)
    by_module: defaultdict[str, dict[Site, Operation]] = defaultdict(dict)
    at_input = {site.name: operation for site, operation in operations.items() if site.is_input}
    for site, operation in operations.items():
        if not site.is_input:
            by_module[site.module][site] = operation
    for name, found in by_module.items():
        module = submodule(twin, name)
        outputs = {site: operation for site, operation in found.items() if not site.function}
        functions = {site: operation for site, operation in found.items() if site.function}
        if any(site in instead for site in found):
            module.forward = _Instead(*found.values())
            continue
        if functions:
            module.forward = _FunctionSites(name, module.forward, functions)
        if outputs:
            module.register_forward_hook(_OutputSites(name, outputs))
    if at_input:
        twin.register_forward_pre_hook(_InputSites(at_input), with_kwargs=True)
    return twin


def without_sites(network: nn.Module) -> nn.Module:
    """A twin of an instrumented network that has no operations built in."""
    twin = twin_of(network)
    for module in twin.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(hook, _OutputSites | _InputSites)]:
                del hooks[key]
        if isinstance(vars(module).get("forward"), _FunctionSites | _Instead):
            inner = vars(module).pop("forward").forward
            if inner and getattr(inner, "__func__", None) is not type(module).forward:
                module.forward = inner
    return twin


def needs_call_counts(sites: Mapping[Site, Operation]) -> bool:
    """Whether some site is one of several calls, so that a forward pass has to count them."""
    return any(site.calls > 1 or site.function for site in sites)


@contextmanager
def counting_calls() -> Iterator[None]:
    """Count the calls of one forward pass of this thread."""
    token = _calls.set(Counter())
    try:
        yield
    finally:
        _calls.reset(token)


def submodule(model: nn.Module, name: str) -> nn.Module:
    """The module of that name."""
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise StatisticsMismatchError(
            f"These sites belong to another network: {type(model).__name__} has no module {name!r}. "
            "Fit again with shiftmatch.fit(model, data), or look at shiftmatch.sites(model, example)."
        ) from None


class _InputSites:
    """A pre-hook of the network: its inputs are sites."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self.operations = operations

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        inputs = Inputs(args, kwargs).mapped(model, self.operations)
        return inputs.args, dict(inputs.kwargs)


class _OutputSites:
    """A hook of one module: its output is a site, or one for each call."""

    def __init__(self, name: str, operations: Mapping[Site, Operation]) -> None:
        self.name = module_address(name)
        self.operations = {site.name: operation for site, operation in operations.items()}
        self.only = next(iter(operations.values())) if all(site.calls == 1 for site in operations) else None

    def __call__(self, module: nn.Module, args: object, output: Any) -> Any:
        operation = self.only or self.operations.get(_next_call(self.name))
        return operation(output) if operation and isinstance(output, Tensor) else output


class _Instead:
    """The forward pass of a module whose place an operation has taken."""

    forward = None  # the one that this replaced: None is that of the module's class

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def __call__(self, x: Tensor) -> Tensor:
        return self.operation(x)


class _FunctionSites:
    """The forward pass of one module, in which the values of some functions are sites."""

    def __init__(self, name: str, forward: Callable[..., Any], operations: Mapping[Site, Operation]) -> None:
        self.name, self.forward = name, forward
        self.functions = {site.function for site in operations}
        self.operations = {site.name: operation for site, operation in operations.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = torch._C._len_torch_function_stack()
        try:
            with _FunctionValues(self):
                return self.forward(*args, **kwargs)
        finally:  # an interrupt between entering the mode and the block above would leave it on the stack
            while torch._C._len_torch_function_stack() > before:
                torch.overrides._pop_mode()


class _FunctionValues(TorchFunctionMode):
    def __init__(self, sites: _FunctionSites) -> None:
        super().__init__()
        self.sites = sites

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        name = function_name(func)
        if name not in self.sites.functions:
            return output
        operation = self.sites.operations.get(_next_call(f"{self.sites.name}:{name}"))
        return operation(output) if operation and isinstance(output, Tensor) else output


def _next_call(name: str) -> str:
    calls = _calls.get()
    calls[name] += 1
    return numbered(name, calls[name])
