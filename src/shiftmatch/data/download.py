"""Downloads that survive broken transfers, lost mirrors and wrong bytes."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftmatch.data.checksums import verify
from shiftmatch.errors import DataNotFoundError, FileFormatError
from shiftmatch.utils.progress import track

CHUNK = 1 << 20
ATTEMPTS = 3
TIMEOUT_SECONDS = 30.0
RANGE_NOT_SATISFIABLE = 416
_BROKEN = (OSError, http.client.HTTPException)


def download(urls: Sequence[str], target: Path, *, checksum: str, show: bool = True) -> str:
    """Fetch `target` from the first mirror that delivers the right bytes; return that mirror's address.

    What has arrived is kept in `<target>.part`, from which a later call goes on, even at another mirror.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in urls:
        try:
            _complete(url, part, checksum, show=show)
        except (*_BROKEN, FileFormatError) as error:
            failures.append(f"  {url}: {error or type(error).__name__}")
        else:
            part.replace(target)
            return url
    raise DataNotFoundError(
        f"{target.name} could not be downloaded:\n" + "\n".join(failures) + f"\n"
        f"Try again later (what has arrived is kept), or fetch it by hand and put it at {target}, then run the same "
        f"command. Expected checksum: {checksum}."
    )


def _complete(url: str, part: Path, checksum: str, *, show: bool) -> None:
    """Bring `part` to its end, going on where a transfer broke, until it has the right checksum."""
    for left in reversed(range(ATTEMPTS)):
        resumed = part.exists()
        try:
            _transfer(url, part, show=show)
            verify(part, checksum)
        except urllib.error.URLError:
            raise
        except _BROKEN:
            if not left:
                raise
        except FileFormatError:
            part.unlink()
            if not (left and resumed):  # all came from this mirror, and asking again would give the same
                raise
        else:
            return


def _transfer(url: str, part: Path, *, show: bool) -> None:
    """Append to `part` what it lacks; raise if the connection ends too early."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if have and error.code == RANGE_NOT_SATISFIABLE:  # nothing is missing; the checksum will tell
            return
        raise
    with response, part.open("ab" if response.status == http.client.PARTIAL_CONTENT else "wb") as file:
        length = int(response.headers.get("Content-Length", 0))
        for chunk in track(_chunks(response), f"{part.stem} (MiB)", total=-(-length // CHUNK) or None, show=show):
            length -= file.write(chunk)
    if length > 0:
        raise ConnectionError(f"the connection ended {length:,} bytes too early")


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read(CHUNK):
        yield chunk
