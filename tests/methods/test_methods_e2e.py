"""E2E: its two losses, and the balanced fine-tuning at task ends."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.memory import X, Y
from evenstream.core.optimizers import learning_rate
from evenstream.core.part import TaskData
from evenstream.errors import InputError
from evenstream.methods.e2e import E2E, yes_or_no
from evenstream.methods.parts.distillation import distillation
from evenstream.methods.parts.taskwise import balanced_batches
from tests.helpers.method_samples import Group, assert_value, numpy_loss, softmax, step_of
from tests.helpers.small_streams import DIM, Noisy, parameters, same, small
from tests.helpers.task_samples import BATCH, after_tasks, task_data, train


def test_the_two_forms_of_e2e():
    z, y = torch.tensor([[2.0, 1, 0, -1]], requires_grad=True), torch.tensor([1])
    yes = F.one_hot(y, 4)
    assert_value(yes_or_no(z, yes), 0.649134)
    assert_value(F.cross_entropy(z, y), 1.440190)
    with pytest.raises(InputError, match="makes no sense"):
        compose("e2e-las:form=bce")
    losses = yes_or_no(z, yes), F.cross_entropy(z, y)
    gradients = [torch.autograd.grad(loss, z)[0][0, 1] for loss in losses]
    assert_value(gradients[0] / gradients[1], 0.400310)


@pytest.mark.parametrize("distilled", ["all", "old"])
def test_the_loss_of_e2e(distilled):
    z, taught = torch.tensor([[1.0, 2, 0], [0, 1, 3]]), torch.tensor([[2.0, 1], [0, 4]])
    method = E2E(distilled=distilled)
    method.teacher = SimpleNamespace(known=2, outputs=lambda x: (None, taught))
    rows = [0, 1] if distilled == "all" else [0]
    kept = distillation(z[rows], taught[rows], 2.0)
    expected = F.cross_entropy(z, torch.tensor([1, 2])) + 0.5 * kept
    assert_value(method.loss(step_of(Group(z.tolist(), [1, 2]))), float(expected))
    only_new = method.loss(step_of(Group([[0.0, 1, 3]] * 2, [2, 2])))
    assert math.isfinite(float(only_new.detach()))


def binary(p, q):
    """Binary cross-entropy of probabilities and targets, over rows and classes, in NumPy."""
    return -(q * np.log(p) + (1 - q) * np.log(1 - p)).mean()


@pytest.mark.parametrize("distilled", ["all", "old"])
def test_the_binary_form_of_e2e_is_binary_in_the_distillation_too(distilled):
    z, taught = np.array([[1.0, 2, 0], [0, 1, 3], [1, 0, 1]]), np.array([[2.0, 1], [0, 4], [1, 1]])
    method = E2E(distilled=distilled, form="bce")
    given = torch.tensor(taught, dtype=torch.float32)
    method.teacher = SimpleNamespace(known=2, outputs=lambda x: (None, given))
    labels = [1, 2, 0]
    rows = [0, 1, 2] if distilled == "all" else [0, 2]
    kept = binary(softmax(z[rows, :2] / 2), softmax(taught[rows] / 2))
    expected = binary(softmax(z), np.eye(3)[labels]) + 0.5 * kept
    assert_value(method.loss(step_of(Group(z.tolist(), labels))), expected)


def test_distillation_has_no_gradient_at_infinite_temperature():
    z = torch.tensor([[1.0, 2, 0]], requires_grad=True)
    taught = torch.tensor([[3.0, 0, 1]])
    sizes = [
        float(torch.autograd.grad(distillation(z, taught, t), z)[0].norm()) for t in (2, 100, 1e6)
    ]
    assert sizes[0] > 10 * sizes[1] > 1e4 * sizes[2]


def test_the_balanced_set_of_the_third_task():
    """Four stored classes of 25 and two new ones: 150 rows, drawn anew for each epoch."""
    learner = after_tasks("e2e:fine_tune_epochs=1", tasks=1, memory=100)
    learner.memory.clear()
    y = torch.arange(4).repeat(25)
    learner.memory.put(torch.arange(100), {X: torch.zeros(100, DIM), Y: y})
    fresh = torch.arange(80).unsqueeze(1).expand(80, DIM).float() + 1
    data = TaskData(fresh, torch.tensor([4, 5]).repeat(40))
    learner.options = SimpleNamespace(**{**vars(learner.options), "batch": 32})
    batches = list(balanced_batches(learner, data, epochs=2))
    assert [len(rows) for rows in batches] == [32, 32, 32, 32, 22] * 2
    epochs = []
    for half in (batches[:5], batches[5:]):
        assert torch.bincount(torch.cat([rows.y for rows in half])).tolist() == [25] * 6
        epochs.append({int(row[0]) for rows in half for row in rows.raw})
    assert epochs[0] != epochs[1]


def test_fewer_rows_than_a_batch_still_make_a_step():
    learner = after_tasks("e2e", tasks=1, memory=2, batch=64)
    data = TaskData(torch.randn(5, DIM), torch.tensor([2, 2, 3, 3, 3]))
    assert [len(rows) for rows in balanced_batches(learner, data, 3)] == [4, 4, 4]


def test_fine_tuning_begins_with_the_second_task_and_puts_the_learning_rate_back(monkeypatch):
    learner = small("e2e:fine_tune_epochs=2", batch=BATCH)
    rates, update = [], Learner.update

    def noted(self, loss, *groups, **options):
        if not options:  # the learner's own steps say what comes after them
            rates.append(self.optimizer.param_groups[0]["lr"])
        return update(self, loss, *groups, **options)

    monkeypatch.setattr(Learner, "update", noted)
    train(learner, task_data(0))
    before = parameters(learner)
    learner.end_task(task_data(0))
    assert not rates and same(parameters(learner), before)
    train(learner, task_data(1))
    before = parameters(learner)
    learner.end_task(task_data(1))
    assert rates == [0.003] * 2 * math.ceil(24 / BATCH)
    assert not same(parameters(learner), before)
    assert learner.optimizer.param_groups[0]["lr"] == learner.options.lr


@pytest.mark.parametrize("form", ["ce", "bce"])
def test_fine_tuning_keeps_what_the_first_stage_has_learned(monkeypatch, form):
    """CE + KD/2 on all seen columns, whose teacher is the network before the fine-tuning."""
    method = f"e2e:fine_tune_epochs=2,fine_tune_lr=0.5,form={form}"
    learner = after_tasks(method, tasks=1, head_size=6, scope="all")
    train(learner, task_data(1))
    first_stage, optimise = learner.copy_network(), learner.update
    batches, found, expected = [], [], []

    def noted_batches(*args):
        for rows in balanced_batches(*args):
            batches.append(rows)
            yield rows

    def noted_loss(loss):
        x, y = batches[-1].x, batches[-1].y
        with torch.no_grad():
            logits = learner.network(x).numpy()
            soft, p = softmax(first_stage(x)[:, :4] / 2), softmax(logits[:, :4] / 2)
        found.append(loss.item())
        if form == "ce":
            kept, own = -(soft * np.log(p)).sum(1).mean(), numpy_loss(logits, y).mean()
        else:
            kept, own = binary(p, soft), binary(softmax(logits), np.eye(6)[y])
        expected.append(own + 0.5 * kept)
        optimise(loss)

    monkeypatch.setattr("evenstream.methods.e2e.balanced_batches", noted_batches)
    monkeypatch.setattr(learner, "update", noted_loss)
    learner.end_task(task_data(1))
    assert len(found) == 2 * math.ceil(24 / BATCH)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_learning_rate_comes_back_after_an_error():
    learner = after_tasks("er", tasks=1)
    with pytest.raises(KeyError), learning_rate(learner.optimizer, 7.0):
        assert learner.optimizer.param_groups[0]["lr"] == 7
        raise KeyError
    assert learner.optimizer.param_groups[0]["lr"] == 0.05


def test_a_task_end_that_fails_is_undone(monkeypatch):
    learner = small("e2e:fine_tune_epochs=2", batch=BATCH, momentum=0.9, model=Noisy())
    train(learner, task_data(0))
    learner.end_task(task_data(0))
    train(learner, task_data(1))
    before = learner.fingerprint()
    monkeypatch.setattr("evenstream.methods.e2e.refill_by_class", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.end_task(task_data(1))
    assert learner.fingerprint() == before and learner.in_task
