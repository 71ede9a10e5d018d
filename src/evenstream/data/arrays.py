"""Data sets from the user's own arrays, converted to one layout, with labels as class indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenstream.data.dataset import CoarseLabels, Dataset, Label, as_channels, check_finite
from evenstream.data.samples import Arrays, Indices
from evenstream.data.split import DEFAULT_TEST_FRACTION, stratified_split
from evenstream.errors import DataError, InputError
from evenstream.tabular import TableEncoder

_CHANNEL_COUNTS = (1, 3, 4)


def from_arrays(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    superclasses: Sequence[str] | None = None,
    table: TableEncoder | None = None,
    name: str = "arrays",
    test_fraction: float | None = None,
    seed: int = 0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Dataset:
    """Create a data set from arrays: images or a table, and one label per sample.

    Inputs may be tables (n, features) of any numbers, or images: (n, channels, height, width) in
    uint8 or floats, or (n, height, width) in uint8. Images with channels last are recognised by a
    last axis of 1, 3 or 4 and a second axis that is none of these, and are transposed.

    Labels may be integers, strings or booleans; `Dataset.classes` lists those seen in `y_train`,
    sorted. A test label that does not occur in training is rejected.

    Args:
        x_train: Training inputs, or all inputs when `x_test` is left out.
        y_train: Their labels.
        x_test: Test inputs; left out, a stratified share of `x_train` is set aside.
        y_test: Their labels.
        superclasses: The superclass of each sample, if a test part is set aside.
        table: The encoder that turned the columns of a table into inputs.
        name: The name of the data set.
        test_fraction: The share to set aside, 0.2 if not given.
        seed: Which samples are set aside.
        mean: Per-channel mean to subtract from images scaled to [0, 1]; not allowed for tables.
        std: Per-channel standard deviation to divide by, likewise.
    """
    if (x_test is None) != (y_test is None):
        raise DataError(f"{name}: give both x_test and y_test, or neither")
    x = _to_array(name, "x_train", x_train)
    train_labels = _label_array(name, "y_train", y_train, len(x))
    classes, y = _encode(train_labels)

    coarse = None
    if x_test is None or y_test is None:
        inputs = _to_inputs(name, "x", x)
        check_finite(name, "x", inputs)  # before the split, to name the user's own index
        fraction = DEFAULT_TEST_FRACTION if test_fraction is None else test_fraction
        train, test = stratified_split(y, fraction, seed)
        parts = (inputs[train], y[train], inputs[test], y[test])
        if superclasses is not None:
            coarse = _coarse(np.asarray(superclasses), train, test)
    else:
        if test_fraction is not None:
            raise InputError(f"{name}: has its own test samples; leave test_fraction out")
        xt = _to_array(name, "x_test", x_test)
        if x.shape[1:] != xt.shape[1:]:
            raise DataError(
                f"{name}: x_train has samples of shape {x.shape[1:]} but x_test of {xt.shape[1:]}; "
                "they must agree"
            )
        test_labels = _label_array(name, "y_test", y_test, len(xt))
        parts = (
            _to_inputs(name, "x_train", x),
            y,
            _to_inputs(name, "x_test", xt),
            _encode_known(name, test_labels, train_labels, classes),
        )
    return Dataset(
        name,
        *parts,
        classes=_python_labels(classes),
        mean=as_channels(mean),
        std=as_channels(std),
        coarse=coarse,
        table=table,
    )


def _coarse(superclasses: NDArray[Any], train: Indices, test: Indices) -> CoarseLabels:
    names, indices = _encode(superclasses)
    labels = _python_labels(names)
    return CoarseLabels(indices[train], indices[test], [str(label) for label in labels], labels)


def as_inputs(name: str, which: str, values: ArrayLike) -> Arrays:
    """Inputs in any layout that `from_arrays` takes, checked and converted to one."""
    inputs = _to_inputs(name, which, _to_array(name, which, values))
    check_finite(name, which, inputs)
    return inputs


def as_labels(name: str, which: str, values: ArrayLike, n_samples: int) -> list[Label]:
    """Labels in any form that `from_arrays` takes, checked, as plain Python values."""
    return _python_labels(_label_array(name, which, values, n_samples))


def _to_array(name: str, which: str, values: ArrayLike) -> NDArray[Any]:
    """The values as an array of numbers with at least one sample."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged nested lists
        raise DataError(f"{name}: {which} is not a regular array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{name}: {which} must hold numbers, but its type is {array.dtype}; "
            "encode text columns as numbers first"
        )
    if array.ndim == 0 or array.size == 0:
        raise DataError(f"{name}: {which} is empty (shape {array.shape})")
    return array


