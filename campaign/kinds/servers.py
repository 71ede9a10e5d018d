"""Misbehaving servers: `data get` gives up in plain words, and succeeds with a good server."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from campaign.kinds.archives import NAME, good_files, packed, register
from campaign.processes import Failure, Life, fork, status_of

EACH, FULL = 1, 300
_FILE = f"{NAME}.zip"
_MOVED = "302 Found"


@dataclass(frozen=True)
class _Answer:
    """What a server sends; by default, what was requested."""

    status: str = ""
    length: str = ""
    tag: str = '"1"'
    more: str = ""
    part: float = 1.0
    """How much of the content comes before the connection ends."""
    extra: bytes = b""
    pause: float = 0.0
    """Seconds before each of ten pieces."""
    drips: bool = False
    """Whether the headers come byte by byte, each after that pause."""
    noise: bool = False
    raw: bytes | None = None
    """Instead of everything else."""


_GOOD = _Answer()
_BAD = [
    _Answer("404 X"), _Answer("500 X"), _Answer("503 X"), _Answer("416 X"), _Answer("206 X"),
    _Answer(_MOVED, more=f"Location: /{NAME}/{_FILE}\r\n"),
    _Answer(_MOVED, more="Location: file:///etc/passwd\r\n"), _Answer(_MOVED),
    _Answer(raw=b""), _Answer(raw=b"\xff\x00 garbage" * 50), _Answer(raw=b"HTTP/1.1 200 OK\r\n"),
    _Answer(length="-5"), _Answer(length="many"), _Answer(length="9" * 40), _Answer(length="5"),
    _Answer(length="5\r\nContent-Length: 6"), _Answer(length="999999"), _Answer(part=0),
    _Answer(part=0.1), _Answer(part=0.5), _Answer(part=0.9), _Answer(part=0, length="0"),
    _Answer(extra=b"more" * 1000), _Answer(length="99999999", extra=bytes(10**7)),
    _Answer(pause=0.15), _Answer(pause=2, part=0.2), _Answer(noise=True), _Answer(tag=""),
    _Answer(tag='W/"1"'), _Answer(tag="\x1b[31m"), _Answer(tag="é" * 5000),
    _Answer(more="Content-Encoding: gzip\r\n"), _Answer(more="Transfer-Encoding: chunked\r\n"),
    _Answer(pause=0.1, drips=True), _Answer(more=f"X: {'x' * 200_000}\r\n"),
    _Answer("206 Partial Content", more="Content-Range: bytes 7-9/*\r\n"),
]  # fmt: skip


def attack(seed: int, folder: Path) -> None:
    """Download from a bad server, then from a good one."""
    draw = random.Random(seed)
    content = packed("zip", good_files())
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}" if draw.random() < 0.7 else None
    for answers in (draw.choices([_GOOD, *_BAD], k=8), [_GOOD]):
        status = _get(folder, content, checksum, answers)
    if status != 0:
        raise Failure("after a bad server a good one does not help")
    for name, expected in good_files().items():
        path = folder / "data" / NAME / Path(*Path(name).parts[1:])
        if checksum and (not path.exists() or path.read_bytes() != expected):
            raise Failure(f"{path} is not what the archive holds")


def _get(folder: Path, content: bytes, checksum: str | None, answers: list[_Answer]) -> int:
    listening = socket.create_server(("127.0.0.1", 0))
    server = fork(lambda: _serve(listening, content, answers), folder / "server.txt")
    port = listening.getsockname()[1]
    listening.close()

    def prepare() -> None:
        register(_FILE, folder, len(content), checksum)
        os.environ["EVENSTREAM_DATA_MIRROR"] = f"http://127.0.0.1:{port}/"
        _be_impatient()

    try:
        ended = Life(["data", "get", NAME], folder / "place", prepare).end()
        ended.check()
        return ended.status
    except Failure as failure:
        raise Failure(f"{answers}: {failure}") from failure
    finally:
        os.kill(server, signal.SIGKILL)
        status_of(server)


def _be_impatient() -> None:
    """Shorten this process's timeouts."""
    from evenstream.data import download

    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(float(seconds), 0.01))
    download._TIMEOUT_SECONDS, download.WINDOW_SECONDS = 1, 3


def _serve(listening: socket.socket, content: bytes, answers: list[_Answer]) -> int:
    for number in range(1000):
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            asked = connection.recv(65536).decode(errors="replace")
            start = int(asked.partition("Range: bytes=")[2].partition("-")[0] or 0)
            answer = answers[number % len(answers)]
            for piece in _pieces(answer, content, start):
                time.sleep(answer.pause)
                connection.sendall(piece)
    return 0


def _pieces(answer: _Answer, content: bytes, start: int) -> list[bytes]:
    if answer.raw is not None:
        return [answer.raw]
    rest = bytes(len(content) - start) if answer.noise else content[start:]
    length = answer.length or str(len(rest))
    part = f"Content-Range: bytes {start}-{len(content) - 1}/{len(content)}\r\n" if start else ""
    status = answer.status or ("206 Partial Content" if start else "200 OK")
    head = (
        f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: {answer.tag}\r\n"
        f"{answer.more or part}Connection: close\r\n\r\n"
    )
    sent = rest[: int(answer.part * len(rest))]
    tenth = len(sent) // 10 + 1
    pieces = [sent[at : at + tenth] for at in range(0, len(sent), tenth)]
    step = 1 if answer.drips else len(head)
    heads = [head[at : at + step].encode() for at in range(0, len(head), step)]
    return [*heads, *pieces, answer.extra]
