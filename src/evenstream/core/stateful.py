"""The protocol of everything with state: it can be saved, loaded and restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from evenstream.core.edits import Compaction, Regrouping


class Stateful(Protocol):
    """A piece of a learner.

    Transactions, checkpoints, fingerprints and loading are built from the learner's list of pieces,
    so state that a piece declares here is undone, saved, compared and loaded automatically.
    """

    def mark(self) -> Any:
        """Take a mark for `restore`, as cheaply as possible."""
        ...

    def restore(self, mark: Any) -> None:
        """Go back to the last mark."""
        ...

    def settle(self) -> None:
        """Keep the changes; the mark is no longer needed."""
        ...

    def state(self) -> Any:
        """The whole state, as a tree of tensors and plain values. The tensors may be its own."""
        ...

    @property
    def load_state(self) -> Callable[..., None]:
        """The inverse of `state`, or an error; methods, teachers and rules get the learner, too."""
        ...

    def regroup(self, classes: Regrouping) -> None:
        """Update everything kept per class when a class is removed or merged into another."""
        ...

    def compact(self, slots: Compaction) -> None:
        """Update everything kept per memory slot when stored samples are forgotten."""
        ...


class WithoutClasses:
    """For a piece that keeps nothing per class or stored sample."""

    def regroup(self, classes: Regrouping) -> None:
        """Nothing to update."""

    def compact(self, slots: Compaction) -> None:
        """Nothing to update."""
