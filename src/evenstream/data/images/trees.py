"""Finds image files in folders, in the same order on every file system."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from evenstream.data.dataset import Label
from evenstream.data.decoding import SUFFIXES
from evenstream.data.image_files import ImageFiles, OnCorrupt
from evenstream.data.samples import Indices
from evenstream.errors import DataError


def sub_folders(root: Path, where: str = "") -> list[str]:
    """Names of the folders in a folder of the tree, sorted."""
    return [entry.name for entry in _entries(root, where) if entry.is_dir(follow_symlinks=False)]


def class_folders(root: Path, part: str, levels: int = 1) -> list[str]:
    """The classes of a part of the tree, which has a folder for each; sorted.

    With two levels a class is SUPERCLASS/CLASS.
    """
    labels = sub_folders(root, part)
    if levels == 2:
        labels = [
            posixpath.join(above, label)
            for above in labels
            for label in class_folders(root, posixpath.join(part, above))
        ]
    if not labels:
        raise DataError(
            f"{root / part} has no folders of classes; expected CLASS/*.jpg and the like in it, "
            f"found {contents(root, part)}"
        )
    for label in labels:
        try:
            label.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"the name of the folder {label!a} in {root / part} is a class, but not valid "
                "text (UTF-8); rename the folder"
            ) from None
    return labels


def labelled_images(
    root: Path,
    part: str,
    classes: Sequence[str],
    size: int,
    on_corrupt: OnCorrupt,
    levels: int = 1,
) -> tuple[ImageFiles, Indices]:
    """The images in the class folders of a part, and the position of each one's class."""
    labels = class_folders(root, part, levels)
    unknown = sorted(set(labels) - set(classes))
    if unknown:
        raise DataError(
            f"{root / part} has folders of classes that are not trained on: "
            f"{', '.join(unknown[:5])}"
        )
    counts: list[int] = []

    def names() -> Iterator[str]:
        for label in labels:
            where = posixpath.join(part, label)
            found = list(image_names(root, where))
            if not found:
                raise DataError(
                    f"there are no images in {root / where} ({', '.join(sorted(SUFFIXES))}); it "
                    f"holds {contents(root, where)}"
                )
            counts.append(len(found))
            yield from found

    files = ImageFiles(root, names(), size, on_corrupt)
    position = {label: index for index, label in enumerate(classes)}
    indices = np.array([position[label] for label in labels], dtype=np.int64)
    return files, np.repeat(indices, counts)


def listed_images(
    root: Path,
    source: str,
    listed: Iterable[tuple[str, Label]],
    classes: Sequence[Label],
    size: int,
    on_corrupt: OnCorrupt,
) -> tuple[ImageFiles, Indices]:
    """The images that a file of the layout names, and the position of each one's class."""
    position = {label: index for index, label in enumerate(classes)}
    indices: list[int] = []

    def names() -> Iterator[str]:
        for name, label in listed:
            if label not in position:
                raise DataError(
                    f"{root / source} has an image of class {label!r}, which is not trained on: "
                    f"{name}"
                )
            indices.append(position[label])
            yield name

    files = ImageFiles(root, names(), size, on_corrupt)
    if not len(files):
        raise DataError(f"{root / source} names no images")
    if not os.path.isfile(files.path(0)):  # noqa: PTH113 (`Path` fails on names too long)
        raise DataError(f"{root / source} names {files.path(0)}, but there is no such file")
    return files, np.array(indices, dtype=np.int64)


def contents(root: Path, where: str = "") -> str:
    """The first few names in a folder, for an error about what it holds."""
    names = [entry.name for entry in _entries(root, where)]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more or "nothing"


def read_text(root: Path, name: str) -> str:
    """The content of a text file that belongs to the layout."""
    try:
        return (root / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{root} lacks {name}; it holds {contents(root)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {root / name}: {error}") from error


def image_names(root: Path, where: str) -> Iterator[str]:
    """Images in a folder of the tree and in the folders below it, as names relative to the root."""
    waiting = [(where, True)]
    while waiting:
        name, is_folder = waiting.pop()
        if is_folder:
            waiting += [
                (posixpath.join(name, entry.name), entry.is_dir(follow_symlinks=False))
                for entry in reversed(_entries(root, name))
            ]
        elif posixpath.splitext(name)[1].lower() in SUFFIXES:
            yield name


def _entries(root: Path, where: str) -> list[os.DirEntry[str]]:
    """What a folder holds, sorted by name, without hidden files."""
    folder = root / where
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {error.strerror}") from error
    for entry in entries:
        if entry.is_symlink():
            _check_link(root, entry)
    return sorted(entries, key=lambda entry: entry.name)


def _check_link(root: Path, link: os.DirEntry[str]) -> None:
    """Only links to files inside the tree are followed: no loops, and nothing from outside."""
    target = Path(os.path.realpath(link))
    if target.is_dir() or not target.is_relative_to(root):
        raise DataError(
            f"{link.path} is a symbolic link to a folder or out of {root}, which is not "
            "followed; replace it by what it points to"
        )
