"""Errors and warnings, each in one family, so that one `except` or filter covers all."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class EvenstreamError(Exception):
    """Something the user asked for cannot be done; the message says what to do instead.

    When it is raised, the state of the learner, the run and the disk is untouched. The command
    line prints the message without a traceback and exits with status 2.
    """


class InputError(EvenstreamError, ValueError):
    """A batch, label or option that cannot be used."""


class LostTicket(InputError):
    """A ticket that is not open: expired, already learned, or lost with a dead process."""


class UnknownName(EvenstreamError, KeyError):
    """A name that is not registered; the message lists near misses.

    Args:
        kind: what the name should refer to, such as "method".
        name: the given name.
        known: the known names.
        hint: where else the name could come from; a `Registry` provides that itself.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        said = did_you_mean(name, names) or f"known: {', '.join(names) or 'none'}"
        where = hint or getattr(known, "hint", "")
        self.message = f"unknown {kind} {name!r}; {said}" + (f" ({where})" if where else "")
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would print the repr
        return self.message


class NonFiniteLoss(EvenstreamError, FloatingPointError):
    """The loss or its gradient was NaN or infinite; the update was not made."""


class CheckpointError(EvenstreamError):
    """A checkpoint is missing, damaged or belongs to something else."""


class DamagedCheckpoint(CheckpointError):
    """The contents of a checkpoint are unusable; the one before it may be intact."""


class DataError(EvenstreamError):
    """A data set is missing, damaged or has the wrong layout."""


class EvenstreamWarning(UserWarning):
    """Something worth knowing; work continues. `warnings.filterwarnings` selects it by category."""


class LearningWarning(EvenstreamWarning):
    """Less is learned than could be: single-class steps, nothing to fit a rule on."""


class NotLearning(LearningWarning):
    """A learner seems to learn nothing; the message says what to try.

    Attributes:
        finding: the message without the advice.
    """

    def __init__(self, finding: str, advice: str = "") -> None:
        super().__init__(f"{finding}: {advice}" if advice else finding)
        self.finding = finding


class DriftWarning(EvenstreamWarning):
    """The stream has changed in accuracy, loss or inputs."""


class DataWarning(EvenstreamWarning):
    """Samples or columns were left out, columns may be misread, or features share one."""


class DamageWarning(EvenstreamWarning):
    """One of evenstream's own files was damaged, and work continues with what is left."""


class MetricWarning(EvenstreamWarning):
    """A metric could not be computed."""


class TrackingWarning(EvenstreamWarning):
    """A tracker failed or lacks something; the run folders have everything."""


class WorkerWarning(EvenstreamWarning):
    """A worker could not start."""


def did_you_mean(name: str, known: Sequence[str], alike: float = 0.5) -> str:
    """A question about names that look alike; empty if none do."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=alike)
    return f"did you mean {' or '.join(near)}?" if near else ""


_NO_MEMORY = (
    *("allocate memory", "not enough memory", "out of memory", "bad_alloc"),
    *("failed to map segment", "can't start new thread", "could not create a primitive"),
)
"""Messages of PyTorch, oneDNN and the system when memory runs out."""


def memory_trouble(error: Exception) -> str:
    """What to tell the user about an out-of-memory error of any origin; empty for others."""
    said = str(error).partition("\n")[0][:200]
    foreign = isinstance(error, RuntimeError | ImportError)
    if not isinstance(error, MemoryError) and not (
        foreign and any(words in said.lower() for words in _NO_MEMORY)
    ):
        return ""
    return (
        f"there is too little memory{f' ({said})' if said else ''}; free some, or ask for less: "
        "a smaller batch, memory or network, fewer jobs"
    )


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100


@contextmanager
def calling(what: str, how: str = "fails") -> Iterator[None]:
    """A block that calls user code; its errors are reported with its role."""
    try:
        yield
    except EvenstreamError:
        raise
    except Exception as error:
        if memory_trouble(error):
            raise
        said = str(error).strip().partition("\n\n")[0]
        raise InputError(f"{what} {how}: {type(error).__name__}: {said}") from error


def shown(value: Any) -> str:
    """Any value as shown in an error: short, and never raising one itself."""
    try:
        return _SHORT.repr(value)
    except Exception:  # the value's own error, or a number with too many digits
        return f"a value of type {type(value).__name__}"


def some_of(names: Sequence[str], limit: int = 10) -> str:
    """The first names, and the total if there are more."""
    more = f", ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def count(n: int, what: str) -> str:
    """A number of things: 1 task, 2 tasks, 10 classes, 3 batches."""
    plural = f"{what}es" if what.endswith(("s", "ch")) else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"
