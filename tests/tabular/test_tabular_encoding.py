"""What columns make of their cells, beside numbers worked out by hand and scikit-learn's own."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from evenstream.tabular import TableEncoder, infer_columns
from evenstream.tabular.columns import Category, Date, Text

TABLE = {
    "size": ["1", "2", "", "40"],
    "colour": ["red", "blue", "red", ""],
    "when": ["2024-01-31 10:00", "2024-02-29 11:30", "", "2025-01-01 00:00"],
    "note": ["this is fine by me", "so is that one there", "", "and now to something else"],
}


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder(*infer_columns("t", TABLE))


def read(encoder, rows):
    return [encoder.read_row(row) for row in rows]


def test_a_date_is_a_trend_and_places_on_circles():
    monday = 1704067200.0  # 2024-01-01, a Monday; 1970-01-01 was a Thursday
    column = Date("d", origin=monday, timed=True)
    x = column.encode([monday + 6 * 3600, monday + 7 * 86400])
    trend, _, _, week_sin, week_cos, day_sin, day_cos = x[0]
    assert trend == pytest.approx(0.25 / 365.2425)
    angle = 2 * math.pi * 4 / 7  # Monday is four days after Thursday
    assert (week_sin, week_cos) == pytest.approx((math.sin(angle), math.cos(angle)))
    assert (day_sin, day_cos) == pytest.approx((1, 0), abs=1e-6)
    assert x[1, 3:5] == pytest.approx(x[0, 3:5], abs=1e-5)


def test_categories_are_those_of_scikit_learns_hasher():
    words = ["red", "blue", "green", "ünïcode", "a longer one"]
    ours = Category("c", inputs=16).encode(words)
    theirs = FeatureHasher(16, input_type="string").transform([[word] for word in words])
    assert np.array_equal(ours, theirs.toarray())


def test_the_words_of_the_first_rows_have_inputs_of_their_own():
    words = [f"word {number}" for number in range(20)]
    (column,), _ = infer_columns("t", {"c": words * 2})
    assert isinstance(column, Category) and column.inputs == 64
    assert len(np.unique(column.encode(words)[:, :64], axis=0)) == 20


def test_text_is_that_of_scikit_learns_vectoriser():
    texts = ["The cat saw the dog.", "the DOG", "", "a b c a"]
    theirs = HashingVectorizer(n_features=64, token_pattern=r"(?u)\b\w+\b").transform(texts)
    assert Text("t", inputs=64).encode(texts) == pytest.approx(theirs.toarray(), abs=1e-6)


def test_a_row_is_encoded_alike_in_any_batch(encoder):
    rows = read(encoder, zip(*TABLE.values(), strict=True))
    whole = encoder.encode_rows(rows)
    assert whole.shape == (4, encoder.width) and whole.dtype == np.float32
    for order in ([2], [3, 0], [1, 2, 3]):
        assert np.array_equal(encoder.encode_rows([rows[i] for i in order]), whole[order])


@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.one_of(st.text(), st.none(), st.floats(), st.integers())] * 4))
def test_any_row_is_finite_inputs_or_refused(encoder, row):
    try:
        x = encoder.encode_rows(read(encoder, [row]))
    except ValueError:
        return
    assert x.shape == (1, encoder.width) and np.isfinite(x).all()


def test_it_comes_back_from_a_save(encoder):
    assert TableEncoder.from_state(json.loads(json.dumps(encoder.state()))) == encoder


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.update(format=2),
        lambda state: state.update(columns=[]),
        lambda state: state["columns"][0].update(kind="banana"),
        lambda state: state["columns"][0].update(style="banana"),
        lambda state: state["columns"][1].update(inputs=0),
        lambda state: state["columns"][1].update(inputs="8"),
        lambda state: state["columns"].append(state["columns"][0]),
        lambda state: state.pop("left_out"),
    ],
)
def test_a_damaged_save_is_refused(encoder, damage):
    state = json.loads(json.dumps(encoder.state()))
    damage(state)
    with pytest.raises((ValueError, TypeError, KeyError)):
        TableEncoder.from_state(state)
