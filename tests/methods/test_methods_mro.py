"""MRO: it trains on the memory only."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream.errors import InputError
from tests.helpers.method_samples import watch_groups
from tests.helpers.small_streams import DIM, blobs, class_stream, feed, parameters, same, small


def test_mro_never_looks_at_the_incoming_images():
    first, second, *_ = class_stream(4)
    one, other = (feed(small("mro", batch=4), [first]) for _ in range(2))
    untrained = parameters(one)
    assert one.learn(*second).rows == 4
    other.learn(second[0] + 100, second[1])
    assert same(parameters(one), parameters(other)) and not same(parameters(one), untrained)
    with pytest.raises(InputError, match="cannot do without a memory"):
        small("mro", memory=0)


def test_mro_makes_no_update_before_it_has_a_memory():
    learner, idle = small("mro"), small("fine-tune", lr=0.0)
    x, labels = class_stream(1)[0]
    result = learner.learn(x, labels)
    idle.learn(x, labels)
    assert (result.loss, result.rows) == (None, 0)
    assert same(parameters(learner), parameters(idle))


@pytest.mark.parametrize(("spec", "rows"), [("mro", 4 + 6), ("mro:rows=3", 3), ("mro:rows=99", 20)])
def test_mro_replays_as_many_rows_as_asked_each_once(spec, rows):
    learner = feed(small(spec, batch=4, replay_batch=6, memory=20), class_stream(6))
    seen = watch_groups(learner)
    assert learner.learn(*class_stream(7)[-1]).rows == rows
    assert len(set(seen[0][0].slots.tolist())) == rows


def test_mro_can_update_first():
    learner = small("mro:update_first=true")
    x, labels = class_stream(1)[0]
    result = learner.learn(x, labels)
    assert result.rows == 4 and result.loss > 0


def test_mro_on_its_whole_memory_is_full_batch_training_of_the_prefix():
    torch.manual_seed(0)
    module = nn.Linear(DIM, 6)
    learner = small("mro:rows=1000", model=module, memory=100)
    x, y = blobs(12, classes=3)
    learner.learn(x, y)  # all three classes are there
    weights = [p.detach().clone().requires_grad_() for p in learner.network.parameters()]
    for start in (4, 8, 12):
        learner.learn(*blobs(4, classes=3, seed=start))
        prefix, labels = blobs(12, classes=3)
        for earlier in range(4, start, 4):
            more, also = blobs(4, classes=3, seed=earlier)
            prefix, labels = np.concatenate([prefix, more]), labels + also
        index = torch.tensor([learner.labels.index(label) for label in labels])
        hidden = F.linear(torch.from_numpy(prefix), weights[0], weights[1])
        loss = F.cross_entropy(F.linear(hidden, weights[2], weights[3]), index)
        steps = torch.autograd.grad(loss, weights)
        weights = [
            (w - 0.05 * g).detach().requires_grad_() for w, g in zip(weights, steps, strict=True)
        ]
        for mine, theirs in zip(learner.network.parameters(), weights, strict=True):
            torch.testing.assert_close(mine, theirs)


def test_mro_cannot_teach_a_class_that_never_entered_the_memory():
    """Its softmax may push the class down (plain), but nothing pulls it up; LAS leaves it alone."""
    for spec, falls in (("mro", True), ("mro-las", False)):
        learner = feed(small(spec, nn.Flatten()), class_stream(2, classes=2))
        drawn = small("fine-tune", nn.Flatten(), lr=0.0, head_size=3)
        x, labels = class_stream(1)[0]
        drawn.learn(x, labels)
        learner.learn(x, ["new"] * len(labels))
        change = (learner.network.head.bias - drawn.network.head.bias)[2]
        assert (change < 0) if falls else (change == 0)
