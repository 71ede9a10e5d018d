"""Extracts data files from the compressed files they are published in."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path

from evenstream.data.checked_files import AlteredFile, digest_of, install, open_content
from evenstream.data.known import DataFile, DatasetInfo, Download


def check_download(path: Path, download: Download) -> None:
    """Raise `AlteredFile` unless the compressed file has the checksum of the registry, if any."""
    if download.checksum is None:
        return
    algorithm, expected = download.checksum.split(":")
    found = digest_of(path, algorithm)
    if found != expected:
        raise AlteredFile(
            f"{path} is not the expected file: its {algorithm.upper()} is {found}, not {expected}"
        )


def unpack(path: Path, download: Download, info: DatasetInfo, folder: Path) -> None:
    """Install the data files in a compressed file, after checking each one.

    Archive members are never extracted to the paths they name: only members with the expected
    names are read, and written under the registry's names. Everything else in there is ignored.
    """
    wanted = {file.name: file for file in info.files if file.name in download.provides}
    if download.name.endswith(".tar.gz"):
        _unpack_tar(path, download, wanted, folder)
        return
    for file in wanted.values():
        with open_content(path) as content:
            install(content, file, folder, download.name)


def _unpack_tar(path: Path, download: Download, wanted: dict[str, DataFile], folder: Path) -> None:
    members = {f"{download.folder}/{name}": file for name, file in wanted.items()}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if not member.isreg() or member.name not in members:
                    continue
                content = archive.extractfile(member)
                if content is not None:
                    file = members.pop(member.name)
                    install(content, file, folder, f"{download.name}: {member.name}")
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise AlteredFile(f"{path} is not a readable archive: {error}") from error
    if members:
        raise AlteredFile(f"{download.name} lacks {', '.join(sorted(members))}")
