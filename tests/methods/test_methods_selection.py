"""Methods that choose rows by gradients: MIR and OCS."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.classifier import Classifier
from evenstream.core.heads import GrowingHead
from evenstream.core.memory import X, Y
from evenstream.errors import InputError
from evenstream.methods.mir import MaximallyInterfered
from evenstream.methods.ocs import cosines, selection_scores
from evenstream.methods.parts.per_sample import (
    full_gradients,
    head_gradients,
    mean_full_gradient,
    mean_head_gradient,
)
from evenstream.methods.parts.virtual_step import losses_with, virtual_parameters
from evenstream.policies.retrieval import Uniform
from tests.helpers.method_samples import (
    EXACT,
    Group,
    by_tasks,
    linear,
    next_step,
    normed,
    watch_groups,
)
from tests.helpers.small_streams import Noisy, class_stream, feed, parameters, same, small

# ---- MIR -----------------------------------------------------------------------------------------

STORED = ([[0.0, 1], [1, 0], [1, 1], [0, 2]], [1, 0, 1, 1])


def test_mir_worked_losses():
    network = linear([[1, 0], [0, 1]])
    loss = F.cross_entropy(network(torch.ones(1, 2)), torch.tensor([0]))
    ahead = virtual_parameters(network, loss, lr=1.0)
    moved = ahead["head.weight"] - network.head.weight.detach()
    torch.testing.assert_close(moved, torch.tensor([[0.5, 0.5], [-0.5, -0.5]]))
    x, y = torch.tensor(STORED[0]), torch.tensor(STORED[1])
    before = losses_with(network, dict(network.named_parameters()), x, y)
    after = losses_with(network, ahead, x, y)
    pre = torch.tensor([0.3132617, 0.3132617, 0.6931472, 0.1269280])
    post = torch.tensor([0.6931472, 0.1269280, 2.1269280, 0.6931472])
    torch.testing.assert_close(before, pre, **EXACT)
    torch.testing.assert_close(after, post, **EXACT)
    assert not before.requires_grad and not after.requires_grad


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_mir_order_of_the_worked_example(monkeypatch, mode):
    candidates = Group(*STORED)
    candidates.take = lambda index: index.tolist()  # type: ignore[attr-defined]
    monkeypatch.setattr("evenstream.methods.mir.Uniform.pick", lambda *_: candidates)
    incoming = Group([[1.0, 1]], [0])
    step = SimpleNamespace(network=linear([[1, 0], [0, 1]]), incoming=incoming, lr=1.0)
    assert MaximallyInterfered(4, mode).pick(step, 3) == [2, 3, 0]


def test_mir_without_a_virtual_step_keeps_the_order_of_the_draw():
    """All scores are 0, and the sort is stable."""
    learner = feed(small("mir", normed(), memory=12), class_stream(6))
    learner.lr = 0.0
    step = next_step(learner, *class_stream(7)[-1])
    state = learner.randomness.state()
    picked = MaximallyInterfered(8).pick(step, 4).slots
    learner.randomness.load_state(state)
    assert torch.equal(picked, Uniform().pick(step, 8).slots[:4])


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_mir_retrieval_leaves_network_and_batchnorm_alone_and_takes_the_scored_views(mode):
    spec = f"mir:subsample=10,scoring={mode}"
    learner = feed(small(spec, model=Noisy(), memory=12), class_stream(8))
    before, modes = parameters(learner), [m.training for m in learner.network.modules()]
    step = next_step(learner, *class_stream(9)[-1])
    picked = learner.method.retrieval.pick(step, 4)
    assert same(parameters(learner), before)
    assert [m.training for m in learner.network.modules()] == modes
    assert all(p.grad is None for p in learner.network.parameters())
    assert picked.made is not None and len(set(picked.slots.tolist())) == 4


def test_mir_scoring_modes_differ_with_batchnorm():
    picks = []
    for mode in ("train", "eval"):
        learner = feed(small(f"mir:scoring={mode}", normed(), memory=40), class_stream(12))
        seen = watch_groups(learner)
        feed(learner, class_stream(6, seed=2))
        picks.append([groups[1].slots.tolist() for groups in seen])
    assert picks[0] != picks[1]


def test_mir_with_as_many_candidates_as_rows_is_er():
    stream = class_stream(12, classes=6)
    few, er = (feed(small(m, normed()), stream) for m in ("mir:subsample=4", "er"))
    assert same(parameters(few), parameters(er))


def test_mir_draws_five_candidates_for_each_row_unless_told_otherwise():
    stream = class_stream(12, classes=6)
    usual, told, more = (
        feed(small(m, normed(), memory=40), stream)
        for m in ("mir", "mir:subsample=20", "mir:subsample=40")
    )
    assert same(parameters(usual), parameters(told))
    assert not same(parameters(usual), parameters(more))


def test_mir_with_fewer_candidates_than_rows_takes_them_all():
    learner = feed(small("mir:subsample=2", memory=12), class_stream(6))
    assert learner.learn(*class_stream(7)[-1]).rows == 4 + 2


def test_mir_copies_no_network(monkeypatch):
    learner = feed(small("mir:subsample=10", Noisy()), class_stream(6))
    step = next_step(learner, *class_stream(7)[-1])

    def refuse(*_):
        raise AssertionError("a copy of the whole network")

    monkeypatch.setattr("copy.deepcopy", refuse)
    assert len(learner.method.retrieval.pick(step, 4)) == 4


def test_mir_replays_earlier_tasks_only_if_asked():
    learner = small("mir:exclude_current=true,subsample=8", memory=32)
    seen = watch_groups(learner)
    by_tasks(learner, class_stream(8), tasks=2)
    assert all(not len(groups[1]) for groups in seen[:4])  # nothing but the first task so far
    for incoming, replayed in seen[4:]:
        assert len(replayed) == 4
        assert set(replayed.y.tolist()) <= {0, 1} and set(incoming.y.tolist()) <= {2, 3}
    assert learner.memory.field("task").tolist() == [0] * 16 + [1] * 16


def test_mir_can_fill_its_memory_at_task_ends():
    learner = small("mir:update_at_task_end=true", memory=6)
    assert learner.needs == {"boundaries", "second_pass"}
    x, labels = map(np.concatenate, zip(*class_stream(4, classes=2), strict=True))
    data = x, list(labels)
    learner.start_task(data=data)
    feed(learner, class_stream(4, classes=2))
    assert len(learner.memory) == 0
    before = learner.fingerprint()
    with pytest.raises(InputError, match="pass all of it"):
        learner.end_task()
    assert learner.fingerprint() == before
    y = torch.tensor([learner.labels.index(label) for label in data[1]])
    learner.end_task(data)
    assert len(learner.memory) == 6 and learner.memory.seen == 16
    rows = {tuple(row.tolist()): int(label) for row, label in zip(x, y, strict=True)}
    for row, label in zip(learner.memory.field(X), learner.memory.field(Y), strict=True):
        assert rows[tuple(row.tolist())] == label
    learner.start_task(data=data)
    assert learner.learn(*class_stream(1)[0]).rows == 4 + 4
    assert learner.memory.seen == 16


@pytest.mark.parametrize("option", ["exclude_current", "update_at_task_end"])
def test_mir_options_that_look_at_tasks_need_boundaries(option):
    assert compose("mir").method.needs == frozenset()
    learner = small(f"mir:{option}=true")
    with pytest.raises(InputError, match="needs task boundaries"):
        learner.learn(*class_stream(1)[0])


def test_mir_that_excludes_the_current_task_resumes_exactly(tmp_path):
    stream, spec = class_stream(12, classes=6), "mir:exclude_current=true"
    whole = by_tasks(small(spec, Noisy()), stream, tasks=3)
    by_tasks(small(spec, Noisy()), stream[:8], tasks=2).save(tmp_path)
    rest = by_tasks(Learner.load(tmp_path, Noisy()), stream[8:], tasks=1)
    assert rest.fingerprint() == whole.fingerprint()


# ---- OCS -----------------------------------------------------------------------------------------

G = torch.tensor([[1.0, 0], [0.8, 0.6], [0, 2], [-1, 0]])
MEMORY = torch.tensor([1.0, 1])


def parts(g, memory):
    """S, D and A by themselves, out of scores with different weights."""
    s = cosines(g, g.mean(0)[None])[:, 0]
    return s, s - selection_scores(g, torch.zeros(2), 0.0), cosines(g, memory[None])[:, 0]


def test_ocs_worked_numbers():
    for found, expected in zip(
        parts(G, MEMORY),
        (
            [0.2941, 0.8087, 0.9558, -0.2941],
            [0.2, 0.4, 0.4, -0.2],
            [0.7071, 0.9899, 0.7071, -0.7071],
        ),
        strict=True,
    ):
        torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-4)
    assert selection_scores(G, MEMORY, 0.0).argsort(descending=True).tolist() == [2, 1, 0, 3]
    expected = torch.tensor([707.201, 990.358, 707.663, -707.201])
    scores = selection_scores(G, MEMORY, 1000.0)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-3)
    assert scores.argsort(descending=True).tolist() == [1, 2, 0, 3]  # by affinity


def test_ocs_scores_do_not_depend_on_the_lengths_of_gradients_but_for_the_mean():
    scaled = G * torch.tensor([[1.0], [5], [0.1], [2]])
    (s, d, a), (s2, d2, a2) = parts(G, MEMORY), parts(scaled, MEMORY)
    torch.testing.assert_close(d2, d)
    torch.testing.assert_close(a2, a)
    assert not torch.allclose(s2, s)
    assert cosines(torch.zeros(1, 2), MEMORY[None]).eq(0).all()
    tiny = torch.tensor([[1e-4, 0.0]])  # the product of the lengths counts as 1e-6 at least
    torch.testing.assert_close(cosines(tiny, tiny), torch.tensor([[0.01]]))


def test_ocs_diversity_counts_a_row_itself_and_its_copies():
    d = parts(G, MEMORY)[1]
    for row in range(4):
        off = (cosines(G, G)[row].sum() - 1) / 3
        torch.testing.assert_close(d[row], (1 + 3 * off) / 4)
    doubled = torch.cat([G, G[2:3]])
    assert parts(doubled, MEMORY)[1][2] > d[2]


def network_and_rows():
    torch.manual_seed(0)
    network = Classifier(nn.Linear(3, 4), GrowingHead(4, seed=0, size=3), torch.float32).eval()
    return network, torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])


def test_per_sample_gradients_agree_with_one_backward_a_row():
    network, x, y = network_and_rows()
    (full, logits), (head, same_logits) = (
        per_row(network, x, y) for per_row in (full_gradients, head_gradients)
    )
    torch.testing.assert_close(logits, network(x))
    torch.testing.assert_close(same_logits, network(x))
    for row in range(5):
        loss = F.cross_entropy(network(x[row : row + 1]), y[row : row + 1])
        every = torch.autograd.grad(loss, list(network.parameters()))
        torch.testing.assert_close(full[row], torch.cat([g.flatten() for g in every]))
        together = torch.cat([every[-2], every[-1][:, None]], 1).flatten()
        torch.testing.assert_close(head[row], together)
    delta, features = network(x).softmax(1) - F.one_hot(y), network.features(x)
    torch.testing.assert_close(head @ head.T, (delta @ delta.T) * (features @ features.T + 1))


def test_the_gradient_of_the_mean_is_the_mean_of_the_gradients():
    network, x, y = network_and_rows()
    for per_row, of_all in (
        (full_gradients, mean_full_gradient),
        (head_gradients, mean_head_gradient),
    ):
        torch.testing.assert_close(of_all(network, x, y), per_row(network, x, y)[0].mean(0))


def test_ocs_head_only_is_exact_when_there_is_nothing_below_the_head():
    stream = class_stream(8, batch=6)
    fast, exact = (
        feed(small(f"ocs:gradients={g}", nn.Flatten(), memory=30), stream) for g in ("head", "full")
    )
    assert torch.equal(fast.memory.field(X), exact.memory.field(X))
    assert same(parameters(fast), parameters(exact))


@pytest.mark.parametrize("gradients", ["head", "full"])
def test_ocs_scores_are_of_gradients_in_eval_mode_and_of_the_replayed_batch(gradients):
    learner = feed(small(f"ocs:gradients={gradients}", Noisy(), memory=30), class_stream(4))
    step = next_step(learner, *class_stream(5)[-1])
    network, incoming, replayed = learner.network, step.incoming, step.retrieve()
    nothing = replayed.take(torch.zeros(0, dtype=torch.int64))
    found = [learner.method.scores(step, rows) for rows in (replayed, nothing)]  # type: ignore[attr-defined]
    part = network.head if gradients == "head" else network
    trained = list(part.parameters())
    network.eval()

    def gradient(x, y):
        loss = F.cross_entropy(network(x), y)
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained)])

    own = torch.stack(
        [gradient(incoming.x[row : row + 1], incoming.y[row : row + 1]) for row in range(4)]
    )
    memory = gradient(replayed.x, replayed.y)
    expected = selection_scores(own, memory, 1000.0)
    torch.testing.assert_close(found[0], expected, rtol=1e-4, atol=1e-2)
    alone = selection_scores(own, torch.zeros_like(memory), 0.0)  # no memory, no affinity
    torch.testing.assert_close(found[1], alone, rtol=1e-4, atol=1e-4)


def test_ocs_that_keeps_everything_is_er():
    kept, plain = (feed(small(m, model=Noisy()), class_stream(10)) for m in ("ocs:keep=1", "er"))
    assert same(parameters(kept), parameters(plain))


def test_ocs_selects_by_scores_and_keeps_the_order_of_the_rows():
    learner = feed(small("ocs", memory=30), class_stream(4, batch=8))
    x, labels = class_stream(5, batch=8)[-1]
    step = next_step(learner, x, labels)
    trained, replayed = learner.method.training_rows(step)
    best = learner.method.scores(step, replayed).topk(4).indices.sort()[0]  # type: ignore[attr-defined]
    assert torch.equal(trained.raw, step.incoming.raw[best])
    assert torch.equal(learner.method.stored_rows(step), best)


@pytest.mark.parametrize("gradients", ["head", "full"])
def test_ocs_scoring_leaves_the_network_alone(gradients):
    learner = feed(small(f"ocs:gradients={gradients}", Noisy()), class_stream(4))
    before, modes = parameters(learner), [m.training for m in learner.network.modules()]
    learner.method.training_rows(next_step(learner, *class_stream(5)[-1]))
    assert same(parameters(learner), before)
    assert [m.training for m in learner.network.modules()] == modes
    assert all(p.grad is None for p in learner.network.parameters())


@pytest.mark.parametrize(
    ("selects", "trained", "stored"), [("both", 3, 3), ("training", 3, 6), ("storage", 6, 3)]
)
def test_ocs_selects_for_training_for_storage_or_both(selects, trained, stored):
    learner = small(f"ocs:selects={selects}", memory=100)
    seen = watch_groups(learner)
    feed(learner, class_stream(5, batch=6))
    assert [len(groups[0]) for groups in seen] == [trained] * 5
    assert len(learner.memory) == 5 * stored
