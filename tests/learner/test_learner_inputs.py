"""What `learn` takes: labels of any kind, batches of any size and container, and copies of them."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream import Learner
from evenstream.core.memory import X
from evenstream.errors import InputError
from tests.helpers.small_streams import DIM, Noisy, blobs, images, small

# ---- what may come in ----------------------------------------------------------------------------


def test_labels_of_any_kind():
    labels = ["a", 1, True, "1", (1, "b"), (True, "b"), False, np.int64(7)]
    learner = small()
    learner.learn(blobs(8)[0], labels)
    expected = ["a", 1, True, "1", (1, "b"), (True, "b"), False, 7]
    assert list(map(repr, learner.labels)) == list(map(repr, expected))
    predicted = learner.predict(blobs(3)[0])
    assert all(repr(label) in map(repr, expected) for label in predicted)
    assert learner.predict_proba(blobs(3)[0]).shape == (3, 8)


def test_labels_keep_their_place():
    learner = small()
    learner.learn(blobs(2)[0], ["b", "a"])
    learner.learn(blobs(3)[0], ["c", "a", "b"])
    assert learner.labels == ["b", "a", "c"]
    learner.labels.append("not me")
    assert learner.labels == ["b", "a", "c"]


@settings(max_examples=12)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), model=st.booleans())
def test_batches_of_any_size(sizes, model):
    learner = small("er-las", nn.Sequential(nn.Linear(DIM, 6), nn.BatchNorm1d(6)))
    if model:
        learner = small("er-las", "mlp")
    for index, size in enumerate(sizes):
        result = learner.learn(*blobs(size, seed=index))
        seen = sum(sizes[:index])
        assert result.rows == size + min(4, seen, 12)
        assert result.step == learner.step == index + 1
        assert np.isfinite(result.loss) and 0 <= result.accuracy <= 1


def test_single_samples_with_batchnorm():
    for learner, batch in (
        (small("er", "convnet", memory=0), lambda i: images(1, seed=i)),
        (small("fine-tune", Noisy()), lambda i: blobs(1, seed=i)[0]),
        (
            small("er", nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4)), memory=0),
            lambda i: images(1, seed=i),
        ),
    ):
        for index in range(4):
            assert np.isfinite(learner.learn(batch(index), [index % 2]).loss)
        assert len(learner.predict(batch(9))) == 1


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        lambda x: x.astype(np.float64),
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.longdouble),
        lambda x: x.tolist(),
        torch.from_numpy,
        lambda x: torch.from_numpy(x).requires_grad_(),
        lambda x: [torch.from_numpy(row) for row in x],
        lambda x: np.asfortranarray(x),
        lambda x: torch.from_numpy(np.repeat(x, 2, axis=1))[:, ::2],
    ],
)
def test_the_same_numbers_in_another_container_are_the_same_batch(convert):
    x, y = blobs(6)
    expected, found = small(), small()
    expected.learn(x, y)
    found.learn(convert(x), torch.tensor(y))
    assert found.fingerprint() == expected.fingerprint()


def test_integers_and_booleans_become_floats():
    for dtype in (np.int64, np.uint16, bool, np.float16):
        learner = small()
        learner.learn((blobs(4)[0] > 0).astype(dtype), [0, 1, 0, 1])
        assert learner.memory.field(X).dtype == torch.float32


# ---- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "tensor", "uint8"])
def test_inputs_are_neither_changed_nor_kept(kind):
    def batch():
        x = images(6) if kind == "uint8" else blobs(6)[0]
        return torch.from_numpy(x) if kind == "tensor" else x

    def as_bytes(x):
        return np.asarray(x).tobytes()

    learner, twin = (small("er", augment="none", accumulate=4) for _ in range(2))
    x, labels = batch(), [0, 1, 2, 0, 1, 2]
    for start in (0, 3):
        given_x, given_labels = x[start : start + 3], labels[start : start + 3]
        before = as_bytes(given_x)
        learner.learn(copy.deepcopy(given_x), list(given_labels))
        twin.learn(given_x, given_labels)
        assert as_bytes(given_x) == before
        given_x[:] = 1  # the caller's array is the caller's: twin must not notice
        given_labels[:] = ["x"] * 3
    assert learner.fingerprint() == twin.fingerprint()
    assert learner.step == 1


@pytest.mark.parametrize(
    ("x", "advice"),
    [
        (np.array([["a", 1], ["b", 2]], object), "rows of int and str are a table; pass a frame"),
        ([{"a": 1}, {"a": 2}], "got dicts; pass a frame"),
    ],
)
def test_rows_of_a_table_that_is_no_frame(x, advice):
    with pytest.raises(InputError, match=advice):
        Learner().learn(x, ["x", "y"])
