"""Samples in memory, and the form in which samples are returned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Arrays = NDArray[np.uint8] | NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Read:
    """Some samples that were read."""

    rows: Indices
    """Positions of the samples in the data set, without those that could not be read."""
    x: Arrays
    """Their inputs, in the same order."""
    skipped: tuple[str, ...] = ()
    """What could not be read, with the reason; only if such samples are skipped."""
