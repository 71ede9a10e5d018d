"""Methods that differ from ER in their loss: DER++, SS-IL, ER-ACE, ER-CBL."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evenstream import Learner
from evenstream.composition import compose
from evenstream.errors import InputError
from evenstream.methods.er_cbl import class_weights, focal_losses
from evenstream.methods.parts.distillation import distillation
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.policies.criteria import LogitAdjustedSoftmax
from tests.helpers.method_samples import (
    EXACT,
    Group,
    assert_value,
    by_tasks,
    fixed_teacher,
    numpy_loss,
    step_of,
)
from tests.helpers.small_streams import (
    DIM,
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    same,
    small,
)

NOTHING = Group(np.zeros((0, 4)), [])

# ---- ER-ACE --------------------------------------------------------------------------------------


def test_er_ace_worked_numbers():
    incoming = Group([[1.0, 0, 2, 0.5], [0, 0, 0, 0]], [2, 3])
    replayed = Group([[0.3, 1.2, 4, -1]], [1])
    loss = compose("er-ace").method.loss(step_of(incoming, replayed))
    loss.backward()
    assert_value(loss, (0.2014133 + math.log(2)) / 2 + 2.8882595)
    half = torch.tensor([0, 0, -0.1824255, 0.1824255]) / 2
    torch.testing.assert_close(incoming.x.grad[0], half, **EXACT)
    assert incoming.x.grad[:, :2].eq(0).all()
    expected = torch.tensor([0.0226350, -0.9443270, 0.9155233, 0.0061687])
    torch.testing.assert_close(replayed.x.grad[0], expected, **EXACT)


def test_er_ace_learns_nothing_from_one_incoming_class_alone():
    incoming = Group([[1.0, 3, 2, 0], [0, 1, 2, 0]], [2, 2])
    loss = compose("er-ace").method.loss(step_of(incoming, NOTHING))
    loss.backward()
    assert float(loss.detach()) == 0 and incoming.x.grad.eq(0).all()


def test_er_ace_does_not_look_at_absent_classes():
    one = Group([[1.0, 0, 2, 0.5], [0, 3, 1, 2]], [2, 0])
    two = Group([[1.0, 0.5, 2, 0], [0, 2, 1, 3]], [2, 0])  # absent columns 1 and 3 swapped
    losses = [compose("er-ace").method.loss(step_of(group, NOTHING)) for group in (one, two)]
    assert torch.equal(*losses)


def test_er_ace_is_twice_er_when_every_class_is_present():
    incoming = Group([[1.0, 0, 2], [0, 3, 1], [1, 1, 0]], [2, 0, 1])
    replayed = Group([[0.5, 0, 1], [2, 0, 0], [0, 0, 0]], [0, 0, 1])
    step = step_of(incoming, replayed)
    ace, er = compose("er-ace").method.loss(step), compose("er").method.loss(step)
    torch.testing.assert_close(ace, 2 * er)


def test_er_ace_reference_mask_keeps_the_newest_class():
    incoming = Group([[1.0, 0, 2, 0.5]], [2])
    step = step_of(incoming, NOTHING)
    assert_value(compose("er-ace").method.loss(step), 0.0)
    assert_value(compose("er-ace:mask=reference").method.loss(step), 0.2014133)
    step.n_classes = 3  # the fourth class is still to come, and in the softmax, too
    assert_value(compose("er-ace:mask=reference").method.loss(step), 0.2014133)


def test_er_ace_cosine_head_is_blind_to_lengths():
    learner = feed(small("er-ace:head=cosine"), class_stream())
    x = class_stream(seed=3)[-1][0]
    answer = learner.predict_proba(x)
    network = learner.network
    with torch.no_grad():
        features = network.eval().features(torch.from_numpy(x))
        cosines = F.cosine_similarity(features[:, None], network.head.weight[None], dim=2)
        np.testing.assert_allclose(answer, (10 * cosines).softmax(1), rtol=1e-4)
        network.head.weight.mul_(torch.tensor([[1.0], [50], [0.02], [3]]))
        network.head.bias.add_(100 * torch.randn(4))
    np.testing.assert_allclose(learner.predict_proba(x), answer, rtol=1e-4)


# ---- DER++ ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("distance", "expected"), [("mean", 2.1024161), ("sum", 2.2024161)])
def test_derpp_worked_number(distance, expected):
    step = step_of(Group([[1.0, 0, 0]], [2]), Group([[0.2, 0.1, 0]], [0]))
    stored = torch.tensor([[0.0, 2, -1]])
    step.notes["distilled"] = Group([[0.5, 1, -0.5]], [0], logits=stored)
    assert_value(compose(f"der++:distance={distance}").method.loss(step), expected)


@pytest.mark.parametrize(("distance", "expected"), [("mean", 0.5), ("sum", 1.5)])
def test_derpp_averages_over_rows_and_leaves_out_classes_that_were_not_stored(distance, expected):
    """The worked pair three times, with a class more in the network than when it was stored."""
    step = step_of(Group([[0.0, 0, 0, 0]], [2]), Group([[0.0, 0, 0, 0]], [0]))
    stored = torch.tensor([[0.0, 2, -1]] * 3)
    step.notes["distilled"] = Group([[0.5, 1, -0.5, 9]] * 3, [0] * 3, logits=stored)
    loss = compose(f"der++:alpha=1,beta=0,distance={distance}").method.loss(step)
    assert_value(loss, math.log(4) + expected)


def test_derpp_without_distillation_is_the_sum_of_two_means():
    incoming, labelled = Group([[1.0, 0, 0]], [2]), Group([[0.2, 0.1, 0], [0, 0, 1]], [0, 1])
    step = step_of(incoming, labelled)
    step.notes["distilled"] = Group([[9.0, 9, 9]], [0], logits=torch.zeros(1, 3))
    loss = compose("der++:alpha=0,beta=1").method.loss(step)
    expected = F.cross_entropy(incoming.x, incoming.y) + F.cross_entropy(labelled.x, labelled.y)
    assert torch.equal(loss, expected)


def test_derpp_draws_twice_and_independently():
    learner = feed(small("der++", memory=40, replay_batch=10), class_stream(8, batch=5))
    drawn, choose = [], learner.method.training_rows

    def training_rows(step):
        groups = choose(step)
        drawn.append((step.notes["distilled"].slots.tolist(), groups[1].slots.tolist()))
        return groups

    learner.method.training_rows = training_rows
    feed(learner, class_stream(4))
    for one, two in drawn:
        assert len(set(one)) == len(set(two)) == 10 and set(one) != set(two)


def test_derpp_stores_the_logits_from_before_the_step():
    x, labels = class_stream(1)[0]
    learner, untrained = small("der++", memory=4), small("fine-tune", lr=0.0)
    learner.learn(x, labels)
    untrained.learn(x, labels)
    stored = learner.memory.field("logits")
    before = untrained.network(untrained.preprocess.plain(torch.from_numpy(x)))
    torch.testing.assert_close(stored, before.detach())
    assert not stored.requires_grad


def test_derpp_stores_the_logits_of_the_augmented_view_in_train_mode():
    """Not those of the raw image, nor of running statistics; and of the whole head if it counts."""
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 5))
    options = {"augment": "crop1+flip", "memory": 6, "scope": "all", "head_size": 7}
    learner, expected = small("der++", model, **options), []
    loss = learner.method.loss

    def spied(step):
        assert not torch.equal(step.incoming.x, step.incoming.plain())
        with frozen_statistics(step.network, "train"), torch.no_grad():
            expected.append(step.network(step.incoming.x))
        return loss(step)

    learner.method.loss = spied
    learner.learn(images(6), [0, 1, 2, 0, 1, 2])
    stored = learner.memory.field("logits")
    assert stored.shape == (6, 7)
    torch.testing.assert_close(stored, expected[0])
    with torch.no_grad():
        plain = learner.network.eval()(learner.preprocess.plain(learner.memory.field("x")))
    assert not torch.allclose(stored, plain, atol=1e-3)


def test_derpp_pulls_nothing_while_the_network_stands_still():
    """Identity augmentation, no BatchNorm, learning rate 0: stored and present logits agree."""
    x, y = blobs(6, classes=2)

    def losses(spec):
        learner = small(spec, nn.Linear(DIM, 3).requires_grad_(False), lr=0.0, seed=2)
        return [learner.learn(x, [*y[:4], 0, 1]).loss for _ in range(4)]

    torch.manual_seed(0)
    strong = losses("der++:alpha=100")
    torch.manual_seed(0)
    assert strong == pytest.approx(losses("der++:alpha=0"), rel=1e-6)


# ---- SS-IL ---------------------------------------------------------------------------------------

OLD = torch.tensor([[1.5, 0.2], [0.1, 1.0]])


def in_second_task(spec="ss-il:groups=task"):
    """Classes 0 and 1 came with the first task, 2 and 3 with the second, which is now."""
    method = compose(spec).method
    method.tensors = {"first_task": torch.tensor([0, 0, 1, 1]), "task": torch.tensor(1)}
    return method


def give_teacher(method, logits):
    method.teacher = fixed_teacher(logits)


def test_ss_il_worked_total():
    method = in_second_task()
    give_teacher(method, OLD)
    incoming, replayed = Group([[1.0, 0, 2, 0.5]], [2]), Group([[0.3, 1.2, 4, -1]], [1])
    assert_value(method.loss(step_of(incoming, replayed)), 0.2764300)


def test_ss_il_worked_parts_without_tasks():
    method = compose("ss-il").method
    incoming = Group([[1.0, 0, 2, 0.5], [0.0, 0, 0, 50]], [2, 3])  # the second makes 3 present
    replayed = Group([[0.3, 1.2, 4, -1]], [1])
    assert_value(method.loss(step_of(incoming, replayed)) * 3, 0.2014133 + 0.3411539)
    logits = torch.tensor([[1.0, 0, 2, 0.5], [0.3, 1.2, 4, -1]])
    absent = torch.tensor([True, True, False, False])
    give_teacher(method, OLD)
    assert_value(method.distillation(logits, logits, [absent]), 0.0051464)  # type: ignore[attr-defined]
    give_teacher(method, logits[:, :2])  # the teacher says what the student says
    assert_value(method.distillation(logits, logits, [absent]), 0.0)  # type: ignore[attr-defined]


def test_ss_il_worked_numbers_with_replayed_rows_over_all_seen_classes():
    rows = [[1.0, 0, 2, 0.5], [0.2, 0.4, 0, 1], [0.3, 1.2, 4, -1], [1, 0, 0.5, 2]]
    incoming, replayed = Group(rows[:2], [2, 3]), Group(rows[2:], [1, 3])
    loss = compose("ss-il:replayed=seen").method.loss(step_of(incoming, replayed))
    present = np.array([0, 0, 1, 1])
    expected = np.concatenate(
        [numpy_loss(rows[:2], [2, 3], present), numpy_loss(rows[2:], [1, 3])]
    ).mean()
    assert_value(loss, expected)
    loss.backward()
    assert incoming.x.grad[:, :2].eq(0).all() and replayed.x.grad.ne(0).all()
    # The parts by hand: .2014133 and .0051464 are SS-IL's above, 2.8882595 is ER-ACE's.
    method = in_second_task("ss-il:groups=task,replayed=seen")
    give_teacher(method, OLD)
    incoming, replayed = Group(rows[:1], [2]), Group(rows[2:3], [1])
    expected = (0.2014133 + 2.8882595) / 2 + 0.0051464
    assert_value(method.loss(step_of(incoming, replayed)), expected)


def test_ss_il_distils_only_what_the_teacher_knows():
    method = compose("ss-il").method
    logits = torch.randn(2, 4)
    for known, absent in ((1, [True, True, False, False]), (4, [False, True, False, False])):
        give_teacher(method, torch.randn(2, known))
        assert_value(method.distillation(logits, logits, [torch.tensor(absent)]), 0.0)  # type: ignore[attr-defined]


def test_ss_il_distils_all_rows_on_the_absent_classes_that_the_teacher_knows():
    """Task-free: one group, what the batch has not and the teacher has."""
    teacher = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))  # the fifth is new
    rows = [[1.0, 0, 2, 0.5, 0], [0.2, 0.4, 0, 1, 3], [0.3, 1.2, 4, -1, 1]]
    incoming, replayed = Group(rows[:2], [2, 4]), Group(rows[2:], [1])
    method = compose("ss-il").method
    alone = method.loss(step_of(incoming, replayed))
    give_teacher(method, teacher)
    absent = [0, 1, 3]
    expected = distillation(
        torch.tensor(rows)[:, absent], teacher[:, absent], 2.0, form="kl", scaled=True
    )
    assert_value(method.loss(step_of(incoming, replayed)) - alone, float(expected))


def test_ss_il_groups_do_not_touch_each_other():
    incoming, replayed = Group([[1.0, 0, 2, 0.5]], [2]), Group([[0.3, 1.2, 4, -1]], [1])
    compose("ss-il").method.loss(step_of(incoming, replayed)).backward()
    assert incoming.x.grad[0, [0, 1, 3]].eq(0).all()
    assert replayed.x.grad[0, 2] == 0 and replayed.x.grad[0, 3] != 0
    incoming, replayed = Group([[1.0, 0, 2, 0.5]], [2]), Group([[0.3, 1.2, 4, -1]], [1])
    in_second_task().loss(step_of(incoming, replayed)).backward()
    assert incoming.x.grad[0, :2].eq(0).all() and incoming.x.grad[0, 3] != 0
    assert replayed.x.grad[0, 2:].eq(0).all()


def test_ss_il_distils_each_earlier_task_by_itself():
    method = compose("ss-il:groups=task").method
    method.tensors = {"first_task": torch.tensor([0, 0, 1, 1, 2]), "task": torch.tensor(2)}
    teacher, logits = torch.randn(3, 4), torch.randn(3, 5)
    give_teacher(method, teacher)
    step = step_of(Group(logits.tolist(), [4, 4, 4]))
    _, groups = method.split(step, 5)  # type: ignore[attr-defined]
    expected = sum(
        4 * F.kl_div((logits[:, part] / 2).log_softmax(1), (teacher[:, part] / 2).softmax(1),
                     reduction="batchmean")
        for part in (slice(0, 2), slice(2, 4))
    )  # fmt: skip
    torch.testing.assert_close(method.distillation(logits, logits, groups), expected)  # type: ignore[attr-defined]


def teachers(learner, stream):
    """The teacher's weights after each step."""
    seen = []
    for x, labels in stream:
        learner.learn(x, labels)
        teacher = learner.method.teacher.network
        seen.append(teacher and {k: v.clone() for k, v in teacher.state_dict().items()})
    return seen


