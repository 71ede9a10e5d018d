from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenstream.data.registry import DATASETS, DatasetInfo


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's own data folder or mirror."""
    root = tmp_path / "root"
    monkeypatch.setenv("EVENSTREAM_DATA", str(root))
    monkeypatch.delenv("EVENSTREAM_DATA_MIRROR", raising=False)
    return root


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[DatasetInfo], None]:
    """Put an entry in the registry for the length of a test."""
    return lambda info: monkeypatch.setitem(DATASETS, info.name, info)


class Mirror:
    """A web server on this machine; `files` maps paths to contents, `asked` lists requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                content = mirror.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def serve(self, dataset: str, files: dict[str, bytes]) -> None:
        self.files.update({f"/{dataset}/{name}": content for name, content in files.items()})


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    mirror = Mirror()
    thread = threading.Thread(target=mirror.server.serve_forever, args=(0.02,))
    thread.start()
    yield mirror
    mirror.server.shutdown()
    thread.join()
    mirror.server.server_close()
