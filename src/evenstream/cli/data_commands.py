"""`evenstream data`: list, get, verify and import data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from rich.progress import TaskID

    from evenstream.data import FileStatus

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Directory = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


def list_() -> int:
    """List the data sets, where they come from, and which of them are here.

    Example: evenstream data list
    """
    from rich.console import Console
    from rich.table import Table

    from evenstream.data import data_root, list_datasets

    console = Console()
    table = Table("data set", "here", "download", "what it is", "licence", show_lines=True)
    for row in list_datasets():
        size = f"{row.download_size / 1e6:.0f} MB" if row.download_size else "embedded"
        here = "yes" if row.present else "no"
        table.add_row(row.name, here, size, row.description, row.licence)
    console.print(table)
    console.print(f"data root: {data_root()} (set EVENSTREAM_DATA to move it)", soft_wrap=True)
    return 0


def get(name: Name) -> int:
    """Download a data set, check it, and put it under the data root.

    Example: evenstream data get fashion-mnist

    Args:
        name: A data set (see `evenstream data list`).
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from evenstream.data import get as get_files

    console = Console()
    live = console.is_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console, disable=not live) as bar:
        tasks: dict[str, TaskID] = {}

        def moved(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
                if not live:
                    console.print(f"downloading {file}, {total / 1e6:.0f} MB", highlight=False)
            bar.update(tasks[file], completed=done, total=total)

        statuses = get_files(name, progress=moved)
    return _show(statuses, name)


def verify(name: Name) -> int:
    """Compute the checksums of a data set's files again; exits with 1 if one is not right.

    Example: evenstream data verify cifar10

    Args:
        name: A data set.
    """
    from evenstream.data import verify as verify_files

    return _show(verify_files(name), name)


def import_(name: Name, directory: Directory) -> int:
    """Take a data set from files that are already on this machine.

    Example: evenstream data import cifar10 ~/Downloads

    Args:
        name: A data set.
        directory: Folder with its files, in their usual layout, packed or not.
    """
    from evenstream.data import import_files

    return _show(import_files(name, directory), name)


def _show(statuses: list[FileStatus], name: str) -> int:
    from rich.console import Console

    console = Console()
    for status in statuses:
        problem = f"  {status.problem}" if status.problem else ""
        text = f"{status.status:8} {status.name}{problem}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    good = all(status.status == "ok" for status in statuses)
    verdict = "all files are right" if good else f"not complete; try `evenstream data get {name}`"
    console.print(f"{name}: {verdict}", highlight=False, soft_wrap=True)
    return 0 if good else 1


COMMANDS: dict[str, Callable[..., Any]] = {
    "list": list_,
    "get": get,
    "verify": verify,
    "import": import_,
}
