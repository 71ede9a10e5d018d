"""Learners that earlier versions saved go on as they would have gone on there.

The folders in `saves` were written by commit 2b0a96e (format 2): learners of twelve steps on rows
of four numbers, one with two rows gathered towards its next step. `expected.json` has what they
predicted then, and after three more steps.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from evenstream import Learner

SAVES = Path(__file__).parent / "saves"
EXPECTED = json.loads((SAVES / "expected.json").read_text())
LABELS = ["cat", 3, True, ("a", 1)]


def rows(generator, count):
    return generator.normal(size=(count, 4)).astype(np.float32)


def goes_on(learner, expected):
    x = rows(np.random.default_rng(1), 5)
    np.testing.assert_allclose(learner.predict_proba(x), expected["proba"], rtol=1e-4)
    after = np.random.default_rng(9)
    for _ in range(3):
        learner.learn(rows(after, 6), [LABELS[index] for index in after.integers(0, 4, 6)])
    return learner.predict_proba(x)


@pytest.mark.parametrize("name", ["er-las", "mkd-las-ema"])
def test_a_learner_of_format_2_goes_on(name, tmp_path):
    learner, expected = Learner.load(SAVES / name), EXPECTED[name]
    assert learner.step == expected["step"] == 12
    assert learner.labels == LABELS
    learner.save(tmp_path)
    again = Learner.load(tmp_path)
    assert again.fingerprint() == learner.fingerprint()
    for one in (learner, again):
        found = goes_on(one, expected)
        np.testing.assert_allclose(found, expected["proba_after_three_more"], rtol=1e-4)
