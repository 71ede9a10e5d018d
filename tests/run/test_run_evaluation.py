"""Evaluation: the right samples, the right numbers, and no trace left on the learner."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenstream.data import Dataset
from evenstream.data.samples import Read
from evenstream.run.evaluation import Evaluation, balanced_subset
from evenstream.streams import Protocol, Stream, Task
from tests.helpers.small_streams import DIM, Noisy, blobs, feed, small

N_CLASSES = 4


def make_stream(tasks=((0, 1), (2, 3)), n_test=(9, 5, 7, 3), labels=None):
    """Blobs; the test sets have different sizes, so that all means differ."""
    x, y = blobs(80, classes=N_CLASSES, seed=1)
    y = np.array(y)
    y_test = np.repeat(np.arange(N_CLASSES), n_test)
    x_test = np.concatenate([x[y == c][:n] for c, n in enumerate(n_test)])
    noise = np.random.default_rng(2).normal(size=x_test.shape)
    x_test = (x_test + 2 * noise).astype(np.float32)
    data = Dataset("blobs", x, y, x_test, y_test, classes=labels or list(range(N_CLASSES)))
    parts = [
        Task(group, np.flatnonzero(np.isin(y, group)), np.flatnonzero(np.isin(y_test, group)))
        for group in tasks
    ]
    return Stream("blobs", data, parts, Protocol(), seed=0)


def evaluate(stream, **options):
    return Evaluation(stream, **{"every": 5, "images": 0, "future": False, **options})


def trained(stream, tasks=1, **options):
    learner = small(**options)
    for task in range(tasks):
        for batch in stream.batches(task, 8):
            learner.learn(batch.x, batch.labels)
    return learner


def share_right(learner, stream, rows):
    """By the learner's own `predict`, one sample at a time."""
    data = stream.dataset
    labels = [data.classes[index] for index in data.y_test[rows]]
    guesses = [learner.predict(data.x_test[row : row + 1])[0] for row in rows]
    return 100 * np.mean([g == label for g, label in zip(guesses, labels, strict=True)])


# ---- at the end of a task ------------------------------------------------------------------------


def test_against_predictions_one_by_one():
    stream = make_stream(tasks=((0,), (1, 2, 3)), labels=[1, "1", "True", False])
    learner = trained(stream, tasks=2)
    found = evaluate(stream).after_task(learner, 1)
    y, rows = stream.dataset.y_test, [task.test for task in stream.tasks]
    assert found.accuracies == pytest.approx([share_right(learner, stream, r) for r in rows])
    recall = [share_right(learner, stream, np.flatnonzero(y == c)) for c in range(N_CLASSES)]
    assert len(set(recall)) > 1
    assert found.final["class_recall"] == pytest.approx(recall)
    assert found.balanced_over_classes == pytest.approx(np.mean(recall))
    assert found.balanced_over_tasks == pytest.approx((recall[0] + np.mean(recall[1:])) / 2)
    probability = learner.predict_proba(stream.dataset.x_test)
    sure, index = probability.max(1), [learner.label_map.get(c) for c in stream.dataset.classes]
    right = probability.argmax(1) == np.array(index)[y]
    bins = np.minimum((sure * 15).astype(int), 14)
    gaps = [abs((right[bins == b] - sure[bins == b]).sum()) for b in range(15)]
    assert found.final["ECE"] == pytest.approx(100 * sum(gaps) / len(y))


def test_classes_not_seen_are_not_predicted_and_tasks_ahead_only_on_request():
    stream = make_stream()
    learner = trained(stream)
    found = evaluate(stream).after_task(learner, 0)
    assert len(found.accuracies) == 1
    assert found.final == {}
    ahead = evaluate(stream, future=True).after_task(learner, 0)
    assert ahead.accuracies == [found.accuracies[0], 0.0]
    assert ahead.balanced_over_tasks == found.balanced_over_tasks
    assert ahead.balanced_over_classes == found.balanced_over_classes
    assert ahead.final == {}


