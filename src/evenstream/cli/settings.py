"""Flags shared by `run` and `compare`, and how they combine with a stream's protocol.

Every field of `RunConfig` becomes a flag and is declared only there.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from evenstream.choosing import made_for
from evenstream.options import Protocol
from evenstream.run.config import RunConfig, read_milestones
from evenstream.text import field_docs, metavar, option_types

if TYPE_CHECKING:
    from evenstream.streams import Stream

_STREAM = "(default: the stream's)"
StreamText = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint=_STREAM)]


@dataclass(frozen=True)
class RunFlags:
    """options of the run"""

    stream: Annotated[str, tyro.conf.arg(metavar="STREAM")] = "c-digits"
    """A stream's name (see `evenstream streams`), or the path of a file or folder of data."""
    protocol: Literal["online", "offline"] = "online"
    """online: each sample is seen once (`evenstream methods NAME` says if a method needs a second
    pass when a task ends). offline: 50 epochs per task and a memory of 100."""
    inference: Annotated[
        str | None,
        tyro.conf.arg(metavar="RULE", help_behavior_hint="(default: the method's own)"),
    ] = None
    """How to predict: argmax, ncm, ema, ... (see `evenstream methods`). Applies to methods that do
    not name a rule themselves, as er@ncm does."""
    eval: Literal["subset", "full"] = "subset"
    """How many test samples online evaluations use; full, as in the paper, can take 8 times as long
    as training."""

    def open(self) -> Stream:
        """Load the stream that these flags describe."""
        from evenstream.errors import InputError
        from evenstream.streams import open_stream

        given = vars(self)
        tasks, fraction = given["tasks"], given["test_fraction"]
        if tasks is not None and tasks < 1:
            raise InputError(f"--tasks must be 1 or more, got {tasks}")
        if fraction is not None and not 0 < fraction < 1:
            raise InputError(f"--test-fraction must lie between 0 and 1, got {fraction}")
        shared = ("seed", "class_order", "tasks", "test_fraction", "corrupt")
        return open_stream(self._stream_name(), **{name: given[name] for name in shared})

    def named(self, method: str) -> str:
        """The method with the inference rule of these flags, unless it has one.

        Wrong names and options are reported before any data is loaded.
        """
        from evenstream.composition import compose
        from evenstream.run.preparation import make_learner
        from evenstream.text import MethodText

        said = MethodText.read(method)
        if said.rule is None:
            method = str(replace(said, rule=self.inference))
        compose(method)
        make_learner(self.resolve(method, Protocol()))
        return method

    def resolve(self, method: str, protocol: Protocol) -> RunConfig:
        """The full configuration of a run: the stream's protocol under these flags."""
        values = dict(vars(self))
        del values["inference"]  # it is in the method's name
        if values.pop("protocol") == "offline":
            protocol = protocol.offline()
        values = {name: value for name, value in values.items() if value is not None}
        values = vars(protocol) | made_for(method, values) | values
        values["stream"] = self._stream_name()
        values["milestones"] = read_milestones(values["milestones"])
        if "weights" in values:
            from evenstream.run.initial_weights import identified

            values |= identified(values["weights"])
        if values.pop("eval") == "full":
            values["eval_images"] = 0
        return RunConfig(method=method, **values)

    def _stream_name(self) -> str:
        """The stream with an absolute path, so that a run can be resumed from anywhere."""
        from evenstream.streams.opening import absolute_name

        return absolute_name(self.stream)


_FLAGS: dict[str, tuple[Any, str, str]] = {
    "epochs": (int, "INT", "(default: 1, offline 50)"),
    "steps": (int, "INT", "(default: the method's, usually 1)"),
    "milestones": (str, "EPOCH,...", "(default: none)"),
    "weights": (Path, "FILE", "(default: start from scratch)"),
    "tasks": (int, "INT", _STREAM),
    "test_fraction": (float, "FLOAT", "(default: 0.2 if it has none)"),
}
"""Fields whose flag has a different type, or a default described in words."""


def _flags() -> list[tuple[str, Any, Any]]:
    """Name, type and default of a flag for each field of a run's configuration."""
    types, meanings = option_types(RunConfig), field_docs(RunConfig)
    of_stream = {field.name for field in fields(Protocol)}
    found: list[tuple[str, Any, Any]] = []
    for field in fields(RunConfig):
        name, kind = field.name, types[field.name]
        if name in ("method", "stream", "weights_sha256"):
            continue
        shown: dict[str, Any] = {"help": " ".join(meanings[name].split())}
        default = field.default
        if name in _FLAGS or name in of_stream:
            own, called, hint = _FLAGS.get(name) or (kind, metavar(kind), _STREAM)
            shown |= {"metavar": called, "help_behavior_hint": hint}
            kind, default = (str, "") if own is str and name in _FLAGS else (own | None, None)
        found.append((name, Annotated[kind, tyro.conf.arg(**shown)], default))
    return found


if TYPE_CHECKING:
    Settings = RunFlags
else:
    Settings = make_dataclass("Settings", _flags(), bases=(RunFlags,), frozen=True)
    Settings.__doc__ = RunFlags.__doc__
