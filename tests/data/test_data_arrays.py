import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.data import Dataset, from_arrays
from evenstream.data.dataset import CoarseLabels
from evenstream.data.split import stratified_split
from evenstream.errors import DataError, InputError
from tests.helpers.generated_data import random_images

LABELS = [0, 0, 0, 1, 1, 1]


def table(n=6, d=3):
    return np.arange(n * d, dtype=float).reshape(n, d)


@settings(max_examples=60, deadline=None)
@given(
    y=st.lists(st.integers(0, 5), min_size=2, max_size=60),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32),
)
def test_split_is_a_repeatable_partition_with_every_class_in_both_parts(y, fraction, seed):
    y = np.array(y, dtype=np.int64)
    counts = np.bincount(y)
    if counts.max() < 2:
        with pytest.raises(DataError, match="single sample"):
            stratified_split(y, fraction, seed)
        return
    train, test = stratified_split(y, fraction, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert set(y[train]) == set(y)
    assert set(y[test]) == set(np.flatnonzero(counts >= 2))
    for label in np.flatnonzero(counts >= 2):
        assert abs((y[test] == label).sum() - counts[label] * fraction) <= 1
    again = stratified_split(y, fraction, seed)
    np.testing.assert_array_equal(test, again[1])


def test_another_seed_gives_another_split():
    y = np.repeat(np.arange(4), 25)
    tests = {tuple(stratified_split(y, 0.2, seed)[1]) for seed in range(5)}
    assert len(tests) == 5


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
def test_split_refuses_fractions_that_leave_a_part_empty(fraction):
    with pytest.raises(InputError, match="test_fraction"):
        stratified_split(np.array(LABELS), fraction)


def test_split_refuses_a_negative_seed():
    with pytest.raises(InputError, match="seed"):
        stratified_split(np.array(LABELS), 0.5, -1)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([3, 3, 9, 9, -1, -1], dtype=np.int16), [-1, 3, 9]),
        (np.array([3, 3, 9, 9, 1, 1], dtype=np.uint64), [1, 3, 9]),
        (np.array(["b", "b", "a", "a", "c", "c"]), ["a", "b", "c"]),
        (np.array([True, True, True, False, False, False]), [False, True]),
    ],
)
def test_labels_become_plain_python_values(y, classes):
    dataset = from_arrays(table(), y, table(), y)
    assert dataset.classes == classes
    assert [type(label) for label in dataset.classes] == [type(label) for label in classes]
    assert [dataset.classes[index] for index in dataset.y_train] == y.tolist()
    np.testing.assert_array_equal(dataset.y_train, dataset.y_test)
    assert dataset.label_names == [str(label) for label in classes]
    assert dataset.n_classes == len(classes)


