"""What everything with state can do: be saved, loaded, and put back as it was."""

from __future__ import annotations

from typing import Any, Protocol

from evenstream.core.edits import Compaction, Regrouping


class Stateful(Protocol):
    """A piece of a learner.

    Transactions, checkpoints and fingerprints are made of the learner's list of pieces, so state
    that a piece declares here is undone, saved and compared without being mentioned elsewhere.
    """

    def mark(self) -> Any:
        """Note how it is now, as cheaply as possible, for `restore`."""
        ...

    def restore(self, mark: Any) -> None:
        """Go back to the last mark."""
        ...

    def settle(self) -> None:
        """Keep what has changed; the mark will not be needed."""
        ...

    def state(self) -> Any:
        """All of it, as a tree of tensors and plain values. The tensors may be its own."""
        ...

    def regroup(self, classes: Regrouping) -> None:
        """A class is removed, or merged into another: let all that is kept by class follow."""
        ...

    def compact(self, slots: Compaction) -> None:
        """Stored samples are forgotten: let all that is kept by slot of the memory follow."""
        ...


class WithoutClasses:
    """Of a piece that keeps nothing by class or by stored sample."""

    def regroup(self, classes: Regrouping) -> None:
        """Nothing to follow."""

    def compact(self, slots: Compaction) -> None:
        """Nothing to follow."""