def _to_inputs(name: str, which: str, x: NDArray[Any]) -> Arrays:
    """Bring inputs to uint8 or float32 NCHW images, or a float32 table."""
    if x.ndim == 2:
        return _to_float32(x)
    if x.ndim == 3 and x.dtype == np.uint8:
        return x[:, np.newaxis]
    if x.ndim == 4 and (x.dtype == np.uint8 or x.dtype.kind == "f"):
        images = _channels_first(x)
        return images if images.dtype == np.uint8 else _to_float32(images)
    raise DataError(
        f"{name}: {which} is {x.dtype} of shape {x.shape}; give a table (n, features), images "
        "(n, channels, height, width) in uint8 or floats, or grey images (n, height, width) in "
        "uint8"
    )


def _to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large becomes infinite, which Dataset rejects
        return x.astype(np.float32)


def _channels_first(images: NDArray[Any]) -> NDArray[Any]:
    """Transpose images whose channels are last: last axis 1, 3 or 4 and second axis not."""
    channels_last = images.shape[3] in _CHANNEL_COUNTS and images.shape[1] not in _CHANNEL_COUNTS
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if channels_last else images


def _label_array(name: str, which: str, values: ArrayLike, n_samples: int) -> NDArray[Any]:
    """The labels as a one-dimensional array of integers, strings or booleans."""
    try:
        labels = np.asarray(values)
    except ValueError as error:  # ragged nested lists
        raise DataError(f"{name}: {which} is not a regular array: {error}") from error
    if labels.ndim != 1:
        raise DataError(
            f"{name}: {which} must be one label per sample, but its shape is {labels.shape}; "
            "flatten a column with y.ravel(), one-hot rows with y.argmax(axis=1)"
        )
    if len(labels) != n_samples:
        raise DataError(f"{name}: {which} has {len(labels)} labels for {n_samples} samples")
    if labels.dtype.kind not in "biuU":
        raise DataError(
            f"{name}: {which} must be integers, strings or booleans, not {labels.dtype}; "
            "convert with y.astype(int) or y.astype(str)"
        )
    if labels.dtype == np.uint64 and labels.max() > np.iinfo(np.int64).max:
        raise DataError(f"{name}: {which} has integers beyond 64 signed bits; use strings instead")
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _encode(labels: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    classes, indices = np.unique(labels, return_inverse=True)
    return classes, indices.reshape(-1).astype(np.int64)


def _encode_known(
    name: str, labels: NDArray[Any], train_labels: NDArray[Any], classes: NDArray[Any]
) -> Indices:
    """Indices of test labels in the training classes; rejects labels not among them."""
    if _label_kind(labels) != _label_kind(train_labels):
        raise DataError(
            f"{name}: y_train has {_label_kind(train_labels)} but y_test {_label_kind(labels)}; "
            "use one kind of label"
        )
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        shown = ", ".join(repr(label) for label in _python_labels(unknown[:5]))
        raise DataError(
            f"{name}: y_test has {len(unknown)} labels that y_train never has: {shown}; "
            "drop these test samples or add training samples"
        )
    return np.searchsorted(classes, labels).astype(np.int64)


def _label_kind(labels: NDArray[Any]) -> str:
    return {"b": "booleans", "U": "strings"}.get(labels.dtype.kind, "integers")


def _python_labels(classes: NDArray[Any]) -> list[Label]:
    """NumPy scalars as plain Python values, which print, hash and serialise as users expect."""
    labels: list[Label] = classes.tolist()
    return labels
