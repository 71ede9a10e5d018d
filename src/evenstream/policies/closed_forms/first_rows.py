"""Columns counted from the mean of the first rows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from evenstream.policies.closed_forms.form import ClosedForm


@dataclass
class FromFirstRows(ClosedForm):
    """A closed form that does not depend on where its columns have their zero.

    The square of a value around a million that varies by one has lost twelve digits; counted from
    the mean of the first rows, it has lost none.
    """

    ORIGIN = "origin"

    def take(self, features: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """The first rows say where zero is."""
        if self.ORIGIN not in self.tensors:
            self.tensors[self.ORIGIN] = features.double().mean(0)
        super().take(features, labels, weights)

    def refresh(self) -> None:
        """Count from the mean of the rows that are left: nothing of a forgotten one stays in it."""
        if self.any_added:
            sums = self._added()
            shift = sums.sums.sum(0) / float(sums.counts.sum() or 1.0)
            self._keep(sums.from_origin(shift))
            self.tensors[self.ORIGIN] = self.tensors[self.ORIGIN] + shift
        elif len(self.tensors[self.ROWS]):
            self.tensors[self.ORIGIN] = self.tensors[self.ROWS].double().mean(0)
        super().refresh()
        if not self.rows_taken:
            self.tensors.pop(self.ORIGIN, None)

    def columns(self, features: Tensor) -> Tensor:
        """The features, counted from there."""
        rows = features.double()
        return rows - self.tensors[self.ORIGIN] if self.ORIGIN in self.tensors else rows
