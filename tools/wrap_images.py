"""Write a data set of images with wrapped bytes, x -> -x modulo 256, to an .npz file.

    python tools/wrap_images.py cifar10 /tmp/cifar10-wrapped.npz

The public code of the paper multiplies CIFAR's bytes by 255 once more, in training and test alike.
All else stays as it is, the normalisation included.
docs/results/c-cifar10_wrapped_slim_m1000.toml has the runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from evenstream.data import Dataset, load_dataset
from evenstream.errors import DataError, EvenstreamError


def write_wrapped(dataset: Dataset, out: Path) -> None:
    """Write the wrapped images with their labels, split and normalisation."""
    arrays: dict[str, Any] = {}
    for part, x, y in (
        ("train", dataset.x_train, dataset.y_train),
        ("test", dataset.x_test, dataset.y_test),
    ):
        if not isinstance(x, np.ndarray) or x.dtype != np.uint8:
            raise DataError(f"{dataset.name} does not consist of images in bytes")
        arrays[f"x_{part}"] = np.negative(x)
        arrays[f"y_{part}"] = np.array(dataset.classes)[y]
    scale = {"mean": dataset.mean, "std": dataset.std}
    arrays |= {name: np.array(value) for name, value in scale.items() if value is not None}
    np.savez(out, **arrays)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        write_wrapped(load_dataset(sys.argv[1]), Path(sys.argv[2]))
    except EvenstreamError as problem:
        sys.exit(str(problem))
