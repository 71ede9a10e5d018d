"""Methods without a memory: EWC, the labels trick, PEC, and Logit Adjusted Softmax alone."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from method_samples import Group, assert_value, linear, normed, step_of

from evenstream import Learner, LogitAdjustedSoftmax
from evenstream.cli.main import main
from evenstream.data.registry import DATASETS
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.learner.classifier import Classifier
from evenstream.learner.heads import GrowingHead
from evenstream.methods import make_method
from evenstream.methods.ewc import add_penalties
from evenstream.methods.parts.fisher import fisher_diagonal, quadratic_penalty, rows_at_once
from evenstream.methods.parts.imitation import (
    imitation_network,
    remaining_share,
    squared_errors,
    stack_weights,
)
from evenstream.streams.catalogue import STREAMS
from small_streams import DIM, Noisy, blobs, class_stream, feed, parameters, same, small

# ---- the Fisher information ----------------------------------------------------------------------


def trained_by_chance(classes=3):
    """A network with BatchNorm whose running statistics are not those of a batch."""
    network = Classifier(normed(), GrowingHead(7, seed=1, size=classes), torch.float32)
    network(torch.randn(20, DIM, generator=torch.Generator().manual_seed(5)))
    return network


def some_rows(count, classes=3, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, DIM, generator=draw), torch.arange(count) % classes


@pytest.mark.parametrize(("form", "expected"), [("empirical", 0.25), ("mammoth", 0.125)])
def test_fisher_golden_numbers(form, expected):
    network = linear([[0.0], [0.0]])
    found = fisher_diagonal(network, [(torch.ones(1, 1), torch.tensor([0]))], form)
    assert found.keys() == {"head.weight"}  # the bias is not trained here
    torch.testing.assert_close(found["head.weight"], torch.full((2, 1), expected))


@pytest.mark.parametrize("form", ["empirical", "mammoth"])
@pytest.mark.parametrize("chunk", [1, 4, 11])
def test_fisher_is_the_loop_over_single_rows(form, chunk):
    network, (x, y) = trained_by_chance(), some_rows(11)
    found = fisher_diagonal(network, zip(x.split(chunk), y.split(chunk), strict=True), form)
    network.eval()
    expected = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for row, label in zip(x, y, strict=True):
        network.zero_grad()
        loss = F.cross_entropy(network(row[None]), label[None])
        loss.backward()
        weight = (-loss).exp().detach() if form == "mammoth" else 1
        for name, parameter in network.named_parameters():
            expected[name] += weight * parameter.grad.square() / len(x)
    torch.testing.assert_close(found, expected)
    assert all(bool((part >= 0).all()) for part in found.values())


def test_fisher_leaves_the_network_alone():
    network = trained_by_chance()
    before = copy.deepcopy(network.state_dict())
    fisher_diagonal(network, [some_rows(6)])
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())
    assert all(module.training for module in network.modules())
    assert all(p.grad is None for p in network.parameters())


def test_penalty_golden_numbers():
    theta = torch.tensor([1.0, 2], requires_grad=True)
    fisher, anchor = torch.tensor([0.5, 0.25]), torch.zeros(2)
    penalty = 3 * quadratic_penalty({"w": theta}, {"w": anchor}, {"w": fisher})
    assert_value(penalty, 4.5)
    penalty.backward()
    torch.testing.assert_close(theta.grad, torch.tensor([3.0, 3]))


def test_penalty_leaves_rows_free_that_came_later():
    old = {"head": torch.tensor([[1.0, 2], [3, 4]]), "scale": torch.tensor(2.0)}
    fisher = {name: torch.ones_like(value) for name, value in old.items()}
    now = {"head": torch.cat([old["head"], torch.tensor([[50.0, 60]])]), "scale": torch.tensor(2.0)}
    assert_value(quadratic_penalty(now, old, fisher), 0.0)
    now["head"][0, 0] += 3
    now["scale"] += 1
    assert_value(quadratic_penalty(now, old, fisher), 10.0)


# ---- EWC -----------------------------------------------------------------------------------------


def in_tasks(stream, tasks):
    """The stream cut into tasks: the batches of each, and all its data."""
    size = len(stream) // tasks
    for first in range(0, size * tasks, size):
        part = stream[first : first + size]
        x, labels = zip(*part, strict=True)
        yield part, (np.concatenate(x), [label for batch in labels for label in batch])


def moved(network, seed=3):
    """The weights of a network, moved a bit at random."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: p.detach() + 0.1 * torch.randn(p.shape, generator=draw)
        for name, p in network.named_parameters()
    }


