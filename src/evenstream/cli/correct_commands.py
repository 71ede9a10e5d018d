"""`evenstream correct ...`: change or delete labels and samples of a saved learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from evenstream.errors import DataError, InputError, count
from evenstream.printable import say, say_error

if TYPE_CHECKING:
    from evenstream.learner.editing import Edit
    from evenstream.learner.learner import Learner

Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Label = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LABEL")]
Old = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OLD")]
New = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NEW")]
Ids = Annotated[tuple[str, ...], tyro.conf.arg(metavar="ID [ID ...]", help_behavior_hint="")]
IdsFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
OneLabel = Annotated[str | None, tyro.conf.arg(metavar="LABEL", help_behavior_hint="")]
Saves = tyro.conf.FlagCreatePairsOff[bool]


def relabel(directory: Folder, label: Label, ids: Ids = (), ids_file: IdsFile = None) -> int:
    """Give stored samples a different label. Exit status 1 if none of the ids is found.

    Example: evenstream correct relabel plant crack --ids 2024-17 2024-18

    Args:
        directory: Folder of the learner.
        label: The correct label, which may be new.
        ids: Ids that the samples were learned with.
        ids_file: A file with an id on each line.
    """
    from evenstream.live.correcting import any_label

    wanted = _ids(ids, ids_file)
    return _correct(
        directory, lambda learner: learner.relabel(wanted, any_label(learner, label)), ids=wanted
    )


def forget(
    directory: Folder,
    ids: Ids = (),
    ids_file: IdsFile = None,
    label: OneLabel = None,
    saves: Saves = False,
) -> int:
    """Delete samples by id, or all samples of a class. This cannot be undone.

    Exit status 1 if none of the ids is found.

    Example: evenstream correct forget plant --ids "customer 17" --saves

    Args:
        directory: Folder of the learner.
        ids: Ids that the samples were learned with.
        ids_file: A file with an id on each line.
        label: Delete all samples with this label.
        saves: Also remove the previous save, which still contains them.
    """
    from evenstream.live.correcting import known_label

    if (label is None) == (not ids and ids_file is None):
        raise InputError("say what to forget: --ids or --ids-file, or --label")
    wanted = _ids(ids, ids_file) if label is None else []

    def change(learner: Learner) -> Edit:
        if label is None:
            return learner.forget(ids=wanted)
        return learner.forget(label=known_label(learner, label))

    return _correct(directory, change, saves, wanted)


def rename(directory: Folder, old: Old, new: New) -> int:
    """Rename a class.

    Example: evenstream correct rename plant "class 3" crack

    Args:
        directory: Folder of the learner.
        old: Its current label.
        new: Its new label, which no class may have yet.
    """
    from evenstream.live.correcting import any_label, known_label

    return _correct(
        directory,
        lambda learner: learner.rename(known_label(learner, old), any_label(learner, new)),
    )


def merge(
    directory: Folder,
    old: Old,
    into: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="INTO")],
) -> int:
    """Merge a class into another.

    Example: evenstream correct merge plant hairline-crack crack

    Args:
        directory: Folder of the learner.
        old: The class to dissolve.
        into: The class that its samples join.
    """
    from evenstream.live.correcting import known_label

    return _correct(
        directory,
        lambda learner: learner.merge(known_label(learner, old), known_label(learner, into)),
    )


def remove_class(directory: Folder, label: Label, saves: Saves = False) -> int:
    """Delete a class with all its samples. This cannot be undone.

    Example: evenstream correct remove-class plant crack

    Args:
        directory: Folder of the learner.
        label: The class to delete.
        saves: Also remove the previous save, which still contains it.
    """
    from evenstream.live.correcting import known_label

    return _correct(
        directory, lambda learner: learner.remove_class(known_label(learner, label)), saves
    )


COMMANDS: dict[str, Callable[..., Any]] = {
    "relabel": relabel,
    "forget": forget,
    "rename": rename,
    "merge": merge,
    "remove-class": remove_class,
}


def _ids(ids: tuple[str, ...], file: Path | None) -> list[str]:
    found = list(ids)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read {file}: {error}") from None
        found += [line for line in lines if line]
    if not found:
        raise InputError("say which samples: --ids ID [ID ...], or --ids-file FILE")
    return list(dict.fromkeys(found))


def _correct(
    directory: Path,
    change: Callable[[Learner], Edit],
    saves: bool = False,
    ids: Sequence[str] = (),
) -> int:
    from evenstream.core.memory import ID
    from evenstream.live.correcting import correct
    from evenstream.run.machine import use_machine

    has_ids = False

    def changed(learner: Learner) -> Edit:
        nonlocal has_ids
        has_ids = ID in learner.memory.fields
        return change(learner)

    use_machine(1)
    edit = correct(directory, changed, saves=saves)
    if ids and len(edit.missing) == len(ids):
        why = "their samples were never learned with them, or have left the memory"
        if not has_ids:
            why = "this learner keeps no ids: learn --ids COLUMN"
        done = "; earlier saves are removed" if saves else ""
        say_error(f"no sample was changed: none of the ids was found ({len(ids):,}); {why}{done}")
        return 1
    counts = {"sample": edit.samples, "waiting row": edit.gathered, "ticket": edit.tickets}
    told = ", ".join(count(number, what) for what, number in counts.items() if number)
    done = f"{edit.what.replace('_', '-')}: {told or 'no stored samples'}"
    if edit.what == "rename":
        done = "renamed {} to {}".format(*edit.labels)
    say(f"{done}; saved in {directory}")
    if edit.missing:
        say(f"ids without a stored sample: {len(edit.missing):,}")
    if edit.what in ("forget", "remove_class") and not saves:
        say("the previous save still contains them; --saves removes it")
    return 0
