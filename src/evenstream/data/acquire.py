"""Brings data sets into the data folder, by download or from existing files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evenstream.data.archives import check_download, unpack
from evenstream.data.checked_files import (
    AlteredFile,
    content_names,
    find_file,
    install,
    open_content,
    remove,
    remove_empty,
    writing_under,
)
from evenstream.data.download import Progress, base_urls, fetch
from evenstream.data.known import DataFile, DatasetInfo, Download, dataset_info
from evenstream.data.locate import FileStatus, data_root, how_to_get, offline_hint, verify
from evenstream.data.pins import read_record
from evenstream.data.tree_import import check_archive, check_room, import_images, unpack_images
from evenstream.errors import DataError, InputError
from evenstream.files import with_home


def get(
    name: str,
    *,
    root: str | Path | None = None,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> list[FileStatus]:
    """Download the missing or altered files of a data set, and check them.

    Every download is checked before it is opened, and every file before it gets its name; intact
    files are not downloaded again. An interrupted download is continued by the next call.

    Args:
        name: A registered data set.
        root: The folder of data sets, if not the default.
        mirror: Address to download from instead of the original sources, as for
            $EVENSTREAM_DATA_MIRROR: files are at MIRROR/NAME/FILE.
        progress: Called with file name, bytes received and bytes expected.

    Returns:
        The state of each file, as `verify` reports it.
    """
    info = dataset_info(name)
    folder = data_root(root)
    statuses = verify(name, root=folder)
    wanted = _not_usable(statuses)
    if not wanted:
        return statuses
    if info.by_hand:
        problem = statuses[0].problem
        raise DataError(f"{statuses[0].name}: {problem}" if problem else how_to_get(info, folder))
    source = _Source(info, folder, base_urls(info, mirror), progress)
    with writing_under(folder):
        try:
            if info.is_tree:
                _get_images(info, folder, source)
            else:
                _get_files(info, folder, source, wanted)
        finally:
            remove_empty([source.incoming, source.incoming.parent])
    return verify(name, root=folder)


def import_files(
    name: str, directory: str | Path, *, root: str | Path | None = None
) -> list[FileStatus]:
    """Import a data set from a folder on this machine.

    Files are looked for in the folder itself and in the sub-folders other tools use (MNIST/raw,
    cifar-10-batches-bin and the like), plain or as `.gz`, or in the archive the source publishes.
    Each is checked and copied into the data folder. A folder of images is not copied: its layout is
    checked, and from then on it is read in place.

    Returns:
        The state of each file, as `verify` reports it.
    """
    info = dataset_info(name)
    if info.layout in ("bundled", "own"):
        why = "built in" if info.layout == "bundled" else "loaded by its own function"
        raise InputError(f"{info.name} is {why}; there is nothing to import")
    source = with_home(directory).absolute()
    if not source.is_dir():
        hint = f"; give the folder that it is in, {source.parent}" if source.exists() else ""
        raise DataError(f"there is no folder {source}{hint}")
    folder = data_root(root)
    places = ("", "raw", info.name, *info.usual_folders)
    with writing_under(folder):
        if info.is_tree:
            import_images(info, source, places, folder)
        else:
            _import_files(info, source, places, folder)
    return verify(name, root=folder)


@dataclass(frozen=True)
class _Source:
    """Where the downloads of a data set come from, and where they are kept until used."""

    info: DatasetInfo
    root: Path
    urls: tuple[str, ...]
    progress: Progress | None

    @property
    def incoming(self) -> Path:
        return self.root / "downloads" / self.info.name

    def fetch(self, download: Download, check: Callable[[Path], None]) -> Path:
        try:
            return fetch(download, self.urls, self.incoming, check, self.progress)
        except DataError as error:
            raise DataError(f"{error}. {offline_hint(self.info, self.root)}") from error


def _get_files(info: DatasetInfo, root: Path, source: _Source, wanted: set[str]) -> None:
    for download in info.downloads:
        if wanted.isdisjoint(download.provides):
            continue
        path = source.fetch(download, partial(check_download, download=download))
        with _using_up(path):
            unpack(path, download, info, root / info.name)


def _get_images(info: DatasetInfo, root: Path, source: _Source) -> None:
    check_room(info, root)
    pins = read_record(root, info.name).pins
    archives = [
        source.fetch(download, partial(check_archive, download=download, pins=pins))
        for download in info.downloads
    ]
    with _using_up(source.incoming):
        unpack_images(info, archives, root, pins)


@contextmanager
def _using_up(downloaded: Path) -> Iterator[None]:
    """Delete a download once it is used or found damaged; keep it on other errors."""
    try:
        yield
    except AlteredFile:
        remove(downloaded)
        raise
    remove(downloaded)


def _import_files(info: DatasetInfo, source: Path, places: tuple[str, ...], root: Path) -> None:
    wanted = _not_usable(verify(info.name, root=root))
    problems: list[str] = []
    for file in info.files:
        if file.name in wanted and _import_file(source, places, file, root / info.name, problems):
            wanted.remove(file.name)
    if wanted:
        _import_archives(info, source, places, root, wanted, problems)
    if wanted:
        found = f" ({'; '.join(problems)})" if problems else ""
        raise DataError(
            f"{source} does not hold what {info.name} needs: no intact copy of "
            f"{', '.join(sorted(wanted))}{found}"
        )


def _not_usable(statuses: list[FileStatus]) -> set[str]:
    return {status.name for status in statuses if not status.usable}


def _import_file(
    source: Path, places: tuple[str, ...], file: DataFile, folder: Path, problems: list[str]
) -> bool:
    """Install the first intact copy of a file; record what is wrong with the others."""
    for path in find_file(source, places, content_names(file)):
        try:
            with open_content(path) as content:
                install(content, file, folder, str(path))
            return True
        except AlteredFile as error:
            problems.append(str(error))
    return False


def _import_archives(
    info: DatasetInfo,
    source: Path,
    places: tuple[str, ...],
    root: Path,
    wanted: set[str],
    problems: list[str],
) -> None:
    """Install wanted files from the source's own archives, if these are in the folder."""
    for download in info.downloads:
        if not download.folder or wanted.isdisjoint(download.provides):
            continue
        for path in find_file(source, places, (download.name,)):
            try:
                check_download(path, download)
                unpack(path, download, info, root / info.name)
                wanted.difference_update(download.provides)
                break
            except AlteredFile as error:
                problems.append(str(error))
