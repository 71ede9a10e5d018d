"""`evenstream.sklearn`: scikit-learn's own checks, and what they do not look at."""

import copy
import inspect
import pickle
import pickletools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from torch import nn

from evenstream import EvenstreamError, Learner, LogitAdjustedSoftmax, methods
from evenstream.adapting import PASSED_ON, RENAMED
from evenstream.errors import InputError
from evenstream.sklearn import EXPECTED_FAILURES, OnlineClassifier

X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


def small(**options):
    """With a method whose steps are quick; the slow checks and the documents have the default."""
    given = {"method": "er-las", "model": "mlp-norm", "memory": 60, "lr": 0.1, "epochs": 2}
    return OnlineClassifier(**(given | {"random_state": 0} | options))


# ---- scikit-learn's checks -----------------------------------------------------------------------


def expected(estimator):
    return EXPECTED_FAILURES


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [OnlineClassifier(batch=64, lr=0.1, epochs=4)], expected_failed_checks=expected
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([OnlineClassifier()], expected_failed_checks=expected)
def test_scikit_learns_checks_with_all_defaults(estimator, check):
    check(estimator)


def test_the_failures_that_are_expected_are_of_checks_that_there_are():
    names = {check.func.__name__ for _, check in estimator_checks_generator(OnlineClassifier())}
    assert names >= set(EXPECTED_FAILURES)


# ---- classes -------------------------------------------------------------------------------------


def test_classes_are_sorted_while_the_head_keeps_the_order_of_arrival():
    classifier = small()
    for label in ("virginica", "setosa", "versicolor"):
        classifier.partial_fit(X[label == NAMES], NAMES[label == NAMES])
    assert classifier.learner_.labels == ["virginica", "setosa", "versicolor"]
    assert classifier.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    probabilities = classifier.predict_proba(X)
    theirs = classifier.learner_.predict_proba(X)
    np.testing.assert_allclose(probabilities, theirs[:, [1, 2, 0]], atol=1e-6)
    assert (classifier.predict(X) == classifier.learner_.predict(X)).all()


def test_announced_classes_have_probability_0_until_they_are_seen():
    classifier = small().partial_fit(X[:50], NAMES[:50], classes=["virginica", "setosa", "other"])
    assert classifier.classes_.tolist() == ["other", "setosa", "virginica"]
    assert (classifier.predict_proba(X[:2]) == [[0, 1, 0]] * 2).all()
    classifier.partial_fit(X[50:], NAMES[50:])
    assert classifier.classes_.tolist() == ["other", "setosa", "versicolor", "virginica"]
    assert classifier.learner_.labels == ["setosa", "versicolor", "virginica"]
    assert (classifier.predict_proba(X)[:, 0] == 0).all()


@pytest.mark.parametrize("kind", [float, "i2", bool, "U1"])
def test_classes_have_the_type_of_the_labels(kind):
    y = (Y > 0).astype("i2").astype(kind)
    classifier = small(epochs=1).fit(X, y)
    assert classifier.classes_.dtype == y.dtype == classifier.predict(X).dtype
    assert (classifier.classes_ == np.unique(y)).all()


def test_labels_of_two_kinds_are_refused_and_change_nothing():
    classifier = small().partial_fit(X, Y)
    before = classifier.learner_.fingerprint()
    with pytest.raises(ValueError, match="one kind to be sorted, got numbers and text"):
        classifier.partial_fit(X, NAMES)
    assert classifier.learner_.fingerprint() == before and classifier.classes_.tolist() == [0, 1, 2]


# ---- learning ------------------------------------------------------------------------------------


def test_partial_fit_is_the_learner_fed_in_batches():
    options = {"memory": 60, "lr": 0.1, "batch": 20, "seed": 3, "dtype": "float32"}
    learner = Learner("er-las", "mlp-norm", **options)
    for start in range(0, 150, 20):
        learner.learn(X[start : start + 20].astype("f4"), Y[start : start + 20])
    classifier = small(batch=20, random_state=3).partial_fit(X, Y)
    assert classifier.learner_.fingerprint() == learner.fingerprint()


def test_fit_begins_anew_and_passes_over_the_data_several_times():
    classifier = small(batch=50, epochs=4).partial_fit(X[:50], NAMES[:50])
    classifier.fit(X, Y)
    assert classifier.classes_.tolist() == [0, 1, 2]
    assert classifier.learner_.step == 12 and classifier.learner_.memory.seen == 150
    assert classifier.score(X, Y) > 0.8
    with pytest.raises(ValueError, match="epochs"):
        small(epochs=0).fit(X, Y)


