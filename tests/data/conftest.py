from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenstream.data import download
from evenstream.data.known import DATASETS, DatasetInfo


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's own data folder or mirror."""
    root = tmp_path / "root"
    monkeypatch.setenv("EVENSTREAM_DATA", str(root))
    monkeypatch.delenv("EVENSTREAM_DATA_MIRROR", raising=False)
    return root


@pytest.fixture
def register() -> Iterator[Callable[[DatasetInfo], None]]:
    """Put an entry in the registry for the length of a test."""
    with contextlib.ExitStack() as stack:
        yield lambda info: stack.enter_context(DATASETS.temporary({info.name: info}))


class Mirror:
    """A web server on this machine, whose connections can be made to break.

    Attributes:
        files: Contents by path.
        asked: The paths of all requests.
        ranges: The `Range` header of each request, None if it had none.
        supports_ranges: Whether requests for a part are answered with that part.
        tag: What `ETag` says of every file; no such header if empty.
        headers: More headers to send with every file, also in place of the right ones.
        moved: Where the next requests are sent on to, with an answer that has no end.
        drip: Seconds between one byte and the next, if not all are sent at once.
        drip_headers: The same for the headers.
        break_after: Bytes after which each of the next responses breaks off.
        errors: Status codes of the next responses, which then have no content.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.ranges: list[str | None] = []
        self.supports_ranges = True
        self.tag = '"first"'
        self.headers: dict[str, str] = {}
        self.break_after: list[int] = []
        self.errors: list[int] = []
        self.moved: list[str] = []
        self.drip = 0.0
        self.drip_headers = 0.0
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                mirror.ranges.append(self.headers["Range"])
                if mirror.moved:
                    self.send_on(mirror.moved.pop(0))
                    return
                content = mirror.files.get(self.path)
                if content is None or mirror.errors:
                    self.send_error(mirror.errors.pop(0) if mirror.errors else 404)
                    return
                self.send_part(content, mirror.first_byte(self.headers))

            def send_part(self, content: bytes, start: int) -> None:
                if start >= len(content) > 0:
                    self.send_error(416)
                    return
                self.send_response(206 if start else 200)
                if start:
                    span = f"bytes {start}-{len(content) - 1}/{len(content)}"
                    self.send_header("Content-Range", span)
                if mirror.tag:
                    self.send_header("ETag", mirror.tag)
                for name, value in mirror.headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in mirror.headers:
                    self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                limit = mirror.break_after.pop(0) if mirror.break_after else len(content)
                rest = content[start : start + limit]
                self.send_slowly(rest, mirror.drip)

            def end_headers(self) -> None:
                self._headers_buffer.append(b"\r\n")
                buffer, self._headers_buffer = b"".join(self._headers_buffer), []
                self.send_slowly(buffer, mirror.drip_headers)

            def send_slowly(self, content: bytes, drip: float) -> None:
                step = 1 if drip else len(content) or 1
                with contextlib.suppress(OSError):  # whoever asked has had enough
                    for place in range(0, len(content), step):
                        self.wfile.write(content[place : place + step])
                        time.sleep(drip)

            def send_on(self, address: str) -> None:
                self.send_response(302)
                self.send_header("Location", address)
                self.end_headers()
                with contextlib.suppress(OSError):
                    for _ in range(2000):
                        self.wfile.write(bytes(1 << 20))

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def first_byte(self, headers: Message) -> int:
        """Where to begin: as RFC 9110 has it, at 0 if the file is not the one that was begun."""
        wanted, version = headers["Range"], self.headers.get("Last-Modified", self.tag)
        if not (wanted and self.supports_ranges and headers["If-Range"] == version):
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def serve(self, dataset: str, files: dict[str, bytes]) -> None:
        self.files.update({f"/{dataset}/{name}": content for name, content in files.items()})


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0)
    mirror = Mirror()
    thread = threading.Thread(target=mirror.server.serve_forever, args=(0.02,))
    thread.start()
    yield mirror
    mirror.server.shutdown()
    thread.join()
    mirror.server.server_close()
