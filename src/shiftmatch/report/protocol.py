"""How scores were made, as rows that can be read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.grid import PARTS


def protocol(scores: Scores) -> list[tuple[str, str]]:
    """What was measured, then what the scores' file says of how: a name and a value each."""
    metrics = [metric for metric in scores.values("metric") if PARTS not in metric]
    measured = {
        "data": scores.values("data"),
        "methods": scores.values("method"),
        "metrics": metrics,
        "seeds": scores.values("seed"),
        "scores": len(scores),
    }
    return [*_flat("", measured), *_flat("", scores.provenance)]


def _flat(prefix: str, entries: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Nested entries under their full names.

    >>> list(_flat("", {"settings": {"seed": 0, "sizes": [1, 2]}, "command": "x"}))
    [('settings: seed', '0'), ('settings: sizes', '1; 2'), ('command', 'x')]
    """
    for key, value in entries.items():
        name = f"{prefix}: {key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)
