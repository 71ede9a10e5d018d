"""Augmentation by the user's own function."""

import numpy as np
import pytest
import torch

from evenstream import Learner
from evenstream.errors import CheckpointError, InputError
from tests.helpers.small_streams import images, small

LABELS = [0, 1] * 4


def noise(x):
    return x + 0.1 * torch.randn_like(x)


def learner(**options):
    return small("er", "convnet", **{"augment": noise, **options})


def feed(learner, n, start=0):
    for step in range(start, start + n):
        learner.learn(images(8, seed=step), LABELS)
    return learner


def test_it_gets_images_between_0_and_1_before_they_are_normalised():
    seen = []

    def note(x):
        seen.append(x.clone())
        return x

    plain = small("er", "convnet", mean=[0.5], std=[0.2])
    own = small("er", "convnet", augment=note, mean=[0.5], std=[0.2])
    feed(plain, 2), feed(own, 2)
    x = images(8, seed=0)
    assert any(torch.allclose(each[:8], torch.as_tensor(x) / 255) for each in seen if len(each) > 7)
    mine, others = (each.predict_proba(x) for each in (own, plain))
    np.testing.assert_allclose(mine, others, atol=1e-5)


def test_its_randomness_is_the_learners():
    torch.manual_seed(1)
    one = feed(learner(), 4)
    torch.manual_seed(2)
    outside = torch.get_rng_state()
    assert feed(learner(), 4).fingerprint() == one.fingerprint()
    assert torch.equal(torch.get_rng_state(), outside)
    assert feed(learner(seed=1), 4).fingerprint() != one.fingerprint()


def test_saved_and_resumed(tmp_path):
    whole = feed(learner(), 5)
    feed(learner(), 2).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"augment=.*noise.*load\(path, augment="):
        Learner.load(tmp_path)
    assert feed(Learner.load(tmp_path, augment=noise), 3, 2).fingerprint() == whole.fingerprint()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[:3], "must return a batch"),
        (lambda x: x.expand(-1, 3, -1, -1), "must return a batch"),
        (lambda x: None, "must return a batch"),
        (lambda x: x.nothing, "fails: AttributeError"),
        (lambda x: (255 * x).byte(), "must return floating point"),
        (lambda x: x * 1j, "must return floating point"),
        (lambda x: x.to("meta"), "on the device"),
    ],
)
def test_functions_that_cannot_be_used(function, message):
    own = learner(augment=function)
    before = own.fingerprint()
    with pytest.raises(InputError, match=message):
        feed(own, 1)
    assert own.fingerprint() == before
