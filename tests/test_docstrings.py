"""Every public name says what it is, lists its arguments, and has an example, which `--doctest-modules` runs."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shiftmatch

SRC = Path(shiftmatch.__file__).parent
MODULES = [shiftmatch, *(value for name in shiftmatch.__all__ if inspect.ismodule(value := getattr(shiftmatch, name)))]
NO_ARGUMENTS = (BaseException,)


def public() -> Iterator[tuple[str, Any]]:
    """Every public name, and what it stands for; the same thing only once."""
    seen: set[int] = set()
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.__name__}.{name}", value


THINGS = dict(public())
CALLABLES = {name: value for name, value in THINGS.items() if inspect.isclass(value) or inspect.isfunction(value)}
VALUES = sorted(THINGS.keys() - CALLABLES.keys())


def parameters(value: Any) -> list[str]:
    """The names that a call takes, as an argument list writes them; a protocol and an exception take none of ours."""
    if getattr(value, "_is_protocol", False) or (inspect.isclass(value) and issubclass(value, NO_ARGUMENTS)):
        return []
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(each.kind, "") + each.name for each in inspect.signature(value).parameters.values()]


def listed(doc: str) -> list[str]:
    """The names in the argument list of a docstring."""
    block = re.search(r"^Args:\n((?:    .*\n?)+)", doc, re.MULTILINE)
    return re.findall(r"^    (\*{0,2}\w+): \S", block[1], re.MULTILINE) if block else []


def test_there_is_something_to_check() -> None:
    assert len(CALLABLES) > 120
    assert len(MODULES) > 10
    assert listed("Args:\n    x: a number.\n    **more: others.\n\n>>> 1") == ["x", "**more"]


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_a_public_name_lists_its_arguments_and_has_an_example(name: str) -> None:
    value = CALLABLES[name]
    doc = inspect.getdoc(value) or ""
    assert doc.split("\n")[0], f"{name} has no summary"
    assert value.__doc__, f"{name} has only the docstring of its parent"
    assert listed(doc) == parameters(value), f"the argument list of {name} is not that of its signature"
    assert re.search(r"^>>> ", doc, re.MULTILINE), f"{name} has no example"
    assert "+SKIP" not in doc, f"the example of {name} is not run"


@pytest.mark.parametrize("name", sorted(name for name, value in CALLABLES.items() if inspect.isclass(value)))
def test_the_public_methods_of_a_public_class_say_what_they_do(name: str) -> None:
    for attribute, value in vars(CALLABLES[name]).items():
        function = getattr(value, "__func__", getattr(value, "fget", value))
        if inspect.isfunction(function) and not attribute.startswith("_"):
            assert (inspect.getdoc(getattr(CALLABLES[name], attribute)) or "").strip(), f"{name}.{attribute}"


@pytest.mark.parametrize("name", VALUES)
def test_a_public_value_is_explained_below_it(name: str) -> None:
    place, _, short = name.rpartition(".")
    package = Path(import_module(place).__file__ or "").parent
    assert any(short in explained(file) for file in package.rglob("*.py")), f"{name} has no docstring below it"


def explained(file: Path) -> set[str]:
    """The values of a module that have a docstring below them."""
    body = ast.parse(file.read_text()).body
    return {
        target.id
        for statement, following in pairwise(body)
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    }
