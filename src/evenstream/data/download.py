"""Downloads that resume where they were interrupted, each checked before anything opens it.

The received part of FILE is in FILE.part; FILE.part.json describes the whole file. The download is
continued only if the server confirms that its file is unchanged.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenstream.data.checked_files import AlteredFile
from evenstream.data.known import DatasetInfo, Download
from evenstream.errors import DataError
from evenstream.extras import require
from evenstream.files import write_atomically

if TYPE_CHECKING:
    import requests

MIRROR_VARIABLE = "EVENSTREAM_DATA_MIRROR"
"""Environment variable with the address of a mirror that replaces the original sources."""

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes received so far and the bytes expected."""

_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 16
_TRIES = 5
WORTHWHILE = 1 << 20
PAUSE_SECONDS = 1.0
WINDOW_SECONDS = 60.0
LEAST_RATE = 1000  # bytes per second, over a window


def base_urls(info: DatasetInfo, mirror: str | None = None) -> tuple[str, ...]:
    """Where to download from: the mirror if one is set, otherwise the original sources.

    A mirror keeps the files of each data set in a folder of the data set's name, for example
    `MIRROR/cifar10/cifar-10-binary.tar.gz`. Files from a mirror are checked like any other.
    """
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    return (f"{mirror.rstrip('/')}/{info.name}/",) if mirror else info.urls


def fetch(
    download: Download,
    urls: tuple[str, ...],
    folder: Path,
    check: Callable[[Path], None],
    progress: Progress | None = None,
) -> Path:
    """Download a file into `folder` from the first address that has it, and check it.

    A file that `check` rejects with `AlteredFile` is deleted. If the connection breaks for good or
    the process is killed, the received part is kept for the next call.

    Raises:
        DataError: No address had the right file; the message says what each of them answered.
    """
    require("requests", "data", "Downloading")
    import requests

    folder.mkdir(parents=True, exist_ok=True)
    part = _Part(folder, download.name)
    if part.is_whole(check):
        return part.whole
    failures = []
    for base in urls:
        url = base + download.name
        try:
            _complete(part, url, download, progress)
            check(part.path)
            return part.finish()
        except requests.RequestException as error:
            failures.append(f"{url}: {error}")
        except AlteredFile as error:
            part.discard()
            failures.append(f"{url}: {error}")
    can_go_on = any(part.origin_at(base + download.name) for base in urls)
    kept = f" ({part.size} bytes are kept; run the command again to continue)" if can_go_on else ""
    raise DataError(f"could not download {download.name}: {'; '.join(failures)}{kept}")


@dataclass(frozen=True)
class _Origin:
    """The whole file that a partial file belongs to.

    Attributes:
        url: Where it comes from.
        size: Bytes of the whole file, if the server says.
        validator: The server's identifier of this version of the file, if any.
    """

    url: str
    size: int | None
    validator: str | None