def test_ss_il_teacher_is_renewed_every_so_many_steps_and_never_changes_between():
    learner = small("ss-il:refresh=3", model=Noisy())
    seen = teachers(learner, class_stream(9))
    assert seen[:2] == [None, None]
    assert same(seen[2], seen[3]) and same(seen[2], seen[4]) and not same(seen[4], seen[5])
    assert not any(module.training for module in learner.method.teacher.network.modules())


def test_ss_il_original_form_renews_its_teacher_at_task_ends():
    learner = small("ss-il:groups=task,refresh=0", model=Noisy())
    by_tasks(learner, class_stream(8), tasks=2)
    assert learner.method.tensors["first_task"].tolist() == [0, 0, 1, 1]
    learner.start_task()
    after = learner.method.teacher.network.state_dict()
    assert same(dict(after), parameters(learner))
    for seen in teachers(learner, class_stream(3)):
        assert same(seen, dict(after))


@pytest.mark.parametrize("spec", ["ss-il:groups=task", "ss-il:refresh=0"])
def test_ss_il_original_form_needs_boundaries(spec):
    assert "boundaries" not in compose("ss-il").method.needs
    learner = small(spec)
    with pytest.raises(InputError, match="needs task boundaries"):
        learner.learn(*blobs(4))
    learner.start_task()
    learner.end_task()  # nothing to copy yet


