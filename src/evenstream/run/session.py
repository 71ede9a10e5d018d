"""How runs and pre-trainings are worked on, stopped, and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from evenstream.checkpoint import restore, tidy
from evenstream.entries import entry
from evenstream.errors import CheckpointError, DamagedCheckpoint, DataError, EvenstreamError
from evenstream.files import exclusive
from evenstream.interruption import StopFlag, stop_on_signal
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import OwnParts
from evenstream.run.config import TomlSettings
from evenstream.run.data_identity import check_same_data
from evenstream.run.folder import CHECKPOINTS, resume_command

P = TypeVar("P")
R_co = TypeVar("R_co", covariant=True)

MAY_CHANGE = {"stream", "corrupt", "device", "threads", "checkpoint_every"}
"""Settings that may be edited before a resume: data moved, another machine."""


class Work(Protocol[R_co]):
    """Something that can be stopped and taken up again."""

    def go(self, stop: StopFlag) -> R_co:
        """Work to the end; when told to stop, save and raise `Interrupted`."""
        ...

    def close(self) -> None:
        """Let go of files and the terminal."""
        ...


def work_on(
    out: Path, settings: TomlSettings, begin: Callable[[], Work[R_co]], stop: StopFlag | None
) -> R_co:
    """Work in a folder that was claimed for it, alone; returns what the work returns.

    Without a `stop` flag, Ctrl-C and SIGTERM stop it.
    """
    try:
        with exclusive(out / settings.FILE):
            work = begin()
            try:
                if stop is not None:
                    return work.go(stop)
                with stop_on_signal() as signalled:
                    return work.go(signalled)
            except CheckpointError as error:
                raise CheckpointError(f"{error}; {_then(out)}") from error
            finally:
                work.close()
    except DataError as error:
        raise DataError(
            f'{error}. Then, or with corrupt = "skip" in {out / settings.FILE}, continue with '
            f"`{resume_command(out)}`"
        ) from error
    except OSError as error:
        raise EvenstreamError(f"cannot write to {out}: {error}; {_then(out)}") from error


def _then(out: Path) -> str:
    """What to do when something cannot be written."""
    return f"free some space or fix the permissions, then `{resume_command(out)}`"


def take_up(
    out: Path,
    kind: str,
    settings: TomlSettings,
    data: Mapping[str, Any],
    device: str,
    read_position: Callable[[dict[str, Any]], P],
    parts: OwnParts | None = None,
) -> tuple[Learner, P]:
    """Learner and position of the newest checkpoint, if settings and data are what they were.

    `parts` are those of the learner that its checkpoint cannot hold.
    """
    checkpoints = out / CHECKPOINTS

    def build(saved: dict[str, Any]) -> tuple[Learner, P]:
        if saved.get("kind") != kind:
            raise CheckpointError(f"{checkpoints} does not hold a {kind}")
        with entry("config"):
            _check_settings(saved.get("config", {}), settings, out, kind)
        with entry("data"):
            check_same_data(saved.get("data", {}), data)
        with entry("learner"):
            state = saved["learner"]
        learner = Learner.from_state(state, device=device, **(parts or {}))
        with entry("position"):
            return learner, read_position(saved["position"])

    try:
        built = restore(checkpoints, build)
    except DamagedCheckpoint as error:
        raise CheckpointError(
            f"{error}. To make the {kind} again from its start, remove {checkpoints} and "
            f"`{resume_command(out)}`"
        ) from None
    tidy(checkpoints)
    return built


def _check_settings(
    before: Mapping[str, Any], settings: TomlSettings, out: Path, kind: str
) -> None:
    before = settings.of_this_version(before)
    for name, value in asdict(settings).items():
        if name not in MAY_CHANGE and _plain(before.get(name, value)) != _plain(value):
            raise CheckpointError(
                f"{out / settings.FILE} was changed: {name} was {before[name]!r} when the {kind} "
                f"was saved and is {value!r} now; put it back or start a new {kind}"
            )


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return list(value) if isinstance(value, tuple) else value
