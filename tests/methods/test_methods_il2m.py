"""IL2M: ER whose scores of old classes are rescaled by statistics of the last epochs."""

import math

import numpy as np
import pytest
import torch

from evenstream.core.memory import X, Y
from evenstream.core.outputs import plain_outputs
from evenstream.errors import InputError
from tests.helpers.method_samples import softmax
from tests.helpers.small_streams import blobs, parameters, same, small
from tests.helpers.task_samples import BATCH, after_tasks, task_data, train


def test_il2m_trains_as_er_and_predicts_as_er_in_the_first_task():
    learner, plain = after_tasks("il2m", tasks=1), after_tasks("er", tasks=1)
    x = task_data(0, seed=1)[0]
    assert np.array_equal(learner.scores(x), plain.scores(x))
    for each in (learner, plain):
        train(each, task_data(1))
        each.end_task(task_data(1))
    assert same(parameters(learner), parameters(plain))
    x = task_data(1)[0]
    assert not np.array_equal(learner.scores(x), plain.scores(x))


def test_statistics_of_rescaling_are_those_of_the_last_epoch():
    learner = small("il2m", batch=BATCH, memory=8)
    statistics = []
    for task in range(2):
        seen, after = [], learner.composition.rule.after_step

        def spied(step, seen=seen, after=after):
            for rows in step.groups:
                if len(rows):
                    seen.append((rows.y, step.logits_of(rows).softmax(1).double()))
            after(step)

        learner.composition.rule.after_step = spied
        train(learner, task_data(task), epochs=3)
        learner.composition.rule.after_step = after
        last = seen[-2 * math.ceil(20 / BATCH) :]  # incoming and replayed rows of each step
        y = torch.cat([labels for labels, _ in last])
        own = torch.cat([p.gather(1, labels[:, None])[:, 0] for labels, p in last])
        top = torch.cat([p.amax(1) for _, p in last])[y >= 2 * task]
        statistics.append(([own[y == c].mean() for c in (0, 1)], top.mean()))
        learner.end_task(task_data(task))
    (first, confident), (now, confident_now) = statistics
    expected = [f / n * confident_now / confident for f, n in zip(first, now, strict=True)]
    factors = learner.composition.rule.prepare(None).exp().double()
    torch.testing.assert_close(factors, torch.stack(expected), rtol=1e-5, atol=0)


def test_statistics_measured_afterwards_are_those_of_the_trained_network():
    """In eval mode, on the new task's rows and the stored ones of old classes."""
    learner = small("il2m:measured=afterwards", batch=BATCH, memory=8)

    def probabilities(x):
        with torch.no_grad():
            return softmax(learner.network.eval()(torch.as_tensor(x)).numpy())

    def of_task(task):
        x, y = task_data(task)
        p = probabilities(x)
        own = {c: p[np.array(y) == c, c].mean() for c in set(y)}
        return own, p.max(1).mean()

    for task in range(2):
        train(learner, task_data(task))
        if task == 0:
            first, confident_first = of_task(0)
        learner.end_task(task_data(task))
    _, confident_now = of_task(1)
    stored, y = learner.memory.field(X), learner.memory.field(Y)
    assert {0, 1} <= set(y.tolist())
    now = [probabilities(stored[y == c])[:, c].mean() for c in (0, 1)]
    expected = [first[c] / now[c] * confident_now / confident_first for c in (0, 1)]
    found = learner.composition.rule.prepare(None).exp()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert same(parameters(learner), parameters(after_tasks("er", memory=8)))


def test_measuring_afterwards_needs_the_tasks_data():
    assert "second_pass" not in small("il2m").needs
    learner = small("il2m:measured=afterwards")
    assert "second_pass" in learner.needs
    with pytest.raises(InputError, match="data"):
        learner.start_task()
        learner.learn(*blobs(4))
        learner.end_task()


def test_rescaling_waits_for_statistics_of_the_new_task():
    learner = after_tasks("il2m", tasks=2)
    learner.start_task()
    x = task_data(0)[0]
    assert learner.composition.rule.prepare(None).tolist() == []
    assert torch.equal(
        torch.from_numpy(learner.scores(x)), plain_outputs(learner, torch.tensor(x))[1]
    )
