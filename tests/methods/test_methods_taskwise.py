"""What BiC, E2E and LUCIR share: memory refilled at task ends, mixing by epochs, a teacher."""

import pytest
import torch
import torch.nn.functional as F

from evenstream.core.memory import X, Y
from evenstream.core.outputs import plain_outputs
from evenstream.core.part import TaskData
from evenstream.errors import InputError
from evenstream.methods.parts.exemplars import herd
from evenstream.methods.parts.taskwise import refill_by_class
from tests.helpers.method_samples import normed, watch_groups
from tests.helpers.small_streams import DIM, Noisy, parameters, same, small
from tests.helpers.task_samples import BATCH, after_tasks, stored, task_data, train

TASKWISE = ["bic:bias_epochs=5", "e2e:fine_tune_epochs=2", "lucir-full:hardest=1"]


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