def test_ss_il_original_form_resumes_exactly(tmp_path):
    stream = class_stream(12, classes=6)
    spec = "ss-il:groups=task,refresh=0"
    whole = by_tasks(small(spec, Noisy()), stream, tasks=3)
    part = by_tasks(small(spec, Noisy()), stream[:8], tasks=2)
    part.save(tmp_path)
    rest = by_tasks(Learner.load(tmp_path, Noisy()), stream[8:], tasks=1)
    assert rest.fingerprint() == whole.fingerprint()


# ---- ER-CBL --------------------------------------------------------------------------------------


def test_er_cbl_worked_weights():
    labels = torch.tensor([0] * 16 + [1] * 16 + [2] * 2 + [3] * 4)
    expected = torch.tensor([0.28588, 0.28588, 2.28542, 1.14282, 0])
    torch.testing.assert_close(class_weights(labels, 5, 0.9999), expected, rtol=0, atol=1e-5)
    few = class_weights(torch.tensor([0, 0, 1, 2]), 3, 0.9999)
    torch.testing.assert_close(few, torch.tensor([0.600024, 1.199988, 1.199988]))
    assert class_weights(labels, 4, 0.0).eq(1).all()
    inverse = torch.tensor([0.28571, 0.28571, 2.28571, 1.14286])  # the limit: 1 / frequency
    torch.testing.assert_close(class_weights(labels, 4, 0.9999999), inverse, rtol=0, atol=1e-5)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.floats(0, 0.9999))
