"""Closed forms: one pass in any order is the batch solution over all rows."""

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from torch import nn

from evenstream import Learner
from evenstream.errors import InputError
from evenstream.methods.parts.summing import Summing
from evenstream.policies.closed_forms import Sums
from evenstream.policies.closed_forms.ridge import STRENGTHS, best_strength
from tests.helpers.small_streams import blobs, class_stream, small

DIGITS, WINE = load_digits(), load_wine()
EVERY = [
    "class-means",
    "class-means:distance=euclidean",
    "class-means:distance=cosine",
    "slda",
    "slda:shrinkage=0.01,target=identity,priors=counted",
    "ranpac:width=60",
    "ranpac:width=60,ridge=0.01,scaling=rows",
    "randumb:width=60",
    "randumb:width=600,shrinkage=0.1",  # too many columns to be solved at each step
]


def learned(method, x, y, order=None, batch=64, model="identity", **options):
    """A learner that has met the rows once, in that order."""
    learner = Learner(method, model, dtype="float32", **options)
    order = np.arange(len(x)) if order is None else order
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        learner.learn(x[rows], y[rows])
    return learner


def probabilities(learner, x):
    """A column for each class in the order of the labels' values."""
    return learner.predict_proba(x)[:, np.argsort(learner.labels)]


def columns(learner, x):
    return learner.method.form.columns(torch.from_numpy(x)).numpy()


# ---- any order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("rows", [100, 700], ids=["waiting", "summed"])
def test_order_and_batches_do_not_matter(method, rows):
    x, y = DIGITS.data[:rows].astype(np.float32), DIGITS.target[:rows]
    one = learned(method, x, y)
    by_class = learned(method, x, y, np.argsort(y, kind="stable"), batch=37)
    single = learned(method, x, y, np.random.default_rng(0).permutation(rows), batch=rows)
    test = DIGITS.data[700:800].astype(np.float32)
    for other in (by_class, single):
        np.testing.assert_allclose(
            probabilities(one, test), probabilities(other, test), rtol=0, atol=1e-6
        )


def test_rows_can_be_taken_away_again():
    draw = torch.Generator().manual_seed(0)
    rows, y = torch.randn(50, 4, generator=draw, dtype=torch.float64), torch.arange(50) % 5
    for whole in (True, False):
        nothing = Sums.nothing(4, whole=whole, device=torch.device("cpu"))
        kept = y != 3
        found = nothing.plus(rows, y).plus(rows[~kept], y[~kept], times=-1.0)
        wanted = nothing.plus(rows[kept], y[kept])
        torch.testing.assert_close(found.counts, wanted.counts)
        torch.testing.assert_close(found.within(), wanted.within())


# ---- batch solutions ----------------------------------------------------------------------------


def test_class_means_are_scikit_learns_nearest_centroid():
    x, y = WINE.data.astype(np.float32), WINE.target
    learner = learned("class-means:distance=euclidean", x, y, np.argsort(y))
    assert np.array_equal(learner.predict(x), NearestCentroid().fit(x, y).predict(x))


def test_scaled_class_means_are_normal_classes_with_variances_by_column():
    x, y = WINE.data.astype(np.float32), WINE.target
    learner = learned("class-means", x, y, np.argsort(-y))
    means = np.stack([x[y == c].mean(0, dtype=float) for c in range(3)])
    variances = np.mean((x - means[y]) ** 2, 0)
    scores = -0.5 * ((x[:, None] - means) ** 2 / variances).sum(2)
    wanted = np.exp(scores - scores.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities(learner, x), wanted, atol=1e-5)


def test_slda_is_scikit_learns_discriminant_analysis():
    x, y = WINE.data.astype(np.float32), WINE.target
    method = "slda:shrinkage=0.2,target=identity,priors=counted"
    learner = learned(method, x, y, np.random.default_rng(1).permutation(len(x)), batch=5)
    wanted = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2).fit(x.astype(float), y)
    np.testing.assert_allclose(probabilities(learner, x), wanted.predict_proba(x), atol=1e-6)


