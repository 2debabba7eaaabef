"""The protocol of statistics: how pixels became inputs when they were fitted, and whether others are prepared alike."""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from shiftmatch.errors import StatisticsMismatchError


def check_protocol(
    fitted: Mapping[str, Any], given: Mapping[str, Any], *, of: str = "The statistics were fitted"
) -> None:
    """Refuse inputs that are prepared in another way than those that statistics were fitted on, naming the field.

    Fields that only one of them says (mean, std, size, resize, crop, interpolation, range, grey, …) are not compared;
    one number stands for as many equal ones. `of` begins the sentence.

    >>> check_protocol({"mean": (0.5,), "std": (0.5,)}, {"mean": [0.5, 0.5, 0.5], "size": 32})
    >>> check_protocol({"std": (0.5,)}, {"std": (0.229, 0.224, 0.225)})
    Traceback (most recent call last):
    ...
    shiftmatch.errors.StatisticsMismatchError: The statistics were fitted on images prepared with std=0.5; these are ...
    """
    for name in fitted:
        both = (fitted[name], given.get(name))
        if None not in both and not _alike(*both):
            raise StatisticsMismatchError(
                f"{of} on images prepared with {name}={_shown(fitted[name])}; these are prepared "
                f"with {name}={_shown(given[name])}. Prepare them alike, fit again, or say that it is meant."
            )


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return str(a).lower() == str(b).lower()
    if not isinstance(a, Sequence) and not isinstance(b, Sequence):
        numbers = isinstance(a, int | float) and isinstance(b, int | float)
        return isclose(a, b, rel_tol=1e-6) if numbers else bool(a == b)
    ours, theirs = ([*x] if isinstance(x, Sequence) else [x] for x in (a, b))
    length = max(len(ours), len(theirs))
    ours, theirs = (x * length if len(x) == 1 else x for x in (ours, theirs))
    return len(ours) == len(theirs) and all(map(_alike, ours, theirs))


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
