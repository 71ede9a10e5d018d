"""Learning from any iterable of (inputs, labels), with saves, a log and exact resume."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum, auto
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from torch import Tensor

from evenstream.bounds import is_whole
from evenstream.checkpoint import has_checkpoint, tidy, write_checkpoint
from evenstream.core.criterion import NEEDS_BOUNDARIES
from evenstream.core.inputs import are_texts, check_inputs, check_texts
from evenstream.core.labels import label_to_json, plain_labels
from evenstream.core.step import StepResult
from evenstream.errors import CheckpointError, EvenstreamError, InputError, count, shown
from evenstream.files import given_path
from evenstream.interruption import Interrupted, Stop, stop_on_signal
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import LIVE
from evenstream.live.display import status_line
from evenstream.live.learner_folder import bring_to_saved, claimed, live_metrics, write_metrics
from evenstream.live.sources import as_batch
from evenstream.live.tally import Place, Tally
from evenstream.run.events import EventLog, cut_back
from evenstream.showing import Line
from evenstream.tabular import TableEncoder, is_frame

SAVE_SECONDS = 30.0
"""A slow stream is saved after this many seconds, regardless of `checkpoint_every`."""
FLUSH_SECONDS = 2.0
KEPT_LOGS = 16
"""Number of full log files, of 16 MB each, to keep."""

_END = object()


class _Phase(Enum):
    """How much of what was learned is in the folder."""

    SAVED = auto()
    """Everything."""
    LEARNED = auto()
    """All but the last batches, which the tally counts and which can be saved."""
    BUSY = auto()
    """A step or a save is in progress or was interrupted: learner and tally may disagree."""


Refused = Literal["stop", "skip"]
REFUSED = get_args(Refused)
OnStep = Callable[[StepResult, Tally], None]


@runtime_checkable
class Resumable(Protocol):
    """A stream that can return to its position by itself, instead of being reread."""

    def state(self) -> Any:
        """Its position after the last batch, as JSON values."""
        ...

    def load_state(self, state: Any) -> None:
        """Go back to a position that `state` returned."""
        ...


def follow(
    learner: Learner,
    stream: Iterable[tuple[Any, Any] | tuple[Any, Any, Any] | None],
    folder: str | Path,
    *,
    name: str = "stream",
    checkpoint_every: int = 500,
    refused: Refused = "stop",
    on_step: OnStep | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Learn from a stream until it ends, if it does; returns the metrics.

    The learner is saved into `folder` along the way, at the end, and when stopped by Ctrl-C,
    SIGTERM or an error in the stream. Called again with a new learner of the same options, it
    continues exactly where it was saved: batches that were already learned are read from the stream
    and dropped, unless the stream is `Resumable` and returns to its position by itself.

    Args:
        learner: a new learner, or one in the state that the folder holds.
        stream: yields pairs of inputs and labels, as `Learner.learn` takes them, or inputs, labels
            and ids. While waiting for data it may yield None now and then, so that progress is
            saved.
        folder: where to save; new, or written by `follow`, `evenstream learn` or `Learner.save`.
        name: distinguishes this stream from others that the same learner follows.
        checkpoint_every: batches between saves (a slow stream is saved every 30 seconds).
        refused: what to do with a batch that the learner rejects: stop, or skip and count it.
        on_step: called after each step with its result and the tally so far.
        progress: show progress in a line that updates in place, in a notebook below the cell.

    Raises:
        Interrupted: a signal arrived; everything learned is saved.
        CheckpointError: a save failed; the previous one is still there to continue from.
    """
    for argument, value, right, what in (
        ("learner", learner, isinstance(learner, Learner), "a Learner"),
        ("stream", stream, _gives_batches(stream), "something to iterate over"),
        ("name", name, isinstance(name, str), "text"),
        ("refused", refused, isinstance(refused, str) and refused in REFUSED, "stop or skip"),
        ("on_step", on_step, on_step is None or callable(on_step), "a function or None"),
    ):
        if not right:
            raise InputError(f"{argument} must be {what}, got {shown(value)}")
    _check_every(checkpoint_every)
    folder = given_path("folder", folder)
    told = [on_step] if on_step is not None else []
    with claimed(folder), stop_on_signal() as stop, Line() as line:
        if progress:
            told.append(lambda result, tally: line.show(status_line(result, tally)))
        following = _Following(learner, stream, folder, name, stop)
        with learner.kept_by(folder, following.beside):
            return following.to_the_end(checkpoint_every, refused, told)


def check_following(learner: Learner, checkpoint_every: int) -> None:
    """Reject what `follow` would reject, before a stream is opened."""
    _check_every(checkpoint_every)
    _check_boundaries(learner)


