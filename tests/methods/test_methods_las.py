"""Every method with Logit Adjusted Softmax: what is adjusted, what is counted, what is not."""

import math

import pytest
import torch

from evenstream.composition import compose, method_names
from evenstream.errors import InputError
from evenstream.methods import METHODS
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.testing import Backbone, make_learner, toy_stream
from evenstream.testing import feed as feed_tasks
from tests.helpers.method_samples import next_step, normed, watch_groups
from tests.helpers.small_streams import blobs, class_stream, feed, parameters, same, small

ADJUSTABLE = [name.removesuffix("-las") for name in method_names() if name.endswith("-las")]


def test_every_method_has_a_las_form_or_says_why_not():
    for name, cls in METHODS.items():
        if name in ADJUSTABLE:
            assert isinstance(compose(f"{name}-las").criterion, LogitAdjustedSoftmax)
        else:
            reason = cls().why_not_las
            assert reason
            with pytest.raises(InputError) as refused:
                compose(f"{name}-las")
            assert str(refused.value) == f"{name}-las makes no sense: {reason}"
    assert set(METHODS) - set(ADJUSTABLE) == {
        *(
            "auto",
            "class-means",
            "er-posthoc",
            "gdumb",
            "lwf-lt",
            "pcr",
            "pec",
            "randumb",
            "ranpac",
        ),
        *("scr", "slda"),
    }


@pytest.mark.parametrize("name", ADJUSTABLE)
def test_tau_zero_is_the_plain_method_bit_for_bit(name):
    plain, zero, one = (
        make_learner(spec, model=Backbone(dropout=0), memory=16)
        for spec in (name, f"{name}-las:tau=0", f"{name}-las")
    )
    one_differs = False
    for batch in toy_stream(14, classes=6):
        feed_tasks(plain, [batch])
        feed_tasks(zero, [batch])
        if not one_differs:
            feed_tasks(one, [batch])
            one_differs = not same(parameters(plain), parameters(one))
    assert same(parameters(plain), parameters(zero))
    assert one_differs


@pytest.mark.parametrize("name", ADJUSTABLE)
@pytest.mark.parametrize("window", [1, 3])
def test_the_window_counts_the_trained_rows_of_the_last_steps(name, window):
    learner = make_learner(f"{name}-las:window={window}", memory=16)
    seen = watch_groups(learner)
    feed_tasks(learner, toy_stream(8))
    trained = [torch.cat([group.y for group in groups]) for groups in seen]
    recount = torch.bincount(torch.cat([y for y in trained if len(y)][-window:]), minlength=4)
    assert torch.equal(learner.criterion.prior.weights(), recount)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["mir:subsample=8", "aser:per_class=2", "ocs"])
def test_selection_does_not_see_the_adjustment(name):
    """Given the same parameters (learning rate 0), memory and draws: the same rows, all along."""
    chosen = []
    for spec in (name, name.replace(":", "-las:") if ":" in name else f"{name}-las"):
        learner = small(spec, normed(), memory=12, lr=0.0)
        seen = watch_groups(learner)
        feed(learner, class_stream(10, batch=6, classes=6))
        rows = [(groups[0].raw, groups[1].slots) for groups in seen]
        chosen.append((rows, learner.memory.field("x")))
    (plain, stored), (adjusted, also_stored) = chosen
    assert torch.equal(stored, also_stored)
    for one, two in zip(plain, adjusted, strict=True):
        assert all(map(torch.equal, one, two))


def test_the_virtual_step_of_mir_las_is_on_plain_cross_entropy():
    picks = []
    for spec in ("mir", "mir-las"):
        learner = feed(small("er", normed(), memory=40), class_stream(10))
        composition = compose(spec)
        learner.criterion = composition.criterion
        learner.lr = 5.0
        step = next_step(learner, *class_stream(11)[-1])
        picks.append(composition.retrieval.pick(step, 4).slots.tolist())
    assert picks[0] == picks[1]


# ---- the ablations -------------------------------------------------------------------------------


def test_infinite_tau_gives_no_gradient_to_the_most_frequent_class():
    learner = small("er-las:tau=inf", memory=0)
    x, _ = blobs(6)
    learner.learn(x, [0, 0, 0, 1, 1, 1])
    step = next_step(learner, x, [0, 0, 0, 0, 1, 1])
    learner.criterion.observe(step.incoming.y, 2)
    logits = torch.randn(6, 2, requires_grad=True)
    learner.criterion.score(logits, step.incoming.y).backward()
    assert logits.grad[:4].eq(0).all() and logits.grad[4:].ne(0).all()


def test_macro_prior_mixes_task_and_memory():
    learner = small("er-las:prior=macro", memory=100)
    x, _ = blobs(4)
    learner.start_task({"a": 30, "b": 10})
    learner.learn(x, ["a", "a", "a", "b"])
    weights = learner.criterion.prior.weights().tolist()  # type: ignore[attr-defined]
    assert weights == pytest.approx([0.75, 0.25])  # nothing replayed yet
    learner.end_task()
    learner.start_task({"c": 5, "d": 15})
    learner.learn(x, ["c", "d", "d", "d"])  # 4 incoming, 4 replayed; memory: 3 a, 1 b
    weights = learner.criterion.prior.weights().tolist()  # type: ignore[attr-defined]
    assert weights == pytest.approx([0.375, 0.125, 0.125, 0.375])


def test_random_prior_keeps_absent_classes_in_the_softmax():
    learner = small("er-las:prior=random", memory=0)
    x, _ = blobs(4)
    learner.learn(x, [0, 1, 2, 3])
    step = next_step(learner, x, [0, 0, 1, 1])
    learner.criterion.observe(step.incoming.y, 4)
    logits = torch.randn(4, 4, requires_grad=True)
    learner.criterion.score(logits, step.incoming.y).backward()
    assert logits.grad.ne(0).all()


@pytest.mark.parametrize("redraw", [1, 3, 1000])
def test_random_prior_is_redrawn_as_often_as_asked(redraw):
    learner = small(f"er-las:prior=random,redraw={redraw}", memory=0)
    assert learner.text == f"er-las:prior=random{'' if redraw == 1 else f',redraw={redraw}'}"
    x, _ = blobs(4)
    draws = []
    for labels in ([0, 1, 0, 1], [0, 0, 0, 1], [2, 1, 2, 1], [0, 1, 2, 2], [0, 1, 2, 2]):
        learner.learn(x, labels)
        draws.append(learner.criterion.prior.weights().tolist())  # type: ignore[attr-defined]
    for step in range(1, 5):
        kept = draws[step][:2] == draws[step - 1][:2]
        assert kept == (step % redraw != 0)
    assert all(0 < weight <= 1 for weight in draws[-1])
    assert draws[2][2] == draws[3][2] or redraw < 1000  # a class keeps what it got on arrival


def test_ablations_differ_from_each_other():
    stream = class_stream(10)
    found = []
    for option in ("tau=1.0", "tau=0", f"tau={math.inf}", "prior=random"):
        found.append(parameters(feed(small(f"er-las:{option}", memory=16), stream)))
    assert not any(same(a, b) for i, a in enumerate(found) for b in found[:i])
