"""What determines the bytes of a corrupted set, and its division into pieces that can be made one by one."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version

import torch

from shiftmatch.corruptions import corrupt, frost_source
from shiftmatch.data.inventory import load
from shiftmatch.data.labelled import Labelled
from shiftmatch.data.layouts import Layout, Severity, layout_of
from shiftmatch.shapes import Pixels
from shiftmatch.utils.files import frost_folder


@dataclass(frozen=True)
class Piece:
    """Some neighbouring images under one corruption at one severity."""

    name: str
    severity: Severity
    start: int
    stop: int


@dataclass(frozen=True)
class Job:
    """The corruptions of `suite` on the first `limit` test images of `data`, which lies below `root`."""

    suite: str
    data: str
    root: str
    seed: int = 0
    limit: int | None = None

    @property
    def layout(self) -> Layout:
        return layout_of(self.suite)

    @property
    def clean(self) -> Labelled:
        """The clean set, read once in each process."""
        return _load(self)

    @staticmethod
    def forget() -> None:
        """Read clean sets anew: their files may be others than before."""
        _load.cache_clear()

    def pieces(self, name: str, size: int) -> Iterator[Piece]:
        """The pieces of a corruption, severity by severity."""
        for severity in self.layout.severities:
            for start in range(0, len(self.clean), size):
                yield Piece(name, severity, start, min(start + size, len(self.clean)))

    def images(self, piece: Piece) -> Pixels:
        """The corrupted images of a piece."""
        clean = self.clean.images[torch.arange(piece.start, piece.stop)]
        return corrupt(
            clean,
            piece.name,
            severity=piece.severity,
            suite=self.suite,
            seed=self.seed,
            frost=frost_folder(self.root),
        )

    def provenance(self) -> dict[str, object]:
        """What a reader of the files should know of their making."""
        settings = {key: value for key, value in asdict(self).items() if key != "root"}
        return {
            "made by": f"shiftmatch {version('shiftmatch')}",
            **settings,
            "frost": frost_source(frost_folder(self.root)),
        }


@lru_cache(maxsize=1)
def _load(job: Job) -> Labelled:
    return load(job.data, root=job.root, limit=job.limit)
