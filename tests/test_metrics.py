import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import EvenstreamError, InputError
from evenstream.metrics import (
    as_matrix,
    average_accuracies,
    average_accuracy,
    forgetting,
    forgetting_mammoth,
    prediction_share,
    to_rows,
)

EXAMPLE = [[90, 0, 0, 0], [60, 85, 0, 0], [50, 55, 80, 0], [40, 50, 30, 75]]
TRIANGLE = [[90], [60, 85], [50, 55, 80], [40, 50, 30, 75]]
NULLS = [
    [90, None, None, None],
    [60, 85, None, None],
    [50, 55, 80, None],
    [40, 50, 30, 75],
]


def with_entry(i, j, value):
    matrix = [list(row) for row in EXAMPLE]
    matrix[i - 1][j - 1] = value
    return matrix


@pytest.mark.parametrize("matrix", [EXAMPLE, TRIANGLE, NULLS], ids=["zeros", "triangle", "nulls"])
def test_worked_example(matrix):
    assert average_accuracy(matrix) == 48.75
    assert forgetting(matrix) == pytest.approx(45.0)
    assert forgetting_mammoth(matrix) == pytest.approx(45.0)
    assert average_accuracies(matrix) == pytest.approx([90, 72.5, 185 / 3, 48.75])


def test_accuracy_before_a_task_counts_only_in_the_literal_formula():
    matrix = with_entry(1, 2, 10)
    matrix[1][2] = 90
    assert forgetting(matrix) == pytest.approx(45.0)
    assert forgetting(matrix, zero_padded=False) == pytest.approx(145 / 3)


def test_a_task_that_improves_at_the_end():
    matrix = with_entry(4, 1, 95)
    assert forgetting(matrix) == pytest.approx(80 / 3)  # (-5 + 35 + 50) / 3
    assert forgetting_mammoth(matrix) == pytest.approx(85 / 3)


def test_forgetting_is_not_defined_for_one_task():
    assert forgetting([[90.0]]) is None
    assert forgetting_mammoth([[90.0]]) is None
    assert average_accuracy([[90.0]]) == 90.0


def test_unfinished_run():
    matrix = [[90, None, None], [60, 85, None], [None, None, None]]
    assert average_accuracies(matrix) == pytest.approx([90, 72.5])
    assert average_accuracy(matrix) == pytest.approx(72.5)
    assert forgetting(matrix) == pytest.approx(30)


def test_a_task_without_test_samples_is_left_out():
    matrix = [[None, None, None], [None, 80, None], [None, 60, 70]]
    assert average_accuracies(matrix) == [None, 80, 65]
    assert forgetting(matrix) == pytest.approx(20)
    assert forgetting_mammoth(matrix) == pytest.approx(20)


def test_mean_is_over_tasks_not_samples():
    # 1 of 1 right and 0 of 99 right: half the tasks, one percent of the samples.
    assert average_accuracy([[100, None], [100, 0]]) == 50


def test_rows_go_to_json_and_back():
    rows = to_rows(np.array([[90, np.nan], [60, 85]]))
    assert rows == [[90.0, None], [60.0, 85.0]]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_input_is_not_changed():
    matrix = [[90.0], [60.0, 85.0]]
    average_accuracies(matrix), forgetting(matrix), forgetting_mammoth(matrix)
    assert matrix == [[90.0], [60.0, 85.0]]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([], "empty"),
        ([[], []], "empty"),
        ([[None, None]], "no values"),
        ([[90], [60], [50]], "3 rows but only 1 columns"),
        ([[101.0]], "between 0 and 100"),
        ([[-0.5]], "between 0 and 100"),
        ([[float("inf")]], "between 0 and 100"),
        ([[90, None], [None, 85]], "task 1 after task 2 is missing"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(InputError, match=message):
        average_accuracy(matrix)


matrices = st.integers(1, 7).flatmap(
    lambda n: st.lists(st.lists(st.floats(0, 100), min_size=n, max_size=n), min_size=n, max_size=n)
)


@given(matrices)
def test_bounds_and_order(rows):
    accuracy = average_accuracy(rows)
    last = np.array(rows[-1])
    assert accuracy == pytest.approx(last.mean())
    assert last.min() - 1e-9 <= accuracy <= last.max() + 1e-9
    ours, mammoth = forgetting(rows), forgetting_mammoth(rows)
    if len(rows) == 1:
        assert ours is None and mammoth is None
        return
    assert -100 <= ours <= mammoth + 1e-9 <= 100 + 1e-6
    assert mammoth >= 0
    assert forgetting(rows, zero_padded=False) >= ours - 1e-9
    # Anything above the diagonal leaves the zero-padded values alone.
    lower = [row[: i + 1] for i, row in enumerate(rows)]
    assert forgetting(lower) == ours
    assert forgetting_mammoth(lower) == mammoth
    assert average_accuracies(lower) == average_accuracies(rows)


@given(matrices, st.randoms(use_true_random=False))
def test_order_of_tasks_does_not_matter_for_the_literal_values(rows, random):
    # The last task has a role of its own; the order of the others is free.
    n = len(rows)
    order = list(range(n - 1))
    random.shuffle(order)
    permuted = [[row[j] for j in [*order, n - 1]] for row in rows]
    assert average_accuracy(permuted) == pytest.approx(average_accuracy(rows))
    if n > 1:
        assert forgetting(permuted, zero_padded=False) == pytest.approx(
            forgetting(rows, zero_padded=False)
        )


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6))
def test_average_is_sample_accuracy_when_test_sets_are_equal(correct):
    last = [100 * c / 50 for c in correct]
    rows = [[0.0] * (i + 1) for i in range(len(correct) - 1)] + [last]
    assert average_accuracy(rows) == pytest.approx(100 * sum(correct) / (50 * len(correct)))


@given(matrices)
def test_constant_accuracy_is_not_forgotten(rows):
    constant = [rows[0]] * len(rows)
    if len(rows) > 1:
        assert forgetting(constant) == 0
        assert forgetting_mammoth(constant) == 0


def test_as_matrix_pads_with_nan():
    matrix = as_matrix(TRIANGLE)
    assert matrix.shape == (4, 4)
    assert np.isnan(matrix[np.triu_indices(4, 1)]).all()


def test_prediction_share_of_the_worked_example():
    predicted_classes = np.array([0, 1, 2, 3, 3, 3])
    assert prediction_share(predicted_classes // 2, 2) == pytest.approx([1 / 3, 2 / 3])


def test_prediction_share_without_predictions():
    assert prediction_share([], 3) == [None, None, None]


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=1))
    )
)
def test_prediction_share_sums_to_one_and_ignores_order(case):
    n, tasks = case
    share = prediction_share(tasks, n)
    assert len(share) == n
    assert sum(share) == pytest.approx(1)
    assert share == prediction_share(sorted(tasks), n)
    assert [round(s * len(tasks)) for s in share] == [tasks.count(t) for t in range(n)]


@pytest.mark.parametrize(
    ("tasks", "n"), [([0, 3], 3), ([-1], 3), ([0.5], 3), ([[0, 1]], 3), ([0], 0)]
)
def test_bad_predictions(tasks, n):
    with pytest.raises(EvenstreamError):
        prediction_share(tasks, n)
