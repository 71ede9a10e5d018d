"""The small digits set that comes with scikit-learn: needs no files and no network."""

from __future__ import annotations

import numpy as np

from evenstream.data.dataset import Dataset, int_classes

_TEST_EVERY = 5


def load_digits() -> Dataset:
    """1,797 handwritten digits as (1, 8, 8) images; every fifth of each class is for testing.

    The original intensities 0..16 become 0..255 as min(255, 16 v). The split is fixed, so that
    results can be compared.
    """
    from sklearn.datasets import load_digits as load_bundled

    bundled = load_bundled()
    images = np.minimum(bundled.images * 16, 255).astype(np.uint8)[:, np.newaxis]
    y = bundled.target.astype(np.int64)
    in_test = np.zeros(len(y), dtype=bool)
    for digit in range(10):
        in_test[np.flatnonzero(y == digit)[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    return Dataset(
        "digits", images[~in_test], y[~in_test], images[in_test], y[in_test], int_classes(10)
    )
