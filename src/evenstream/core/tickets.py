"""Tickets: inputs that were predicted and are waiting for labels, which may arrive hours later."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evenstream.bounds import is_whole
from evenstream.core.ids import no_ids, where
from evenstream.core.inputs import Batch, InputKind, kind_of
from evenstream.core.stateful import WithoutClasses
from evenstream.entries import whole_number
from evenstream.errors import InputError, LostTicket, shown

MOST, STEPS = 10_000, 100_000
"""Default number of open tickets, and of steps after which one expires."""
_TICKET = re.compile(r"t([1-9][0-9]{0,17})-([0-9a-f]{16})")


@dataclass(frozen=True, eq=False)
class Held:
    """An input that is waiting for its label."""

    row: Tensor | str
    step: int
    """Number of steps made when it was predicted."""
    id: Tensor
    """The digest of its id; zeros if there is none."""


@dataclass(eq=False)
class Tickets(WithoutClasses):
    """Open tickets in the order they were issued, and counts of all.

    They expire by number and by steps, oldest first; with clock time, a killed and resumed run
    would differ. The dictionary is replaced, never modified in place.
    """

    most: int = MOST
    steps: int = STEPS
    given: int = 0
    learned: int = 0
    expired: int = 0
    deleted: int = 0
    """Tickets dropped by `forget`."""
    oldest: int = 1
    """All earlier numbers have been learned or have expired."""

    def __post_init__(self) -> None:
        self.held: dict[int, Held] = {}

    def __str__(self) -> str:
        counts = f"{len(self.held):,} open of {self.given:,} given, {self.learned:,} learned"
        return f"{counts}, {self.expired:,} expired"

    @property
    def open(self) -> int:
        """Number of tickets waiting for a label."""
        return len(self.held)

    @property
    def counts(self) -> dict[str, int]:
        """The number of open tickets, and what became of the others."""
        return {name: getattr(self, name) for name in ("given", "open", "learned", "expired")}

    @property
    def kind(self) -> InputKind | None:
        """The kind of the waiting inputs; None if there are none."""
        for each in self.held.values():
            return kind_of([each.row] if isinstance(each.row, str) else each.row[None])
        return None

    def limit(self, number: int, steps: int, now: int) -> None:
        """Set how many may be open at a time, and for how many steps."""
        for name, value in (("the number of tickets", number), ("their steps", steps)):
            if not (is_whole(value) and 1 <= value < 2**53):
                raise InputError(f"{name} must be a whole number of 1 or more, got {shown(value)}")
        self.most, self.steps = int(number), int(steps)
        self.expire(now)

    def give(self, batch: Batch, ids: Tensor | None, now: int) -> list[str]:
        """A ticket for each row; the oldest open ones expire if there are too many."""
        if len(batch) > self.most:
            raise InputError(
                f"{len(batch):,} rows, but the limit of open tickets is {self.most:,}; "
                "limit_tickets(number=...) changes it"
            )
        own = no_ids(len(batch)) if ids is None else ids
        new = {
            self.given + 1 + n: Held(row if isinstance(row, str) else row.clone(), now, own[n])
            for n, row in enumerate(batch)
        }
        self.given += len(new)
        self.held = {**self.held, **new}
        self.expire(now)
        return [ticket(number, held) for number, held in new.items()]

    def expire(self, now: int) -> None:
        """Drop those that are too old or too many."""
        gone: list[int] = []
        for number, held in self.held.items():
            if now - held.step <= self.steps and len(self.held) - len(gone) <= self.most:
                break
            gone.append(number)
        if gone:
            self._close(gone)
            self.expired += len(gone)
            self.oldest = gone[-1] + 1

    def find(self, tickets: Sequence[Any]) -> list[int]:
        """The numbers of these tickets; each must be open.

        Raises:
            LostTicket: one of them is not open; the message says why.
        """
        numbers = [self._number(each) for each in tickets]
        if len(set(numbers)) < len(numbers):
            raise InputError("a ticket occurs twice; pass each with one label")
        return numbers

    def _number(self, given: Any) -> int:
        found = _TICKET.fullmatch(given) if isinstance(given, str) else None
        if found is None:
            raise InputError(f"a ticket is a text that ask() has given, got {shown(given)}")
        number = int(found[1])
        if number in self.held and ticket(number, self.held[number]) == given:
            return number
        if number in self.held or number > self.given:
            why = (
                "is unknown here: it was issued by another learner, or after this one's last "
                "save and lost when it was stopped; learn the row with its label instead"
            )
        elif number < self.oldest:
            why = (
                f"has expired or was learned before: tickets are kept for {self.steps:,} steps, "
                f"and {self.most:,} at a time (limit_tickets)"
            )
        else:
            why = "was learned already, or its row was forgotten"
        raise LostTicket(f"ticket {given} {why}")

    def rows(self, numbers: Sequence[int]) -> tuple[Batch, Tensor | None]:
        """The waiting inputs, and the digests of their ids if they have any."""
        held = [self.held[number] for number in numbers]
        texts = [each.row for each in held if isinstance(each.row, str)]
        tensors = [each.row for each in held if isinstance(each.row, Tensor)]
        ids = torch.stack([each.id for each in held])
        return texts or torch.stack(tensors), ids if bool(ids.any()) else None

    def learn(self, numbers: Sequence[int]) -> None:
        """Close tickets whose labels have arrived."""
        self._close(numbers)
        self.learned += len(numbers)

    def delete(self, numbers: Sequence[int]) -> None:
        """Close tickets whose rows are forgotten."""
        self._close(numbers)
        self.deleted += len(numbers)

    def with_ids(self, wanted: Tensor) -> dict[int, int]:
        """Open tickets whose row has one of these ids, and which id."""
        if not self.held:
            return {}
        places = where(torch.stack([each.id for each in self.held.values()]), wanted).tolist()
        return {n: place for n, place in zip(self.held, places, strict=True) if place >= 0}

    def _close(self, numbers: Iterable[int]) -> None:
        gone = set(numbers)
        if not gone:
            return
        self.held = {number: each for number, each in self.held.items() if number not in gone}

    # ---- `Stateful` ----------------------------------------------------------------------------

    def mark(self) -> dict[str, Any]:
        """The current values."""
        return dict(vars(self))

    def restore(self, mark: dict[str, Any]) -> None:
        """Restore the values."""
        vars(self).update(mark)

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Any] | None:
        """Counts and inputs; None if there never was a ticket."""
        if not self.given and (self.most, self.steps) == (MOST, STEPS):
            return None
        counts = {name: value for name, value in vars(self).items() if name != "held"}
        held = list(self.held.values())
        numbers = torch.tensor(list(self.held), dtype=torch.int64)
        steps = torch.tensor([each.step for each in held], dtype=torch.int64)
        ids = torch.stack([each.id for each in held]) if held else no_ids(0)
        texts = [each.row for each in held if isinstance(each.row, str)]
        rows = [each.row for each in held if isinstance(each.row, Tensor)]
        own = {"x": torch.stack(rows)} if rows else {"texts": texts}
        return {**counts, "numbers": numbers, "given_at": steps, "ids": ids, **own}

    def load_state(self, state: dict[str, Any] | None) -> None:
        """The inverse of `state`."""
        fresh = Tickets()
        if state is not None:
            for name in vars(fresh).keys() - {"held"}:
                setattr(fresh, name, whole_number(state, name))
            numbers, steps = state["numbers"].tolist(), state["given_at"].tolist()
            rows = state["x"].cpu() if "x" in state else list(map(str, state["texts"]))
            entries = zip(numbers, rows, steps, state["ids"].cpu(), strict=True)
            fresh.held = {n: Held(row, step, own) for n, row, step, own in entries}
            if sorted(fresh.held) != numbers or any(n > fresh.given for n in numbers):
                raise ValueError("its numbers are not those of tickets that were given")
        vars(self).update(vars(fresh))


def ticket(number: int, held: Held) -> str:
    """The text of a ticket: its number, and a digest of the input.

    So a ticket lost with a dead process can never be mistaken for another with the same number.
    """
    row = held.row.encode() if isinstance(held.row, str) else held.row.numpy().tobytes()
    digest = hashlib.sha256(f"{number} ".encode() + row).hexdigest()
    return f"t{number}-{digest[:16]}"
