"""Notes on what was fetched, kept in the data folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shiftmatch.errors import FileFormatError
from shiftmatch.utils.files import atomic_path

PROVENANCE = "shiftmatch.json"
"""The file that marks a folder whose contents shiftmatch made, and says how."""


@dataclass(frozen=True)
class Record:
    """What is remembered of a fetched set: which mirror gave each download, and checksums that nobody publishes."""

    downloads: Mapping[str, str] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, root: Path) -> "Record":
        path = cls.path(name, root)
        try:
            return cls(**json.loads(path.read_text())) if path.exists() else cls()
        except (ValueError, TypeError) as error:
            raise FileFormatError(
                f"{path} is not a download record ({error}). Delete it: checksums are then recorded anew."
            ) from error

    def write(self, name: str, root: Path) -> None:
        with atomic_path(self.path(name, root)) as path:
            path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def path(name: str, root: Path) -> Path:
        return root / ".records" / f"{name}.json"
