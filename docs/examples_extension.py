"""For the reference pages: examples in docstrings are shown as code."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Put a fence around every example of a docstring: without one, Markdown takes `>>>` for a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
