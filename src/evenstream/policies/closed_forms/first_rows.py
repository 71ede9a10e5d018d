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

    def columns(self, features: Tensor) -> Tensor:
        """The features, counted from there."""
        rows = features.double()
        return rows - self.tensors[self.ORIGIN] if self.ORIGIN in self.tensors else rows