def test_er_cbl_weights_sum_to_the_present_classes(labels, beta):
    weights = class_weights(torch.tensor(labels), 8, beta)
    assert float(weights.sum()) == pytest.approx(len(set(labels)), rel=1e-4)
    assert {index for index, w in enumerate(weights.tolist()) if w > 0} == set(labels)


def test_er_cbl_is_er_when_the_classes_are_even_and_pushes_absent_classes_unlike_las():
    group = Group([[1.0, 0, 2], [0, 1, 0]], [0, 1])
    loss = compose("er-cbl").method.loss(step_of(group))
    torch.testing.assert_close(loss, F.cross_entropy(group.x, group.y))
    loss.backward()
    assert group.x.grad[:, 2].ne(0).all()


def test_er_cbl_weighs_the_whole_batch():
    incoming, replayed = Group([[1.0, 0, 2], [0, 1, 0]], [0, 0]), Group([[0.0, 1, 1]], [2])
    loss = compose("er-cbl").method.loss(step_of(incoming, replayed))
    rows = F.cross_entropy(
        torch.cat([incoming.x, replayed.x]), torch.tensor([0, 0, 2]), reduction="none"
    )
    w = class_weights(torch.tensor([0, 0, 2]), 3, 0.9999)
    torch.testing.assert_close(loss, (w[0] * rows[0] + w[0] * rows[1] + w[2] * rows[2]) / 3)