def test_slda_chooses_scikit_learns_oracle_shrinkage():
    x, y = WINE.data.astype(np.float32), WINE.target
    centred = x - np.stack([x[y == c].mean(0, dtype=float) for c in range(3)])[y]
    identity = learned("slda:target=identity", x, y).method.form.solution().strength
    diagonal = learned("slda", x, y).method.form.solution().strength
    oracle = OAS(assume_centered=True)
    assert identity == pytest.approx(oracle.fit(centred).shrinkage_, rel=1e-6)
    assert diagonal == pytest.approx(oracle.fit(centred / centred.std(0)).shrinkage_, rel=1e-6)


def test_slda_does_not_see_scale_or_offset_of_columns():
    x, y = WINE.data, WINE.target
    moved = x * 10.0 ** np.arange(-6, 7) + 10.0 ** np.arange(-6, 7)
    one, two = (learned("slda", rows.astype(np.float32), y) for rows in (x, moved))
    np.testing.assert_allclose(
        probabilities(one, x), probabilities(two, moved.astype(np.float32)), atol=1e-3
    )


@pytest.mark.parametrize("rows", [50, 200], ids=["fewer rows than columns", "more"])
def test_ranpac_is_scikit_learns_ridge_on_its_random_features(rows):
    x, y = DIGITS.data[:rows].astype(np.float32), DIGITS.target[:rows]
    learner = learned("ranpac:width=100,ridge=0.05", x, y, np.argsort(y))
    projection = learner.method.form.tensors["projection"].numpy().astype(float)
    hidden = np.maximum(x.astype(float) @ projection, 0)
    alpha = 0.05 * (hidden**2).sum(0).mean()
    ridge = Ridge(alpha=alpha, fit_intercept=False).fit(hidden, np.eye(10)[y])
    test = DIGITS.data[500:600].astype(np.float32)
    scores = ridge.predict(np.maximum(test.astype(float) @ projection, 0))
    sharp = (4 + 2.5 * np.log(10)) * scores
    wanted = np.exp(sharp) / np.exp(sharp).sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities(learner, test), wanted, atol=1e-6)


@pytest.mark.parametrize("rows", [30, 90])
def test_ranpac_chooses_the_ridge_with_the_lowest_cross_validated_error(rows):
    x, y = DIGITS.data[:rows].astype(np.float32), DIGITS.target[:rows]
    learner = learned("ranpac:width=60", x, y)
    hidden, targets = columns(learner, x), np.eye(10)[y]
    unit = (hidden**2).sum(0).mean()

    def error(strength):
        hat = hidden @ np.linalg.solve(hidden.T @ hidden + strength * unit * np.eye(60), hidden.T)
        left = ((targets - hat @ targets) ** 2).sum()
        return left / np.trace(np.eye(rows) - hat) ** 2 if np.trace(hat) <= rows / 2 else np.inf

    assert learner.method.form.solution().strength == min(STRENGTHS, key=error)


def test_rows_that_are_alike_do_not_make_the_ridge_vanish():
    draw = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (draw.normal(size=(60, 20)) + 0.3 * np.eye(20)[y]).astype(np.float32)
    x[3] = x[0]
    assert learned("ranpac:width=600", x, y).method.form.solution().strength > 1e-2


def test_the_chosen_ridge_is_the_same_from_rows_and_from_sums():
    draw = torch.Generator().manual_seed(0)
    rows = torch.rand(40, 60, generator=draw, dtype=torch.float64)
    targets = nn.functional.one_hot(torch.arange(40) % 4).double()
    found = []
    for moments, sums in ((rows.T @ rows, rows.T @ targets), (rows @ rows.T, None)):
        values, vectors = torch.linalg.eigh(moments)
        parts = (vectors.T @ (targets if sums is None else sums)).square().sum(1)
        parts = values * parts if sums is None else parts
        found.append(best_strength(values, parts, 40, 40.0, 20.0))
    assert found[0] == found[1]


@pytest.mark.parametrize("rows", [80, 400], ids=["fewer rows than columns", "more"])
def test_randumb_is_discriminant_analysis_on_fourier_features(rows):
    x, y = DIGITS.data[:rows].astype(np.float32), DIGITS.target[:rows]
    learner = learned("randumb:width=100,shrinkage=0.3", x, y, np.argsort(y))
    hidden = columns(learner, x)
    centred = hidden - np.stack([hidden[y == c].mean(0) for c in range(10)])[y]
    scale = centred.std(0)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(hidden / scale, y)
    test = DIGITS.data[500:600].astype(np.float32)
    scores = model.decision_function(columns(learner, test) / scale) - np.log(model.priors_)
    wanted = np.exp(scores - scores.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities(learner, test), wanted, atol=1e-6)


