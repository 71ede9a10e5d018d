"""EWC: the Fisher information, and the penalty that it makes of past tasks."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream.composition import compose
from evenstream.core.classifier import Classifier
from evenstream.core.heads import GrowingHead
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.methods.ewc import add_penalties
from evenstream.methods.parts.fisher import fisher_diagonal, quadratic_penalty, rows_at_once
from tests.helpers.method_samples import assert_value, linear, normed
from tests.helpers.small_streams import DIM, Noisy, class_stream, feed, parameters, same, small

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
        expected += learner.method.strength * float(quadratic_penalty(weights, then, measured))  # type: ignore[attr-defined]
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


@pytest.mark.parametrize("spec", ["ewc", "ewc:strength=1e30", "ewc:tasks=separate,strength=1e4"])
def test_a_penalty_of_any_strength_lets_the_stream_end(spec):
    learner = small(spec, Noisy(), lr=0.1, momentum=0.5)
    for part, data in in_tasks(class_stream(18, classes=6), 3):
        learner.start_task(data=data)
        assert all(math.isfinite(learner.learn(*batch).loss) for batch in part)
        learner.end_task(data=data)
    assert all(bool(p.isfinite().all()) for p in learner.network.parameters())


@pytest.mark.parametrize(("fisher", "reach"), [(0.1, 0.2), (0.7, 1.4), (0.75, 1.5), (1e6, 1.5)])
def test_the_penalty_moves_a_weight_by_its_fisher_information_up_to_a_bound(fisher, reach):
    learner = small("ewc:strength=10", lr=0.1)
    (part, data), (later, second) = in_tasks(class_stream(16), 2)
    learner.start_task(data=data)
    feed(learner, part)
    learner.end_task(data=data)
    learner.start_task(data=second)
    rows, biases = len(learner.method.tensors["anchor/head.bias"]), []
    for information in (0.0, fisher):
        other = copy.deepcopy(learner)
        tensors = other.method.tensors
        for name, anchor in other.method.kept("anchor/").items():  # type: ignore[attr-defined]
            tensors[f"fisher/{name}"] = torch.full_like(anchor, information)
            tensors[f"anchor/{name}"] = anchor + 1
        other.learn(*later[0])
        biases.append(other.network.head.bias.detach()[:rows])
    torch.testing.assert_close(biases[1] - biases[0], torch.full((rows,), reach), rtol=0, atol=1e-4)


def test_ewc_that_blows_up_names_its_own_option():
    learner = small("ewc:strength=1e300", lr=0.1)
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
        compose("ewc:tasks=separate,gamma=0.5")


def test_gradients_of_as_many_rows_as_there_is_room_for():
    assert rows_at_once(trained_by_chance()) > 1000
    with torch.device("meta"):  # no memory is taken
        vast = Classifier(torch.nn.Linear(10**4, 10**4), GrowingHead(7, 0), torch.float32)
    assert rows_at_once(vast) == 1
