"""BiC: weights and loss, rows held out, and the bias correction that is fitted on them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evenstream.core.memory import X, Y
from evenstream.errors import InputError
from evenstream.methods.bic import BiC, loss_weights
from evenstream.policies.rules.bias_correction import BiasCorrected, fit_bias
from tests.helpers.method_samples import Group, assert_value, step_of, watch_groups
from tests.helpers.small_streams import DIM, Noisy, parameters, same, small
from tests.helpers.task_samples import BATCH, after_tasks, stored, task_data, train


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("classes", [(1 / 2, 1 / 2), (1 / 3, 2 / 3), (1 / 4, 3 / 4), (1 / 5, 4 / 5)]),
        ("mammoth", [(1 / 2, 1 / 2), (2 / 3, 1 / 3), (3 / 4, 1 / 4), (4 / 5, 1 / 5)]),
        ("sairin", [(1 / 2, 1), (1 / 3, 1), (1 / 4, 1), (1 / 5, 1)]),
    ],
)
def test_the_weights_of_bic_on_five_tasks_of_two_classes(mode, expected):
    found = [loss_weights(mode, 2 * t, 2 * (t + 1), t) for t in range(1, 5)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("mode", "factor"), [("classes", 1), ("mammoth", 4), ("sairin", 4)])
def test_the_loss_of_bic(mode, factor):
    z, taught = torch.tensor([[1.0, 2, 0], [0, 1, 3]]), torch.tensor([[2.0, 1], [0, 4]])
    method = BiC(lambda_mode=mode)
    method.teacher = SimpleNamespace(known=2, outputs=lambda x: (None, taught))
    method.tensors = {
        "weights": torch.tensor([0.25, 0.75]),
        "taught": torch.tensor([[1, 0.5], [0, -0.25]]),
    }
    step = step_of(Group(z.tolist(), [1, 2]))
    own = taught * torch.tensor([1, 0.5]) + torch.tensor([0, -0.25])
    soft = (own / 2).softmax(1)
    kept = -(soft * (z[:, :2] / 2).log_softmax(1)).sum(1).mean()
    expected = 0.25 * F.cross_entropy(z, torch.tensor([1, 2])) + 0.75 * factor * kept
    assert_value(method.loss(step), float(expected))


def test_bic_holds_out_a_tenth_of_memory_and_as_many_new_rows(monkeypatch):
    learner = after_tasks("bic", tasks=1, memory=20, model=Noisy())
    before = [row.tolist() for row in learner.memory.field(X)]
    data = task_data(1)
    seen = watch_groups(learner)
    held = train(learner, data)
    assert len(held) == 2 and len(learner.memory) == 18
    trained = [row.tolist() for groups in seen for group in groups for row in group.raw]
    taken = [row for row in before if row not in [r.tolist() for r in learner.memory.field(X)]]
    validation = taken + data[0][held].tolist()
    assert len(validation) == 4 and not any(row in trained for row in validation)
    fitted = []
    monkeypatch.setattr(BiasCorrected, "fit", lambda rule, learner, *rows: fitted.append(rows))
    learner.end_task(data)
    raw, y = fitted[0]
    assert sorted(raw.tolist()) == sorted(validation)
    assert sorted((y >= 2).tolist()) == [False, False, True, True]
    assert stored(learner)[0] + stored(learner)[1] == 10 == sum(stored(learner)[2:])


def test_bic_says_once_if_its_memory_is_too_small_to_hold_rows_out():
    learner = after_tasks("bic", tasks=1, memory=4)
    with pytest.warns(UserWarning, match="4 rows in memory and 20 in the task, held_out=0.1 holds"):
        held = train(learner, task_data(1))
    assert held == []
    learner.end_task(task_data(1))
    assert learner.composition.rule.correction is not None  # by the memory, as it says
    train(learner, task_data(2))  # a second warning would be an error


@pytest.mark.parametrize(
    ("method", "memory"), [("bic", 6), ("bic:held_out=0", 4), ("bic@argmax", 4)]
)
def test_bic_says_nothing_if_rows_are_held_out_or_not_asked_for(method, memory):
    learner = after_tasks(method, tasks=1, memory=memory)
    held = train(learner, task_data(1))
    assert len(held) == (1 if memory == 6 else 0)


def test_stage_two_of_bic_changes_no_weight_and_only_new_logits():
    learner = after_tasks("bic", tasks=1, model=Noisy())
    train(learner, task_data(1))
    before, logits = parameters(learner), torch.from_numpy(learner.scores(task_data(1)[0]))
    learner.end_task(task_data(1))
    assert same(parameters(learner), before)
    after = torch.from_numpy(learner.scores(task_data(1)[0]))
    alpha, beta = learner.composition.rule.correction[:, 3]
    assert 0 < abs(1 - alpha) <= 0.06 and 0 < abs(beta) <= 0.06
    assert torch.equal(after[:, :2], logits[:, :2])
    torch.testing.assert_close(after[:, 2:], alpha * logits[:, 2:] + beta)


def test_stage_two_of_bic_is_fitted_on_logits_in_eval_mode(monkeypatch):
    learner = after_tasks("bic", tasks=1, memory=20, model=Noisy())
    train(learner, task_data(1))
    held = torch.cat([learner.method.tensors[name] for name in ("old_x", "new_x")])
    logits, found = torch.from_numpy(learner.scores(held.numpy())), []

    def noted(*rows, **options):
        found.append((*rows, options))
        return torch.tensor([0.5, -1.0])

    monkeypatch.setattr("evenstream.policies.rules.bias_correction.fit_bias", noted)
    learner.end_task(task_data(1))
    ((fitted, _, current, options),) = found
    assert torch.equal(fitted, logits) and current.tolist() == [False, False, True, True]
    assert (options["lr"], options["epochs"], options["class_weights"]) == (0.001, 50, None)
    after = torch.from_numpy(learner.scores(held.numpy()))
    assert torch.equal(after, torch.cat([logits[:, :2], 0.5 * logits[:, 2:] - 1], 1))


def test_only_the_newest_correction_is_active_and_the_teacher_keeps_its_own():
    learner = after_tasks("bic", tasks=2)
    correction = learner.composition.rule.correction
    assert correction[0, :2].tolist() == [1, 1] and correction[0, 2] != 1
    learner.start_task(data=task_data(2))
    assert learner.composition.rule.correction is None
    assert torch.equal(learner.method.tensors["taught"], correction)
    learner.learn(*task_data(2))
    learner.end_task(task_data(2))
    newest = learner.composition.rule.correction
    assert newest[:, :4].tolist() == [[1] * 4, [0] * 4] and newest[0, 5] != 1


def test_bic_without_correction_distils_from_plain_logits():
    learner = after_tasks("bic@argmax", tasks=2)
    learner.start_task(data=task_data(2))
    assert "taught" not in learner.method.tensors


def test_classes_that_come_back_are_not_old():
    learner = after_tasks("bic", tasks=2)
    learner.start_task(data=task_data(1, seed=1))
    assert learner.method.tensors["weights"].tolist() == [0.5, 0.5]


def test_any_method_with_a_memory_can_be_bias_corrected():
    learner = small("er@bias-corrected:lr=0.01", memory=10, batch=BATCH)
    for task in range(2):
        learner.start_task()
        for _ in range(5):
            learner.learn(*task_data(task))
        learner.end_task()
    correction = learner.composition.rule.correction  # type: ignore[attr-defined]
    assert correction[:, 0].tolist() == [1, 0] and correction[0, 3] != 1
    with pytest.raises(InputError, match="cannot do without a memory"):
        small("fine-tune@bias-corrected")


def test_every_class_of_the_memory_weighs_the_same_in_the_bias_correction(monkeypatch):
    learner = small("er@bias-corrected", batch=BATCH)
    for task in range(2):
        learner.start_task()
        learner.learn(*task_data(task))
        if task == 0:
            learner.end_task()
    y = torch.tensor([2, 0, 0, 2, 0, 3])  # none of class 1
    learner.memory.clear()
    learner.memory.put(torch.arange(6), {X: torch.randn(6, DIM), Y: y})
    weights = []

    def noted(*args, class_weights, **options):
        weights.append(class_weights)
        return fit_bias(*args, class_weights=class_weights, **options)

    monkeypatch.setattr("evenstream.policies.rules.bias_correction.fit_bias", noted)
    learner.end_task()
    torch.testing.assert_close(weights, [torch.tensor([1 / 3, 1, 1 / 2, 1])])
