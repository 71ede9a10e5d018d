"""Opens a stream from its text form, `PREFIX-DATASET[:key=value,...]` or a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenstream.choosing import choose
from evenstream.data.image_files import OnCorrupt
from evenstream.data.known import DATASETS
from evenstream.errors import InputError, UnknownName
from evenstream.files import as_path, with_home
from evenstream.streams.catalogue import DROP_LAST, PROTOCOLS, SCENARIOS, STREAMS
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.scenario import ClassOrder, Scenario
from evenstream.streams.stream import Protocol, Stream
from evenstream.text import (
    join_options,
    option_types,
    read_options,
    split_stream,
    write_option,
    write_options,
)

_COLUMN_LISTS = ("ignore", "categorical", "text", "date")
READING: dict[str, Any] = {
    "label": str,
    "size": int,
    "superclass": str,
    **dict.fromkeys(_COLUMN_LISTS, str),
}
"""Options of every stream that control how its data is read: the table column with the labels, the
height and width to which image files are resized, the column of superclasses (`folder` for image
files), and columns to leave out or to treat as categories, text or dates, with + between their
names."""


@dataclass(frozen=True)
class StreamSpec:
    """A stream's name, parsed: which data, in which scenario."""

    dataset: str | Path
    """A registered data set, or the path of the data."""
    scenario: Scenario
    """The scenario with the options as written."""
    reading: dict[str, Any]
    """The options that control how the data is read."""


def open_stream(
    name: str,
    *,
    seed: int = 0,
    class_order: ClassOrder = "label",
    tasks: int | None = None,
    test_fraction: float | None = None,
    corrupt: OnCorrupt = "stop",
) -> Stream:
    """Load a stream.

    Args:
        name: one that `STREAMS` lists, or `PREFIX-DATASET[:key=value,...]` with a prefix of
            `SCENARIOS`, where the data set is a registered one or the path of a file or folder.
            A path alone is a class-incremental stream.
        seed: seed for everything random in the stream.
        class_order: the scenario's option of that name, if it has one.
        tasks: the scenario's option of that name, if it has one.
        test_fraction: the share to test on, for files without test samples.
        corrupt: what to do with unreadable image files: stop the run, or leave them out.
    """
    from evenstream.data import load_dataset

    spec = read_spec(name, tasks=tasks, class_order=class_order)
    reading = spec.reading | ({"corrupt": corrupt} if corrupt != "stop" else {})
    for key in _COLUMN_LISTS:
        if key in reading:
            reading[key] = reading[key].split("+")
    if spec.scenario.needs_superclasses and _is_folder(spec.dataset):
        reading.setdefault("superclass", "folder")
    dataset = load_dataset(spec.dataset, test_fraction=test_fraction, seed=seed, **reading)
    chosen = choose(dataset.input_shape)
    fallback = Protocol(network=chosen.network, **chosen.training())
    return spec.scenario.stream(
        dataset,
        seed,
        name=name,
        protocol=spec.scenario.protocol(PROTOCOLS.get(str(spec.dataset), fallback)),
        drop_last=spec.dataset in DROP_LAST,
    )


def _is_folder(dataset: str | Path) -> bool:
    return isinstance(dataset, Path) and with_home(dataset).is_dir()


def read_spec(
    name: str, *, tasks: int | None = None, class_order: ClassOrder = "label"
) -> StreamSpec:
    """Parse a stream's name; `tasks` and `class_order` are options given as flags."""
    plain, written = split_stream(name)
    _, dataset, scenario = _resolve(plain)
    types = option_types(type(scenario))
    options = read_options("stream", plain, written, types | READING)
    reading = {key: options.pop(key) for key in READING if key in options}
    flags = {"tasks": tasks, "class_order": None if class_order == "label" else class_order}
    for key, value in flags.items():
        if value is None:
            continue
        flag = f"--{key.replace('_', '-')}"
        if key not in types:
            raise InputError(f"{plain} takes no {flag}; its options are: {', '.join(types)}")
        if options.setdefault(key, value) != value:
            raise InputError(f"{name} and {flag} {value} contradict each other; leave one out")
    return StreamSpec(dataset, replace(scenario, **options), reading)


def canonical_name(
    name: str, *, tasks: int | None = None, class_order: ClassOrder = "label"
) -> str:
    """A stream's canonical name, with all flags included and defaults omitted."""
    spec = read_spec(name, tasks=tasks, class_order=class_order)
    plain, _ = split_stream(name)
    _, _, usual = _resolve(plain)
    reading = (write_option(key, spec.reading[key]) for key in READING if key in spec.reading)
    return join_options(plain, write_options(spec.scenario, usual), *reading)


def absolute_name(name: str) -> str:
    """A stream's name with an absolute path, if it has one, valid in any folder."""
    plain, written = split_stream(name)
    prefix, dataset, _ = _resolve(plain)
    return (
        join_options(f"{prefix}{dataset.absolute()}", written)
        if isinstance(dataset, Path)
        else name
    )


def with_options(name: str, options: Sequence[str]) -> str:
    """A stream's name with further options, each written as `key=value`."""
    plain, written = split_stream(name)
    return join_options(plain, written, *options)


def _resolve(name: str) -> tuple[str, str | Path, Scenario]:
    """Prefix (or nothing), data and scenario of a name without options."""
    if name in STREAMS:
        return "", STREAMS[name].dataset, STREAMS[name].scenario
    prefix, dash, rest = name.partition("-")
    prefixed = dash and prefix in SCENARIOS
    if prefixed and rest in DATASETS:
        return prefix + dash, rest, SCENARIOS[prefix]()
    if prefixed and not Path(name).expanduser().exists() and (path := as_path(rest)):
        return prefix + dash, path, SCENARIOS[prefix]()
    if path := as_path(name):
        return "", path, ClassIncremental()
    near = [f"{prefix}-{each}" for each in DATASETS] if prefixed else []
    near += [f"{each}-{rest}" for each in SCENARIOS] if rest in DATASETS else []
    any_other = f"PREFIX-DATASET ({', '.join(SCENARIOS)} with {', '.join(DATASETS)})"
    raise UnknownName("stream", name, {*STREAMS, *near, any_other, "PATH"}, SCENARIOS.hint)
