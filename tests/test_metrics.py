import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import EvenstreamError, InputError
from evenstream.metrics import (
    NO_HOME,
    Prequential,
    area_under_accuracy,
    as_matrix,
    average_accuracies,
    average_accuracy,
    backward_transfer,
    class_balanced_accuracy,
    class_recalls,
    expected_calibration_error,
    forgetting,
    forgetting_mammoth,
    forward_transfer,
    home_tasks,
    prediction_share,
    recency_bias,
    to_rows,
)

Matrix = list[list[float | None]]

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
    matrix: Matrix = [[90, None, None], [60, 85, None], [None, None, None]]
    assert average_accuracies(matrix) == pytest.approx([90, 72.5])
    assert average_accuracy(matrix) == pytest.approx(72.5)
    assert forgetting(matrix) == pytest.approx(30)


def test_a_task_without_test_samples_is_left_out():
    matrix: Matrix = [[None, None, None], [None, 80, None], [None, 60, 70]]
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


def test_tasks_without_test_samples_have_no_accuracy():
    assert average_accuracies([[None, None]]) == [None]
    assert average_accuracies([[None, None], [None, 80.0]]) == [None, 80.0]


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
    assert sum(filter(None, share)) == pytest.approx(1)
    assert share == prediction_share(sorted(tasks), n)
    assert [round(s * len(tasks)) for s in share] == [tasks.count(t) for t in range(n)]


@pytest.mark.parametrize(
    ("tasks", "n"), [([0, 3], 3), ([-1], 3), ([0.5], 3), ([[0, 1]], 3), ([0], 0)]
)
def test_bad_predictions(tasks, n):
    with pytest.raises(EvenstreamError):
        prediction_share(tasks, n)


# ---- transfer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [EXAMPLE, TRIANGLE, NULLS], ids=["zeros", "triangle", "nulls"])
def test_backward_transfer_of_the_worked_example(matrix):
    assert backward_transfer(matrix) == pytest.approx(-45.0)
    assert backward_transfer([[90.0]]) is None


def test_forward_transfer_of_the_worked_example():
    matrix = [[90, 2, 0, 0], [60, 85, 4, 0], [50, 55, 80, 6], [40, 50, 30, 75]]
    untrained = [50, 10, 11, 10]
    assert forward_transfer(matrix, untrained) == pytest.approx(-19 / 3)
    forgetting_mammoth(matrix)  # Mammoth's pads the lists it is given; ours must not
    assert forward_transfer(matrix, untrained) == pytest.approx(-19 / 3)
    assert forward_transfer(TRIANGLE, untrained) is None
    assert forward_transfer([[90.0]], [50]) is None
    assert forward_transfer([[90, 2, 7], [60, 85, None], [1, 1, 1]], [0, 1, None]) == 1
    with pytest.raises(InputError, match="3 untrained accuracies for 4 tasks"):
        forward_transfer(matrix, untrained[:3])


@given(matrices)
def test_transfer_by_brute_force(rows):
    n = len(rows)
    if n == 1:
        return
    back = sum(rows[n - 1][i] - rows[i][i] for i in range(n - 1)) / (n - 1)
    ahead = sum(rows[i - 1][i] - i for i in range(1, n)) / (n - 1)
    assert backward_transfer(rows) == pytest.approx(back)
    assert forward_transfer(rows, list(range(n))) == pytest.approx(ahead)


# ---- online --------------------------------------------------------------------------------------


def test_area_under_accuracy_of_the_worked_example():
    assert area_under_accuracy([10, 20, 30, 40], every=5, steps=22) == pytest.approx(500 / 22)
    assert area_under_accuracy([10, 20, 30, 40], every=5, steps=20) == 25  # divides exactly
    assert area_under_accuracy([None, 20], every=5, steps=10) == 10
    assert area_under_accuracy([], every=5, steps=3) == 0
    assert area_under_accuracy([], every=5, steps=0) is None


@pytest.mark.parametrize(("every", "steps"), [(0, 10), (5, 9)])
def test_area_refuses_what_does_not_fit(every, steps):
    with pytest.raises(InputError):
        area_under_accuracy([10, 20], every, steps)


batches = st.lists(
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=30
)


@given(batches, st.integers(1, 40), st.integers(0, 30))
def test_prequential_accuracy_by_brute_force_and_after_a_save(seen, window, saved_after):
    counted = Prequential(window)
    for number, batch in enumerate(seen):
        if number == saved_after:
            state = json.loads(json.dumps(counted.state()))
            counted = Prequential(window)
            counted.load_state(state)
        counted.add(*batch)
    if not seen:
        assert counted.overall is None and counted.recent is None
        return
    assert counted.overall == pytest.approx(100 * sum(r for r, _ in seen) / sum(n for _, n in seen))
    last = next(
        (seen[i:] for i in reversed(range(len(seen))) if sum(n for _, n in seen[i:]) >= window),
        seen,
    )
    assert counted.recent == pytest.approx(100 * sum(r for r, _ in last) / sum(n for _, n in last))


