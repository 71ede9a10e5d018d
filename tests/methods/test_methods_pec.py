"""PEC: a student a class, and the network and settings it is compared with."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream import Learner
from evenstream.composition import compose
from evenstream.data.known import DATASETS
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.methods.parts.imitation import (
    imitation_network,
    remaining_share,
    squared_errors,
    stack_weights,
)
from evenstream.streams.catalogue import STREAMS
from tests.helpers.small_streams import blobs, class_stream, feed, same, small

# ---- the networks of PEC -------------------------------------------------------------------------


def count(network):
    return sum(p.numel() for p in network.parameters())


def test_pec_parameter_counts():
    assert count(imitation_network(784, 10, 99)) == 8_959
    assert count(imitation_network(784, 10 * 500, 99)) == 4_430_099


def always(value):
    """A student that answers every input with the same number."""
    student = imitation_network(3, 2, 4)
    with torch.no_grad():
        student[-1].weight.zero_()
        student[-1].bias.fill_(value)
    return student


def test_pec_golden_errors():
    students = [always(error**0.5) for error in (0.02, 0.05, 0.01)]
    found = squared_errors(students[0], stack_weights(students), torch.randn(5, 3), torch.zeros(4))
    torch.testing.assert_close(found, torch.tensor([[0.02, 0.05, 0.01]]).expand(5, 3))
    assert found.argmin(1).tolist() == [2] * 5


def test_pec_errors_are_the_loop_over_students():
    students = [imitation_network(12, 5, 7) for _ in range(4)]
    teacher, x = imitation_network(12, 50, 7), torch.randn(9, 3, 2, 2)
    target = teacher(x).detach()
    found = squared_errors(students[0], stack_weights(students), x, target)
    loop = torch.stack([F.mse_loss(s(x), target, reduction="none").mean(1) for s in students], 1)
    torch.testing.assert_close(found, loop.detach())
    fewer = squared_errors(students[0], stack_weights(students[:3]), x, target)
    assert torch.equal(fewer, found[:, :3])  # one class more leaves the others' scores


@given(st.integers(1, 10**6))
def test_pec_rate_falls_linearly_and_never_to_zero(total):
    assert remaining_share(0, total) == 1
    assert remaining_share(total - 1, total) == remaining_share(total + 5, total) == 1 / total
    middle = total // 2
    assert remaining_share(middle, total) == pytest.approx(1 - min(middle, total - 1) / total)


# ---- PEC -----------------------------------------------------------------------------------------


TINY = "pec:hidden=4,teacher_width=5,outputs=6"
COUNTS = {"a": 7, "b": 5, "c": 3}


def singles(seed=0):
    """Samples one by one, as many of each class as announced, mixed."""
    draw = np.random.default_rng(seed)
    labels = [label for label, count in COUNTS.items() for _ in range(count)]
    own = {label: list(blobs(7, seed=ord(label))[0]) for label in COUNTS}
    return [(own[label].pop(0)[None], [label]) for label in draw.permutation(labels).tolist()]


def pec(stream, spec=TINY):
    learner = small(spec)
    learner.start_task(COUNTS)
    return feed(learner, stream)


def students(learner):
    """The weights of each class's student, by label."""
    names = {label: f"student-{index}" for index, label in enumerate(learner.labels)}
    return {label: learner.method.modules[name].state_dict() for label, name in names.items()}


def test_pec_students_depend_on_their_own_class_only():
    one, two = (pec(singles(seed)) for seed in (0, 1))
    assert one.labels != two.labels
    assert all(same(weights, students(two)[label]) for label, weights in students(one).items())


def test_pec_students_do_not_care_who_shares_their_batch():
    x, _ = blobs(6)
    alone = pec([(x[:4], ["a"] * 4), (x[4:], ["b"] * 2)])
    mixed = pec([(x[[0, 4, 1, 5, 2, 3]], ["a", "b", "a", "b", "a", "a"])])
    for label, weights in students(alone).items():
        torch.testing.assert_close(students(mixed)[label], weights)


@pytest.mark.parametrize("schedule", ["linear", "constant"])
def test_pec_is_adam_with_a_rate_of_its_own_for_each_class(schedule):
    learner = pec(singles(), f"{TINY},schedule={schedule},student_lr=0.02")
    teacher, untrained = (learner.method.modules[name] for name in ("teacher", "untrained"))
    for label, count in COUNTS.items():
        student = copy.deepcopy(untrained).requires_grad_(True)
        adam = torch.optim.Adam(student.parameters(), lr=0.02)
        rows = [x for x, (own,) in singles() if own == label]
        for number, x in enumerate(map(torch.from_numpy, rows)):
            if schedule == "linear":
                adam.param_groups[0]["lr"] = 0.02 * (1 - number / count)
            adam.zero_grad()
            (student(x) - teacher(x)).square().mean().backward()
            adam.step()
        for name, value in student.state_dict().items():
            torch.testing.assert_close(students(learner)[label][name], value)


def test_pec_students_begin_alike_and_the_teacher_never_changes():
    learner = pec(singles(), f"{TINY},student_lr=0")
    untrained = learner.method.modules["untrained"].state_dict()
    assert all(same(weights, untrained) for weights in students(learner).values())
    first, last = pec(singles()[:1]), pec(singles())
    for name in ("teacher", "untrained"):
        assert same(*(each.method.modules[name].state_dict() for each in (first, last)))