def penalty(learner, weights):
    method = learner.method
    total = quadratic_penalty(weights, method.kept("anchor/"), method.kept("fisher/"))
    return method.strength * (total + method.tensors["offset"])


def test_ewc_is_fine_tuning_until_the_first_task_is_over():
    (part, data), (later, second) = in_tasks(class_stream(16), 2)
    plain, ewc = (small(m, Noisy()) for m in ("fine-tune", "ewc"))
    for learner in (plain, ewc):
        learner.start_task(data=data)
        feed(learner, part)
    assert same(parameters(plain), parameters(ewc))
    for learner in (plain, ewc):
        learner.end_task(data=data)
        learner.start_task(data=second)
        feed(learner, later[:2])
    assert not same(parameters(plain), parameters(ewc))


@pytest.mark.parametrize(
    ("spec", "keep", "fisher"),
    [
        ("ewc", 1.0, "empirical"),
        ("ewc:gamma=0.25,strength=7", 0.25, "empirical"),
        ("ewc:fisher=mammoth", 1.0, "mammoth"),
        ("ewc:tasks=separate", None, "empirical"),
    ],
)
def test_ewc_penalty_is_the_sum_over_tasks(spec, keep, fisher):
    learner, tasks = small(spec, Noisy(), lr=0.01), []
    for part, data in in_tasks(class_stream(18, classes=6), 3):
        learner.start_task(data=data)
        feed(learner, part)
        x, y = data
        rows = torch.from_numpy(x), torch.tensor([learner.label_map.get(label) for label in y])
        network = learner.network
        measured = fisher_diagonal(network, [rows], fisher)
        tasks.append((measured, {n: p.detach().clone() for n, p in network.named_parameters()}))
        learner.end_task(data=data)
        if len(tasks) == 1 or keep is not None:
            assert_value(penalty(learner, dict(network.named_parameters())), 0.0)
    weights, expected = moved(learner.network), 0.0
    for task, (measured, then) in enumerate(tasks):
        if keep is not None:
            measured = {n: keep ** (len(tasks) - 1 - task) * f for n, f in measured.items()}
            then = tasks[-1][1]
        expected += learner.method.strength * float(quadratic_penalty(weights, then, measured))
    assert float(penalty(learner, weights)) == pytest.approx(expected, rel=1e-4)


def test_ewc_adds_the_penalty_to_the_loss():
    learner = small("ewc", lr=0.01)
    (part, data), (later, second) = in_tasks(class_stream(16), 2)
    learner.start_task(data=data)
    feed(learner, part)
    learner.end_task(data=data)
    learner.start_task(data=second)
    learner.learn(*later[0])
    x, labels = later[1]
    y = torch.tensor([learner.label_map.get(label) for label in labels])
    with torch.no_grad():
        plain = float(F.cross_entropy(learner.network(torch.from_numpy(x)), y))
        pull = float(penalty(learner, dict(learner.network.named_parameters())))
    assert pull > 0
    assert learner.learn(x, labels).loss == pytest.approx(plain + pull, rel=1e-5)


def test_ewc_forms_agree_while_the_weights_stay():
    online, separate = (small(m, Noisy()) for m in ("ewc", "ewc:tasks=separate"))
    (part, data), _ = in_tasks(class_stream(16), 2)
    for learner in (online, separate):
        learner.start_task(data=data)
        feed(learner, part)
        learner.end_task(data=data)
        learner.start_task(data=data)
        learner.end_task(data=data)
    weights = moved(online.network)
    assert_value(penalty(online, weights), float(penalty(separate, weights)))


numbers = st.lists(st.floats(-3, 3), min_size=3, max_size=3)
shares = st.lists(st.floats(0, 3), min_size=3, max_size=3)