# ---- classes -------------------------------------------------------------------------------------


def test_class_balanced_accuracy_of_the_worked_example():
    truth = [0] * 6 + [1] * 2
    predicted = [0, 0, 0, 1, 1, 4, 1, 1]  # A 3 of 6, B 2 of 2; more classes are seen elsewhere
    assert np.mean(np.equal(truth, predicted)) == 0.625
    assert class_balanced_accuracy(truth, predicted) == 75
    assert class_recalls(truth, predicted, 5) == [50, 100, None, None, None]
    assert class_balanced_accuracy([], []) is None


def test_mean_over_tasks_and_over_classes():
    first, second = ([0, 0, 1], [0, 1, 1]), ([2] * 5, [2, 0, 0, 0, 0])  # A .5, B 1 and C .2
    tasks: Any = [class_balanced_accuracy(*first), class_balanced_accuracy(*second)]
    assert np.mean(tasks) == pytest.approx(47.5)
    together = [a + b for a, b in zip(first, second, strict=True)]
    assert class_balanced_accuracy(*together) == pytest.approx(170 / 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=40))
def test_recalls_by_brute_force(pairs):
    truth, predicted = map(list, zip(*pairs, strict=True))
    expected = []
    for c in range(6):
        of_class = [p == c for t, p in pairs if t == c]
        expected.append(100 * sum(of_class) / len(of_class) if of_class else None)
    found = class_recalls(truth, predicted, 6)
    assert found == [None if e is None else pytest.approx(e) for e in expected]
    known = [e for e in expected if e is not None]
    assert class_balanced_accuracy(truth, predicted) == pytest.approx(sum(known) / len(known))
    counts = {truth.count(t) for t in set(truth)}
    if len(counts) == 1:  # equal test sets: balanced is plain
        plain = 100 * sum(t == p for t, p in pairs) / len(pairs)
        assert class_balanced_accuracy(truth, predicted) == pytest.approx(plain)


def test_predictions_of_another_length_are_refused():
    with pytest.raises(InputError, match="same length"):
        class_balanced_accuracy([0, 1], [0])


def test_calibration_error_by_hand():
    # Bin (.6, .667]: two of confidence .65, one right: |1 - 1.3| = .3.
    # Bin (.933, 1]: 1.0 right and .95 wrong: |1 - 1.95| = .95. In all 1.25 / 4.
    found = expected_calibration_error([0.65, 0.65, 1.0, 0.95], [True, False, True, False])
    assert found == pytest.approx(31.25)
    assert expected_calibration_error([1.0, 1.0], [True, True]) == 0
    assert expected_calibration_error([0.0, 1.0], [False, False]) == 50
    assert expected_calibration_error([], []) is None
    # 1/3 is on the edge of bins 5 and 6 of 15 and belongs to the lower one, with .32 .
    assert expected_calibration_error([1 / 3, 0.32], [0, 1]) == pytest.approx(
        100 * abs(1 - 1 / 3 - 0.32) / 2
    )


@given(st.lists(st.tuples(st.floats(0.01, 1), st.booleans()), min_size=1, max_size=50))
def test_calibration_error_by_brute_force(samples):
    total = 0.0
    for b in range(15):
        inside = [(c, r) for c, r in samples if b < c * 15 <= b + 1]
        total += abs(sum(r for _, r in inside) - sum(c for c, _ in inside))
    confidences, right = zip(*samples, strict=True)
    found = expected_calibration_error(confidences, right)
    assert found == pytest.approx(100 * total / len(samples))
    assert 0 <= found <= 100


@pytest.mark.parametrize(
    ("confidence", "correct"), [([0.5], [1, 0]), ([1.5], [1]), ([float("nan")], [1])]
)
def test_bad_confidences(confidence, correct):
    with pytest.raises(InputError):
        expected_calibration_error(confidence, correct)


# ---- tasks that classes belong to ----------------------------------------------------------------


def test_home_tasks():
    assert home_tasks([[500, 410, 0, 0], [0, 90, 300, 0]]) == [0, 0, 1, NO_HOME]
    assert home_tasks([[250], [250]]) is None  # half is not more than half
    assert home_tasks([[5, 9], [5, 0], [0, 0]]) is None  # one class without a home is enough
    assert home_tasks([[251], [250]]) == [0]


def test_recency_bias():
    assert recency_bias([0.62, 0.38], [0.9, 0.1]) == pytest.approx(0.28)
    assert recency_bias([1.0, 0.0], [0.5, 0.5]) == -0.5
    assert recency_bias([1.0, 0.0], [1.0, 0.0]) is None  # nothing to be found in the last task
    assert recency_bias([None, None], [0.5, 0.5]) is None
    for predicted, true in (([0.5], [0.5, 0.5]), ([], [])):
        with pytest.raises(InputError, match="one predicted and one true"):
            recency_bias(predicted, true)
