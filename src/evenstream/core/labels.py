"""Labels of any kind, unknown in advance, and the append-only map from labels to class indices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenstream.bounds import is_whole
from evenstream.core.edits import Compaction, Regrouping
from evenstream.core.inputs import refuse_unusual
from evenstream.errors import InputError, shown
from evenstream.tabular.cells import is_missing

LARGEST = 10_000
"""Number of bits in the longest integer that checkpoints can store."""
DEEPEST = 50
"""Deepest nesting of tuples that checkpoints can store."""

Label = str | int | bool | tuple["Label", ...]


def plain_label(value: Any, depth: int = 0) -> Label:
    """The Python value of a label: NumPy and 0-d tensor labels become str, int, bool or tuple.

    So do enums and other subclasses: a checkpoint keeps only the plain value.
    """
    if isinstance(value, (np.generic, torch.Tensor, np.ndarray)):
        _check_array(value)
        if value.ndim != 0:
            raise InputError(
                f"a label must be a single value, not an array of shape {tuple(value.shape)}"
            )
        value = value.item()
    if isinstance(value, tuple):
        if depth == DEEPEST:
            raise InputError(f"a label has tuples nested more than {DEEPEST} deep")
        return tuple(plain_label(part, depth + 1) for part in value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > LARGEST:
            raise InputError(f"a label of {value.bit_length():,} bits is too large; use a text")
        return int(value)
    if isinstance(value, str):
        return _plain_text(str.__str__(value))
    if is_missing(value):
        raise InputError(f"a label is missing ({shown(value)}); leave the row out")
    advice = "use str, int, bool or a tuple of them"
    if isinstance(value, float):
        advice = "convert labels to int or text"
    raise InputError(f"unsupported label {shown(value)} of type {type(value).__name__}; {advice}")


def _plain_text(label: str) -> str:
    """Reject text that files cannot hold, with half a surrogate pair."""
    try:
        label.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the label {label!a} is not valid text: character {error.start + 1} is half of a "
            "surrogate pair; decode it correctly at its source"
        ) from None
    return label


def _check_array(values: Any) -> None:
    """Reject an array or tensor without values, or with values that Python would alter."""
    if isinstance(values, (np.ndarray, np.generic)):
        if _has_times(values.dtype):
            raise InputError(
                f"labels are dates or times ({values.dtype}), which a learner does not accept; "
                "convert them to text: labels.astype(str)"
            )
        if np.ma.is_masked(values):
            raise InputError("labels are masked: some are missing; leave their rows out")
    else:
        refuse_unusual("labels", values)


def _has_times(dtype: np.dtype[Any]) -> bool:
    """Whether it contains dates or time spans, including in named fields."""
    fields = (dtype.fields or {}).values()
    return dtype.kind in "mM" or any(_has_times(field[0]) for field in fields)


def plain_labels(labels: Any) -> list[Label]:
    """A batch of labels as a list of Python values; rejects anything but a flat sequence."""
    if isinstance(labels, (np.ndarray, torch.Tensor)):
        _check_array(labels)
        if labels.ndim != 1:
            raise InputError(
                f"labels must be one-dimensional, got shape {tuple(labels.shape)}; "
                "pass one label for each row"
            )
        labels = labels.tolist()
    if hasattr(labels, "to_pylist"):  # Arrow arrays
        labels = labels.to_pylist()
    unordered = isinstance(labels, (str, bytes, bytearray, AnySet, Mapping))
    if unordered or not isinstance(labels, Iterable):
        raise InputError(
            f"labels must be a sequence with one label for each row, got {shown(labels)}"
        )
    return [plain_label(label) for label in labels]


def plain_counts(counts: Any) -> dict[Label, int]:
    """Checked `{label: how many}` with Python labels and numbers."""
    if not isinstance(counts, Mapping):
        raise InputError(f"label_counts must be {{label: count}}, got {shown(counts)}")
    for label, count in counts.items():
        if not (is_whole(count) and 0 <= count < 2**53):
            raise InputError(
                "label_counts must be whole numbers of 0 or more, below 2**53, got "
                f"{shown(count)} for {shown(label)}"
            )
    labels = plain_labels(list(counts))
    return dict(zip(labels, map(int, counts.values()), strict=True))


def label_key(label: Label) -> Any:
    """A dictionary key that keeps `True` and `1` apart, inside tuples too."""
    if isinstance(label, tuple):
        return tuple(label_key(part) for part in label)
    return (type(label).__name__, label)


class LabelMap:
    """Class indices in order of arrival: the rows of the head.

    New labels are appended in place. When a label is renamed or removed, the list is replaced, so
    that the previous one can be restored.
    """

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self._labels: list[Label] = []
        self._index: dict[Any, int] = {}
        self.add(list(labels))

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels)

    def __getitem__(self, index: int) -> Label:
        return self._labels[index]

    def get(self, label: Label) -> int | None:
        """The class index of a label, or None if it was never seen."""
        return self._index.get(label_key(label))

    def add(self, labels: Sequence[Label]) -> list[int]:
        """Class indices of the labels; new ones are appended in order of arrival."""
        indices = []
        for label in labels:
            key = label_key(label)
            index = self._index.get(key)
            if index is None:
                index = self._index[key] = len(self._labels)
                self._labels.append(label)
            indices.append(index)
        return indices

    def array(self) -> NDArray[Any]:
        """All labels as an array of one kind, if they are of one kind."""
        kinds, labels = set(map(type, self._labels)), self._labels
        fits = kinds in ({str}, {int}, {bool})
        if kinds == {str}:
            fits = not any(label.endswith("\0") for label in map(str, labels))  # stripped by NumPy
        elif kinds == {int}:
            fits = all(-(2**63) <= label < 2**63 for label in labels if isinstance(label, int))
        if fits:
            return np.array(labels)
        made = np.empty(len(labels), object)
        made[:] = labels
        return made

    def rename(self, index: int, label: Label) -> None:
        """Rename a class; no other class may have the new label."""
        self._set([label if place == index else old for place, old in enumerate(self)])

    def regroup(self, classes: Regrouping) -> None:
        """Remove the label of the removed class."""
        self._set([label for place, label in enumerate(self) if place != classes.gone])

    def compact(self, slots: Compaction) -> None:
        """Nothing to do: labels do not depend on stored samples."""

    def _set(self, labels: list[Label]) -> None:
        self._labels, self._index = [], {}
        self.add(labels)

    def mark(self) -> tuple[list[Label], dict[Any, int], int]:
        """The list and its length."""
        return self._labels, self._index, len(self._labels)

    def restore(self, mark: tuple[list[Label], dict[Any, int], int]) -> None:
        """Forget the labels added since."""
        self._labels, self._index, count = mark
        for label in self._labels[count:]:
            del self._index[label_key(label)]
        del self._labels[count:]

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> list[Any]:
        """The labels as JSON values."""
        return [label_to_json(label) for label in self]

    def load_state(self, state: list[Any]) -> None:
        """The inverse of `state`."""
        self._set([label_from_json(label) for label in state])
        if len(self) != len(state):
            raise ValueError("a label occurs twice")


def label_to_json(label: Label) -> Any:
    """JSON distinguishes str, int and bool by itself; a tuple becomes a list."""
    return [label_to_json(part) for part in label] if isinstance(label, tuple) else label


def label_from_json(value: Any) -> Label:
    """The inverse of `label_to_json`."""
    return plain_label(tuple(map(label_from_json, value)) if isinstance(value, list) else value)
