"""ER-PostHoc: the logits are adjusted when predicting, not when training."""

import numpy as np
import pytest
import torch
from torch import nn

from evenstream.composition import compose
from evenstream.errors import InputError
from tests.helpers.method_samples import by_tasks, watch_groups
from tests.helpers.small_streams import blobs, class_stream, feed, parameters, same, small


def test_er_posthoc_subtracts_the_log_frequencies_of_the_trained_rows():
    learner, plain = small("er-posthoc:tau=0.5,decay=1"), small("er")
    seen = watch_groups(learner)
    stream = class_stream(10)
    feed(learner, stream)
    feed(plain, stream)
    assert same(parameters(learner), parameters(plain))
    counts = torch.bincount(torch.cat([g.y for groups in seen for g in groups]), minlength=4)
    assert learner.composition.rule.tensors["label_counts"].tolist() == counts.tolist()
    x = class_stream(11)[-1][0]
    raw, corrected = torch.from_numpy(plain.scores(x)), torch.from_numpy(learner.scores(x))
    torch.testing.assert_close(corrected, raw - 0.5 * (counts / counts.sum()).log())
    zero = feed(small("er-posthoc:tau=0"), stream)
    assert torch.equal(torch.from_numpy(zero.scores(x)), raw)


def test_er_posthoc_counts_can_fade_and_a_class_never_counts_less_than_a_row():
    learner = small("er-posthoc:decay=0.5", memory=0)
    x, _ = blobs(4)
    learner.learn(x, [0, 0, 0, 1])
    learner.learn(x, [1, 1, 2, 2])
    assert learner.composition.rule.tensors["label_counts"].tolist() == [1.5, 2.5, 2.0]
    for _ in range(60):
        learner.learn(x, [2, 2, 2, 2])
    scores = torch.from_numpy(learner.scores(x))
    assert scores.isfinite().all()


def test_er_posthoc_finds_the_optimum_of_a_fixed_distribution():
    """The spec's population: after CE has converged, the correction gives log P(x|1)/P(x|0)."""
    cells = [(0, 0, 63), (1, 0, 18), (2, 0, 9), (0, 1, 1), (1, 1, 3), (2, 1, 6)]
    rows = [(x, y) for x, y, count in cells for _ in range(count)]
    one_hot = np.eye(3, dtype=np.float32)
    x, y = one_hot[[x for x, _ in rows]], [y for _, y in rows]
    learner = small("er-posthoc", nn.Flatten(), memory=0, lr=3.0)
    for _ in range(400):
        learner.learn(x, y)
    scores = torch.from_numpy(learner.scores(one_hot))
    found = (scores[:, 1] - scores[:, 0]).tolist()
    assert found == pytest.approx([-1.9459, 0.4055, 1.7918], abs=0.01)
    assert learner.predict(one_hot).tolist() == [0, 1, 1]


def test_er_posthoc_with_las_makes_no_sense_and_says_why():
    with pytest.raises(InputError, match=r"er-posthoc-las makes no sense.*once more"):
        compose("er-posthoc-las")


def test_er_posthoc_takes_part_in_a_run_by_tasks():
    learner = by_tasks(small("er-posthoc"), class_stream(8), tasks=2)
    assert learner.learn(*class_stream(1)[0]).accuracy is not None
