"""`evenstream data`: list, get, verify and import data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from rich.progress import TaskID

    from evenstream.data import DatasetRow, FileStatus

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Directory = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


def list_() -> int:
    """List the data sets, where they come from, and which of them are here.

    Example: evenstream data list
    """
    from rich.padding import Padding
    from rich.text import Text

    from evenstream.cli.screen import Screen
    from evenstream.data import data_root, list_datasets

    console = Screen()
    for row in list_datasets():
        here = "here" if row.present else "not here"
        facts = f"{here:10} {row.checked:20} {_download(row)}"
        console.print(Text(f"{row.name:17}", style="bold") + Text(facts, style="not bold"))
        about = f"{row.description}\nlicence: {row.licence}\nsource: {row.source}"
        if row.present and row.where not in ("built in", "registered"):
            about += f"\nin: {row.where}"
        console.print(Padding(Text(about), (0, 0, 1, 4)))
    console.print(f"data root: {data_root()} (set EVENSTREAM_DATA to move it)", soft_wrap=True)
    return 0


def get(name: Name) -> int:
    """Download a data set, check it, and put it under the data root.

    An interrupted download resumes where it stopped.

    Example: evenstream data get fashion-mnist

    Args:
        name: A data set (see `evenstream data list`).
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from evenstream.cli.screen import Screen
    from evenstream.data import get as get_files

    console = Screen()
    live = console.is_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console, disable=not live) as bar:
        tasks: dict[str, TaskID] = {}

        def moved(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
                if not live:
                    console.print(f"downloading {file}, {_bytes(total)}", highlight=False)
            bar.update(tasks[file], completed=done, total=total)

        statuses = get_files(name, progress=moved)
    return _show(statuses, name)


def verify(name: Name) -> int:
    """Check the files of a data set against their checksums; exits with 1 if any is wrong.

    Example: evenstream data verify cifar10

    Args:
        name: A data set.
    """
    from evenstream.data import verify as verify_files

    return _show(verify_files(name), name)


def import_(name: Name, directory: Directory) -> int:
    """Add a data set from files that are already on this machine.

    Unpacked folders of images are not copied but read in place.

    Example: evenstream data import cifar10 ~/Downloads

    Args:
        name: A data set.
        directory: Folder with its files in their usual layout, packed or unpacked.
    """
    from evenstream.data import import_files

    return _show(import_files(name, directory), name)


def _show(statuses: list[FileStatus], name: str) -> int:
    from evenstream.cli.screen import Screen

    console = Screen()
    for status in statuses:
        word = "ok (pinned)" if status.status == "pinned" else status.status
        problem = f"  {status.problem}" if status.problem else ""
        text = f"{word:8} {status.name}{problem}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print(f"{name}: {_verdict(statuses, name)}", highlight=False, soft_wrap=True)
    return 0 if all(status.usable for status in statuses) else 1


def _verdict(statuses: list[FileStatus], name: str) -> str:
    from evenstream.data import dataset_info

    found = {status.status for status in statuses}
    if "altered" in found and dataset_info(name).is_tree:
        again = f"run `evenstream data import {name} DIR` again"
        return f"changed since it was imported; if that is intended, {again}"
    if found & {"missing", "altered"}:
        return f"not complete; try `evenstream data get {name}`"
    if "unpinned" in found:
        return "here, but never checked"
    if "pinned" in found:
        return "names and sizes of all files are the same as when it was imported"
    return "all files are correct"


def _download(row: DatasetRow) -> str:
    if row.by_hand:
        return f"{_bytes(row.download_size)}, by hand"
    without = "registered" if row.where == "registered" else "embedded"
    return _bytes(row.download_size) if row.download_size else without


def _bytes(size: int) -> str:
    return f"{size / 1e9:.0f} GB" if size >= 1e10 else f"{size / 1e6:.0f} MB"


COMMANDS: dict[str, Callable[..., Any]] = {
    "list": list_,
    "get": get,
    "verify": verify,
    "import": import_,
}
