"""The data sets known by name: where they come from, and the exact content of their files.

They are listed in registry.toml. Every checksum there was either computed from the real file
or published by the source; the comments say which. Where there is neither, none is stated, and the
user's files are pinned at their first import. The checksum of a `DataFile` is that of the
uncompressed content, since the same images circulate in differently compressed files (such as
Debian's package of Fashion-MNIST), and all of them are welcome.

Register your own data set with the function that loads it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, TypeVar, get_args

from evenstream.data.dataset import Dataset
from evenstream.registry import Registry, check_function, check_texts, first_line, where_defined

L = TypeVar("L", bound=Callable[[], Dataset])

FileLayout = Literal["bundled", "own", "idx", "cifar10", "cifar100"]
"""Layouts of data sets with few or no files, which are read as a whole."""

TreeLayout = Literal["tinyimagenet", "imagenet", "inaturalist2017"]
"""Layouts of folders of images, which are read on demand."""


@dataclass(frozen=True)
class DataFile:
    """A file of a data set: its name, and its size and SHA-256 when uncompressed."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Download:
    """A compressed file at the source, and the data files it provides.

    Attributes:
        name: File name at the source; `.tar.gz` is an archive, `.gz` a single compressed file.
        size: Expected bytes, to show progress and to stop an endless download.
        checksum: `sha256:…` or `md5:…` of the compressed file, checked before it is opened; None if
            the source publishes none.
        provides: Names of the data files in it; none for an archive that is unpacked as a whole.
        folder: The folder inside the archive that holds them.
        approximate: Whether `size` is rounded, or known only from others who downloaded the file.
    """

    name: str
    size: int
    checksum: str | None = None
    provides: tuple[str, ...] = ()
    folder: str = ""
    approximate: bool = False

    @property
    def size_limit(self) -> int:
        """Upper limit on the size of the file."""
        return self.size + self.size // 10 if self.approximate else self.size


@dataclass(frozen=True)
class DatasetInfo:
    """A registered data set.

    Attributes:
        name: Its name for users.
        description: One line for listings.
        licence: What the source says about its use.
        layout: Which reader turns the files into a `Dataset`; `bundled` and `own` (registered by a
            user) need no files known here.
        source: The page that describes it.
        files: What must be on disk, unless the data set is a folder of images.
        downloads: How to get these files.
        urls: Base addresses of the downloads, tried in turn.
        usual_folders: Where other tools keep the files, relative to a folder of data sets.
        by_hand: Instructions for a data set that must be downloaded by hand.
        label_names: Class names, if the files do not contain them.
        mean: Per-channel mean of images in [0, 1], or None.
        std: Per-channel standard deviation of the same, or None.
        load: The function that loads a user's data set.
    """

    name: str
    description: str
    licence: str
    layout: FileLayout | TreeLayout
    source: str
    files: tuple[DataFile, ...] = ()
    downloads: tuple[Download, ...] = ()
    urls: tuple[str, ...] = ()
    usual_folders: tuple[str, ...] = ()
    by_hand: str = ""
    label_names: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    load: Callable[[], Dataset] | None = None

    @property
    def is_tree(self) -> bool:
        """Whether it is a folder of images rather than a few files."""
        return self.layout in get_args(TreeLayout)

    @property
    def size(self) -> int:
        """Bytes of the files on disk; 0 for a folder of images, where it is unknown."""
        return sum(file.size for file in self.files)

    @property
    def download_size(self) -> int:
        """Bytes to download."""
        return sum(download.size for download in self.downloads)


def _read(name: str, entry: Mapping[str, Any]) -> DatasetInfo:
    values: dict[str, Any] = {
        key: tuple(value) if type(value) is list else value for key, value in entry.items()
    }
    values["files"] = tuple(DataFile(**file) for file in entry.get("files", ()))
    values["downloads"] = tuple(
        Download(**{**download, "provides": tuple(download.get("provides", ()))})
        for download in entry.get("downloads", ())
    )
    return DatasetInfo(name, **values)


_TEXT = (files("evenstream.data") / "registry.toml").read_text("utf-8")
_OURS = {name: _read(name, entry) for name, entry in tomllib.loads(_TEXT).items()}
DATASETS: Registry[DatasetInfo] = Registry("data set", _OURS, form="[a-z0-9][a-z0-9_+-]*")


def register_dataset(
    name: str,
    *,
    description: str | None = None,
    licence: str = "not stated",
    source: str | None = None,
) -> Callable[[L], L]:
    """Register a data set by name, for streams (`c-NAME`), `load_dataset(NAME)` and listings.

    Decorate a function without arguments that returns a `Dataset`; `from_arrays` creates one from
    arrays, and `data_root()` is the folder of data sets.

    Args:
        name: made of a-z, 0-9 and - _ +
        description: one line for listings; by default the first line of the docstring.
        licence: what its source says about its use.
        source: where it comes from; by default the function.
    """
    check_texts(description=description, licence=licence, source=source)

    def add(load: L) -> L:
        check_function("data set", load)
        words = first_line(load) if description is None else description
        origin = where_defined(load) if source is None else source
        DATASETS.add(name, DatasetInfo(name, words, licence, "own", origin, load=load), load)
        return load

    return add


def dataset_info(name: str) -> DatasetInfo:
    """The registered data set of that name; an unknown name raises `UnknownName`."""
    return DATASETS.find(name)
