"""How a learner reads its tables, once it has seen one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evenstream.core.inputs import TEXTS, InputKind
from evenstream.core.memory import Memory, X
from evenstream.core.stateful import WithoutClasses
from evenstream.errors import InputError, count, some_of
from evenstream.tabular import TableEncoder, TableRows, is_frame
from evenstream.tabular.encoder import warn_of_content
from evenstream.tabular.frames import Frame, read_frame


def timeless(batch: Tensor, when: Tensor) -> Tensor:
    """Rows as if all had come at the same time (`KnownTable.when`)."""
    return torch.where(when.isnan(), batch, when)


class KnownTable(WithoutClasses):
    """The encoder of a learner's tables; None before the first table."""

    def __init__(self) -> None:
        self.encoder: TableEncoder | None = None
        self._empty: tuple[TableEncoder, list[str]] | None = None

    def take(self, x: Any, learned: InputKind | None) -> tuple[Any, TableEncoder | None]:
        """A batch as numbers, and its encoder if it came from a table; changes nothing."""
        if isinstance(x, TableRows):
            if self.encoder not in (None, x.encoder):
                raise InputError("these rows were encoded differently from the learner's")
            return x.values, x.encoder
        if is_frame(x):
            frame = read_frame(x)
            encoder = self.encoder or TableEncoder.infer(frame)
            if learned is not None and learned != TEXTS:
                known = self.encoder is not None or encoder.plain
                if not known or learned.shape != (encoder.width,):
                    columns = count(len(frame.names), "column")
                    raise InputError(f"inputs are a table of {columns}; {learned.advice}")
            rows = encoder.encode_frame(frame)
            if self.encoder is not None:
                self._look_at_left_out(frame, self.encoder)
            return rows, encoder
        return x, None

    def _look_at_left_out(self, frame: Frame, encoder: TableEncoder) -> None:
        """Warn, once a column, of content in those that were empty at first."""
        if self._empty is None or self._empty[0] is not encoder:
            self._empty = encoder, encoder.empty_at_first(list(encoder.left_out))
        here = [name for name in self._empty[1] if name in frame.names]
        told = warn_of_content("the table", here, frame.columns)
        self._empty = encoder, [name for name in self._empty[1] if name not in told]

    def when(self, memory: Memory) -> Tensor | None:
        """When the stored row in the middle came, as inputs; those about all else are NaN.

        None if no input says when a row came.
        """
        if self.encoder is None or self.encoder.when is None:
            return None
        values = torch.from_numpy(self.encoder.when)
        if len(memory):
            stored = memory.field(X)
            values = values.to(stored.device)
            dated = stored[:, int((~values.isnan()).nonzero()[0])]
            middle = stored[int(dated.argsort(stable=True)[len(stored) // 2])]
            values = torch.where(values.isnan(), values, middle)
        return values

    @property
    def advice(self) -> str:
        """What to pass instead of anything but a table, if tables were learned."""
        if self.encoder is None:
            return ""
        columns = some_of(self.encoder.names)
        return f"this learner has learned from tables: pass a frame with the columns {columns}"

    # ---- `Stateful` ----------------------------------------------------------------------------

    def mark(self) -> TableEncoder | None:
        """The encoder, which never changes."""
        return self.encoder

    def restore(self, mark: TableEncoder | None) -> None:
        """Go back to the last mark."""
        self.encoder = mark

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Any] | None:
        """Plain values for a checkpoint."""
        return None if self.encoder is None else self.encoder.state()

    def load_state(self, state: dict[str, Any] | None) -> None:
        """The inverse of `state`."""
        self.encoder = None if state is None else TableEncoder.from_state(state)
