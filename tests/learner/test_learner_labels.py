"""Labels of any kind and the map from labels to class indices."""

import enum
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenstream.core.labels import (
    LabelMap,
    label_from_json,
    label_to_json,
    plain_label,
    plain_labels,
)
from evenstream.errors import InputError

scalars = st.one_of(st.text(max_size=4), st.integers(), st.booleans())
any_label = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple))


def identity(label):
    """What makes a label itself: its type too, inside tuples as well."""
    if isinstance(label, tuple):
        return ("tuple", *map(identity, label))
    return (type(label), label)


@given(st.lists(any_label, max_size=12))
def test_the_map_is_append_only_and_tells_types_apart(labels):
    order, expected = [], []
    for label in labels:
        key = identity(label)
        if key not in order:
            order.append(key)
        expected.append(order.index(key))
    known = LabelMap()
    assert known.add(labels) == expected
    assert [identity(label) for label in known] == order
    before = list(known)
    known.add([*reversed(labels), "something new"])
    assert [identity(label) for label in known][: len(before)] == order
    for index, label in enumerate(before):
        assert known.get(label) == index and identity(known[index]) == identity(label)


def test_true_one_and_their_tuples_are_five_classes():
    known = LabelMap()
    assert known.add([True, 1, "1", (1,), (True,), ("1",), ((1,),), False, 0]) == list(range(9))
    assert known.get(1) == 1 and known.get(True) == 0 and known.get((True,)) == 4
    assert known.get(2) is None


@given(st.lists(any_label, max_size=6), st.lists(any_label, max_size=6))
def test_restore_undoes_add(first, second):
    known = LabelMap(first)
    mark = known.mark()
    known.add(second)
    known.restore(mark)
    fresh = LabelMap(first)
    assert [identity(label) for label in known] == [identity(label) for label in fresh]
    assert known.add(second) == fresh.add(second)


@given(any_label)
def test_json_round_trip(label):
    back = label_from_json(json.loads(json.dumps(label_to_json(label))))
    assert identity(back) == identity(label)


@given(any_label)
def test_plain_labels_stay_what_they_are(label):
    assert identity(plain_label(label)) == identity(label)


@pytest.mark.parametrize(
    ("given_label", "plain"),
    [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array(4), 4),
        (np.array("b"), "b"),
        (torch.tensor(5), 5),
        (torch.tensor(True), True),
        ((np.int32(1), torch.tensor(2), ("x", np.bool_(False))), (1, 2, ("x", False))),
    ],
)
def test_numpy_and_tensor_labels_become_python(given_label, plain):
    assert identity(plain_label(given_label)) == identity(plain)


class Colour(enum.IntEnum):
    RED = 1


class Shape(str, enum.Enum):  # noqa: UP042  # StrEnum has another __str__: both must work
    ROUND = "round"


class Size(enum.StrEnum):
    BIG = "big"


@pytest.mark.parametrize(
    ("given_label", "plain"), [(Colour.RED, 1), (Shape.ROUND, "round"), (Size.BIG, "big")]
)
def test_subclasses_become_their_plain_value(given_label, plain):
    """A checkpoint stores the plain value: before and after it must be the same class."""
    assert identity(plain_label(given_label)) == identity(plain)
    known = LabelMap()
    assert known.add(plain_labels([given_label, plain])) == [0, 0]


@pytest.mark.parametrize(
    "label",
    [
        1.0,
        None,
        b"a",
        [1],
        {1},
        {"a": 1},
        1j,
        object(),
        float("nan"),
        (1, 2.0),
        (1, [2]),
        np.float32(1),
        np.bytes_(b"a"),
        np.datetime64("2020-01-01"),
        torch.tensor(1.0),
        np.array([1, 2]),
        torch.tensor([1]),
    ],
)
def test_other_labels_are_refused(label):
    with pytest.raises(InputError, match=r"label"):
        plain_label(label)


@pytest.mark.parametrize(
    ("batch", "plain"),
    [
        (["a", 1, True, (1, "b")], ["a", 1, True, (1, "b")]),
        ((1, 2), [1, 2]),
        (np.array([1, 2]), [1, 2]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([True, False]), [True, False]),
        (torch.tensor([3, 4]), [3, 4]),
        (torch.tensor([True]), [True]),
        (range(3), [0, 1, 2]),
        ((label for label in "ab"), ["a", "b"]),
        ([torch.tensor(1), np.int8(2)], [1, 2]),
        ([], []),
    ],
)
def test_batches_of_labels(batch, plain):
    found = plain_labels(batch)
    assert [identity(label) for label in found] == [identity(label) for label in plain]


@pytest.mark.parametrize(
    "batch",
    [
        "ab",
        b"ab",
        bytearray(b"ab"),
        3,
        None,
        1.5,
        {"a", "b"},  # no order
        {"a": 1},
        np.array([[1, 2]]),
        np.array(1),
        torch.tensor(1),
        torch.zeros(2, 2, dtype=torch.int64),
        [[1], [2]],
        np.array([0.5, 1.0]),
        torch.tensor([0.5]),
    ],
)
def test_other_batches_are_refused(batch):
    with pytest.raises(InputError):
        plain_labels(batch)