def test_one_class_alone_takes_one_pass():
    weights = (Y == 1).astype(float)
    for classifier in (small().fit(X[Y == 1], Y[Y == 1]), small().fit(X, Y, sample_weight=weights)):
        assert classifier.learner_.step == 2
        assert (classifier.predict(X) == 1).all()


def test_a_random_state_decides_everything():
    one, same, other = (small(random_state=s).fit(X, Y) for s in (1, 1, 2))
    assert one.learner_.fingerprint() == same.learner_.fingerprint()
    assert one.learner_.fingerprint() != other.learner_.fingerprint()
    drawn = [small(random_state=np.random.RandomState(5)).fit(X, Y) for _ in range(2)]
    assert drawn[0].learner_.fingerprint() == drawn[1].learner_.fingerprint()


def test_a_method_that_needs_task_boundaries_is_refused():
    with pytest.raises(EvenstreamError, match=r"ewc needs .*; use evenstream\.Learner"):
        small(method="ewc").fit(X, Y)


def test_images_stay_as_they_are():
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
    classifier = small(model="convnet", epochs=1).fit(images, [0, 1] * 10)
    assert classifier.learner_.input_kind.dtype == "uint8"
    assert classifier.predict(images).shape == (20,)


# ---- weights -------------------------------------------------------------------------------------


def test_class_weights_are_sample_weights():
    by_class = small(class_weight={0: 3.0, 2: 0.5}).fit(X, Y)
    by_row = small().fit(X, Y, sample_weight=np.array([3.0, 1.0, 0.5])[Y])
    assert by_class.learner_.fingerprint() == by_row.learner_.fingerprint()
    assert by_class.learner_.fingerprint() != small().fit(X, Y).learner_.fingerprint()
    stream = small(class_weight={0: 3.0, 2: 0.5}).partial_fit(X, Y)
    again = small().partial_fit(X, Y, sample_weight=np.array([3.0, 1.0, 0.5])[Y])
    assert stream.learner_.fingerprint() == again.learner_.fingerprint()


def test_balanced_weights_are_for_fit():
    chosen = np.r_[0:50, 50:60]
    balanced = small(class_weight="balanced").fit(X[chosen], Y[chosen])
    by_hand = small(class_weight={0: 60 / (2 * 50), 1: 60 / (2 * 10)}).fit(X[chosen], Y[chosen])
    assert balanced.learner_.fingerprint() == by_hand.learner_.fingerprint()
    with pytest.raises(ValueError, match="needs all labels at once"):
        small(class_weight="balanced").partial_fit(X, Y)


def test_rows_of_weight_0_are_as_if_not_there():
    weights = np.r_[np.ones(100), np.zeros(50)]
    weighed = small().partial_fit(X, Y, sample_weight=weights)
    without = small().partial_fit(X[:100], Y[:100])
    assert weighed.learner_.fingerprint() == without.learner_.fingerprint()
    assert weighed.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="all rows have weight 0"):
        small(class_weight={0: 0}).partial_fit(X[:50], Y[:50])


# ---- parameters, copies, pickles -----------------------------------------------------------------


def test_every_argument_of_the_learner_is_passed_on_or_left_out_for_a_reason():
    left_out = {
        "seed": "random_state takes its place",
        "accumulate": "fit and partial_fit cut batches themselves",
        "table": "scikit-learn converts tables to arrays",
        "open_tickets": "there are no tickets",
        "ticket_steps": "there are no tickets",
    }
    theirs = {RENAMED.get(n, n) for n in inspect.signature(Learner).parameters} - set(left_out)
    assert theirs == set(PASSED_ON)
    assert set(PASSED_ON) <= set(inspect.signature(OnlineClassifier).parameters)


def test_parameters_are_never_changed_by_training():
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
    before = copy.deepcopy(net.state_dict())
    loss = LogitAdjustedSoftmax(tau=2)
    classifier = small(method=methods.MIR(subsample=8), model=net, criterion=loss)
    classifier.fit(X, Y)
    assert classifier.learner_.text == "mir-las:subsample=8,tau=2.0"
    assert all((net.state_dict()[name] == before[name]).all() for name in before)
    twin = clone(classifier).fit(X, Y)
    assert twin.learner_.fingerprint() == classifier.learner_.fingerprint()
    again = pickle.loads(pickle.dumps(classifier))
    assert again.learner_.fingerprint() == classifier.learner_.fingerprint()


