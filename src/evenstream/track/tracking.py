"""A thread that copies what runs record to trackers.

It reads the run folders, as a user could, and is independent of the runs themselves, which may be
in this process, in others or on other machines. So a tracker that is slow or fails costs a run
nothing. The progress of each copy is in the run's `tracked.json`, so a resumed run continues the
same curves.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from evenstream.errors import InputError, TrackingWarning, UnknownName
from evenstream.files import object_or_none, write_atomically
from evenstream.run.config import RunConfig
from evenstream.run.events import EVALUATED, ONLINE, EventTail
from evenstream.run.folder import finished_metrics
from evenstream.track.tracker import Scalar, TrackedRun, Tracker

TRACKERS = {
    "tensorboard": ("evenstream.track.tensorboard_tracker", "TensorBoard"),
    "mlflow": ("evenstream.track.mlflow_tracker", "MLflow"),
}
"""Trackers by name: the module, which needs a package of the same name, and the class."""
TRACKED = "tracked.json"
EVERY_SECONDS = 1.0
PATIENCE = 30.0
"""Seconds that trackers have to finish once the runs have ended."""
RESULTS = ("A_T", "F_T", "A_AUC")


def read_names(text: str) -> list[str]:
    """The trackers in `tensorboard,mlflow`; rejects those that are not available."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TRACKERS:
            raise UnknownName("tracker", name, TRACKERS)
        try:
            load_tracker(name)
        except ImportError as error:
            raise InputError(
                f"--track {name} needs a package: `pip install 'evenstream[{name}]'` ({error})"
            ) from None
    return names


class Tracking:
    """Follows runs in some folders while a `with` block lasts.

    Args:
        names: of the trackers, as returned by `read_names`.
        folders: of the runs; they need not exist yet.
        home: the folder for the trackers' own files.
    """

    def __init__(self, names: Sequence[str], folders: Sequence[Path], home: Path) -> None:
        self._following = {
            name: [_Followed(name, folder, home) for folder in folders] for name in names
        }
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        if self._following:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._ended.set()
        if not self._following:
            return
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            warnings.warn(
                f"{', '.join(self._following)} took longer than {PATIENCE:.0f} s for the rest; "
                "what is missing there is in the run folders",
                TrackingWarning,
                stacklevel=2,
            )

    def _follow(self) -> None:
        last = False
        while not last:
            last = self._ended.wait(EVERY_SECONDS)  # one last look when all have ended
            for name in list(self._following):
                self._look(name, last)

    def _look(self, name: str, last: bool) -> None:
        """Copy what is new; a tracker that fails is not used again."""
        try:
            for followed in list(self._following[name]):
                finished = followed.catch_up()
                if finished or last:
                    followed.close()
                    self._following[name].remove(followed)
        except Exception as error:  # whatever it is, the runs continue
            del self._following[name]
            warnings.warn(
                f"{name} failed and is left alone from now on; the run folders have everything "
                f"({type(error).__name__}: {error})",
                TrackingWarning,
                stacklevel=2,
            )


class _Followed:
    """One run in one tracker."""

    def __init__(self, name: str, folder: Path, home: Path) -> None:
        self._name, self._folder, self._home = name, folder, home
        self._events = EventTail(folder)
        self._tracker: Tracker | None = None
        self._seen: dict[str, int] = {}
        """The last step of each kind of event that was copied."""

    def catch_up(self) -> bool:
        """Copy the new events; returns whether the run is finished and all is copied."""
        found = finished_metrics(self._folder)  # before its events, so that none is missed
        events = self._events.read()
        if not events and self._tracker is None:
            return False
        if self._tracker is None:
            known = (object_or_none(self._folder / TRACKED) or {}).get(self._name, {})
            self._seen = known.get("seen", {})
            if known.get("finished"):
                return True
            self._tracker = load_tracker(self._name)(
                TrackedRun(RunConfig.read(self._folder), self._folder, self._home, known)
            )
        scalars = [scalar for event in events if self._is_new(event) for scalar in _scalars(event)]
        if scalars:
            self._tracker.log(scalars)
        if found is not None:
            values = {name: found.number(name) for name in RESULTS}
            step = found["steps"]
            self._tracker.finish([Scalar(k, step, v) for k, v in values.items() if v is not None])
        if scalars or found is not None:
            self._save(finished=found is not None)
        return found is not None

    def close(self) -> None:
        """Close the tracker."""
        if self._tracker is not None:
            self._tracker.close()
        if self._events.damaged:
            warnings.warn(
                f"{self._name} lacks {self._events.damaged} lines of the log in {self._folder} "
                "that cannot be read",
                TrackingWarning,
                stacklevel=2,
            )

    def _is_new(self, event: dict[str, Any]) -> bool:
        kind = event.get("event", "step")
        if event["step"] <= self._seen.get(kind, -1):
            return False
        self._seen[kind] = event["step"]
        return True

    def _save(self, finished: bool) -> None:
        assert self._tracker is not None
        tracked = object_or_none(self._folder / TRACKED) or {}
        tracked[self._name] = {
            **self._tracker.remember(),
            "seen": self._seen,
            "finished": finished,
        }
        write_atomically(self._folder / TRACKED, json.dumps(tracked, indent=1))


def _scalars(event: dict[str, Any]) -> Iterator[Scalar]:
    """The points of curves in an event; all accuracies in percent."""
    step, accuracy = event["step"], event.get("accuracy")
    if event.get("event") == EVALUATED:
        known = [a for a in event["accuracies"][: event["task"] + 1] if a is not None]
        values = {"average_accuracy": fmean(known) if known else None}
    elif event.get("event") == ONLINE:
        values = {"online_accuracy": accuracy}
    else:
        percent = None if accuracy is None else 100 * accuracy
        values = {"loss": event.get("loss"), "accuracy": percent}
    for name, value in values.items():
        if value is not None:
            yield Scalar(name, step, value)


def load_tracker(name: str) -> type[Tracker]:
    """The class of a tracker, with the library that it needs."""
    module, cls = TRACKERS[name]
    found: type[Tracker] = getattr(import_module(module), cls)
    return found
