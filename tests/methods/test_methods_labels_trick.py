"""The labels trick, and Logit Adjusted Softmax without a memory."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream import LogitAdjustedSoftmax
from evenstream.cli.main import main
from evenstream.composition import compose
from evenstream.errors import InputError
from tests.helpers.method_samples import Group, assert_value, step_of
from tests.helpers.small_streams import blobs, class_stream, feed, parameters, same, small


def trick(logits, labels):
    """The loss and its gradient with respect to the logits."""
    group = Group(logits, labels)
    loss = compose("labels-trick").method.loss(step_of(group))
    return loss, torch.autograd.grad(loss, group.x)[0]


def adjusted(logits, labels, tau=1.0):
    return LogitAdjustedSoftmax(tau)(torch.tensor(logits), torch.tensor(labels))


def test_labels_trick_and_las_golden_numbers():
    sure = [0.0, 0, -90, 90]  # a row that costs nothing, to bring class 3 into the batch
    assert_value(2 * trick([[1.0, 0, 2, 1], sure], [2, 3])[0], 0.313262)
    rows = [[1.0, 0, 2, 1]] + [[0.0, 0, 90, -90]] * 19 + [sure] * 12
    assert_value(32 * adjusted(rows, [2] * 20 + [3] * 12), 0.199447)


logits_of_six = st.lists(
    st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=4), min_size=6, max_size=6
)


@given(logits_of_six)
def test_labels_trick_with_every_class_is_cross_entropy(logits):
    labels = [0, 1, 2, 3, 1, 1]
    expected = F.cross_entropy(torch.tensor(logits), torch.tensor(labels))
    assert torch.equal(trick(logits, labels)[0].detach(), expected)


@given(logits_of_six, st.sampled_from([0.5, 1.0, 3.0]))
def test_labels_trick_is_las_with_equal_counts_and_leaves_absent_classes_alone(logits, tau):
    labels = [3, 1, 1, 3, 3, 1]
    loss, gradient = trick(logits, labels)
    torch.testing.assert_close(loss.detach(), adjusted(logits, labels, tau))
    assert not gradient[:, [0, 2]].any() and gradient[:, [1, 3]].any()


@pytest.mark.parametrize("spec", ["labels-trick", "las"])
def test_a_batch_of_one_class_teaches_nothing(spec):
    learner = small(spec)
    learner.learn(*class_stream(1)[0])
    before = parameters(learner)
    x, _ = blobs(6)
    assert learner.learn(x, ["class 0"] * 6).loss == 0
    assert same(parameters(learner), before)


def test_labels_trick_over_the_task_keeps_its_classes_until_the_next():
    learner, (x, _) = small("labels-trick:columns=task"), blobs(4)
    learner.start_task()
    learner.learn(x, ["a", "b", "c", "c"])
    for task in ([("abab", [0, 1]), ("aaaa", [0, 1])], [("cccc", [2]), ("acac", [0, 2])]):
        learner.end_task()
        learner.start_task()
        for labels, columns in task:
            with torch.no_grad():
                logits = learner.network(torch.from_numpy(x))[:, columns]
            y = torch.tensor([columns.index("abc".index(label)) for label in labels])
            expected = float(F.cross_entropy(logits, y))
            assert learner.learn(x, list(labels)).loss == pytest.approx(expected, abs=1e-6)


def test_labels_trick_over_the_task_needs_tasks():
    with pytest.raises(InputError, match="needs task boundaries"):
        small("labels-trick:columns=task").learn(*class_stream(1)[0])


def test_las_is_fine_tuning_with_las(capsys):
    assert compose("las").text == "fine-tune-las"
    assert compose("las:window=3@ema").text == "fine-tune-las:window=3@ema"
    one, two = (feed(small(m), class_stream(8)) for m in ("las", "fine-tune-las"))
    assert one.fingerprint() == two.fingerprint()
    assert main(["methods"]) == 0
    assert "fine-tune, fine-tune-las, las\n" in capsys.readouterr().out


def test_a_longer_window_lets_recent_classes_be_negatives():
    labels = [["a", "b"] * 2, ["c", "d"] * 2, ["c", "d"] * 2]
    moved_rows = []
    for window in (1, 2):
        learner, (x, _) = small(f"las:window={window}"), blobs(4)
        for batch in labels[:2]:
            before = learner.built and learner.network.head.weight.detach().clone()
            learner.learn(x, batch)
        moved_rows.append(not torch.equal(learner.network.head.weight[:2], before))
    assert moved_rows == [False, True]
