"""Getting data sets into the data folder: by download, or from files the user has already."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evenstream.data.archives import check_download, unpack
from evenstream.data.download import Progress, base_urls, fetch
from evenstream.data.files import (
    AlteredFile,
    content_names,
    find_file,
    install,
    open_content,
    writing_under,
)
from evenstream.data.locate import FileStatus, data_root, offline_hint, verify
from evenstream.data.registry import DataFile, DatasetInfo, dataset_info
from evenstream.errors import DataError, InputError


def get(
    name: str,
    *,
    root: str | Path | None = None,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> list[FileStatus]:
    """Download what is missing or altered of a data set, and check it.

    Every download is checked before it is opened and every file before it gets its name; what is
    already there and right is not downloaded again.

    Args:
        name: A registered data set.
        root: The folder of data sets, if not the usual one.
        mirror: Address to download from instead of the original sources, as for
            $EVENSTREAM_DATA_MIRROR: files are at MIRROR/NAME/FILE.
        progress: Called with file name, bytes received and bytes expected.

    Returns:
        The state of each file, as `verify` reports it.
    """
    info = dataset_info(name)
    folder = data_root(root)
    statuses = verify(name, root=folder)
    wanted = _not_ok(statuses)
    if not wanted:
        return statuses
    urls = base_urls(info, mirror)
    with (
        writing_under(folder),
        tempfile.TemporaryDirectory(dir=folder, prefix=".incoming-") as scratch,
    ):
        for download in info.downloads:
            if wanted.isdisjoint(download.provides):
                continue
            try:
                path = fetch(download, urls, Path(scratch), progress)
            except DataError as error:
                raise DataError(f"{error}. {offline_hint(info, folder)}") from error
            unpack(path, download, info, folder / info.name)
            path.unlink()
    return verify(name, root=folder)


def import_files(
    name: str, directory: str | Path, *, root: str | Path | None = None
) -> list[FileStatus]:
    """Copy a data set's files from a folder into the data folder, each one checked.

    Files are looked for in the folder itself and in the sub-folders other tools use (MNIST/raw,
    cifar-10-batches-bin and the like), plain or as `.gz`, or in the archive the source publishes.

    Returns:
        The state of each file, as `verify` reports it.
    """
    info = dataset_info(name)
    if not info.files:
        raise InputError(f"{info.name} is built in; there is nothing to import")
    source = Path(directory).expanduser().absolute()
    if not source.is_dir():
        raise DataError(f"there is no folder {source}")
    folder = data_root(root)
    wanted = _not_ok(verify(name, root=folder))
    problems: list[str] = []
    with writing_under(folder):
        for file in info.files:
            if file.name in wanted and _import_file(source, info, file, folder, problems):
                wanted.remove(file.name)
        if wanted:
            _import_archives(source, info, folder, wanted, problems)
    if wanted:
        found = f" ({'; '.join(problems)})" if problems else ""
        raise DataError(
            f"{source} does not hold what {info.name} needs: no right copy of "
            f"{', '.join(sorted(wanted))}{found}"
        )
    return verify(name, root=folder)


def _not_ok(statuses: list[FileStatus]) -> set[str]:
    return {status.name for status in statuses if status.status != "ok"}


def _import_file(
    source: Path, info: DatasetInfo, file: DataFile, root: Path, problems: list[str]
) -> bool:
    """Install the first right copy of a file; note what is wrong with the others."""
    for path in find_file(source, _import_places(info), content_names(file)):
        try:
            with open_content(path) as content:
                install(content, file, root / info.name, str(path))
            return True
        except AlteredFile as error:
            problems.append(str(error))
    return False


def _import_archives(
    source: Path, info: DatasetInfo, root: Path, wanted: set[str], problems: list[str]
) -> None:
    """Install wanted files from the source's own archives, if these are in the folder."""
    for download in info.downloads:
        if not download.folder or wanted.isdisjoint(download.provides):
            continue
        for path in find_file(source, _import_places(info), (download.name,)):
            try:
                check_download(path, download)
                unpack(path, download, info, root / info.name)
                wanted.difference_update(download.provides)
                break
            except AlteredFile as error:
                problems.append(str(error))


def _import_places(info: DatasetInfo) -> tuple[str, ...]:
    return ("", "raw", info.name, *info.usual_folders)