def test_fourier_features_approximate_the_gaussian_kernel():
    x, _ = blobs(6, dim=8)
    learner = Learner("randumb:width=20000,gamma=2,scaling=none", "identity", dtype="float32")
    learner.prepare(x)  # nothing is learned: there are no equations of this size to be solved
    hidden = columns(learner, x)
    distances = ((x[:, None] - x) ** 2).sum(2)
    np.testing.assert_allclose(hidden @ hidden.T, np.exp(-2 * distances / 8), atol=0.03)


# ---- odd columns and classes --------------------------------------------------------------------


@pytest.mark.parametrize("method", EVERY)
def test_constant_columns_and_single_rows(method):
    x = np.zeros((4, 3), dtype=np.float32)
    x[:, 1] = 7.0
    learner = Learner(method, "identity", dtype="float32")
    learner.learn(x[:1], ["only"])
    assert learner.predict_proba(x).tolist() == [[1.0]] * 4
    learner.learn(x[:2], ["only", "other"])
    assert np.isfinite(learner.predict_proba(x)).all()


@pytest.mark.parametrize("method", ["class-means", "slda"])
def test_a_column_that_is_constant_inside_the_classes_decides(method):
    x, y = blobs(40, classes=2)
    x[:, 2] = np.array(y) * 1e-3 + 5
    learner = learned(method, x, np.array(y))
    assert learner.predict(x).tolist() == y


def test_a_large_offset_loses_nothing():
    x, y = blobs(600)
    plain = learned("slda", np.round(x * 64) / 64, np.array(y))
    moved = learned("slda", np.round(x * 64) / 64 + 2**15, np.array(y))
    test = np.round(blobs(50, seed=1)[0] * 64) / 64
    np.testing.assert_allclose(
        plain.predict_proba(test), moved.predict_proba(test + 2**15), atol=1e-6
    )


@pytest.mark.parametrize("method", ["class-means", "slda", "ranpac:width=20", "randumb:width=20"])
def test_a_class_without_rows_is_never_predicted(method):
    x, y = blobs(30)
    learner = Learner(method, "identity", dtype="float32")
    learner.start_task(data=(x, ["announced"] * 30))
    assert np.allclose(learner.predict_proba(x), 1)
    learner.learn(x, y)
    assert (learner.predict_proba(x)[:, 0] == 0).all()
    assert learner.predict_proba(x).shape == (30, 4)


def test_rows_that_would_spoil_the_sums_are_refused():
    learner = learned("slda", *map(np.array, blobs(20)))
    before = learner.fingerprint()
    with pytest.raises(InputError, match="scale the inputs"):
        learner.learn(np.full((2, 5), 1e20), [0, 1])
    assert learner.fingerprint() == before


# ---- columns of any scale -----------------------------------------------------------------------


def test_scaled_columns_take_the_scale_of_the_first_rows_and_keep_it():
    x, y = np.tile(WINE.data, (2, 1)).astype(np.float32), np.tile(WINE.target, 2)
    order = np.random.default_rng(0).permutation(len(x))
    learner = learned("ranpac:width=400,scaling=columns,scale_rows=300", x, y, order, batch=500)
    form = learner.method.form
    np.testing.assert_allclose(form.tensors["centre"], x.mean(0, dtype=float), rtol=1e-6)
    learner.learn(x * 100, y)
    np.testing.assert_allclose(form.tensors["centre"], x.mean(0, dtype=float), rtol=1e-6)


@pytest.mark.parametrize("method", ["ranpac", "randumb"])
def test_scaled_columns_have_no_unit(method):
    x, y = WINE.data.astype(np.float32), WINE.target
    other = x * 2.0 ** np.arange(-6, 7, dtype=np.float32)
    one, two = (learned(f"{method}:width=60,scaling=columns", rows, y) for rows in (x, other))
    np.testing.assert_allclose(probabilities(one, x), probabilities(two, other), atol=1e-6)


