"""`evenstream.river`: River's own checks, and what they do not look at."""

import copy
import functools
import inspect
import pickle
import random
from itertools import islice

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from river import compose, datasets, evaluate, metrics, preprocessing
from river.checks import check_estimator, yield_checks

from evenstream import DataWarning, EvenstreamError, Learner
from evenstream.adapting import PASSED_ON, RENAMED
from evenstream.river import SKIPPED_CHECKS, Classifier

ROWS = [
    ({"a": float(i % 3), "b": i / 10, "c": -1.0}, "odd" if i % 3 else "even") for i in range(30)
]


def small(**options):
    """With a method whose steps are quick; the checks and the documents have the default."""
    given = {"method": "er-las", "model": "mlp-norm", "memory": 30, "lr": 0.1, "seed": 0}
    return Classifier(**(given | options))


def taught(model, rows=ROWS):
    for x, y in rows:
        model.learn_one(x, y)
    return model


# ---- River's checks ------------------------------------------------------------------------------


def quick_checks(rows=70):
    """Each check once; those over a data set with so many rows of the last of three."""
    found = {check.__name__: check for check in yield_checks(small(seed=None))}
    slow = {"check_bounded_memory_growth", *SKIPPED_CHECKS}
    return [shortened(check, rows) for name, check in found.items() if name not in slow]


def shortened(check, number):
    """The same check with fewer rows, if it has any; of 70, seven classes and more than memory."""
    if not isinstance(check, functools.partial):
        return check
    rows = list(islice(check.keywords["dataset"], number))
    assert number < 70 or len({label for _, label in rows}) == 7
    return functools.update_wrapper(functools.partial(check.func, dataset=rows), check)


@pytest.mark.parametrize("check", quick_checks(), ids=lambda check: check.__name__)
def test_rivers_checks(check):
    check(small(replay_batch=8))


@pytest.mark.slow
def test_all_of_rivers_checks():
    check_estimator(Classifier())


@pytest.mark.parametrize("check", quick_checks(rows=12), ids=lambda check: check.__name__)
def test_rivers_checks_with_the_defaults(check):
    check(Classifier())


def test_the_checks_that_are_skipped_are_among_those_there_are():
    assert {check.__name__ for check in yield_checks(small())} >= set(SKIPPED_CHECKS)
    assert small()._unit_test_skips() == set(SKIPPED_CHECKS)


# ---- features ------------------------------------------------------------------------------------


def test_it_is_the_learner_fed_with_a_column_for_each_feature_and_some_to_spare():
    model = taught(small(spare=2))
    learner = Learner("er-las", "mlp-norm", memory=30, lr=0.1, seed=0, dtype="float32")
    for x, y in ROWS:
        learner.learn([[x["a"], x["b"], x["c"], 0, 0]], [y])
    assert model.learner.fingerprint() == learner.fingerprint()
    found = model.predict_proba_one({"b": 0.5, "a": 1})
    expected = learner.predict_proba(np.array([[1, 0.5, 0, 0, 0]]))[0]
    assert list(found) == learner.labels
    assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-6)


def test_features_that_emerge_get_the_spare_columns_and_then_share():
    model = taught(small(spare=2))
    model.learn_one({"z": 1.0, "y": 2.0}, "odd")
    assert model.places.of == {"a": 0, "b": 1, "c": 2, "y": 3, "z": 4}
    with pytest.warns(DataWarning, match="5 columns.*spare=N"):
        model.learn_one({"new": 7.0}, "odd")
    model.learn_one({"newer": 7.0}, "odd")  # said once
    assert len(model.places.of) == 5
    place = model.places.column("new")
    assert model.places.table([{"new": 7.0}]).tolist() == [[7.0 * (i == place) for i in range(5)]]


def test_a_feature_that_was_never_learned_is_left_out_of_a_prediction():
    model = taught(small())
    known = {"a": 1.0}
    assert model.predict_proba_one(known | {"unknown": 1e6}) == model.predict_proba_one(known)
    assert model.predict_proba_one({}) != {}


@pytest.mark.parametrize("bad", ["text", None, float("nan")])
def test_a_refused_row_changes_nothing(bad):
    model = taught(small())
    before = pickle.dumps(model)
    with pytest.raises(EvenstreamError):
        model.learn_one({"a": bad, "new": 1.0}, "odd")
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("row", [[1, 2], "ab", np.zeros(2), pd.DataFrame({"a": [1.0]})])
def test_a_row_that_is_no_dictionary_changes_nothing(row):
    model = taught(small())
    before = pickle.dumps(model)
    for call in (model.predict_one, lambda x: model.learn_one(x, "odd")):
        with pytest.raises(EvenstreamError, match="dictionary"):
            call(row)
    assert pickle.dumps(model) == before


