"""Base of closed-form methods over random features."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Positive
from evenstream.methods.parts.summing import Summing
from evenstream.policies.closed_forms.random_features import Scaling


@dataclass
class SummingRandomFeatures(Summing):
    """Sums over random features instead of the features themselves."""

    width: Positive = 2000
    """Number of random features."""
    scaling: Scaling = "rows"
    """none: unscaled features. rows: every row at the same length. columns: every column by its
    mean and standard deviation over the first `scale_rows` rows, which are held back until then, so
    the result depends on which rows those are."""
    scale_rows: Positive = 1000
    """Number of rows from which the scale of the columns is computed (scaling=columns)."""