def test_er_cbl_focal_form_by_the_letter():
    logits, y = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 1])
    for gamma in (0.0, 0.5, 2.0):
        for row, label, found in zip(logits, y, focal_losses(logits, y, gamma), strict=True):
            p = row.sigmoid()
            right = torch.where(torch.arange(3) == label, p, 1 - p)
            torch.testing.assert_close(found, -((1 - right) ** gamma * right.log()).sum())
    binary = F.binary_cross_entropy_with_logits(
        logits, F.one_hot(y, 3).double(), reduction="none"
    ).sum(1)
    torch.testing.assert_close(focal_losses(logits, y, 0.0), binary)
    saturated = torch.tensor([[200.0, -200.0]], requires_grad=True)
    focal_losses(saturated, torch.tensor([0]), 0.5).sum().backward()
    assert saturated.grad.isfinite().all()
    incoming = Group([[1.0, 0, 2], [0, 1, 0]], [0, 1])
    loss = compose("er-cbl:form=focal").method.loss(step_of(incoming))
    torch.testing.assert_close(loss, focal_losses(incoming.x, incoming.y, 0.5).mean())


def test_er_cbl_focal_form_has_no_las():
    assert isinstance(compose("er-cbl-las").criterion, LogitAdjustedSoftmax)
    with pytest.raises(InputError, match="no softmax to adjust"):
        compose("er-cbl-las:form=focal")