def test_before_anything_is_learned_there_is_no_answer():
    assert small().predict_one({"a": 1}) is None and small().predict_proba_one({"a": 1}) == {}


# ---- many rows, weights, gathering ---------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_learn_many_makes_one_step_with_all_rows(library):
    x, labels = [x for x, _ in ROWS], [y for _, y in ROWS]
    if library == "pandas":
        frame, series = pd.DataFrame(x), pd.Series(labels)
    else:
        frame, series = pa.Table.from_pylist(x), pa.chunked_array([labels])
    model = small(spare=0)
    model.learn_many(frame, series)
    learner = Learner("er-las", "mlp-norm", memory=30, lr=0.1, seed=0, dtype="float32")
    learner.learn([list(row.values()) for row in x], labels)
    assert model.learner.fingerprint() == learner.fingerprint()
    many, one = model.predict_many(frame), [model.predict_one(row) for row in x]
    assert (many.tolist() if library == "pandas" else many.to_pylist()) == one
    columns = model.predict_proba_many(frame)
    expected = [model.predict_proba_one(row)["odd"] for row in x]
    assert np.asarray(columns["odd"]).tolist() == pytest.approx(expected, abs=1e-6)


def test_weights_are_the_learners():
    model = small(spare=0)
    learner = Learner("er-las", "mlp-norm", memory=30, lr=0.1, dtype="float32")
    for i, (x, y) in enumerate(ROWS):
        model.learn_one(x, y, w=1 + i % 2)
        learner.learn([list(x.values())], [y], weights=[1 + i % 2])
    assert model.learner.fingerprint() == learner.fingerprint()
    model.learn_many(pd.DataFrame([x for x, _ in ROWS[:2]]), pd.Series(["odd", "odd"]), w=2)
    learner.learn([list(x.values()) for x, _ in ROWS[:2]], ["odd", "odd"], weights=[2, 2])
    assert model.learner.fingerprint() == learner.fingerprint()


def test_rows_can_be_gathered():
    model = taught(small(accumulate=10))
    assert model.learner.step == 3


# ---- parameters and pickles ----------------------------------------------------------------------


def test_every_argument_of_the_learner_is_passed_on_or_left_out_for_a_reason():
    left_out = {
        "table": "features become columns by their names",
        "open_tickets": "learner.limit_tickets, for those who use learner.ask",
        "ticket_steps": "learner.limit_tickets, for those who use learner.ask",
    }
    theirs = {RENAMED.get(n, n) for n in inspect.signature(Learner).parameters} - set(left_out)
    assert theirs == {*PASSED_ON, "seed", "accumulate"}
    assert theirs <= set(inspect.signature(Classifier).parameters)


def test_a_seed_decides_everything_and_none_draws_one():
    assert taught(small()).learner.fingerprint() == taught(small()).learner.fingerprint()
    drawn = {small(seed=None).learner.options.seed for _ in range(3)}
    assert len(drawn) == 3


def test_a_pickled_classifier_goes_on_exactly():
    model = taught(small(accumulate=4))
    again = pickle.loads(pickle.dumps(model))
    copied = copy.deepcopy(model)
    for one in (model, again, copied):
        taught(one, [({"a": 1.0, "new": 2.0}, "third")] * 3)
    assert model.learner.fingerprint() == again.learner.fingerprint()
    assert model.learner.fingerprint() == copied.learner.fingerprint()
    assert again.places.of == model.places.of


def test_a_clone_is_new():
    assert taught(small()).clone().learner.step == 0


# ---- at home in River ----------------------------------------------------------------------------


def test_progressive_validation_of_a_pipeline():
    stream = datasets.ImageSegments().take(400)
    model = compose.Pipeline(preprocessing.StandardScaler(), small(memory=200))
    score = evaluate.progressive_val_score(stream, model, metrics.Accuracy())
    assert score.get() > 0.6


def test_without_river_the_import_says_how_to_get_it(monkeypatch):
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "river", None)
    monkeypatch.delitem(sys.modules, "evenstream.river")
    with pytest.raises(ImportError, match=r"pip install 'evenstream\[river\]'"):
        importlib.import_module("evenstream.river")


def test_a_row_that_looks_unknown_is_answered_with_none():
    model = Classifier("slda", "identity", seed=0)
    draw = random.Random(0)
    for number in range(120):
        model.learn_one({"a": draw.gauss(number % 2 * 5, 1), "b": draw.gauss(0, 1)}, number % 2)
    assert model.predict_one({"a": 5.0, "b": 0.0}, reject=0.05) == 1
    assert model.predict_one({"a": 90.0, "b": 90.0}, reject=0.05) is None
    assert model.predict_one({"a": 90.0, "b": 90.0}) == 1