class _Part:
    """The received part of a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.whole = folder / name
        self.path = folder / f"{name}.part"
        self._origin_path = folder / f"{name}.part.json"

    @property
    def size(self) -> int:
        """Bytes received."""
        return self.path.stat().st_size if self.path.exists() else 0

    def is_whole(self, check: Callable[[Path], None]) -> bool:
        """Whether an earlier call completed the file; one that fails the check is deleted."""
        if not self.whole.exists():
            return False
        try:
            check(self.whole)
        except AlteredFile:
            self.whole.unlink()
            return False
        return True

    def origin_at(self, url: str) -> _Origin | None:
        """The whole file, if it is at this address and its version can be identified."""
        try:
            origin = _Origin(**json.loads(self._origin_path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return origin if self.size and origin.url == url and origin.validator else None

    def start(self, origin: _Origin) -> None:
        """Start over."""
        self.path.write_bytes(b"")
        write_atomically(self._origin_path, json.dumps(asdict(origin)))

    def discard(self) -> None:
        """Delete what was received."""
        self.path.unlink(missing_ok=True)
        self._origin_path.unlink(missing_ok=True)

    def finish(self) -> Path:
        """Give the complete file its name."""
        self._origin_path.unlink(missing_ok=True)
        return self.path.replace(self.whole)


def _complete(part: _Part, url: str, download: Download, progress: Progress | None) -> None:
    """Receive what is missing, in as many requests as it takes.

    Gives up after several consecutive tries with next to no data, or at once if the address cannot
    be reached in the first place or is too slow.
    """
    import requests

    tries, most = 0, part.size
    while True:
        try:
            _receive(part, url, download, progress)
            return
        except requests.RequestException as error:
            gained = part.size - most
            most = max(most, part.size)
            unreachable = isinstance(error, requests.ConnectionError) and tries == gained == 0
            if unreachable or not _may_pass(error):
                raise
            tries = 1 if gained >= WORTHWHILE else tries + 1
            if tries == _TRIES:
                raise
        time.sleep(PAUSE_SECONDS * 2 ** (tries - 1))


def _may_pass(error: requests.RequestException) -> bool:
    """Whether a retry may help: for network or server trouble, but not for a refusal."""
    import requests

    if error.response is not None:
        return error.response.status_code >= 500
    return isinstance(error, requests.ConnectionError | requests.Timeout)


def _receive(part: _Part, url: str, download: Download, progress: Progress | None) -> None:
    """One request; any failure on the way is a `RequestException`."""
    import requests
    import urllib3

    try:
        _request(part, url, download, progress)
    except requests.RequestException:
        raise
    except ValueError as error:  # an invalid address or length
        raise requests.RequestException(f"the answer is not valid ({error})") from error
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(f"it broke off at {part.size} bytes") from error


def _request(part: _Part, url: str, download: Download, progress: Progress | None) -> None:
    """Request the rest of the file if its first part can be continued, otherwise all of it."""
    import requests

    origin = part.origin_at(url)
    headers = {"Accept-Encoding": "identity"}
    if origin is not None:
        if part.size == origin.size:
            return
        headers |= {"Range": f"bytes={part.size}-", "If-Range": str(origin.validator)}
    with _answer(url, headers) as response:
        if response.status_code in (requests.codes.partial, requests.codes.requested_range):
            if origin is None or not _follows(response, part, origin):
                part.discard()
                raise requests.ConnectionError(f"{url} sent a different part than requested")
        else:
            response.raise_for_status()
            origin = _origin_of(response, url, download)
            part.start(origin)
        _append(response, part, download, progress)
    if origin.size is not None and part.size < origin.size:
        raise requests.ConnectionError(f"it broke off at {part.size} of {origin.size} bytes")


def _answer(url: str, headers: dict[str, str]) -> requests.Response:
    """The response once its headers have arrived, all within a window.

    A thread waits for them, and is abandoned if they do not: a timeout in `requests` restarts with
    every byte.
    """
    import requests

    answer: Future[requests.Response] = Future()

    def ask() -> None:
        hooks = {"response": _leave_redirect}
        try:
            answer.set_result(
                requests.get(
                    url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS, hooks=hooks
                )
            )
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(WINDOW_SECONDS)
    except TimeoutError:
        raise requests.RequestException(
            f"the server is too slow: no answer in {WINDOW_SECONDS:.0f} seconds"
        ) from None


def _leave_redirect(response: requests.Response, **_: object) -> None:
    """Do not read the body of a redirect: it may have no end."""
    if response.is_redirect:
        response.close()


def _follows(response: requests.Response, part: _Part, origin: _Origin) -> bool:
    """Whether the server is sending the rest of the same file."""
    span = response.headers.get("Content-Range", "")
    size = "" if origin.size is None else f"/{origin.size}"
    same = _validator(response) in (None, origin.validator)
    return response.ok and same and span.startswith(f"bytes {part.size}-") and span.endswith(size)


def _origin_of(response: requests.Response, url: str, download: Download) -> _Origin:
    """The server's description of the file it sends from the beginning."""
    length = response.headers.get("Content-Length", "")
    size = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
    if size is None and not download.approximate:
        size = download.size
    if size is not None and size > download.size_limit:
        raise AlteredFile(f"has {size} bytes, more than the expected {download.size}")
    return _Origin(url, size, _validator(response))


def _validator(response: requests.Response) -> str | None:
    tag = response.headers.get("ETag", "W/")
    strong = None if tag.startswith("W/") else tag  # a weak one does not guarantee equal bytes
    return strong or response.headers.get("Last-Modified")


def _append(
    response: requests.Response, part: _Part, download: Download, progress: Progress | None
) -> None:
    received = part.size
    pace = _Pace(received)
    with part.path.open("ab") as file:
        while chunk := _read(response):
            file.write(chunk)
            received += len(chunk)
            if received > download.size_limit:
                raise AlteredFile(f"sent more than the expected {download.size} bytes")
            if progress is not None:
                progress(download.name, min(received, download.size), download.size)
            if received < download.size:
                pace.check(received)


def _read(response: requests.Response) -> bytes:
    """The next bytes; closes the connection if none arrive within a window.

    Their framing is read silently, and may also arrive byte by byte.
    """

    def end() -> None:
        with suppress(OSError, RuntimeError, ValueError):  # it has already ended
            response.raw.shutdown()

    timer = threading.Timer(WINDOW_SECONDS, end)
    timer.start()
    try:
        chunk: bytes = response.raw.read1(_CHUNK, decode_content=False)
    finally:
        timer.cancel()
    return chunk


class _Pace:
    """Detects a server that sends too little to ever finish."""

    def __init__(self, received: int) -> None:
        self._since, self._before = time.monotonic(), received

    def check(self, received: int) -> None:
        """Raise if too little arrived in the last window."""
        import requests

        seconds, gained = time.monotonic() - self._since, received - self._before
        if seconds < WINDOW_SECONDS:
            return
        if gained < LEAST_RATE * seconds:
            raise requests.RequestException(
                f"the server is too slow: {gained} bytes in {seconds:.0f} seconds"
            )
        self._since, self._before = time.monotonic(), received