@pytest.mark.parametrize(
    ("given_shape", "dtype", "expected_shape"),
    [
        ((6, 8, 8), np.uint8, (1, 8, 8)),
        ((6, 3, 8, 10), np.uint8, (3, 8, 10)),
        ((6, 8, 10, 3), np.uint8, (3, 8, 10)),
        ((6, 8, 10, 1), np.float64, (1, 8, 10)),
        ((6, 3, 4, 4), np.float32, (3, 4, 4)),
        ((6, 12, 8, 8), np.uint8, (12, 8, 8)),
        ((6, 5), np.int64, (5,)),
        ((6, 5), np.uint8, (5,)),
    ],
)
def test_layouts_are_brought_to_one_form(given_shape, dtype, expected_shape):
    x = random_images(*given_shape).astype(dtype)
    dataset = from_arrays(x, LABELS, x, LABELS)
    assert dataset.input_shape == expected_shape
    image = len(expected_shape) == 3
    assert dataset.is_image == image
    assert dataset.x_train.dtype == (np.uint8 if image and dtype == np.uint8 else np.float32)
    if given_shape == (6, 8, 10, 3):
        np.testing.assert_array_equal(dataset.x_train[2, 1], x[2, :, :, 1])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((table(), LABELS[:5]), "5 labels for 6 samples"),
        ((table(), np.array(LABELS, dtype=float)), r"astype\(int\)"),
        ((table(), np.array(LABELS)[:, None]), r"ravel"),
        ((table(), np.array(list("abcabc"), dtype=object)), r"astype\(str\)"),
        ((table(), [[1], [1, 2]]), "not a regular array"),
        ((table(), np.full(6, 2**63, dtype=np.uint64)), "64 signed bits"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "not a regular array"),
        ((np.full((6, 2), "x"), LABELS), "must hold numbers"),
        ((np.zeros((0, 2)), []), "empty"),
        ((np.zeros((6, 2, 2)), LABELS), "grey images"),
        ((np.zeros((6, 3, 2, 2), dtype=np.int64), LABELS), "uint8 or floats"),
        ((np.full((6, 2), np.nan), LABELS), "NaN or infinite.*6 samples.*index 0"),
        ((np.full((6, 2), 1e300), LABELS), "too large for 32-bit"),
        ((table(), LABELS, table()), "both x_test and y_test"),
        ((table(), LABELS, table(6, 4), LABELS), r"\(3,\).*\(4,\)"),
        ((table(), LABELS, table(), [0, 0, 0, 1, 1, 7]), "y_train never has: 7"),
        ((table(), LABELS, table(), list("aaabbb")), "integers but y_test strings"),
        ((table(2), [0, 1]), "single sample"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_with_a_reason(arguments, complaint):
    with pytest.raises(DataError, match=complaint):
        from_arrays(*arguments)


def test_test_fraction_and_own_test_samples_exclude_each_other():
    with pytest.raises(InputError, match="leave test_fraction out"):
        from_arrays(table(), LABELS, table(), LABELS, test_fraction=0.5)


def test_mean_and_std_are_checked_against_the_channels():
    x = random_images(6, 3, 4, 4)
    dataset = from_arrays(x, LABELS, x, LABELS, mean=[0.5] * 3, std=[0.25] * 3)
    assert dataset.mean == (0.5, 0.5, 0.5)
    for mean, std, complaint in [
        ([0.5], [0.5], "need 3 values"),
        ([0.5] * 3, None, "both mean and std"),
        ([0.5] * 3, [0.0] * 3, "above zero"),
    ]:
        with pytest.raises(DataError, match=complaint):
            from_arrays(x, LABELS, x, LABELS, mean=mean, std=std)
    with pytest.raises(DataError, match="mean and std are for images; normalise a table yourself"):
        from_arrays(table(), LABELS, mean=[0.5] * 3, std=[0.25] * 3)


def dataset_parts(**changes):
    x, y = np.zeros((4, 2), dtype=np.float32), np.array([0, 0, 1, 1])
    parts = {"name": "d", "x_train": x, "y_train": y, "x_test": x, "y_test": y, "classes": [5, 6]}
    return {**parts, **changes}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"classes": []}, "no classes"),
        ({"classes": [5, 5]}, "twice"),
        ({"label_names": ["a"]}, "1 label_names for 2"),
        ({"x_test": np.zeros((4, 2))}, "x_test must be images"),
        ({"x_test": np.zeros((4, 1, 2, 2), dtype=np.uint8)}, "must agree"),
        ({"y_test": np.array([0, 0, 1, 2])}, "from 0 to 2, but there are 2 classes"),
        ({"y_test": np.array([0, 0, 1, -1])}, "from -1 to 1"),
        ({"y_test": np.array([0, 0, 1])}, "3 entries for 4"),
        ({"y_train": np.zeros(4)}, "int64"),
        ({"coarse": CoarseLabels(np.zeros(4, int), np.ones(4, int), ["a"])}, r"coarse\.test"),
    ],
)
def test_a_dataset_checks_itself(changes, complaint):
    with pytest.raises(DataError, match=complaint):
        Dataset(**dataset_parts(**changes))


def test_image_types_of_train_and_test_must_agree():
    bytes_, floats = (np.zeros((4, 1, 2, 2), dtype=t) for t in (np.uint8, np.float32))
    with pytest.raises(DataError, match="uint8 but x_test is float32"):
        Dataset(**dataset_parts(x_train=bytes_, x_test=floats))
