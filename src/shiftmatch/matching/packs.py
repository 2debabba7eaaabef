"""Packs: statistics with a card, as a folder or on the Hugging Face Hub; the preprocessing that goes with them."""

from collections.abc import Mapping, Sequence
from math import isclose
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftmatch.errors import DataNotFoundError, ShiftMatchError, StatisticsMismatchError
from shiftmatch.matching.sites import times

if TYPE_CHECKING:
    from shiftmatch.matching.statistics import Statistics

FILE, CARD = "statistics.safetensors", "README.md"
"""The names of the files of a pack."""


def find_pack(source: str | PathLike[str]) -> Path:
    """The file of statistics in a folder, or in a repository of the Hub, which is downloaded once."""
    if Path(source).is_dir():
        if (Path(source) / FILE).is_file():
            return Path(source) / FILE
        raise DataNotFoundError(f"{source} is no pack of statistics: it has no file {FILE}.")
    if not isinstance(source, str) or source.count("/") != 1 or source.startswith((".", "/")):
        raise DataNotFoundError(f"There is no folder {source}. A pack is a folder, or a repository as owner/name.")
    try:
        return Path(_hub().hf_hub_download(source, FILE))
    except (OSError, ValueError) as error:
        raise DataNotFoundError(
            f"There is no folder {source}, and the Hub gave none: {error} Check the name and the connection."
        ) from error


def push_pack(folder: Path, repository: str) -> str:
    """Upload a pack to a repository of the Hub, which is created if it is new; returns its address."""
    hub = _hub()
    hub.create_repo(repository, exist_ok=True)
    hub.upload_folder(repo_id=repository, folder_path=folder)
    return f"https://huggingface.co/{repository}"


def card(statistics: "Statistics", *, data: str = "", gains: Sequence[Mapping[str, Any]] = ()) -> str:
    """A page in Markdown: data, counts, protocol, and measured gains with their intervals."""
    kinds = sorted({type(entry.covariance).__name__ for entry in statistics.values()})
    prepared = [f"  - {name}: {value}" for name, value in statistics.preprocessing.items()] or ["  - not recorded"]
    lines = [
        "---",
        "library_name: shiftmatch",
        "tags: [robustness, test-time-adaptation]",
        "---",
        "# Statistics for shiftmatch",
        "",
        "What a trained network's features look like on its clean training images, site by site.",
        "",
        f"- data: {data or statistics.note or 'not recorded'}",
        f"- images: {statistics.images:,}",
        f"- sites: {len(statistics)}, {', '.join(kinds)}; BatchNorm: {statistics.batchnorm}",
        f"- inputs: {', '.join(map(times, statistics.inputs.values()))}",
        f"- classes: {', '.join(statistics.classes) or 'not recorded'}",
        "- preprocessing:",
        *prepared,
        f"- network: {len(statistics.weights)} tensors, SHA-256 {statistics.weights_hash}",
        "",
        "```python",
        "import shiftmatch as sm",
        "",
        'statistics = sm.Statistics.from_pretrained("this folder or repository")',
        "robust = sm.match(model, statistics)  # refused if the weights are others",
        "```",
    ]
    if gains:
        lines += ["", "## Measured gains", "", f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
        lines += [f"| {' | '.join(str(row.get(key, '')) for key in _COLUMNS)} |" for row in gains]
    return "\n".join(lines) + "\n"


_COLUMNS = ("data", "metric", "plain", "matched", "gain", "interval")


def _hub() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ShiftMatchError("The Hub needs huggingface_hub: pip install 'shiftmatch[hub]'.") from error
    return huggingface_hub


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