@given(shares, numbers, shares, numbers, numbers)
def test_two_quadratic_penalties_are_one_and_a_constant(f1, a1, f2, a2, theta):
    f1, a1, f2, a2, theta = (torch.tensor(v, dtype=torch.float64) for v in (f1, a1, f2, a2, theta))
    f, a, constant = add_penalties(f1, a1, f2, a2)
    two = (f1 * (theta - a1) ** 2 + f2 * (theta - a2) ** 2).sum()
    torch.testing.assert_close((f * (theta - a) ** 2).sum() + constant, two)
    assert torch.equal(f == 0, (f1 == 0) & (f2 == 0)) and bool(a.isfinite().all())


def test_ewc_that_blows_up_names_its_own_option():
    learner = small("ewc:strength=1e30", lr=0.1)
    (part, data), (later, second) = in_tasks(class_stream(16), 2)
    learner.start_task(data=data)
    feed(learner, part)
    learner.end_task(data=data)
    learner.start_task(data=second)
    with pytest.raises(NonFiniteLoss, match=r"step was not made. Lower .*ewc:strength=.*or the"):
        feed(learner, later)


def test_ewc_says_what_it_needs():
    learner = small("ewc")
    with pytest.raises(InputError, match="more than once"):
        learner.start_task()
    with pytest.raises(InputError, match="gamma is an option of tasks=online"):
        make_method("ewc:tasks=separate,gamma=0.5")


def test_gradients_of_as_many_rows_as_there_is_room_for():
    assert rows_at_once(trained_by_chance()) > 1000
    with torch.device("meta"):  # no memory is taken
        vast = Classifier(torch.nn.Linear(10**4, 10**4), GrowingHead(7, 0), torch.float32)
    assert rows_at_once(vast) == 1


# ---- the labels trick, and LAS without memory ----------------------------------------------------


def trick(logits, labels):
    """The loss and its gradient with respect to the logits."""
    group = Group(logits, labels)
    loss = make_method("labels-trick").loss(step_of(group))
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
    assert make_method("las").spec == "fine-tune-las"
    assert make_method("las:window=3@ema").spec == "fine-tune-las:window=3@ema"
    one, two = (feed(small(m), class_stream(8)) for m in ("las", "fine-tune-las"))
    assert one.fingerprint() == two.fingerprint()
    assert main(["methods"]) == 0
    assert "fine-tune, fine-tune-las, las\n" in capsys.readouterr().out


@pytest.mark.parametrize(("spec", "alone"), [("er", "fine-tune"), ("er-las", "las")])
def test_replay_without_a_memory_is_the_method_without_replay(spec, alone):
    one, two = (feed(small(m, memory=0), class_stream(8)) for m in (spec, alone))
    assert same(parameters(one), parameters(two))


def test_a_longer_window_lets_recent_classes_be_negatives():
    labels = [["a", "b"] * 2, ["c", "d"] * 2, ["c", "d"] * 2]
    moved_rows = []
    for window in (1, 2):
        learner, (x, _) = small(f"las:window={window}"), blobs(4)
        for batch in labels[:2]:
            before = learner.network and learner.network.head.weight.detach().clone()
            learner.learn(x, batch)
        moved_rows.append(not torch.equal(learner.network.head.weight[:2], before))
    assert moved_rows == [False, True]


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
    torch.testing.assert_close(learner.scores(x), -torch.stack(errors, 1).detach())
    best = torch.stack(errors, 1).argmin(1).tolist()
    assert learner.predict(x) == [learner.labels[index] for index in best]


def test_pec_is_measured_before_it_learns():
    learner = pec(singles())
    for x, labels in singles(seed=2):
        expected = float(learner.predict(x) == labels)
        assert learner.learn(x, labels).accuracy == expected


def test_pec_scores_stay_when_a_class_is_added():
    learner, (x, _) = pec(singles()), blobs(9, seed=4)
    learner.end_task()
    learner.start_task({"new": 9})
    before = learner.scores(x)
    learner.learn(x, ["new"] * len(x))
    after = learner.scores(x)
    assert after.shape[1] == 4 and torch.equal(after[:, :3], before)


def rates(learner, stream):
    """The learning rate of every step that an optimiser makes."""
    found, optimise = [], learner.optimise

    def spied(loss, name):
        found.append((name[-1], learner.method.optimizers[name].param_groups[0]["lr"]))
        optimise(loss, name)

    learner.optimise = spied
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
    assert learner.predict(x) == labels


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
        make_method("pec-las")
    with pytest.raises(InputError, match="does not train the network that the rule ema asks"):
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
