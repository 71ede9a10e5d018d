"""The common form of all data sources: inputs for training and testing, and label names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.data.image_files import ImageFiles
from evenstream.data.samples import Arrays, Indices
from evenstream.errors import DataError
from evenstream.tabular import TableEncoder

Label = bool | int | str
"""The label of a sample as given to a learner; `Dataset.classes` maps class indices to labels."""

Inputs = Arrays | ImageFiles
"""Samples in memory, or image files that are decoded on demand."""


@dataclass(frozen=True, eq=False)
class CoarseLabels:
    """A second, coarser labelling of the same samples (CIFAR-100's 20 superclasses)."""

    train: Indices
    test: Indices
    names: list[str]
    labels: list[Label] | None = None
    """Labels given to a learner in place of the numbers 0, 1, 2, ..."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A labelled data set, split into training and test samples, checked on creation.

    Attributes:
        name: Its name: a registered name, or a file name without its suffix.
        x_train: Images as uint8 or float32 (n, channels, height, width); tables as float32 (n, d);
            or image files, which are opened on demand.
        y_train: One class index per training sample.
        x_test: Same layout as `x_train`.
        y_test: One class index per test sample.
        classes: The label behind each class index, as a plain Python value.
        label_names: The name to show for each class index; `str` of the label unless given.
        mean: Per-channel mean of images scaled to [0, 1], or None for no centring.
        std: Per-channel standard deviation of the same, or None.
        coarse: The coarser labelling, if the source has one.
        table: The encoder of the table that it came from, if any.

    Scale uint8 images to [0, 1] before applying `mean` and `std`; floats are used as given.
    """

    name: str
    x_train: Inputs
    y_train: Indices
    x_test: Inputs
    y_test: Indices
    classes: list[Label]
    label_names: list[str] = field(default_factory=list)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    coarse: CoarseLabels | None = None
    table: TableEncoder | None = None

    def __post_init__(self) -> None:
        if not self.label_names:
            object.__setattr__(self, "label_names", [str(label) for label in self.classes])
        self._check_classes()
        for part, x, y in (
            ("train", self.x_train, self.y_train),
            ("test", self.x_test, self.y_test),
        ):
            self._check_inputs(f"x_{part}", x)
            _check_indices(self.name, f"y_{part}", y, len(x), self.n_classes)
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise DataError(
                f"{self.name}: x_train has samples of shape {self.x_train.shape[1:]} "
                f"but x_test of {self.x_test.shape[1:]}; they must agree"
            )
        if self.x_train.dtype != self.x_test.dtype:
            raise DataError(
                f"{self.name}: x_train is {self.x_train.dtype} but x_test is {self.x_test.dtype}; "
                "they must agree"
            )
        self._check_normalisation()
        if self.coarse is not None:
            n_coarse = len(self.coarse.names)
            _check_indices(
                self.name, "coarse.train", self.coarse.train, len(self.x_train), n_coarse
            )
            _check_indices(self.name, "coarse.test", self.coarse.test, len(self.x_test), n_coarse)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample: (channels, height, width), or (features,)."""
        return self.x_train.shape[1:]

    @property
    def is_image(self) -> bool:
        """Whether samples are images rather than rows of a table."""
        return self.x_train.ndim == 4

    def _check_classes(self) -> None:
        if not self.classes:
            raise DataError(f"{self.name}: there are no classes")
        if len(set(self.classes)) != len(self.classes):
            raise DataError(f"{self.name}: classes has a label twice: {self.classes}")
        if len(self.label_names) != len(self.classes):
            raise DataError(
                f"{self.name}: {len(self.label_names)} label_names for {len(self.classes)} classes"
            )

    def _check_inputs(self, which: str, x: Inputs) -> None:
        image = x.ndim == 4 and x.dtype in (np.uint8, np.float32)
        table = x.ndim == 2 and x.dtype == np.float32
        if not (image or table):
            raise DataError(
                f"{self.name}: {which} must be images, uint8 or float32 of shape (n, channels, "
                f"height, width), or a float32 table of shape (n, features); it is {x.dtype} "
                f"of shape {x.shape}"
            )
        if 0 in x.shape:
            raise DataError(f"{self.name}: {which} is empty (shape {x.shape})")
        check_finite(self.name, which, x)

    def _check_normalisation(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise DataError(f"{self.name}: give both mean and std, or neither")
        if self.mean is None or self.std is None:
            return
        if not self.is_image:
            raise DataError(
                f"{self.name}: mean and std are for images; normalise a table yourself, or use "
                "the network mlp-norm"
            )
        channels = self.input_shape[0]
        if len(self.mean) != channels or len(self.std) != channels:
            raise DataError(
                f"{self.name}: mean and std need {channels} values, one per channel; they have "
                f"{len(self.mean)} and {len(self.std)}"
            )
        if (
            not np.isfinite(self.mean).all()
            or not np.isfinite(self.std).all()
            or min(self.std) <= 0
        ):
            raise DataError(f"{self.name}: mean must be finite and std finite and above zero")


def check_finite(dataset: str, which: str, x: Inputs) -> None:
    """Reject inputs with NaN or infinite values, naming the first."""
    if isinstance(x, ImageFiles) or x.dtype == np.uint8:
        return
    finite = np.isfinite(x).reshape(len(x), -1).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{dataset}: {which} has NaN or infinite values (or too large for 32-bit floats) in "
            f"{int((~finite).sum())} samples, the first at index {int(np.argmin(finite))}; "
            "fill or drop them"
        )


def _check_indices(
    dataset: str, which: str, indices: NDArray[Any], n_samples: int, n_classes: int
) -> None:
    """Reject indices that are not one int64 in 0..n_classes-1 for each sample."""
    if indices.ndim != 1 or indices.dtype != np.int64:
        raise DataError(
            f"{dataset}: {which} must be one int64 class index per sample; it is {indices.dtype} "
            f"of shape {indices.shape}"
        )
    if len(indices) != n_samples:
        raise DataError(f"{dataset}: {which} has {len(indices)} entries for {n_samples} samples")
    if indices.min() < 0 or indices.max() >= n_classes:
        raise DataError(
            f"{dataset}: {which} has class indices from {indices.min()} to {indices.max()}, but "
            f"there are {n_classes} classes (0..{n_classes - 1})"
        )


def int_classes(n_classes: int) -> list[Label]:
    """The labels 0..n-1 of a source whose class indices are its labels."""
    return list(range(n_classes))


def as_channels(values: Sequence[float] | None) -> tuple[float, ...] | None:
    """Per-channel values as a tuple of floats, None staying None."""
    return None if values is None else tuple(float(value) for value in values)
