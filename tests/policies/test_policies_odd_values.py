"""The criteria and the table of methods: whatever is passed is taken or refused by name."""

import pytest
import torch

from evenstream import CrossEntropy, LogitAdjustedSoftmax, register
from evenstream.errors import CheckpointError, InputError
from tests.helpers.odd_values import ODD, refused_or_taken

LOGITS, LABELS = torch.zeros(2, 4), torch.tensor([0, 1])
CALLS = {
    "tau": lambda value: LogitAdjustedSoftmax(tau=value)(LOGITS, LABELS),
    "window": lambda value: LogitAdjustedSoftmax(window=value)(LOGITS, LABELS),
    "reduction": lambda value: LogitAdjustedSoftmax(reduction=value)(LOGITS, LABELS),
    "prior": lambda value: LogitAdjustedSoftmax(prior=value)(LOGITS, LABELS),
    "logits": lambda value: LogitAdjustedSoftmax()(value, LABELS),
    "labels": lambda value: LogitAdjustedSoftmax()(LOGITS, value),
    "logits, eval": lambda value: LogitAdjustedSoftmax().eval()(value, LABELS),
    "logits, plain": lambda value: CrossEntropy()(value, LABELS),
    "labels, plain": lambda value: CrossEntropy()(LOGITS, value),
    "reduction of a call": lambda value: CrossEntropy().score(LOGITS, LABELS, value),
    "observe: labels": lambda value: LogitAdjustedSoftmax().observe(value, 4),
    "observe: classes": lambda value: LogitAdjustedSoftmax().observe(LABELS, value),
    "state": lambda value: LogitAdjustedSoftmax().load_state(value),
    "name": lambda value: register(value),
    "method": lambda value: register("odd")(value),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_other_kinds(name):
    for value in ODD.values():
        refused_or_taken(lambda value=value: CALLS[name](value))


def test_class_indices_beyond_the_logits_are_refused_by_both():
    for criterion in (CrossEntropy(), LogitAdjustedSoftmax(), LogitAdjustedSoftmax(tau=0)):
        with pytest.raises(InputError, match=r"class indices must lie in 0\.\.3"):
            criterion(LOGITS, torch.tensor([0, 4]))


def test_a_state_that_cannot_be_used_leaves_the_window_as_it_was():
    criterion = LogitAdjustedSoftmax(window=2)
    criterion(LOGITS, LABELS)
    state = criterion.state()
    for name in state:
        with pytest.raises(CheckpointError, match="'prior'"):
            criterion.load_state({**state, name: "x"})
    assert criterion.prior.weights().tolist() == [1, 1, 0, 0]