def test_a_pickle_holds_the_bytes_of_a_save_and_goes_on_exactly():
    classifier = small().fit(X[:100], NAMES[:100])
    data = pickle.dumps(classifier)
    loaded = {text for code, text, _ in pickletools.genops(data) if "GLOBAL" in code.name and text}
    strings = {text for _, text, _ in pickletools.genops(data) if isinstance(text, str)}
    assert not [text for text in loaded | strings if text.startswith(("torch", "evenstream.l"))]
    again = pickle.loads(data)
    for one in (classifier, again):
        one.partial_fit(X[100:], NAMES[100:])
    assert again.learner_.fingerprint() == classifier.learner_.fingerprint()
    assert (again.classes_ == classifier.classes_).all()
    assert copy.deepcopy(again).learner_.fingerprint() == again.learner_.fingerprint()


# ---- at home in scikit-learn ---------------------------------------------------------------------


def test_names_of_columns_are_kept_and_compared():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    classifier = small().partial_fit(frame, Y)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame.rename(columns={"a": "z"}))


def test_pipelines_searches_and_cross_validation():
    steps = make_pipeline(StandardScaler(), small(method="er-las"))
    search = GridSearchCV(steps, {"onlineclassifier__lr": [1e-6, 0.1]}, cv=2).fit(X, NAMES)
    assert search.best_params_ == {"onlineclassifier__lr": 0.1}
    assert search.best_estimator_[-1].learner_.options.lr == 0.1
    assert cross_val_score(steps, X, NAMES, cv=3).mean() > 0.7


# ---- closed forms, and what looks unknown --------------------------------------------------------


@pytest.mark.parametrize("method", ["slda", "class-means", "ranpac:width=60"])
def test_class_weights_reach_closed_forms(method):
    options = {"method": method, "model": "identity", "epochs": 1, "random_state": 0}
    plain = OnlineClassifier(**options).fit(X, Y)
    weighed = OnlineClassifier(class_weight={2: 1e4}, **options).fit(X, Y)
    found, before = weighed.predict_proba(X), plain.predict_proba(X)
    np.testing.assert_allclose(found.sum(1), 1)
    assert (weighed.predict(X) == 2).sum() > (plain.predict(X) == 2).sum()
    if method == "slda":
        order = np.argsort(weighed.learner_.labels)  # theirs is that of arrival
        wanted = weighed.learner_.predict_proba(X.astype(np.float32))[:, order] * [1, 1, 1e4]
        np.testing.assert_allclose(found, wanted / wanted.sum(1, keepdims=True), atol=1e-4)
    balanced = OnlineClassifier(class_weight="balanced", **options).fit(X, Y)
    np.testing.assert_allclose(balanced.predict_proba(X), before, atol=1e-3)


def test_rows_that_look_unknown_are_answered_with_none():
    classifier = OnlineClassifier("slda", "identity", epochs=1, random_state=0).fit(X, Y)
    far = np.concatenate([X, X[:5] + 40])
    found, scores = classifier.predict(far, reject=0.05), classifier.score_samples(far)
    rejected = np.array([answer is None for answer in found])
    assert rejected[-5:].all() and rejected[:-5].mean() < 0.2
    np.testing.assert_array_equal(
        scores < classifier.learner_.familiarity_threshold(0.05), rejected
    )
    np.testing.assert_array_equal(found[~rejected], classifier.predict(far)[~rejected])


# ---- tables with columns of any kind -----------------------------------------------------------


def any_kind(rows=120):
    frame = pd.DataFrame(
        {
            "colour": ["red", "blue", None] * (rows // 3),
            "size": [1.0, np.nan, 3.0] * (rows // 3),
            "note": [f"the thing {n % 7} is here" for n in range(rows)],
        }
    )
    return frame, ["a", "b", "c"] * (rows // 3)


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_frames_with_columns_of_any_kind(way):
    frame, y = any_kind()
    made = getattr(OnlineClassifier(random_state=0), way)(frame, y)
    assert made.score(frame, y) > 0.9
    assert list(made.feature_names_in_) == list(frame) and "category" in made.table_.summary()
    back = pickle.loads(pickle.dumps(made))
    assert np.array_equal(back.predict_proba(frame), made.predict_proba(frame))
    back.partial_fit(frame, y, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="missing:\n- colour"):
        made.predict(frame.drop(columns="colour"))
    with pytest.raises(InputError, match="fitted on a table"):
        made.predict(np.zeros((2, 3)))


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_classifier_of_matrices_refuses_tables():
    frame, y = any_kind()
    made = OnlineClassifier(random_state=0).fit(np.eye(3), ["a", "b", "c"])
    for call in (made.predict, lambda x: made.partial_fit(x, y)):
        with pytest.raises(InputError, match="fitted on a matrix"):
            call(frame)


def test_texts_are_refused_with_the_way_out():
    with pytest.raises(InputError, match="pass a frame with a column of them"):
        OnlineClassifier(model="mlp").fit(["a b", "c d"], ["x", "y"])