def test_pec_predicts_the_class_whose_student_errs_least():
    learner, (x, _) = pec(singles()), blobs(9, seed=4)
    teacher, rows = learner.method.modules["teacher"], torch.from_numpy(x)
    errors = [
        (learner.method.modules[f"student-{index}"](rows) - teacher(rows)).square().mean(1)
        for index in range(3)
    ]
    torch.testing.assert_close(
        torch.from_numpy(learner.scores(x)), -torch.stack(errors, 1).detach()
    )
    best = torch.stack(errors, 1).argmin(1).tolist()
    assert learner.predict(x).tolist() == [learner.labels[index] for index in best]


def test_pec_is_measured_before_it_learns():
    learner = pec(singles())
    for x, labels in singles(seed=2):
        expected = float(learner.predict(x).tolist() == labels)
        assert learner.learn(x, labels).accuracy == expected


def test_pec_scores_stay_when_a_class_is_added():
    learner, (x, _) = pec(singles()), blobs(9, seed=4)
    learner.end_task()
    learner.start_task({"new": 9})
    before = torch.from_numpy(learner.scores(x))
    learner.learn(x, ["new"] * len(x))
    after = torch.from_numpy(learner.scores(x))
    assert after.shape[1] == 4 and torch.equal(after[:, :3], before)


def rates(learner, stream):
    """The learning rate of every step that an optimiser makes."""
    found, optimise = [], learner.update

    def spied(loss, name):
        found.append((name[-1], learner.method.optimizers[name].param_groups[0]["lr"]))
        optimise(loss, name)

    learner.update = spied
    feed(learner, stream)
    return found


def test_pec_rates_follow_the_samples_of_a_class_and_start_anew_with_each_pass():
    learner, (x, _) = small(TINY), blobs(6)
    batch = (x, ["a", "b", "a", "a", "b", "a"])
    learner.start_task({"a": 8, "b": 4})
    once = [("0", 0.01), ("1", 0.01), ("0", 0.005), ("1", 0.005)]
    assert rates(learner, [batch] * 2) == once
    learner.start_epoch()
    assert rates(learner, [batch] * 2) == once
    learner.end_task()
    learner.start_task({"b": 4})
    more = rates(learner, [(x[:2], ["b", "b"])] * 3)
    assert more == [("1", 0.01), ("1", 0.005), ("1", 0.0025)]  # more came than were announced


def test_pec_undoes_all_students_when_one_is_refused():
    learner = pec(singles()[:6])
    before = learner.fingerprint()
    x, _ = blobs(4)
    x[3] = 3e38
    with pytest.raises(NonFiniteLoss):
        learner.learn(x, ["a", "a", "b", "c"])
    assert learner.fingerprint() == before


def test_pec_needs_counts_only_for_its_schedule():
    with pytest.raises(InputError, match="label_counts"):
        small(TINY).start_task()
    learner = feed(small(f"{TINY},schedule=constant"), class_stream(60))
    x, labels = class_stream(61)[-1]
    assert learner.predict(x).tolist() == labels


def test_pec_refuses_labels_that_were_not_announced():
    """It would not know the rate for them."""
    learner, (x, _) = small(TINY), blobs(2)
    learner.start_task({"a": 4, "b": 4, 1: 2, "none": 0})
    learner.learn(x, ["a", "b"])
    before = learner.fingerprint()
    for label in ("c", True, "none"):
        with pytest.raises(InputError, match=f"label {label!r} arrived, but"):
            learner.learn(x, ["a", label])
        assert learner.fingerprint() == before
    learner.end_task()
    learner.start_task({"b": 4})
    with pytest.raises(InputError, match="label 'a' arrived"):  # known, but of another task
        learner.learn(x, ["b", "a"])


def test_pec_has_neither_las_nor_another_rule():
    with pytest.raises(InputError, match="trains no softmax"):
        compose("pec-las")
    with pytest.raises(InputError, match="does not train the network that the rule ema uses"):
        small(f"{TINY},schedule=constant@ema")


# ---- the protocol --------------------------------------------------------------------------------


def test_c_mnist_has_the_network_and_the_settings_of_the_description():
    protocol = STREAMS["c-mnist"].protocol
    assert (protocol.network, protocol.batch, protocol.lr) == ("mlp", 32, 0.03)
    assert protocol.augment == "none" and DATASETS["mnist"].mean is None
    learner = Learner("las", protocol.network, memory=0, lr=protocol.lr, augment=protocol.augment)
    white = np.full((10, 1, 28, 28), 255, np.uint8)
    learner.learn(white, list(range(10)))
    assert count(learner.network) == 89_610
    assert torch.equal(learner.preprocess.plain(torch.from_numpy(white)), torch.ones(white.shape))


def test_pec_has_as_many_parameters_as_the_network_of_c_mnist():
    learner = Learner("pec:schedule=constant,teacher_width=1", "mlp")
    learner.learn(np.zeros((10, 1, 28, 28), np.uint8), list(range(10)))
    modules = learner.method.modules
    assert sum(count(modules[name]) for name in learner.method.optimizers) == 89_590
