"""The small digits set that comes with scikit-learn: needs no files and no network."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evenstream.data.dataset import Dataset, int_classes

_TEST_EVERY = 5
FILE = Path("datasets", "data", "digits.csv.gz")
"""Its location in scikit-learn."""


def load_digits() -> Dataset:
    """1,797 handwritten digits as (1, 8, 8) images; every fifth of each class is for testing.

    The original intensities 0..16 become 0..255 as min(255, 16 v). The split is fixed, so that
    results can be compared.
    """
    bundled = read_bundled()
    images = np.minimum(bundled[:, :-1] * 16, 255).astype(np.uint8).reshape(-1, 1, 8, 8)
    y = bundled[:, -1].astype(np.int64)
    in_test = np.zeros(len(y), dtype=bool)
    for digit in range(10):
        in_test[np.flatnonzero(y == digit)[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    return Dataset(
        "digits", images[~in_test], y[~in_test], images[in_test], y[in_test], int_classes(10)
    )


def read_bundled() -> npt.NDArray[np.int64]:
    """The 64 intensities and the digit of each image.

    Loading scikit-learn takes longer than a run on these images, so the file is read without it.
    """
    found = importlib.util.find_spec("sklearn")
    file = Path(found.origin).parent / FILE if found is not None and found.origin else None
    if file is not None and file.is_file():
        return np.loadtxt(file, delimiter=",", dtype=np.int64)
    from sklearn.datasets import load_digits as load_bundled

    bundled = load_bundled()
    return np.column_stack([bundled.data, bundled.target]).astype(np.int64)
