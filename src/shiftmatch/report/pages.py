"""Pages from templates: everything that is filled in is escaped, and nothing is fetched when they are opened."""

import base64
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from shiftmatch.report.measures import readable


def render(template: str, **values: Any) -> str:
    """A template of this package, filled in."""
    return _templates().get_template(template).render(**values)


def png_address(content: bytes) -> str:
    """A PNG file as an address that holds all of it."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("shiftmatch.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["readable"] = readable
    return templates
