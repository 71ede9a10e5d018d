"""Labels and samples that change, or have to go, after they were learned."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from evenstream import Learner
from evenstream.core.edits import WHOLE, Compaction, PerClass, Regrouping
from evenstream.core.memory import Memory
from evenstream.errors import InputError
from evenstream.methods.er import ER
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.priors import ExponentialWindow
from evenstream.policies.storing import Reservoir, reservoir_slots
from evenstream.testing import Backbone, make_learner

CENTRES = np.random.default_rng(0).normal(size=(5, 6)) * 3
NAMES = ["ant", "bee", "cow", "dog", "eel"]


def rows(count, classes=4, seed=0):
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, count)
    x = (CENTRES[y] + draw.normal(size=(count, 6)) * 0.5).astype(np.float32)
    return x, [NAMES[index] for index in y]


def taught(method="er-las", count=60, batch=6, **options):
    learner = make_learner(method, **{"memory": 40, **options})
    x, labels = rows(count)
    for first in range(0, count, batch):
        part = slice(first, first + batch)
        ids = [f"row {n}" for n in range(count)][part]
        ids = ids if learner.memory.capacity else None
        learner.learn(x[part], labels[part], ids=ids)
    return learner, x, labels


# ---- ids -----------------------------------------------------------------------------------------


def stored_ids(learner, count=60):
    """Which of the ids are in memory, found by deleting them from a copy, one by one."""
    copy = Learner.from_state(learner.state(), Backbone())
    return [n for n in range(count) if copy.forget(ids=[f"row {n}"]).samples]


def test_without_ids_nothing_is_kept_of_them():
    learner = make_learner("er")
    learner.learn(*rows(6))
    assert learner.memory.fields == ("x", "y")


def test_samples_are_found_by_id_and_get_another_label():
    learner, x, _ = taught()
    number = stored_ids(learner)[3]
    at = int((learner.memory.field("x") == torch.from_numpy(x[number])).all(1).nonzero())
    edit = learner.relabel([f"row {number}", "nobody"], "yak")
    assert (edit.samples, edit.missing, edit.labels) == (1, ("nobody",), ("yak",))
    assert learner.labels[-1] == "yak"
    assert learner.labels[int(learner.memory.field("y")[at])] == "yak"
    assert learner.memory.class_counts.tolist()[-1] == 1
    assert learner.network.head.out_features == 5
    learner.learn(*rows(6, seed=1))


def test_relabelling_what_is_not_there_changes_nothing_and_adds_no_class():
    learner, _, _ = taught()
    edit = learner.relabel(["nobody"], "yak")
    assert edit.samples == 0 and "yak" not in learner.labels


def test_all_rows_with_an_id_go_and_nothing_of_them_is_left():
    learner = make_learner("er-las", memory=40)
    x, labels = rows(30)
    learner.learn(x, labels, ids=["person 1", "person 2"] * 15)
    edit = learner.forget(ids=["person 1"])
    assert edit.samples == 15 and len(learner.memory) == 15
    saved = learner.to_bytes()
    assert not any(row.tobytes() in saved for row in x[::2])
    assert all(row.tobytes() in saved for row in x[1::2])
    whole = learner.memory._fields["x"]
    assert not whole[15:].any() and not learner.memory._fields["row_id"][15:].any()


def test_ids_of_rows_that_wait_for_a_step_are_known():
    learner = make_learner("er-las", memory=40, accumulate=20)
    x, labels = rows(12)
    learner.learn(x[:6], labels[:6], ids=list(range(6)))
    learner.learn(x[6:], labels[6:])
    assert learner.relabel([0, 1], "yak").gathered == 2
    assert learner.forget(ids=[2]).gathered == 1
    again = Learner.from_state(learner.state(), Backbone())
    assert again.forget(ids=[3]).gathered == 1
    assert "yak" not in learner.labels
    assert learner.flush().rows == 11
    assert "yak" in learner.labels
    assert learner.forget(ids=[0]).samples == 1


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2], "2 ids"),
        ([1.5] * 6, "ids cannot be used"),
        ("abcdef", "ids must be a list"),
        (3, r"pass \[3\]"),
        ([None] * 6, "an id is missing"),
    ],
)
def test_ids_that_cannot_be_used_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        make_learner("er").learn(*rows(6), ids=ids)


def test_who_stores_nothing_by_id_says_so():
    learner, _, _ = taught("fine-tune")
    with pytest.raises(InputError, match="fine-tune stores no samples"):
        learner.forget(ids=["row 1"])
    with pytest.raises(InputError, match="e2e fills its memory at the ends of tasks"):
        make_learner("e2e").learn(*rows(6), ids=range(6))


# ---- classes -------------------------------------------------------------------------------------


def test_renaming_changes_the_name_and_nothing_else():
    learner, x, _ = taught()
    state = learner.state()
    weights = {name: value.clone() for name, value in state["network"]["weights"].items()}
    guess = learner.predict(x)
    learner.rename("bee", ("wasp", 1))
    assert learner.labels == [("wasp", 1) if each == "bee" else each for each in state["labels"]]
    now = learner.predict(x)
    assert [("wasp", 1) if each == "bee" else each for each in guess] == list(now)
    assert all(torch.equal(weights[n], v) for n, v in learner.state()["network"]["weights"].items())
    with pytest.raises(InputError, match="merge"):
        learner.rename("ant", "cow")
    with pytest.raises(InputError, match="already called"):
        learner.rename("ant", "ant")
    with pytest.raises(InputError, match="no class 'bee'; known:"):
        learner.rename("bee", "fly")
    learner.learn(*rows(6, seed=1))
    assert "bee" in learner.labels[4:]


def test_true_is_not_one():
    learner = make_learner("er", memory=20)
    learner.learn(rows(6)[0], [True, 1, "1"] * 2)
    learner.rename(1, "one")
    assert [type(label) for label in learner.labels] == [bool, str, str]
    learner.remove_class(True)
    assert learner.labels == ["one", "1"]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_head_and_optimiser_follow(optimizer):
    learner, _, _ = taught(momentum=0.9, optimizer=optimizer, lr=0.01)
    head, optimizer = learner.network.head, learner.optimizer
    before = {
        name: value.clone()
        for name, value in optimizer.state[head.weight].items()
        if isinstance(value, torch.Tensor)
    }
    weight, index = head.weight.detach().clone(), learner.labels.index("cow")
    kept = [n for n in range(4) if n != index]
    learner.remove_class("cow")
    head = learner.network.head
    assert torch.equal(head.weight, weight[kept])
    for name, value in before.items():
        now = learner.optimizer.state[head.weight][name]
        assert torch.equal(now, value[kept] if value.ndim else value)
    assert any(
        p is head.weight for group in learner.optimizer.param_groups for p in group["params"]
    )
    assert learner.network.width == 3


def test_rows_made_in_advance_are_as_many_as_before():
    learner, _, _ = taught(head_size=8, scope="all")
    learner.remove_class("ant")
    assert learner.network.head.out_features == 8
    twin = Learner.from_state(learner.state(), Backbone())
    for each in (learner, twin):
        each.learn(*rows(6, 5, seed=2))
    assert learner.fingerprint() == twin.fingerprint()


@pytest.mark.parametrize("gone", range(4))
@pytest.mark.parametrize("into", [None, *range(4)])
def test_windows_are_as_if_the_labels_had_been_those(gone, into):
    """A brute-force oracle: observe the batches with the labels as they are known now."""
    if gone == into:
        return
    change, draw = Regrouping(4, gone, into), np.random.default_rng(1)
    batches = [torch.from_numpy(draw.integers(0, 4, 5)) for _ in range(4)]
    for make in (
        lambda: LogitAdjustedSoftmax(window=3),
        lambda: LogitAdjustedSoftmax(prior=ExponentialWindow(0.5)),
    ):
        one, other = make(), make()
        for batch in batches:
            one.observe(batch, 4)
            names = [into if y == gone else y for y in batch.tolist()]
            left = [y - (y > gone) for y in names if y is not None]
            other.observe(torch.tensor(left, dtype=torch.int64), 3)
        one.regroup(change)
        assert torch.equal(one.prior.weights(), other.prior.weights())
        for each in (one, other):
            each.observe(torch.tensor([0, 2]), 3)
        assert torch.equal(one.prior.weights(), other.prior.weights())


def test_merging_brings_samples_and_counts_together():
    learner, _, _ = taught("der++-las")
    counts = dict(zip(learner.labels, learner.memory.class_counts.tolist(), strict=True))
    logits = learner.memory.field("logits").clone()
    index = learner.labels.index("bee")
    learner.merge("bee", "dog")
    after = dict(zip(learner.labels, learner.memory.class_counts.tolist(), strict=True))
    assert after == {
        "ant": counts["ant"],
        "cow": counts["cow"],
        "dog": counts["dog"] + counts["bee"],
    }
    kept = [n for n in range(4) if n != index]
    assert torch.equal(learner.memory.field("logits"), logits[:, kept])
    with pytest.raises(InputError, match="itself"):
        learner.merge("dog", "dog")


def test_the_last_class_may_go_and_all_begins_again():
    for method in ("auto", "er-las", "slda", "pec:schedule=constant", "er@ema"):
        learner = make_learner(method)
        x, _ = rows(6)
        learner.learn(x, ["a"] * 6)
        learner.remove_class("a")
        assert learner.labels == [] and list(learner.predict(x)) == [None] * 6
        learner = Learner.from_state(learner.state(), Backbone())
        learner.learn(x, ["b", "c"] * 3)
        assert learner.labels == ["b", "c"]


@pytest.mark.parametrize("method", ["er@contest:width=50", "slda", "ranpac:width=40", "er-las@ncm"])
def test_all_samples_may_go_and_learning_goes_on(method):
    model = "identity" if method.split(":")[0] in ("slda", "ranpac") else "mlp"
    learner = Learner(method, model, memory=30, dtype="float32")
    x, labels = rows(300)
    for first in range(0, 300, 50):
        learner.learn(x[first : first + 50], labels[first : first + 50])
    for label in learner.labels:
        learner.forget(label=label)
    assert not len(learner.memory) and len(learner.predict(x[:3], reject=0.1)) == 3
    learner = Learner.from_bytes(learner.to_bytes())
    for part in (slice(0, 20), slice(20, 40)):
        learner.learn(x[part], labels[part])
    assert np.isfinite(learner.predict_proba(x)).all()


def test_a_correction_that_fails_leaves_no_trace():
    learner, _, _ = taught("er-las@ema", momentum=0.9)
    before = learner.fingerprint()

    def fails(*_):
        raise RuntimeError("in the last piece")

    for name, call in (
        ("regroup", lambda: learner.remove_class("ant")),
        ("regroup", lambda: learner.merge("ant", "cow")),
        ("compact", lambda: learner.forget(label="ant")),
        ("compact", lambda: learner.forget(ids=[f"row {n}" for n in range(60)])),
        ("on_correction", lambda: learner.relabel([f"row {n}" for n in range(60)], "new")),
    ):
        setattr(learner.parts[-1], name, fails)
        with pytest.raises(RuntimeError):
            call()
        delattr(learner.parts[-1], name)
        assert learner.fingerprint() == before
    assert not learner.unlogged


def test_each_is_one_event_that_does_not_tell_which_samples():
    learner, _, _ = taught()
    learner.relabel(["row 59", "row 58"], "bee")
    learner.forget(ids=["row 57"])
    learner.merge("bee", "cow")
    assert [(each["edit"], each["event"]) for each in learner.unlogged] == [
        (1, "relabel"),
        (2, "forget"),
        (3, "merge"),
    ]
    assert "row 5" not in str(list(learner.unlogged))
    assert learner.state()["progress"]["edits"] == 3


def test_corrections_wait_for_a_step_in_another_thread():
    learner, x, labels = taught()
    twin = Learner.from_state(learner.state(), Backbone())
    threads = [
        threading.Thread(target=learner.learn, args=(x[:6], labels[:6])),
        threading.Thread(target=learner.rename, args=("ant", "ANT")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.step == twin.step + 1


# ---- what cannot follow --------------------------------------------------------------------------


@dataclass
class Counting(ER):
    """Keeps a count by class, and says nothing about it."""

    def after_step(self, step):
        counts = torch.bincount(step.incoming.y, minlength=step.n_classes)
        before = self.tensors.get("counts", counts[:0])
        size = len(counts)
        self.tensors["counts"] = counts + torch.nn.functional.pad(before, (0, size - len(before)))


@dataclass
class SaysSo(Counting):
    follows = {"counts": PerClass(added=True)}  # noqa: RUF012


@dataclass
class Noting(ER):
    """Remembers something with stored rows, and says nothing about it."""

    def training_rows(self, step):
        step.remember(note=step.incoming.y)
        return super().training_rows(step)


def test_a_method_that_does_not_say_what_its_tensors_are_is_refused():
    for method, message in ((Counting(), "Counting keeps 'counts'"), (Noting(), "keeps 'note'")):
        learner = Learner(method, Backbone(), memory=20)
        learner.learn(*rows(12))
        before = learner.fingerprint()
        for call in (lambda: learner.remove_class("ant"), lambda: learner.merge("ant", "bee")):  # noqa: B023
            with pytest.raises(InputError, match=message):
                call()
            assert learner.fingerprint() == before
        learner.rename("ant", "aphid")


def test_a_method_that_says_so_follows():
    learner = Learner(SaysSo(), Backbone(), memory=20)
    learner.learn(*rows(40))
    counts = dict(zip(learner.labels, learner.method.tensors["counts"].tolist(), strict=True))
    learner.merge("ant", "cow")
    learner.remove_class("bee")
    now = dict(zip(learner.labels, learner.method.tensors["counts"].tolist(), strict=True))
    assert now == {"cow": counts["ant"] + counts["cow"], "dog": counts["dog"]}


def test_bic_waits_for_the_end_of_the_task():
    learner = make_learner("bic")
    with pytest.raises(InputError, match="bic holds rows out"):
        learner.remove_class(7)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"ids": [1], "label": "ant"}, {"x": rows(2)[0]}, {"label": "ant", "labels": ["ant"]}],
)
def test_forget_wants_to_know_what(arguments):
    learner, _, _ = taught()
    before = learner.fingerprint()
    with pytest.raises(InputError):
        learner.forget(**arguments)
    assert learner.fingerprint() == before


# ---- the reservoir -------------------------------------------------------------------------------


def test_a_reservoir_stays_uniform_when_samples_are_forgotten():
    """Of 40 samples, some are forgotten, 60 more come: all that are left are stored as often."""
    runs, capacity, gone = 200, 10, range(0, 40, 4)
    stored = torch.zeros(100)
    generator = torch.Generator().manual_seed(0)
    for _ in range(runs):
        memory = Memory(capacity, follows=Reservoir.follows)

        def offer(numbers, memory=memory):
            slots, chosen = reservoir_slots(memory, len(numbers), generator)
            y = torch.zeros(len(slots), dtype=torch.int64)
            memory.put(slots, {"x": numbers[chosen].float()[:, None], "y": y})

        for numbers in torch.arange(40).split(7):
            offer(numbers)
        here = torch.tensor([float(x) in gone for x in memory.field("x")])
        before = memory.class_counts
        memory.compact(Compaction.without(here.nonzero().squeeze(1), len(memory)))
        Reservoir().forgotten(memory, before)
        for numbers in torch.arange(40, 100).split(7):
            offer(numbers)
            assert len(memory) <= capacity
        assert len(memory) == capacity and not memory.counters
        stored[memory.field("x").squeeze(1).long()] += 1
    assert not stored[list(gone)].any()
    left = [n for n in range(100) if n not in gone]
    share = stored[left] / runs
    expected = capacity / len(left)
    assert abs(share[:30].mean() - expected) < 0.015
    assert abs(share[30:].mean() - expected) < 0.015
    assert (share - expected).abs().max() < 5 * (expected * (1 - expected) / runs) ** 0.5


def test_a_memory_that_was_not_full_just_goes_on():
    learner = make_learner("er", memory=100)
    x, labels = rows(30)
    learner.learn(x, labels, ids=range(30))
    learner.forget(ids=range(10))
    assert learner.memory.seen == len(learner.memory) == 20 and not learner.memory.counters
    learner.learn(x, labels)
    assert len(learner.memory) == 50


# ---- closed forms --------------------------------------------------------------------------------

FORMS = ["slda", "class-means", "class-means:distance=cosine", "randumb:width=40",
         "ranpac:width=40", "ranpac:width=600", "slda:priors=counted"]  # fmt: skip


def summed(method, x, labels, weights=None, batch=50):
    learner = Learner(method, "identity", dtype="float32")
    for first in range(0, len(x), batch):
        part = slice(first, first + batch)
        own = None if weights is None else weights[part]
        learner.learn(x[part], labels[part], weights=own)
    return learner


def exact_scores(learner, x):
    """Scores in float64, up to what all classes share."""
    form = learner.method.form
    found = form.solution()
    scores = form.columns(torch.from_numpy(x)) @ found.weight + found.bias
    return scores - scores.mean(1, keepdim=True)


@pytest.mark.parametrize("method", FORMS)
@pytest.mark.parametrize("count", [200, 400])
def test_closed_forms_forget_exactly(method, count):
    """Within 1e-9 of never having seen the rows, those that wait in a block and those summed up."""
    x, labels = rows(count)
    weights = np.random.default_rng(3).uniform(0.5, 2, count).astype(np.float32)
    gone = np.random.default_rng(2).permutation(count)[: count // 4]
    left = np.setdiff1d(np.arange(count), gone)
    learner = summed(method, x, labels, weights)
    learner.forget(x=x[gone], labels=[labels[n] for n in gone], weights=weights[gone])
    never = summed(method, x[left], [labels[n] for n in left], weights[left])
    never_order = [never.labels.index(label) for label in learner.labels]
    test = rows(50, seed=9)[0]
    one, other = exact_scores(learner, test), exact_scores(never, test)[:, never_order]
    assert float((one - other).abs().max()) <= 1e-9 * max(1.0, float(other.abs().max()))
    rowbytes = [x[n].tobytes() for n in gone]
    assert not any(each in learner.to_bytes() for each in rowbytes)
    assert learner.predict(test).tolist() == never.predict(test).tolist()
    learner.learn(*rows(10, seed=4))


def test_closed_forms_refuse_to_forget_what_they_never_learned():
    x, labels = rows(300)
    learner = summed("slda", x, labels)
    before = learner.fingerprint()
    with pytest.raises(InputError, match="more rows are to be forgotten"):
        learner.forget(x=np.tile(x[:1], (200, 1)) + 50, labels=["ant"] * 200)
    with pytest.raises(InputError, match="no class 'yak'"):
        learner.forget(x=x[:1], labels=["yak"])
    assert learner.fingerprint() == before


@pytest.mark.parametrize("method", FORMS)
def test_merged_sums_are_those_of_rows_that_had_one_label(method):
    x, labels = rows(300)
    learner = summed(method, x, labels)
    learner.merge("bee", "dog")
    never = summed(method, x, ["dog" if label == "bee" else label for label in labels])
    order = [never.labels.index(label) for label in learner.labels]
    test = rows(40, seed=9)[0]
    one, other = exact_scores(learner, test), exact_scores(never, test)[:, order]
    assert float((one - other).abs().max()) <= 1e-9 * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("method", ["slda", "class-means", "randumb:width=40"])
def test_removing_a_class_leaves_the_covariance_of_the_others(method):
    x, labels = rows(256)  # all of them summed up
    learner = summed(method, x, labels, batch=256)
    test = rows(60, seed=9)[0]
    keep = [n for n, label in enumerate(learner.labels) if label != "cow"]
    before = exact_scores(learner, test)[:, keep]
    learner.remove_class("cow")
    now = exact_scores(learner, test)
    assert torch.allclose(now, before - before.mean(1, keepdim=True), rtol=0, atol=1e-8)


def test_the_contest_follows_ids_with_its_closed_forms():
    x, labels = rows(300)
    wrong = ["eel" if n in (3, 4, 5) else label for n, label in enumerate(labels)]
    one, other = (
        Learner("er@contest:width=50", "mlp", memory=400, dtype="float32") for _ in range(2)
    )
    for first in range(0, 300, 30):
        part = slice(first, first + 30)
        one.learn(x[part], wrong[part], ids=list(range(300))[part])
        other.learn(x[part], labels[part], ids=list(range(300))[part])
    for number in (3, 4, 5):
        one.relabel([number], labels[number])
    one.remove_class("eel")
    test = torch.from_numpy(rows(30, seed=9)[0])
    for name in ("slda", "ranpac"):
        forms = [each.composition.rule.forms[name] for each in (one, other)]  # type: ignore[attr-defined]
        found = [form.solution() for form in forms]
        scores = [f.columns(test) @ s.weight + s.bias for f, s in zip(forms, found, strict=True)]
        scores[1] = scores[1][:, [other.labels.index(label) for label in one.labels]]
        scores = [each - each.mean(1, keepdim=True) for each in scores]
        assert torch.allclose(*scores, rtol=0, atol=1e-7)


def test_regrouping_and_compaction_by_hand():
    values = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert Regrouping(3, 1).entries(values, 1).tolist() == [[1, 3], [4, 6]]
    assert Regrouping(3, 0, 2).totals(values, 1).tolist() == [[2, 4], [5, 10]]
    assert Regrouping(3, 0, 2).totals(torch.tensor([5])).tolist() == [0, 5]
    assert Regrouping(3, 2, 0).indices(torch.tensor([0, 1, 2])).tolist() == [0, 1, 0]
    assert Regrouping(3, 1).indices(torch.tensor([0, 1, 2])).tolist() == [0, 1]
    truth = Regrouping(2, 0, 1).totals(torch.tensor([True, False]))
    assert truth.tolist() == [True]
    change = Compaction.without(torch.tensor([1, 3]), 5)
    assert change.entries(torch.arange(5)).tolist() == [0, 2, 4]
    assert change.entries(torch.arange(3)).tolist() == [0, 2]
    assert change.indices(torch.tensor([4, 3, 0, 2])).tolist() == [2, 0, 1]
    assert WHOLE.regrouped(values, Regrouping(3, 1)) is values