# ---- steps --------------------------------------------------------------------------------------


class Counting(nn.Module):
    """Counts the rows that it has seen."""

    def __init__(self):
        super().__init__()
        self.norm, self.rows = nn.BatchNorm1d(5), 0

    def forward(self, x):
        self.rows += len(x)
        return self.norm(x)


@pytest.mark.parametrize("method", ["slda", "ranpac:width=50"])
def test_the_network_sees_each_row_once_and_stays_as_it_is(method):
    module = Counting()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    learner = Learner(method, module, dtype="float32")
    x, y = blobs(20)
    learner.learn(x, y)
    module.rows = 0
    for _ in range(3):
        result = learner.learn(x, y)
    assert module.rows == 60 and result.loss is None and result.accuracy > 0.9
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


@pytest.mark.parametrize("method", ["class-means", "slda", "ranpac:width=50", "randumb:width=50"])
def test_the_accuracy_of_a_step_is_that_of_a_prediction_before_it(method):
    x, y = DIGITS.data.astype(np.float32), DIGITS.target
    learner = learned(method, x[:400], y[:400])
    right = float(np.mean(learner.predict(x[400:450]) == y[400:450]))
    assert learner.learn(x[400:450], y[400:450]).accuracy == pytest.approx(right)


def test_a_dear_solution_is_a_little_behind_in_steps_and_exact_when_asked():
    x, y = DIGITS.data.astype(np.float32), DIGITS.target
    learner = learned("randumb:width=600", x[:1000], y[:1000], batch=100)
    before = learner.method.form.tensors["weight"]
    learner.learn(x[1000:1020], y[1000:1020])
    assert learner.method.form.tensors["weight"] is before
    learner.learn(x[1020:1200], y[1020:1200])
    assert learner.method.form.tensors["weight"] is not before
    assert np.mean(learner.predict(x[1200:]) == y[1200:]) > 0.9


def test_solutions_are_kept_until_a_row_comes():
    learner = learned("slda", *map(np.array, blobs(30)))
    form = learner.method.form
    first = form.solution()
    learner.predict(blobs(5)[0])
    assert form.solution() is first
    learner.learn(*blobs(5, seed=2))
    assert form.solution() is not first


@pytest.mark.parametrize(
    "method",
    [
        "class-means",
        "slda:shrinkage=0.1",
        "ranpac:width=60,ridge=0.1",
        "ranpac:width=600,ridge=0.1",
        "randumb:width=60,shrinkage=0.1",
        "randumb:width=600,shrinkage=0.1",
    ],
)
@pytest.mark.parametrize("rows", [40, 300], ids=["waiting", "summed"])
def test_a_row_of_weight_2_is_one_that_comes_twice(method, rows):
    x, y = DIGITS.data[:rows].astype(np.float32), DIGITS.target[:rows]
    weighed = Learner(method, "identity", dtype="float32")
    weighed.learn(x, y, weights=[2.0] * 10 + [1.0] * (rows - 20) + [0.0] * 10)
    once = np.arange(rows - 10)
    repeated = learned(method, x, y, np.concatenate([once, np.arange(10)]), batch=1000)
    test = DIGITS.data[700:750].astype(np.float32)
    assert set(weighed.labels) == set(repeated.labels)
    found, wanted = probabilities(weighed, test), probabilities(repeated, test)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("spec", ["slda@ncm", "ranpac@ema", "class-means-las"])
def test_forms_without_sense_are_refused(spec):
    with pytest.raises(InputError, match="makes no sense"):
        Learner(spec)


@pytest.mark.parametrize("spec", ["ranpac", "randumb", "slda", "class-means"])
def test_without_rows_nothing_is_solved(spec, monkeypatch):
    learner = small(spec, nn.Identity(), memory=0)
    solving = pytest.fail
    assert isinstance(learner.method, Summing)
    for cls in type(learner.method.form).__mro__:
        if "solve" in vars(cls):
            monkeypatch.setattr(cls, "solve", lambda *_: solving("there is nothing to solve"))
    x, labels = class_stream(1)[0]
    assert learner.learn(x, labels, store=False).accuracy is not None
    proba = learner.predict_proba(x)
    assert np.allclose(proba, proba[0, 0])
