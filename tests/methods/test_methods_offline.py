"""Offline methods: worked numbers, what they keep and hold out, and what they must not change."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from method_samples import Group, assert_value, fixed_teacher, normed, step_of, watch_groups
from torch import nn

from evenstream import Learner
from evenstream.errors import InputError
from evenstream.learner.heads import cosines
from evenstream.learner.memory import X, Y
from evenstream.learner.optimizers import learning_rate
from evenstream.learner.outputs import plain_outputs
from evenstream.learner.part import TaskData
from evenstream.methods import make_method
from evenstream.methods.bic import BiC, loss_weights
from evenstream.methods.e2e import E2E, yes_or_no
from evenstream.methods.lucir import adaptation
from evenstream.methods.lucir_full import LUCIRFull, imprinted, margin_ranking
from evenstream.methods.parts.distillation import distillation
from evenstream.methods.parts.exemplars import herd
from evenstream.methods.parts.taskwise import balanced_batches, refill_by_class
from evenstream.networks.resnet import ResNet
from evenstream.slots.inference.bias_correction import BiasCorrected, fit_bias
from small_streams import DIM, Noisy, images, parameters, same, small

BATCH = 4
TASKWISE = ["bic:bias_epochs=5", "e2e:fine_tune_epochs=2", "lucir-full:hardest=1"]
OPTIMIZERS = [
    {"momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "adam", "lr": 0.01},
    {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
]


def task_data(task, per_class=10, classes=2, seed=0):
    """Rows of the classes of one task, mixed."""
    draw = np.random.default_rng([seed, task])
    centres = np.random.default_rng(12345).normal(size=(64, DIM)) * 2
    y = draw.permutation(np.repeat(np.arange(classes) + classes * task, per_class))
    x = centres[y] + draw.normal(size=(len(y), DIM)) * 0.5
    return x.astype(np.float32), y.tolist()


def train(learner, data, epochs=2, batch=BATCH):
    """All epochs of a task, without its end."""
    x, labels = data
    held = learner.start_task(data=data)
    left = np.delete(np.arange(len(labels)), held)
    for epoch in range(epochs):
        if epoch:
            learner.start_epoch()
        for start in range(0, len(left), batch):
            rows = left[start : start + batch]
            learner.learn(x[rows], [labels[row] for row in rows])
    return held


def after_tasks(method, tasks=2, **options):
    learner = small(method, **{"batch": BATCH, **options})
    for task in range(tasks):
        train(learner, task_data(task))
        learner.end_task(task_data(task))
    return learner


def stored(learner):
    """Class counts of the memory."""
    return torch.bincount(learner.memory.field(Y)).tolist()


# ---- memory and mixing ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", TASKWISE)
def test_memory_rests_within_tasks_and_is_balanced_at_their_ends(method):
    learner = small(method, memory=12, batch=BATCH)
    for task, expected in enumerate([6, 3, 2]):
        before = [row.tolist() for row in learner.memory.field(X)] if task else []
        train(learner, task_data(task), epochs=1)
        inside = [row.tolist() for row in learner.memory.field(X)] if task else []
        assert all(row in before for row in inside)
        learner.end_task(task_data(task))
        counts = stored(learner)
        assert sum(counts) == expected * 2 * (task + 1)
        if learner.method.name != "bic":  # which counts by task
            assert set(counts) == {expected}


@pytest.mark.parametrize("method", TASKWISE)
def test_joint_shuffle_brings_every_stored_row_once_an_epoch(method):
    learner = after_tasks(method, tasks=1)
    seen = watch_groups(learner)
    train(learner, task_data(1), epochs=2, batch=3)
    free = list(range(len(learner.memory)))
    slots = [group.slots.tolist() for _, group in seen]
    half = len(slots) // 2
    for epoch in (slots[:half], slots[half:]):
        assert sorted(slot for step in epoch for slot in step) == free
    assert slots[:half] != slots[half:]


@pytest.mark.parametrize("method", TASKWISE)
def test_replay_mixing_draws_a_batch_at_every_step(method):
    learner = after_tasks(f"{method},mix=replay", tasks=1)
    seen = watch_groups(learner)
    train(learner, task_data(1))
    assert {len(group) for _, group in seen} == {learner.options.replay_batch}


@pytest.mark.parametrize("las", ["", "-las"])
@pytest.mark.parametrize(
    ("method", "options"),
    [("bic", ""), ("e2e", ""), ("lucir-full", ":head=cosine,head_scale=1,head_scale_learned=true")],
)
def test_before_there_is_a_teacher_they_train_as_fine_tuning_does(method, options, las):
    specs = method + las, f"fine-tune{las}{options}"
    ours, plain = (small(spec, Noisy(), batch=BATCH) for spec in specs)
    for learner in (ours, plain):
        train(learner, task_data(0))
    assert same(parameters(ours), parameters(plain))


@pytest.mark.parametrize("method", TASKWISE)
def test_the_teacher_is_the_network_at_the_last_task_end_and_rests(method):
    learner = after_tasks(method, tasks=1, model=normed())
    saved, teacher = parameters(learner), learner.method.teacher.network
    train(learner, task_data(1))
    assert learner.method.teacher.network is teacher and same(dict(teacher.state_dict()), saved)
    assert not any(module.training for module in teacher.modules())
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    now = parameters(learner)
    assert not any(torch.equal(saved[name], now[name]) for name in saved if "backbone" in name)


def test_more_classes_than_room_keep_one_row_each_for_some():
    learner = after_tasks("e2e:fine_tune_epochs=1", tasks=2, memory=3)
    assert sorted(stored(learner))[-3:] == [1, 1, 1] and len(learner.memory) == 3


def test_herding_is_made_once_and_then_cut_off_at_the_end():
    learner = small("lucir-full", Noisy(), memory=12, batch=BATCH)
    data = task_data(0)
    train(learner, data)
    learner.end_task(data)
    for label in (0, 1):
        index = learner.label_map.get(label)
        own = torch.tensor(data[0])[[value == label for value in data[1]]]
        points = F.normalize(plain_outputs(learner, own)[0], dim=1)
        kept = learner.memory.field(X)[learner.memory.field(Y) == index]
        assert torch.equal(kept, own[herd(points, 6)])
    before = learner.memory.field(X)[learner.memory.field(Y) == 0].clone()
    train(learner, task_data(1))
    learner.end_task(task_data(1))
    assert torch.equal(learner.memory.field(X)[learner.memory.field(Y) == 0], before[:3])


def test_a_class_that_comes_back_is_herded_anew_from_old_and_new_rows():
    learner = after_tasks("lucir-full", tasks=1, memory=4)
    y = torch.tensor([0, 0, 2, 2])
    fresh = TaskData(torch.randn(4, DIM, generator=torch.Generator().manual_seed(1)), y)
    own = torch.cat([learner.memory.field(X)[learner.memory.field(Y) == 0], fresh.raw[:2]])
    refill_by_class(learner, fresh, "herding")
    points = F.normalize(plain_outputs(learner, own)[0], dim=1)
    assert torch.equal(learner.memory.field(X)[learner.memory.field(Y) == 0], own[herd(points, 1)])
    assert stored(learner) == [1, 1, 1]


def test_online_methods_offer_every_row_to_the_memory_in_every_epoch():
    learner = small("er", memory=70)
    train(learner, task_data(0), epochs=3)
    assert learner.memory.seen == len(learner.memory) == 3 * 20
    times = learner.memory.field(X).unique(dim=0, return_counts=True)[1]
    assert times.tolist() == [3] * 20


@pytest.mark.parametrize("method", TASKWISE)
def test_without_data_or_memory_they_refuse(method):
    with pytest.raises(InputError, match="looks at a task's data more than once"):
        small(method).start_task()
    with pytest.raises(InputError, match="memory=0"):
        small(method, memory=0)


# ---- BiC -----------------------------------------------------------------------------------------


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
    assert learner.method.inference.correction is not None  # by the memory, as it says
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
    before, logits = parameters(learner), learner.scores(task_data(1)[0])
    learner.end_task(task_data(1))
    assert same(parameters(learner), before)
    after = learner.scores(task_data(1)[0])
    alpha, beta = learner.method.inference.correction[:, 3]
    assert 0 < abs(1 - alpha) <= 0.06 and 0 < abs(beta) <= 0.06
    assert torch.equal(after[:, :2], logits[:, :2])
    torch.testing.assert_close(after[:, 2:], alpha * logits[:, 2:] + beta)


def test_stage_two_of_bic_is_fitted_on_logits_in_eval_mode(monkeypatch):
    learner = after_tasks("bic", tasks=1, memory=20, model=Noisy())
    train(learner, task_data(1))
    held = torch.cat([learner.method.tensors[name] for name in ("old_x", "new_x")])
    logits, found = learner.scores(held.numpy()), []

    def noted(*rows, **options):
        found.append((*rows, options))
        return torch.tensor([0.5, -1.0])

    monkeypatch.setattr("evenstream.slots.inference.bias_correction.fit_bias", noted)
    learner.end_task(task_data(1))
    ((fitted, _, current, options),) = found
    assert torch.equal(fitted, logits) and current.tolist() == [False, False, True, True]
    assert (options["lr"], options["epochs"], options["class_weights"]) == (0.001, 50, None)
    after = learner.scores(held.numpy())
    assert torch.equal(after, torch.cat([logits[:, :2], 0.5 * logits[:, 2:] - 1], 1))


def test_only_the_newest_correction_is_active_and_the_teacher_keeps_its_own():
    learner = after_tasks("bic", tasks=2)
    correction = learner.method.inference.correction
    assert correction[0, :2].tolist() == [1, 1] and correction[0, 2] != 1
    learner.start_task(data=task_data(2))
    assert learner.method.inference.correction is None
    assert torch.equal(learner.method.tensors["taught"], correction)
    learner.learn(*task_data(2))
    learner.end_task(task_data(2))
    newest = learner.method.inference.correction
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
    correction = learner.method.inference.correction
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

    monkeypatch.setattr("evenstream.slots.inference.bias_correction.fit_bias", noted)
    learner.end_task()
    torch.testing.assert_close(weights, [torch.tensor([1 / 3, 1, 1 / 2, 1])])


# ---- E2E -----------------------------------------------------------------------------------------


def test_the_two_forms_of_e2e():
    z, y = torch.tensor([[2.0, 1, 0, -1]], requires_grad=True), torch.tensor([1])
    assert_value(yes_or_no(z, y), 0.649134)
    assert_value(F.cross_entropy(z, y), 1.440190)
    with pytest.raises(InputError, match="makes no sense"):
        make_method("e2e-las:form=bce")
    gradients = [torch.autograd.grad(f(z, y), z)[0][0, 1] for f in (yes_or_no, F.cross_entropy)]
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
    rates, optimise = [], Learner.optimise
    monkeypatch.setattr(
        Learner, "optimise",
        lambda self, loss, *groups: (
            rates.append(self.optimizer.param_groups[0]["lr"]), optimise(self, loss, *groups)
        ),
    )  # fmt: skip
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


def test_fine_tuning_keeps_what_the_first_stage_has_learned(monkeypatch):
    """CE + KD/2 on all seen columns, whose teacher is the network before the fine-tuning."""
    method = "e2e:fine_tune_epochs=2,fine_tune_lr=0.5"
    learner = after_tasks(method, tasks=1, head_size=6, scope="all")
    train(learner, task_data(1))
    first_stage, optimise = learner.copy_network(), learner.optimise
    batches, found, expected = [], [], []

    def noted_batches(*args):
        for rows in balanced_batches(*args):
            batches.append(rows)
            yield rows

    def noted_loss(loss):
        x, y = batches[-1].x, batches[-1].y
        with torch.no_grad():
            logits = learner.network(x)
            soft = (first_stage(x)[:, :4] / 2).softmax(1)
            kept = -(soft * (logits[:, :4] / 2).log_softmax(1)).sum(1).mean()
        found.append(loss.item())
        expected.append(float(F.cross_entropy(logits, y) + 0.5 * kept))
        optimise(loss)

    monkeypatch.setattr("evenstream.methods.e2e.balanced_batches", noted_batches)
    monkeypatch.setattr(learner, "optimise", noted_loss)
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


# ---- IL2M ----------------------------------------------------------------------------------------


def test_il2m_trains_as_er_and_predicts_as_er_in_the_first_task():
    learner, plain = after_tasks("il2m", tasks=1), after_tasks("er", tasks=1)
    x = task_data(0, seed=1)[0]
    assert torch.equal(learner.scores(x), plain.scores(x))
    for each in (learner, plain):
        train(each, task_data(1))
        each.end_task(task_data(1))
    assert same(parameters(learner), parameters(plain))
    x = task_data(1)[0]
    assert not torch.equal(learner.scores(x), plain.scores(x))


def test_statistics_of_rescaling_are_those_of_the_last_epoch():
    learner = small("il2m", batch=BATCH, memory=8)
    statistics = []
    for task in range(2):
        seen, after = [], learner.method.inference.after_step

        def spied(step, seen=seen, after=after):
            for rows in step.groups:
                if len(rows):
                    seen.append((rows.y, step.logits_of(rows).softmax(1).double()))
            after(step)

        learner.method.inference.after_step = spied
        train(learner, task_data(task), epochs=3)
        learner.method.inference.after_step = after
        last = seen[-2 * math.ceil(20 / BATCH) :]  # incoming and replayed rows of each step
        y = torch.cat([labels for labels, _ in last])
        own = torch.cat([p.gather(1, labels[:, None])[:, 0] for labels, p in last])
        top = torch.cat([p.amax(1) for _, p in last])[y >= 2 * task]
        statistics.append(([own[y == c].mean() for c in (0, 1)], top.mean()))
        learner.end_task(task_data(task))
    (first, confident), (now, confident_now) = statistics
    expected = [f / n * confident_now / confident for f, n in zip(first, now, strict=True)]
    factors = learner.method.inference.prepare(None).exp().double()
    torch.testing.assert_close(factors, torch.stack(expected), rtol=1e-5, atol=0)


def test_rescaling_waits_for_statistics_of_the_new_task():
    learner = after_tasks("il2m", tasks=2)
    learner.start_task()
    x = task_data(0)[0]
    assert learner.method.inference.prepare(None).tolist() == []
    assert torch.equal(learner.scores(x), plain_outputs(learner, torch.tensor(x))[1])


# ---- LUCIR ---------------------------------------------------------------------------------------

COSINES = torch.tensor(
    [[0.6, 0.1, 0.4, 0.3, -0.2], [0.2, 0.9, 0.8, 0.1, 0], [0.1, 0.2, 0.3, 0.9, 0]]
)


def test_the_worked_margins():
    y = torch.tensor([0, 1, 3])
    assert_value(margin_ranking(COSINES[:2], y[:2], 2, 2, 0.5), 0.225)
    assert_value(margin_ranking(COSINES, y, 2, 2, 0.5), 0.225)  # a row of a new class is ignored
    assert_value(margin_ranking(COSINES, y, 2, 7, 0.5), (0.3 + 0.2 + 0.4) / 6)  # three rivals
    assert float(margin_ranking(COSINES[2:], y[2:], 2, 2, 0.5)) == 0
    assert float(margin_ranking(COSINES[:2, :2], y[:2], 2, 2, 0.5)) == 0


def test_adaptive_weights_of_five_tasks():
    found = [5 * adaptation(2 * t, 2) for t in range(1, 5)]
    np.testing.assert_allclose(found, [5, 7.0711, 8.6603, 10], atol=1e-4)
    assert adaptation(20, 0) == math.sqrt(20)


def test_imprinted_rows_have_the_mean_direction_and_the_mean_length():
    features, old = torch.randn(30, 4), torch.randn(5, 4)
    y = torch.arange(30) % 3
    rows = imprinted(features, y, old)
    torch.testing.assert_close(rows.norm(dim=1), old.norm(dim=1).mean().expand(3))
    for c in range(3):
        direction = torch.stack([f / f.norm() for f in features[y == c]]).mean(0)
        torch.testing.assert_close(F.cosine_similarity(rows[c], direction, 0), torch.tensor(1.0))


def test_new_classes_are_imprinted_before_the_first_step():
    learner = after_tasks("lucir-full", tasks=1, model=Noisy())
    data = task_data(1)
    learner.start_task(data=data)
    weight = learner.network.head.weight.detach()
    torch.testing.assert_close(weight[2:].norm(dim=1), weight[:2].norm(dim=1).mean().expand(2))
    own = torch.tensor(data[0])[[label == learner.labels[3] for label in data[1]]]
    mean = F.normalize(plain_outputs(learner, own)[0], dim=1).mean(0)
    torch.testing.assert_close(F.cosine_similarity(weight[3], mean, 0), torch.tensor(1.0))


def test_a_refused_task_leaves_no_imprint(monkeypatch):
    learner = after_tasks("lucir-full", tasks=1, model=Noisy(), head_size=6)
    before = learner.fingerprint()
    monkeypatch.setattr(learner.method, "on_epoch_start", lambda learner: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.start_task(data=task_data(1))
    assert learner.fingerprint() == before


@pytest.mark.parametrize("options", OPTIMIZERS, ids=lambda options: str(len(options)))
def test_old_rows_of_the_head_are_frozen_bit_for_bit(options):
    learner = after_tasks("lucir-full", tasks=1, model=Noisy(), **options)
    frozen = learner.network.head.weight.detach().clone()
    scale = learner.network.head.scale.item()
    train(learner, task_data(1))
    learner.end_task(task_data(1))
    weight = learner.network.head.weight.detach()
    assert torch.equal(weight[:2], frozen) and len(weight) == 4
    assert learner.network.head.scale.item() != scale
    frozen = weight.clone()
    train(learner, task_data(2))
    assert torch.equal(learner.network.head.weight[:4], frozen)


def test_fine_tuning_lucirs_head_leaves_the_features():
    learner = after_tasks("lucir-full:fine_tune_epochs=2", tasks=1, model=Noisy())
    train(learner, task_data(1))
    before = parameters(learner)
    learner.end_task(task_data(1))
    after = parameters(learner)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight", "head.scale"}


def test_lucirs_loss_does_not_depend_on_the_features_length():
    learner = after_tasks("lucir-full", tasks=1, model=nn.Identity())
    learner.start_task(data=task_data(1))
    x = torch.tensor(task_data(1)[0])
    y = torch.tensor([0, 1, 2, 3] * 5)

    def value(scale, sigma=None):
        with torch.no_grad():
            if sigma is not None:
                learner.network.head.scale.fill_(sigma)
            group = Group((scale * x).tolist(), y.tolist())
            step = step_of(group, network=learner.network)
            step.forward = lambda x: (x, learner.network.logits(x))
            step.n_classes = 4
            ranking = margin_ranking(cosines(group.x, learner.network.head.weight), y, 2, 2, 0.5)
            return float(learner.method.loss(step)), float(ranking)

    small_one, large_one = value(1.0), value(7.0)
    assert small_one == pytest.approx(large_one, rel=1e-5)
    other = value(1.0, sigma=9.0)
    assert other[0] != pytest.approx(small_one[0], rel=1e-2) and other[1] == small_one[1]


def test_the_loss_of_lucir_in_the_second_task():
    """CE + 5·√(old/new)·(1 - cos) + ranking; of six rows of the head, five have a class."""
    draw = torch.Generator().manual_seed(0)
    features, old_features, logits = (torch.randn(4, n, generator=draw) for n in (3, 3, 5))
    head = torch.randn(6, 3, generator=draw)
    y, known, seen = [3, 0, 1, 4], 2, 5
    method = LUCIRFull()
    method.teacher = fixed_teacher(torch.zeros(4, known), old_features)
    step = step_of(
        Group(features[:1].tolist(), y[:1]),
        Group(features[1:].tolist(), y[1:]),
        network=SimpleNamespace(head=SimpleNamespace(weight=head)),
        forward=lambda x: (x, logits),
    )
    step.n_classes = seen

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm()))

    moved = np.mean([1 - cosine(a, b) for a, b in zip(old_features, features, strict=True)])
    ranking = []
    for row, label in zip(features, y, strict=True):
        if label < known:
            rivals = sorted(cosine(row, head[k]) for k in range(known, seen))[-2:]
            ranking += [max(0, 0.5 - cosine(row, head[label]) + rival) for rival in rivals]
    assert moved > 0.1 and np.mean(ranking) > 0.1
    expected = F.cross_entropy(logits, torch.tensor(y)).item()
    expected += 5 * math.sqrt(2 / 3) * moved + np.mean(ranking)
    assert method.loss(step).item() == pytest.approx(expected, rel=1e-5)


def test_the_last_relu_is_off_for_lucir_only_and_stays_off(tmp_path):
    x, y = images(12, side=8), [0, 1] * 6
    for method, signed in (("lucir-full", True), ("e2e", False)):
        learner = small(method, ResNet(1, (1, 1, 1, 1), width=8), batch=6)
        learner.start_task(data=(x, y))
        learner.learn(x, y)
        learner.end_task((x, y))
        features, _ = plain_outputs(learner, torch.tensor(x))
        assert bool((features < 0).any()) == signed
        learner.save(tmp_path / method)
        loaded = Learner.load(tmp_path / method, ResNet(1, (1, 1, 1, 1), width=8))
        assert torch.equal(loaded.scores(x), learner.scores(x))
        taught, _ = loaded.method.teacher.outputs(loaded.preprocess.plain(torch.tensor(x)))
        assert torch.equal(taught, features)