def test_learner_that_has_seen_nothing():
    found = evaluate(make_stream()).after_task(small(), 1)
    assert found.accuracies == [0, 0]
    assert found.final["prediction_share"] == [None, None]
    assert found.final["recency_bias"] is None


def test_tasks_that_share_their_test_set_are_predicted_once(monkeypatch):
    stream = make_stream(tasks=((0, 1, 2, 3), (0, 1, 2, 3)))
    learner = trained(stream)
    asked = []
    real = learner.scores
    monkeypatch.setattr(learner, "scores", lambda x: asked.append(len(x)) or real(x))
    found = evaluate(stream).after_task(learner, 1)
    assert sum(asked) == 24
    assert found.accuracies[0] == found.accuracies[1]


def test_test_sets_are_read_in_parts(monkeypatch):
    from evenstream.run import evaluation

    stream = make_stream()
    learner = trained(stream)
    whole = evaluate(stream).after_task(learner, 1)
    monkeypatch.setattr(evaluation, "PREDICT_BATCH", 5)
    monkeypatch.setattr(evaluation, "READ_BYTES", 5 * 4 * DIM)
    asked = []
    real = learner.scores
    monkeypatch.setattr(learner, "scores", lambda x: asked.append(len(x)) or real(x))
    assert evaluate(stream).after_task(learner, 1).accuracies == whole.accuracies
    assert asked == [5, 5, 5, 5, 4]


def test_a_task_without_test_samples():
    stream = make_stream(n_test=(0, 0, 7, 3))
    found = evaluate(stream).after_task(trained(stream, tasks=2), 1)
    assert found.accuracies[0] is None
    assert found.accuracies[1] is not None
    assert found.final["class_recall"][:2] == [None, None]


def test_samples_that_cannot_be_read_are_left_out(monkeypatch):
    stream = make_stream()
    learner = trained(stream, tasks=2)
    data, real = stream.dataset, stream.test_batches

    def failing(rows, size):
        for read in real(rows, 4):
            if 0 in read.rows:
                yield Read(read.rows[:0], read.x[:0], ("0.jpg: cut", "1.jpg: cut"))
            else:
                yield read

    monkeypatch.setattr(stream, "test_batches", failing)
    found = evaluate(stream).after_task(learner, 1)
    assert found.skipped == ["0.jpg: cut", "1.jpg: cut"]
    rest = np.setdiff1d(stream.tasks[0].test, np.arange(4))
    assert found.accuracies[0] == pytest.approx(share_right(learner, stream, rest))
    assert len(data.y_test) == 24


# ---- where the predictions go --------------------------------------------------------------------


def test_share_and_recency_bias():
    stream = make_stream()
    learner = trained(stream, tasks=2)
    evaluation = evaluate(stream)
    final = evaluation.after_task(learner, 1).final
    new = np.mean([label in (2, 3) for label in learner.predict(stream.dataset.x_test)])
    assert final["prediction_share"] == pytest.approx([1 - new, new])
    assert evaluation.true_share() == pytest.approx([14 / 24, 10 / 24])
    assert final["recency_bias"] == pytest.approx(new - 10 / 24)


def test_no_share_where_classes_are_spread_over_tasks():
    stream = make_stream()
    half = np.arange(80)
    stream.tasks = [Task((0, 1, 2, 3), half[i::2], stream.tasks[i].test) for i in (0, 1)]
    evaluation = evaluate(stream)
    final = evaluation.after_task(trained(stream), 1).final
    assert (final["prediction_share"], final["recency_bias"]) == (None, None)
    assert evaluation.true_share() is None


# ---- chance --------------------------------------------------------------------------------------


def test_untrained_network():
    stream = make_stream()
    found = evaluate(stream).untrained(small(seed=4))
    learner = small(seed=4, head_size=N_CLASSES)
    learner.build(torch.from_numpy(stream.dataset.x_test))
    with torch.no_grad():
        learner.network.eval()
        guess = learner.network(torch.from_numpy(stream.dataset.x_test)).argmax(1).numpy()
    right = guess == stream.dataset.y_test
    assert found == pytest.approx([100 * right[task.test].mean() for task in stream.tasks])
    assert 0 < sum(found) < 200


