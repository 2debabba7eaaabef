"""Horizontal bars: where each begins and ends, in % of the room that there is."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """A name, a bar, a value as text; `kind` is "best", "loss" or nothing."""

    name: str
    text: str
    start: float
    width: float
    kind: str = ""


def bars(
    values: Mapping[str, float], texts: Mapping[str, str], *, low: float = 0.0, high: float, best: str | None = None
) -> list[Bar]:
    """Bars from zero, on a scale from `low` to `high`; those below zero go the other way.

    >>> up, down = bars({"a": 2.0, "b": -2.0}, {"a": "2", "b": "-2"}, low=-2.0, high=6.0)
    >>> (up.start, up.width), (down.start, down.width)
    ((25.0, 25.0), (0.0, 25.0))
    """
    room = high - low or 1.0
    return [
        Bar(
            name,
            texts[name],
            start=round(100 * (min(value, 0.0) - low) / room, 2),
            width=round(100 * abs(value) / room, 2),
            kind="best" if name == best else "loss" if value < 0 else "",
        )
        for name, value in values.items()
    ]


def shift_bars(shifts: Mapping[str, Mapping[str, float]]) -> dict[str, list[Bar]]:
    """For each corruption, how far the features of each site have moved, all on one scale."""
    high = max((value for row in shifts.values() for value in row.values()), default=1.0)
    return {
        name: bars(row, {site: f"{value:.2f}" for site, value in row.items()}, high=high)
        for name, row in shifts.items()
    }
