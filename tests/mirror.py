"""A download mirror on this machine, which can be told to misbehave."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mirror(ThreadingHTTPServer):
    """Serves `files`; the n-th answer is cut after `cuts[n]` bytes, if there is such a number."""

    def __init__(self, files: dict[str, bytes], cuts: tuple[int, ...] = (), *, ranges: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.cuts, self.ranges = files, list(cuts), ranges
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name, wanted = self.path.lstrip("/"), self.headers["Range"]
        self.server.asked.append((name, wanted))
        if name not in self.server.files:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        body = self.server.files[name][start:]
        if wanted and not body:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cuts.pop(0)] if self.server.cuts else body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def mirror(files: dict[str, bytes], cuts: tuple[int, ...] = (), *, ranges: bool = True) -> Iterator[Mirror]:
    with Mirror(files, cuts, ranges=ranges) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
