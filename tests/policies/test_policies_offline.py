"""Slots of the offline methods: rows that come once an epoch, bias correction, rescaling."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream.composition import compose
from evenstream.core.part import Part
from evenstream.policies.retrieval import OncePerEpoch
from evenstream.policies.rules import Outputs
from evenstream.policies.rules.bias_correction import BiasCorrected, corrected, fit_bias
from evenstream.policies.rules.rescaling import Rescaled, rescaling

finite = st.floats(-20, 20, width=32)
logit_rows = st.integers(2, 6).flatmap(
    lambda width: st.lists(st.lists(finite, min_size=width, max_size=width), min_size=1, max_size=5)
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def outputs(logits):
    return Outputs(x=logits, features=logits, logits=logits)


# ---- once an epoch -------------------------------------------------------------------------------


@given(
    stored=st.integers(0, 30),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    seed=st.integers(0, 9),
)
def test_every_stored_row_comes_back_once_in_each_epoch_whatever_the_batches(stored, sizes, seed):
    owner, draws = Part(), generator(seed)
    rule = OncePerEpoch(owner)
    for _ in range(2):
        rule.shuffle(stored, sum(sizes), draws)
        came = []
        for size in sizes:
            step = SimpleNamespace(incoming=range(size), fetch=lambda slots: slots)
            came += rule.pick(step, 1).tolist()  # type: ignore[attr-defined]
        assert sorted(came) == list(range(stored))


def test_rows_due_in_a_batch_that_is_left_out_wait_for_the_next_epoch():
    """Task and memory are one shuffled set, whose end a stream may leave out (drop_last)."""
    rule, draws = OncePerEpoch(Part()), generator()
    step = SimpleNamespace(incoming=range(4), fetch=lambda slots: slots)
    missed = []
    for _ in range(2):
        rule.shuffle(40, 10, draws)
        due = rule.owner.tensors["due"]
        came = torch.cat([rule.pick(step, 1) for _ in range(2)])  # 8 of the 10 rows
        assert sorted(came.tolist()) == (due < 8).nonzero().flatten().tolist()
        missed.append(set((due >= 8).nonzero().flatten().tolist()))
    assert 0 < len(missed[0]) < 20 and missed[0] != missed[1]


def test_rows_are_spread_evenly_over_an_epoch():
    rule = OncePerEpoch(Part())
    rule.shuffle(3000, 300, generator())
    step = SimpleNamespace(incoming=range(100), fetch=lambda slots: slots)
    counts = [len(rule.pick(step, 1)) for _ in range(3)]
    assert sum(counts) == 3000 and all(abs(count - 1000) < 100 for count in counts)


# ---- bias correction -----------------------------------------------------------------------------


def test_the_worked_correction_flips_the_prediction():
    logits = torch.tensor([[2.0, 1, 4, 3]])
    correction = torch.tensor([[1, 1, 0.5, 0.5], [0, 0, -0.25, -0.25]])
    after = corrected(logits, correction)
    assert after.tolist() == [[2, 1, 1.75, 1.25]]
    assert (int(logits.argmax()), int(after.argmax())) == (2, 0)


@given(rows=logit_rows, alpha=finite, beta=finite, data=st.data())
def test_old_columns_stay_and_the_identity_changes_nothing(rows, alpha, beta, data):
    logits = torch.tensor(rows)
    n = data.draw(st.integers(0, logits.shape[1]))  # classes at the fit; the others came later
    current = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))).bool()
    correction = torch.where(current, torch.tensor([[alpha], [beta]]), torch.tensor([[1.0], [0.0]]))
    after = corrected(logits, correction)
    assert torch.equal(after[:, n:], logits[:, n:])
    assert torch.equal(after[:, :n][:, ~current], logits[:, :n][:, ~current])
    identity = torch.tensor([[1.0], [0.0]]).expand(2, n)
    assert torch.equal(corrected(logits, identity), logits)
    assert corrected(logits, None) is logits


def biased(rows=20, seed=0):
    """Logits of four classes that favour the last two by far, half of the labels old."""
    y = torch.arange(rows) % 4
    logits = torch.randn(rows, 4, generator=generator(seed)) + 2 * F.one_hot(y, 4)
    logits[:, 2:] = 1.5 * logits[:, 2:] + 4
    return logits, y, torch.tensor([False, False, True, True])


def fitted(lr=0.001, epochs=50, batch=32):
    logits, y, current = biased()
    draws = generator(1)
    bias = fit_bias(logits, y, current, lr=lr, epochs=epochs, batch=batch, generator=draws)
    return bias, lambda alpha, beta: float(
        F.cross_entropy(torch.where(current, alpha * logits + beta, logits), y)
    )


def test_with_the_defaults_stage_two_is_nearly_inert():
    (alpha, beta), loss = fitted()
    assert 0.03 < 1 - alpha <= 0.06 and -0.06 <= beta < -0.03
    assert loss(alpha, beta) < loss(1, 0)


def test_enough_steps_find_the_best_correction():
    (alpha, beta), loss = fitted(lr=0.05, epochs=500)
    for da in (-0.2, 0, 0.2):
        for db in (-0.3, 0, 0.3):
            assert loss(alpha, beta) <= loss(alpha + da, beta + db)


def test_no_epochs_no_correction():
    assert fitted(epochs=0)[0].tolist() == [1, 0]


def test_a_class_weight_is_worth_as_many_rows():
    logits, y, current = biased()
    options = {"lr": 0.01, "epochs": 30, "batch": 100, "generator": generator()}
    weights = torch.tensor([3.0, 3, 1, 1])
    weighted = fit_bias(logits, y, current, class_weights=weights, **options)
    again = torch.arange(20).repeat_interleave(weights[y].long())
    repeated = fit_bias(logits[again], y[again], current, **options)
    torch.testing.assert_close(weighted, repeated, rtol=0, atol=1e-5)
    unweighted = fit_bias(logits, y, current, **options)
    assert not torch.allclose(weighted, unweighted, atol=1e-3)


def test_small_batches_are_several_steps_an_epoch():
    one, _ = fitted(epochs=1, batch=32)
    ten, _ = fitted(epochs=1, batch=2)
    assert abs(float(ten[1])) > 5 * abs(float(one[1]))


# ---- rescaling -----------------------------------------------------------------------------------


def ready(old, first, own, top):
    """A rule with given statistics: pairs of (mean, number of rows) for own and top."""
    rule = Rescaled()
    rule.tensors = {
        "old": torch.tensor(old),
        "first": torch.tensor(first, dtype=torch.float64).T,
        "own": torch.tensor([[m * n, n] for m, n in own], dtype=torch.float64).T,
        "top": torch.tensor([[top[0] * top[1]], [top[1]]], dtype=torch.float64),
    }
    return rule


def test_the_worked_factor_and_what_it_does():
    one = torch.ones(1, dtype=torch.float64)
    torch.testing.assert_close(rescaling(0.8 * one, 0.4 * one, 0.9 * one, 0.75 * one), 2.4 * one)
    rule = ready(1, [[0.8, 0.75]], [(0.4, 5), (0.9, 3), (0.9, 3)], (0.9, 6))
    p = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    scores = rule.scores(outputs(p.log()), rule.prepare(None))
    torch.testing.assert_close(scores.exp()[0], torch.tensor([0.6, 0.5, 0.25]))
    assert scores.argmax(1).tolist() == [0, 0]
    assert torch.equal(scores[1], p.log()[1])  # an old class is on top: untouched


means = st.floats(0.01, 1)


@given(
    rows=logit_rows,
    old=st.integers(1, 5),
    firsts=st.lists(st.tuples(means, means), min_size=5, max_size=5),
    now=st.lists(st.tuples(means, st.integers(0, 3)), min_size=6, max_size=6),
    top=st.tuples(means, st.integers(0, 3)),
)
def test_predictions_only_ever_move_to_old_classes(rows, old, firsts, now, top):
    logits = torch.tensor(rows)
    old = min(old, logits.shape[1])
    rule = ready(old, firsts[:old], now[: logits.shape[1]], top)
    scores = rule.scores(outputs(logits), rule.prepare(None))
    before, after = logits.argmax(1), scores.argmax(1)
    assert bool((torch.isfinite(scores)).all())
    assert bool(((after == before) | (after < old)).all())
    assert torch.equal(scores[:, old:], logits[:, old:])
    assert torch.equal(scores[before < old], logits[before < old])


@given(mean=means, confidence=means, rows=logit_rows)
def test_equal_statistics_change_nothing(mean, confidence, rows):
    logits = torch.tensor(rows)
    rule = ready(1, [[mean, confidence]], [(mean, 4)] * logits.shape[1], (confidence, 3))
    scores = rule.scores(outputs(logits), rule.prepare(None))
    torch.testing.assert_close(scores, logits, rtol=0, atol=1e-6)


def test_a_class_without_memory_keeps_its_probability_and_a_mean_of_zero_is_clamped():
    rule = ready(2, [[0.8, 0.5], [0.8, 0.5]], [(0.0, 0), (0.0, 3), (0.9, 3)], (0.5, 3))
    log_factors = rule.prepare(None)
    assert float(log_factors[0]) == 0
    torch.testing.assert_close(float(log_factors[1].exp()), 0.8e6, rtol=1e-5, atol=0)


def test_the_order_of_old_classes_can_change():
    rule = ready(2, [[0.4, 1], [0.9, 1]], [(0.4, 1), (0.1, 1), (1, 1)], (1, 1))
    logits = torch.tensor([[0.3, 0.2, 0.5]]).log()
    assert int(rule.scores(outputs(logits), rule.prepare(None)).argmax()) == 1


@pytest.mark.parametrize("rule", ["bias-corrected", "rescaled"])
def test_rules_by_name(rule):
    composition = compose(f"er-las@{rule}")
    assert isinstance(composition.rule, BiasCorrected | Rescaled)
    assert composition.text == f"er-las@{rule}" and "boundaries" in composition.rule.needs
    assert compose("er@bias-corrected:epochs=7").text == "er@bias-corrected:epochs=7"