def test_every_part_of_an_untrained_learner_hears_of_the_classes():
    learner, told = small("mkd@ncm"), []
    for kind, part in zip(("method", "rule", "teacher"), learner.parts, strict=True):
        part.on_new_classes = lambda _, first, kind=kind: told.append((kind, first))  # type: ignore[attr-defined]
    evaluate(make_stream()).untrained(learner)
    assert told == [("method", 0), ("rule", 0), ("teacher", 0)]


# ---- online --------------------------------------------------------------------------------------


def test_online_accuracy_is_over_all_classes_observed_so_far():
    stream = make_stream()
    learner = trained(stream)
    seen = np.flatnonzero(np.isin(stream.dataset.y_test, (0, 1)))
    assert evaluate(stream).online(learner) == pytest.approx(share_right(learner, stream, seen))
    learner.learn(stream.dataset.x_test[-1:], [3])  # one sample of a later class is enough
    seen = np.flatnonzero(np.isin(stream.dataset.y_test, (0, 1, 3)))
    assert evaluate(stream).online(learner) == pytest.approx(share_right(learner, stream, seen))


def test_online_accuracy_without_a_test_sample():
    stream = make_stream(n_test=(0, 0, 7, 3))
    assert evaluate(stream).online(trained(stream)) is None


def test_what_is_said_of_the_subset():
    stream = make_stream()
    found = evaluate(stream, images=12).describe_online()
    assert found == {
        "every": 5,
        "test_samples": 12,
        "of": 24,
        "statement": "on a fixed class-balanced subset of 12 of 24 test samples, every 5 steps",
    }
    for images in (0, 24, 1000):
        whole = evaluate(stream, images=images).describe_online()
        assert whole["statement"] == "on all 24 test samples, every 5 steps"


def test_online_accuracy_is_that_of_the_subset():
    stream = make_stream()
    learner = trained(stream, tasks=2)
    chosen = balanced_subset(np.arange(24), stream.dataset.y_test, 9)
    found = evaluate(stream, images=9).online(learner)
    assert found == pytest.approx(share_right(learner, stream, chosen))


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    data=st.data(),
)
def test_subset_is_balanced_and_fixed(sizes, data):
    y = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(y)) + 100
    size = data.draw(st.integers(len(sizes), len(y)))
    chosen = balanced_subset(rows, y, size)
    assert len(set(chosen.tolist())) == size
    assert set(chosen.tolist()) <= set(rows.tolist())
    counts = np.bincount(y[chosen - 100], minlength=len(sizes))
    most = counts.max()
    for count, available in zip(counts, sizes, strict=True):
        assert count >= min(most - 1, available)  # short only where there are no more
    assert (chosen == balanced_subset(rows, y, size)).all()


def test_subset_of_the_paper_has_ten_of_each_class():
    y = np.tile(np.arange(100), 100)
    chosen = balanced_subset(np.arange(10_000), y, 1000)
    assert (np.bincount(y[chosen]) == 10).all()
    assert len(np.unique(chosen // 100)) > 90  # from all over the test set


def test_a_subset_too_small_for_one_of_each_class_is_made_larger():
    stream = make_stream()
    chosen = evaluate(stream, images=3).online_rows
    assert sorted(stream.dataset.y_test[chosen]) == [0, 1, 2, 3]


# ---- no trace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["er-las", "er-cba", "clib", "er-wn"])
def test_learner_with_batch_norm_and_dropout_goes_on_as_if_nothing_had_been(method):
    stream = make_stream()
    batches = [(b.x, b.labels) for task in (0, 1) for b in stream.batches(task, 8)]
    alone = feed(small(method, Noisy(DIM), momentum=0.9), batches)
    watched = small(method, Noisy(DIM), momentum=0.9)
    evaluation = evaluate(stream, future=True, images=9)
    for number, (x, labels) in enumerate(batches):
        watched.learn(x, labels)
        evaluation.online(watched)
        evaluation.after_task(watched, number % 2)
    assert watched.fingerprint() == alone.fingerprint()
    assert watched.network.training
