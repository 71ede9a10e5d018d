"""Random features: a fixed random map in front of a closed form, as a kernel is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Positive
from evenstream.core.randomness import make_generator
from evenstream.core.state import LearnerState
from evenstream.policies.closed_forms.form import BLOCK, ClosedForm

Scaling = Literal["none", "rows", "columns"]
LIMIT = 10.0
"""Values beyond this many standard deviations are clipped: an outlier must not drown the rest."""


@dataclass
class RandomFeatures(ClosedForm):
    """A closed form over random features instead of the features themselves."""

    width: Positive = 2000
    """Random features."""
    scaling: Scaling = "rows"
    """none: the features as they are. rows: each row at the same length. columns: each column by
    its mean and standard deviation over the first `scale_rows` rows, which wait until then,
    so that the result depends on which rows those are."""
    scale_rows: Positive = 1000
    """Rows that decide about the scale of the columns (scaling=columns)."""

    PROJECTION, OFFSET = "projection", "offset"
    CENTRE, SCALE = "centre", "scale"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._double: tuple[Tensor, Tensor] | None = None

    def begin(self, learner: LearnerState, features: int) -> None:
        """Draw the map, which never changes."""
        draw = make_generator(learner.options.seed, "random features")
        projection = torch.randn(features, self.width, generator=draw)
        self.tensors[self.PROJECTION] = projection.to(learner.device)
        self.tensors[self.OFFSET] = torch.rand(self.width, generator=draw).to(learner.device)
        super().begin(learner, features)

    @property
    def projection(self) -> Tensor:
        """The map in float64; it is saved as float32, in half the space."""
        drawn = self.tensors[self.PROJECTION]
        if self._double is None or self._double[0] is not drawn:
            self._double = drawn, drawn.double()
        return self._double[1]

    @property
    def block(self) -> int:
        """The number of rows that wait; the first ones also wait for the scale of the columns."""
        waiting = self.scaling == "columns" and self.SCALE not in self.tensors
        return max(BLOCK, self.scale_rows) if waiting else BLOCK

    def fix_scale(self, rows: Tensor) -> None:
        """Fix the scale of the columns from now on."""
        if self.scaling == "columns":
            centre, scale = column_scale(rows)
            self.tensors |= {self.CENTRE: centre, self.SCALE: scale}

    def scaled(self, features: Tensor) -> Tensor:
        """The scaled features, in float64."""
        rows = features.double()
        if self.scaling == "none":
            return rows
        if self.scaling == "rows":
            return F.normalize(rows, dim=1) * math.sqrt(rows.shape[1])
        if self.SCALE in self.tensors:
            centre, scale = self.tensors[self.CENTRE], self.tensors[self.SCALE]
        else:
            centre, scale = column_scale(self.tensors[self.ROWS])
        return ((rows - centre) / scale).clamp(-LIMIT, LIMIT)


def column_scale(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of columns; 1 for a constant column."""
    if not len(rows):
        return rows.new_zeros(rows.shape[1]).double(), rows.new_ones(rows.shape[1]).double()
    values = rows.double()
    centre, deviation = values.mean(0), values.std(0, correction=0)
    tiny = deviation <= 1e-6 * centre.abs()
    return centre, torch.where((deviation > 0) & ~tiny, deviation, 1.0)
