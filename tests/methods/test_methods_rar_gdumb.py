"""RAR is replay, several times, on stronger views; GDumb is training on its memory alone."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evenstream.core.memory import X, Y
from evenstream.errors import InputError, NonFiniteLoss
from tests.helpers.small_streams import (
    Noisy,
    class_stream,
    feed,
    images,
    parameters,
    refused,
    same,
    small,
)


@pytest.mark.parametrize("form", ["", "-las"])
def test_rar_on_tables_is_er_with_several_steps(form):
    one = feed(small(f"rar{form}:iterations=3", Noisy()), class_stream(8))
    two = feed(small(f"er{form}", Noisy(), steps=3, step_rows="repeat"), class_stream(8))
    assert same(parameters(one), parameters(two))
    assert torch.equal(one.memory.field(X), two.memory.field(X))


@pytest.mark.parametrize(
    ("spec", "augment", "as_if"),
    [
        ("rar", "none", "randaugment1@14"),
        ("rar", "crop+flip", "crop+flip+randaugment1@14"),
        ("rar", "randaugment3@5", "randaugment3@5"),
        ("rar:view=stream", "crop+flip", "crop+flip"),
    ],
)
def test_rar_makes_stronger_views_of_images(spec, augment, as_if):
    colon = "," if ":" in spec else ":"
    one = small(f"{spec}{colon}iterations=2", "convnet", augment=augment)
    two = small("er", "convnet", augment=as_if, steps=2, step_rows="repeat")
    for seed in range(3):
        for learner in (one, two):
            learner.learn(images(6, side=16, channels=3, seed=seed), [0, 1, 2] * 2)
    assert same(parameters(one), parameters(two))


@pytest.mark.parametrize("method", ["rar", "gdumb"])
def test_their_steps_are_their_own(method):
    with pytest.raises(InputError, match="several steps"):
        small(method, steps=2)


def test_gdumb_trains_on_its_memory_from_the_initial_weights():
    """Against the training written by hand, with Adam, after the second of two tasks."""
    options = {"memory": 9, "batch": 4, "lr": 0.01, "optimizer": "adam"}
    learner = small("gdumb:epochs=2", "mlp", **options)
    stream = class_stream(12, batch=5)
    for first, last in ((0, 6), (6, 12)):
        learner.start_task()
        before = parameters(learner) if learner.built else {}
        feed(learner, stream[first:last])
        if before:  # steps store and do not train; the rows of new classes are as drawn
            after = parameters(learner)
            assert all(torch.equal(v, after[n][: len(v)]) for n, v in before.items())
        drawn = learner.randomness.method.get_state()
        learner.end_task()
    twin = small("fine-tune", "mlp", **{**options, "memory": 0})
    twin.build(torch.from_numpy(stream[0][0]))
    twin.add_labels(learner.labels)
    optimizer = torch.optim.Adam(twin.network.parameters(), lr=0.01)
    own = torch.Generator()
    own.set_state(drawn)
    for rate in (0.01, 0.005):  # a cosine from one to zero, at its beginning and half-way
        for group in optimizer.param_groups:
            group["lr"] = rate
        for rows in torch.randperm(9, generator=own).split(4):
            x, y = learner.memory.field(X)[rows], learner.memory.field(Y)[rows]
            optimizer.zero_grad()
            F.cross_entropy(twin.network(x), y).backward()
            optimizer.step()
    for mine, theirs in zip(learner.network.parameters(), twin.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert learner.lr == 0.01
    assert sorted(np.bincount(learner.memory.field(Y))) == [2, 2, 2, 3]


def test_a_training_of_gdumb_that_fails_is_undone():
    learner = small("gdumb:epochs=3", Noisy(), lr=0.1, optimizer="adamw")
    learner.start_task()
    feed(learner, class_stream(5))
    learner.end_task()
    learner.start_task()
    learner.learn(np.full((12, 5), 3e38, np.float32), ["huge"] * 12)
    refused(learner, learner.end_task, NonFiniteLoss)
