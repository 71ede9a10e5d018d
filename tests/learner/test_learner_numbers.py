"""Numbers of any kind become Python's own at the door, or are refused there."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from evenstream import Learner
from evenstream.errors import InputError
from tests.helpers.small_streams import blobs, class_stream, feed, refused, small

RATES = [
    np.float32(0.25),
    np.float64(0.25),
    np.array(0.25),
    torch.tensor(0.25),
    torch.tensor(0.25, dtype=torch.bfloat16),
    Fraction(1, 4),
    Decimal("0.25"),
]
NO_RATES = [
    True,
    np.bool_(True),
    torch.tensor(True),
    None,
    "0.1",
    0.1j,
    [0.1],
    np.array([0.1]),
    torch.tensor([0.1]),
    torch.tensor(0.1, device="meta"),
    -0.1,
    np.float32(-0.1),
    math.nan,
    np.float32("inf"),
    torch.tensor(math.nan),
    Decimal("sNaN"),
    1e39,
    10**39,
    10**400,
    Fraction(10**400),
]


@pytest.mark.parametrize("rate", RATES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_any_real_number_is_a_learning_rate(rate, optimizer, tmp_path):
    plain, given, later = (
        small(lr=lr, momentum=momentum, weight_decay=momentum, optimizer=optimizer)
        for lr, momentum in ((0.25, 0.25), (rate, rate), (0.1, rate))
    )
    feed(later, class_stream(2))
    later.lr = rate
    assert type(given.lr) is type(later.lr) is float and later.lr == 0.25
    assert feed(given, class_stream(3)).fingerprint() == feed(plain, class_stream(3)).fingerprint()
    feed(later, class_stream(2)).save(tmp_path)
    assert Learner.load(tmp_path).fingerprint() == later.fingerprint()


@pytest.mark.parametrize("rate", [1, 10**30, np.int64(1), torch.tensor(1)])
def test_whole_numbers_are_learning_rates_too(rate, tmp_path):
    learner = small(memory=0)
    learner.lr = rate
    learner.learn(*blobs(4))
    learner.save(tmp_path)
    assert Learner.load(tmp_path).lr == learner.lr == float(rate)


@pytest.mark.parametrize("rate", NO_RATES, ids=lambda v: f"{type(v).__name__} {str(v)[:12]}")
def test_what_is_no_learning_rate_changes_nothing(rate):
    learner = feed(small(), class_stream(2))
    refused(learner, lambda: setattr(learner, "lr", rate), InputError, "lr must be a finite number")
    for name in ("lr", "momentum", "weight_decay"):
        if rate is None and name != "momentum":
            continue  # the usual one
        with pytest.raises(InputError, match=name):
            small(**{name: rate})


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array, torch.tensor])
def test_any_whole_number_is_a_size(kind):
    names = ("memory", "batch", "replay_batch", "accumulate", "seed", "head_size")
    learner, plain = (small(**dict.fromkeys(names, value)) for value in (kind(3), 3))
    assert all(type(getattr(learner.options, name)) is int for name in names)
    feed(learner, class_stream(3)), feed(plain, class_stream(3))
    assert learner.fingerprint() == plain.fingerprint()
    json.dumps(learner.state()["options"])


@pytest.mark.parametrize(
    "size", [2**63, 10**30, np.uint64(2**63), 3.0, np.float32(3), torch.tensor(3.0), Fraction(3)]
)
@pytest.mark.parametrize("name", ["memory", "batch", "replay_batch", "accumulate", "head_size"])
def test_what_is_no_size_is_refused(name, size):
    with pytest.raises(InputError, match=f"{name} must be (a whole number|.* at most)"):
        small(**{name: size})


def test_any_whole_number_is_a_seed(tmp_path):
    learner = feed(small("er-las:prior=random", seed=-(10**30)), class_stream(2))
    learner.save(tmp_path)
    assert Learner.load(tmp_path).options.seed == -(10**30)