def _check_every(checkpoint_every: Any) -> None:
    if not is_whole(checkpoint_every) or checkpoint_every < 1:
        raise InputError(f"checkpoint_every must be 1 or more, got {shown(checkpoint_every)}")


def _check_boundaries(learner: Learner) -> None:
    if learner.needs & NEEDS_BOUNDARIES.keys() and not learner.in_task:
        raise InputError(f"{learner.text} needs task boundaries; live streams have none")


class _Following:
    """The loop over batches."""

    def __init__(
        self,
        learner: Learner,
        stream: Iterable[tuple[Any, Any] | tuple[Any, Any, Any] | None],
        folder: Path,
        name: str,
        stop: Stop,
    ) -> None:
        self.learner, self.stream, self.folder, self.stop = learner, stream, folder, stop
        self.resumable = stream if isinstance(stream, Resumable) else None
        self.tally, self.phase = Tally(), _Phase.SAVED
        if has_checkpoint(folder):
            self.tally = bring_to_saved(learner, folder)
            tidy(folder)
        cut_back(folder, self.tally.batches, 0, learner.progress.edits)
        _check_boundaries(learner)
        self.name = name
        self.place = self.tally.streams.setdefault(name, Place())
        self.events: EventLog | None = None
        self._saved = self._flushed = time.monotonic()
        self._batches_saved = self.place.batches

    def to_the_end(self, every: int, refused: Refused, told: list[OnStep]) -> dict[str, Any]:
        try:
            for batch in self._batches():
                result = None if batch is None else self._take(*batch, refused)
                if result is not None:
                    for tell in told:
                        tell(result, self.tally)
                if self.learner.unlogged:
                    with self._writing():
                        self._log_corrections()
                    self.phase = _Phase.LEARNED
                now = time.monotonic()
                late = now - self._saved > SAVE_SECONDS
                if self.learner.saves_due or self.tally.batches % every == 0 or late:
                    self.save()
                elif self.phase is _Phase.LEARNED and now - self._flushed > FLUSH_SECONDS:
                    with self._writing():
                        self._log().flush()
                    self._flushed = now
            self._note_the_end()
            self.save()
        except KeyboardInterrupt:
            if self.phase is _Phase.BUSY:  # a second signal, in the middle of a step or a save
                raise
            self.save()
            saved = f"saved in {self.folder}" if self.tally.batches else "nothing to save"
            raise Interrupted(
                f"stopped after {count(self.place.batches, 'batch')} of {self.name}, {saved}; run "
                "it again to continue"
            ) from None
        except BaseException:
            self.save()
            raise
        finally:
            if self.events is not None:
                self.events.close()
        if self.tally.batches:  # in case a process was killed right after its last save
            self._write_metrics()
        return live_metrics(self.learner, self.tally)

    def _batches(self) -> Iterator[tuple[Any, Any, Any] | None]:
        """The batches not learned yet; a signal ends the wait for the next one at once.

        Yields None while the stream has nothing to offer.
        """
        self.stop.unfinished = False
        iterator = self._rest()
        while True:
            self.stop.unfinished = False
            if self.stop.is_set():
                raise KeyboardInterrupt
            batch = next(iterator, _END)
            self.stop.unfinished = True
            if batch is _END:
                return
            yield None if batch is None else as_batch(self.name, batch)

    def _rest(self) -> Iterator[Any]:
        if self.resumable is not None:
            if self.place.batches:
                self.resumable.load_state(self.place.state)
            return iter(self.stream)
        iterator = iter(self.stream)
        number, last = 0, None
        given = (batch for batch in iterator if batch is not None)
        for batch in itertools.islice(given, self.place.batches):
            number, last = number + 1, batch
        why = ""
        if number < self.place.batches:
            why = f"ended after {number} batches, but {self.place.batches} of it were"
        elif number and _digest(*as_batch(self.name, last)[:2]) != self.place.state:
            why = f"has another batch {number} than the one that was"
        if why:
            raise InputError(
                f"{self.name} {why} learned before: it is another stream; give it a name of its "
                "own (name=...)"
            )
        return iterator

    def _take(self, x: Any, labels: Any, ids: Any, refused: Refused) -> StepResult | None:
        """Learn a batch; returns None if it was rejected and skipped."""
        state = self._state() if self.resumable else _digest(x, labels)
        waiting = sum(map(len, self.learner.progress.pending))
        began, step = time.perf_counter(), self.learner.step
        event: dict[str, Any] = {"stream": self.name}
        result = None
        before, self.phase = self.phase, _Phase.BUSY
        try:
            values = plain_labels(labels)
            own = {} if ids is None else {"ids": ids}  # an overridden `learn` may not take ids
            result = self.learner.learn(x, values, **own)
        except EvenstreamError as error:
            if refused == "stop":
                self.phase = before  # a rejected batch leaves no trace
                number = self.place.batches + 1
                raise InputError(f"batch {number} of {self.name} was refused: {error}") from error
            self.tally.refused += 1
            event |= {"event": "refused", "reason": str(error)}
        except Exception:
            if self.learner.step == step:  # the learner has undone it
                self.phase = before
            raise
        else:
            self.tally.samples += len(values)
            self.place.samples += len(values)
            if result.accuracy is not None:
                scored = waiting + len(values)
                self.tally.accuracy.add(round(result.accuracy * scored), scored)
            event |= {"loss": result.loss, "accuracy": result.accuracy, "rows": result.rows}
            if result.drift:
                event |= {"drift": [asdict(change) for change in result.drift]}
        self.tally.batches += 1
        self.place.batches += 1
        self.place.state, self.place.ended = state, False
        self.tally.seconds += time.perf_counter() - began
        with self._writing():
            self._log().write({"step": self.tally.batches, **event})
        self.phase = _Phase.LEARNED
        return result

    def _note_the_end(self) -> None:
        """Record where a stream ended, which may be after its last batch (rows left out)."""
        before = self.place.state, self.place.ended
        if self.resumable is not None:
            self.place.state = self._state()
        self.place.ended = True
        if (self.place.state, self.place.ended) != before and self.place.batches:
            self.phase = _Phase.LEARNED

    def _state(self) -> Any:
        """The position that a `Resumable` stream reports, copied through JSON."""
        assert self.resumable is not None
        state = self.resumable.state()
        rule = f"{self.name}: state() must return plain values that JSON knows"
        try:
            copy = json.loads(json.dumps(state, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{rule}: {error}") from None
        if copy != state:
            raise InputError(
                f"{rule} and gives back as they are: no tuples, no keys but text; it returned "
                f"{state!r:.200}, which would come back as {copy!r:.200}"
            )
        return copy

    def _log(self) -> EventLog:
        """The log, opened when there is something to write."""
        if self.events is None:
            self.events = EventLog(self.folder, keep=KEPT_LOGS)
        return self.events

    def save(self) -> None:
        """Write the learner and the tally in one checkpoint, if there is something new in them.

        A failed save is not retried, and there is none after an event that could not be logged.
        """
        corrected = self.phase is _Phase.SAVED and (self.learner.unlogged or self.learner.saves_due)
        if self.phase is not _Phase.LEARNED and not corrected:
            return
        with self._writing(), self.learner.lock:  # whatever is in the state is in the log
            self._log_corrections()
            self._log().flush(sync=True)
            alone, self.learner.saves_due = self.learner.saves_due, False
            write_checkpoint(
                self.folder,
                self.learner.step,
                {**self.learner.state(), **self.beside()},
                alone=alone,
            )
        self.phase, self._batches_saved = _Phase.SAVED, self.place.batches
        self._write_metrics()
        self._saved = self._flushed = time.monotonic()

    def beside(self) -> dict[str, Any]:
        """What a checkpoint holds besides the learner."""
        return {LIVE: self.tally.state()}

    def _log_corrections(self) -> None:
        """Write corrections made in the meantime, by other threads or `on_step`."""
        while self.learner.unlogged:
            self._log().write({"step": self.tally.batches, **self.learner.unlogged.popleft()})

    def _write_metrics(self) -> None:
        with self._writing():
            write_metrics(self.folder, self.learner, self.tally)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        before, self.phase = self.phase, _Phase.BUSY
        try:
            yield
            self.phase = before
        except (OSError, CheckpointError) as error:
            saved = self._batches_saved
            raise CheckpointError(
                f"{f'cannot write to {self.folder}: ' if isinstance(error, OSError) else ''}"
                f"{error}; free some space or fix the permissions, then run it again"
                + (f": it goes on after batch {saved} of {self.name}" if saved else "")
            ) from error


def _gives_batches(stream: Any) -> bool:
    return isinstance(stream, Iterable) and not isinstance(stream, (Tensor, np.ndarray, str))


def _digest(x: Any, labels: Any) -> str:
    """A digest of a batch, as a learner would see it.

    Inputs or labels that no learner accepts all count as the same: their text may differ each time,
    like the address in an object's representation.
    """
    digest = hashlib.sha256()
    for read, part in ((_input_bytes, x), (_label_bytes, labels)):
        try:
            digest.update(read(part))
        except InputError:
            digest.update(b"refused")
    return digest.hexdigest()


def _input_bytes(x: Any) -> bytes:
    if is_frame(x):
        return TableEncoder.infer(x).encode_frame(x).tobytes()
    if are_texts(x):
        return json.dumps(check_texts(x)).encode()
    return check_inputs(x, None).numpy().tobytes()


def _label_bytes(labels: Any) -> bytes:
    return json.dumps([label_to_json(label) for label in plain_labels(labels)]).encode()
