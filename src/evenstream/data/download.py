"""Downloads with progress, each checked against the registry before anything opens it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evenstream.data.registry import DatasetInfo, Download
from evenstream.errors import DataError

MIRROR_VARIABLE = "EVENSTREAM_DATA_MIRROR"
"""Environment variable with the address of a mirror, which then replaces the original sources."""

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes received so far and the bytes expected."""

_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 16


def base_urls(info: DatasetInfo, mirror: str | None = None) -> tuple[str, ...]:
    """Where to download from: the mirror if one is set, else the original sources.

    A mirror keeps the files of each data set in a folder of the data set's name, for example
    `MIRROR/cifar10/cifar-10-binary.tar.gz`. Files from a mirror are checked like any other.
    """
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    return (f"{mirror.rstrip('/')}/{info.name}/",) if mirror else info.urls


def fetch(
    download: Download, urls: tuple[str, ...], folder: Path, progress: Progress | None = None
) -> Path:
    """Download a file into `folder` from the first address that has it, and check it.

    Raises:
        DataError: No address had the right file; the message says what each of them answered.
    """
    import pooch
    import requests

    failures = []
    for base in urls:
        url = base + download.name
        try:
            with _quiet_pooch():
                pooch.retrieve(
                    url,
                    known_hash=download.checksum,
                    fname=download.name,
                    path=folder,
                    downloader=pooch.HTTPDownloader(
                        progressbar=_ProgressReport(download, progress),
                        chunk_size=_CHUNK,
                        timeout=_TIMEOUT_SECONDS,
                        headers={"Accept-Encoding": "identity"},
                    ),
                )
            return folder / download.name
        except requests.RequestException as error:
            failures.append(f"{url}: {error}")
        except ValueError:
            failures.append(f"{url}: sent a file whose checksum is not {download.checksum}")
        except _TooLarge:
            failures.append(f"{url}: sent more than the expected {download.size} bytes")
    raise DataError(f"could not download {download.name}: " + "; ".join(failures))


class _TooLarge(Exception):
    """The server sends more than the file can hold."""


class _ProgressReport:
    """What pooch takes for a progress bar; passes progress on and stops oversized downloads."""

    def __init__(self, download: Download, progress: Progress | None) -> None:
        self.total = 0  # pooch sets it to what the server announces
        self._download = download
        self._progress = progress
        self._received = 0

    def update(self, n_bytes: int) -> None:
        """Count bytes, of which pooch reports whole chunks even for the last, shorter one."""
        self._received += n_bytes
        if self._received > self._download.size + _CHUNK:
            raise _TooLarge
        if self._progress is not None:
            done = min(self._received, self._download.size)
            self._progress(self._download.name, done, self._download.size)

    def reset(self) -> None:
        """Start counting anew, as pooch does before it reports the whole."""
        self._received = 0

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Keep pooch's own log lines off the terminal while progress is shown."""
    import pooch

    logger: logging.Logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
