"""Where data sets are kept."""

import os
from pathlib import Path


def data_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """`root` if given, else $SHIFTMATCH_DATA, else the user's cache directory.

    >>> data_folder("somewhere").name
    'somewhere'
    """
    if chosen := root or os.environ.get("SHIFTMATCH_DATA"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("shiftmatch", appauthor=False)


def frost_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """Where the published photographs of frost are looked for.

    >>> frost_folder("somewhere").parts
    ('somewhere', 'frost')
    """
    return data_folder(root) / "frost"
