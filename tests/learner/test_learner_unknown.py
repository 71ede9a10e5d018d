"""What looks like no known class: the scores, the threshold, and answers of None."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from evenstream import Learner
from evenstream.core.calibration import KEPT, Calibration
from evenstream.errors import DamagedCheckpoint, InputError
from evenstream.policies.closed_forms import Discriminant, ProjectedRidge
from evenstream.policies.closed_forms.ridge import STRENGTHS
from evenstream.policies.rules import Contest
from evenstream.tabular import TableEncoder
from tests.helpers.small_streams import blobs, images, small
from tests.policies.test_policies_contest import filled

DIGITS = load_digits()
ORDER = np.random.default_rng(0).permutation(len(DIGITS.target))  # writers mixed
X, Y = DIGITS.data[ORDER].astype(np.float32), DIGITS.target[ORDER]


def test_a_threshold_leaves_at_most_the_share_below_it():
    calibration = Calibration()
    assert calibration.threshold(0.5) == -math.inf
    calibration.add(torch.arange(1.0, 10), torch.tensor([0, 1, 2] * 3), step=7)
    assert calibration.threshold(0.1) == 1.0  # one of nine, and one to come
    assert calibration.threshold(0.09) == -math.inf
    assert calibration.threshold(0.35) == 3.0


def test_older_scores_count_less():
    calibration = Calibration()
    calibration.add(torch.zeros(4), torch.tensor([0, 1, 2, 3]), step=1)
    calibration.add(torch.ones(4), torch.tensor([0, 1, 2, 3]), step=10)
    assert calibration.threshold(0.07) == 0.0  # 0.4 of 4.4 in all, and 1 to come
    assert calibration.threshold(0.3) == 1.0


def test_only_the_newest_scores_of_a_class_are_kept():
    calibration = Calibration()
    calibration.add(torch.arange(100.0), torch.zeros(100, dtype=torch.int64), step=1)
    calibration.add(torch.tensor([0.5]), torch.tensor([2]), step=2)
    assert sorted(calibration.scores[0].tolist()) == list(range(100 - KEPT, 100))
    assert calibration.counts.tolist() == [100, 0, 1]


def by_hand(form, x, penalty):
    """The highest score over the square root of n times the leverage, from all rows at once."""
    sums = form.all_sums()
    penalised = sums.squares + penalty * torch.eye(len(sums.squares), dtype=torch.float64)
    columns = form.columns(x)
    highest = (columns @ torch.linalg.solve(penalised, sums.sums.T)).max(1).values
    leverage = (columns * torch.linalg.solve(penalised, columns.T).T).sum(1)
    return highest / (sums.counts.sum() * leverage).sqrt()


@pytest.mark.parametrize(("rows", "width"), [(100, 600), (512, 600), (600, 600), (300, 50)])
def test_ridge_is_as_sure_as_its_variance_allows(rows, width):
    form = filled(ProjectedRidge(width, ridge=0.5), X[:rows], Y[:rows])
    squares = (
        form.tensors["squares"] if form.is_expensive and form.has_sums else form.all_sums().squares
    )
    wanted = by_hand(form, torch.from_numpy(X[700:720]), 0.5 * float(squares.diagonal().mean()))
    found = form.familiarity(torch.from_numpy(X[700:720]))
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


def test_ridge_is_as_sure_of_a_row_as_if_it_had_not_come():
    form = filled(ProjectedRidge(600, ridge=1.0), X[:600], Y[:600])
    x, y = torch.from_numpy(X[:3]), torch.from_numpy(Y[:3])
    sums, hidden = form.all_sums(), form.columns(x)
    penalty = form.tensors["squares"].diagonal().mean() * torch.eye(600, dtype=torch.float64)
    found = form.familiarity_left_out(x, y, torch.ones(3))
    for row, (h, label) in enumerate(zip(hidden, y, strict=True)):
        targets, rest = sums.sums.T.clone(), sums.squares - torch.outer(h, h) + penalty
        targets[:, label] -= h
        highest = (h @ torch.linalg.solve(rest, targets)).max()
        wanted = highest / (600 * h @ torch.linalg.solve(rest, h)).sqrt()
        torch.testing.assert_close(found[row], wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("rows", [512, 600], ids=["all added", "some waiting"])
def test_ridge_judges_a_row_by_another_as_if_neither_had_come(rows):
    form = filled(ProjectedRidge(600, ridge=1.0), X[:rows], Y[:rows])
    x, y, weights = torch.from_numpy(X[:3]), torch.from_numpy(Y[:3]), torch.tensor([1.0, 2.0, 0.5])
    others = torch.from_numpy(X[700:703])
    found = form.familiarity_left_out(x, y, weights, others)
    same = form.familiarity_left_out(x, y, weights, x)
    torch.testing.assert_close(same, form.familiarity_left_out(x, y, weights), rtol=1e-6, atol=0)
    sums, hidden, shown = form.all_sums(), form.columns(x), form.columns(others)
    penalty = form.tensors["squares"].diagonal().mean() * torch.eye(600, dtype=torch.float64)
    each = zip(hidden, shown, y, weights.double(), strict=True)
    for row, (h, other, label, weight) in enumerate(each):
        targets, rest = sums.sums.T.clone(), sums.squares - weight * torch.outer(h, h) + penalty
        targets[:, label] -= weight * h
        highest = (other @ torch.linalg.solve(rest, targets)).max()
        wanted = highest / (rows * other @ torch.linalg.solve(rest, other)).sqrt()
        torch.testing.assert_close(found[row], wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("rows", [40, 400], ids=["fewer rows than columns", "more"])
def test_discriminant_compares_the_nearest_class_with_all_rows(rows):
    columns = X[:, X[:rows].std(0) > 0]
    form = filled(Discriminant(shrinkage=0.3), columns[:rows], Y[:rows])
    given = torch.from_numpy(columns[700:710])
    sums, x = form.all_sums(), form.columns(given)
    within = sums.within()
    scale = within.diagonal().clamp_min(1e-6 * sums.total_variances()).sqrt()
    correlation = within / scale / scale[:, None]
    correlation.diagonal().fill_(1.0)
    shrunk = (0.7 * correlation + 0.3 * torch.eye(len(scale))) * scale * scale[:, None]
    apart = x[:, None] - sums.means
    nearest = (apart @ torch.linalg.inv(shrunk) * apart).sum(2).min(1).values
    shares = sums.counts / rows
    overall = shares @ sums.means
    spread = sums.means - overall
    total = shrunk + spread.T @ (shares[:, None] * spread)
    background = ((x - overall) @ torch.linalg.inv(total) * (x - overall)).sum(1)
    found = form.familiarity(given)
    torch.testing.assert_close(found, background - nearest, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def taught():
    """A learner that knows seven digits, which came two at a time."""
    learner, known = Learner(seed=0), np.flatnonzero(Y[:900] < 7)
    order = known[np.argsort(Y[known] // 2, kind="stable")]
    for start in range(0, len(order), 25):
        learner.learn(X[order[start : start + 25]], Y[order[start : start + 25]])
    return learner


def test_rejects_what_it_never_saw_and_little_of_what_it_knows(taught):
    answers, known = taught.predict(X[900:], reject=0.05), Y[900:] < 7
    rejected = np.array([answer is None for answer in answers])
    assert 0.01 <= rejected[known].mean() <= 0.1
    assert rejected[~known].mean() > 0.5
    plain = taught.predict(X[900:])
    assert (answers[~rejected] == plain[~rejected]).all()
    np.testing.assert_array_equal(taught.predict_indices(X[900:], reject=0.05) < 0, rejected)


def test_a_larger_share_rejects_more(taught):
    thresholds = [taught.familiarity_threshold(share) for share in (0.01, 0.05, 0.2, 0.9)]
    assert thresholds == sorted(thresholds)
    np.testing.assert_array_equal(
        taught.familiarity(X[900:950]) < thresholds[2],
        taught.predict_indices(X[900:950], reject=0.2) < 0,
    )


def test_a_saved_learner_rejects_the_same(taught, tmp_path):
    taught.save(tmp_path)
    again = Learner.load(tmp_path)
    assert again.fingerprint() == taught.fingerprint()
    assert again.familiarity_threshold(0.05) == taught.familiarity_threshold(0.05)
    np.testing.assert_array_equal(again.familiarity(X[:20]), taught.familiarity(X[:20]))


def test_a_save_without_scores_loads_and_rejects_nothing(taught):
    state = taught.state()
    del state["calibration"]
    again = Learner.from_state(state)
    assert again.familiarity_threshold(0.05) == -math.inf
    assert None not in again.predict(X[900:950], reject=0.05)


@pytest.mark.parametrize(
    ("name", "values"),
    [("scores", torch.zeros(7, 3)), ("counts", torch.zeros(9, dtype=torch.int64)), ("steps", None)],
)
def test_damaged_scores_are_refused(taught, name, values):
    state = taught.state()
    state["calibration"] = {**state["calibration"], name: values}
    with pytest.raises(DamagedCheckpoint, match="calibration"):
        Learner.from_state(state)


METHODS = ["er-las", "er@ncm", "er-las@ema", "er@normalised", "scr"]
CLOSED_FORMS = ["class-means", "slda", "ranpac:width=200", "randumb:width=200"]


@pytest.mark.parametrize("spec", [*METHODS, *CLOSED_FORMS, "auto"])
def test_every_method_has_a_score(spec):
    learner = small(spec, "identity" if spec in CLOSED_FORMS else "mlp")
    before = learner.familiarity(blobs(4)[0])
    assert before.tolist() == [0.0] * 4
    for seed in range(70):
        learner.learn(*blobs(8, seed=seed))
    found = learner.familiarity(blobs(16, seed=99)[0])
    assert np.isfinite(found).all() and len(np.unique(found)) > 1
    assert math.isfinite(learner.familiarity_threshold(0.2))
    assert len(learner.predict(blobs(16, seed=99)[0], reject=0.2)) == 16


def test_images_have_a_score():
    learner = small("auto", "convnet")
    for seed in range(16):
        learner.learn(images(8, seed=seed), [0, 1] * 4)
    found = learner.familiarity(images(16, seed=99))
    assert np.isfinite(found).all() and len(np.unique(found)) > 1
    assert not learner.calibration.scores.isnan().all()


def test_scores_are_those_before_a_row_is_learned():
    learner = small("slda", "identity")
    for seed in range(5):
        learner.learn(*blobs(8, seed=seed))
    x, labels = blobs(1, seed=7)
    before = learner.familiarity(x)
    learner.learn(x, labels)
    index = learner.labels.index(labels[0])
    newest = (int(learner.calibration.counts[index]) - 1) % KEPT
    assert learner.calibration.scores[index, newest] == pytest.approx(float(before[0]), rel=1e-5)


def test_rows_learned_before_and_new_classes_are_not_counted():
    learner = small("slda", "identity")
    learner.learn(np.eye(4, dtype=np.float32), ["a", "b", "a", "b"])
    assert not len(learner.calibration.counts)
    learner.learn(np.eye(4, dtype=np.float32), ["a", "b", "c", "c"])
    assert learner.calibration.counts.tolist() == [1, 1]
    learner.learn(np.eye(4, dtype=np.float32), ["a", "b", "c", "c"], store=False)
    assert learner.calibration.counts.tolist() == [1, 1]


def test_a_refused_step_leaves_the_scores():
    learner = small("er", "mlp", lr=0.1)
    for seed in range(7):
        learner.learn(*blobs(8, seed=seed))
    before = learner.fingerprint()
    x, labels = blobs(8, seed=8)
    with pytest.raises(InputError):
        learner.learn(x * np.float32(np.nan), labels)
    assert learner.fingerprint() == before
    learner.learn(x, labels)
    assert len(learner.calibration.counts)


def test_classes_that_go_take_their_scores_along():
    learner = small("slda", "identity")
    for seed in range(8):
        learner.learn(*blobs(8, seed=seed))
    gone = learner.labels[1]
    kept = [row for row, label in zip(learner.calibration.scores, learner.labels, strict=True)
            if label != gone]  # fmt: skip
    learner.remove_class(gone)
    torch.testing.assert_close(learner.calibration.scores, torch.stack(kept), equal_nan=True)


EDITS = {
    "relabel": lambda learner: learner.relabel([3], 1),
    "forget ids": lambda learner: learner.forget(ids=[3]),
    "forget rows": lambda learner: learner.forget(x=X[:1], labels=Y[:1]),
    "forget label": lambda learner: learner.forget(label=3),
    "merge": lambda learner: learner.merge(2, 3),
    "remove_class": lambda learner: learner.remove_class(3),
}


@pytest.fixture(scope="module")
def taught_with_ids():
    learner = Learner(seed=0)
    for start in range(0, 500, 25):
        part = slice(start, start + 25)
        learner.learn(X[part], Y[part], ids=list(range(500))[part])
    return learner.state()


@pytest.mark.parametrize("edit", EDITS)
def test_the_threshold_fits_right_after_a_correction(taught_with_ids, edit):
    learner = Learner.from_state(taught_with_ids)
    before = learner.familiarity_threshold(0.1)
    EDITS[edit](learner)
    rule, kept = learner.composition.rule, learner.calibration
    assert isinstance(rule, Contest)
    ridge = rule.forms["ranpac"]
    assert kept.scale.tolist() == list(ridge.familiarity_scale)
    assert learner.familiarity_threshold(0.1) != before
    known = np.isin(Y[900:], learner.labels) & (Y[900:] != 3)
    rejected = learner.predict_indices(X[900:][known], reject=0.1) < 0
    assert 0.04 <= rejected.mean() <= 0.16
    newest = kept.scores[~kept.scores.isnan()]
    stored = learner.memory.field("x").flatten(1)
    y = learner.memory.field("y")
    anew = ridge.familiarity_left_out(
        learner.preprocess.plain(stored).flatten(1), y, torch.ones(len(y))
    )
    assert torch.isin(newest, anew).all()


@pytest.mark.parametrize("rows", [80, 160])
def test_few_rows_cannot_be_measured_again_so_a_correction_leaves_their_scores(rows):
    learner, known = Learner(seed=0), np.flatnonzero(Y[:900] < 7)[:rows]
    for part in known.reshape(-1, 10):
        learner.learn(X[part], Y[part], ids=part)
    before = learner.familiarity_threshold(0.1)
    assert before > -math.inf
    learner.forget(ids=known[:1])
    assert learner.familiarity_threshold(0.1) == before


def test_a_relabelling_that_changes_nothing_leaves_the_scores(taught):
    learner = Learner.from_state(taught.state())
    learner.learn(X[:1], Y[:1], ids=["one"])
    before = learner.calibration.scores
    learner.relabel(["one"], Y[0])
    assert learner.calibration.scores is before


def test_a_solution_that_is_behind_keeps_its_penalty():
    form = filled(ProjectedRidge(600), X[:225], Y[:225])
    form.tensors["solved"][2] = 0.123
    form.take_back(torch.from_numpy(X[:1]), torch.from_numpy(Y[:1]), torch.ones(1))
    form.take(torch.from_numpy(X[:1]), torch.from_numpy(Y[:1]))
    x, unit = torch.from_numpy(X[700:720]), float(form.all_sums().squares.diagonal().mean())
    wanted = by_hand(form, x, 0.123 * unit)
    torch.testing.assert_close(form.familiarity(x), wanted, rtol=1e-6, atol=0)


def test_forgetting_a_row_keeps_the_penalty_until_half_are_gone():
    form = filled(ProjectedRidge(600), X[:600], Y[:600])
    form.tensors["solved"][2] = 0.123
    x, y = torch.from_numpy(X[:400]), torch.from_numpy(Y[:400])
    form.take_back(x[:1], y[:1], torch.ones(1))
    assert form.familiarity_scale[0] == 0.123
    form.take_back(x[1:], y[1:], torch.ones(399))
    assert form.familiarity_scale[0] in STRENGTHS


@pytest.mark.parametrize("reject", [0, 1, -0.1, 1.5, math.nan, True, "0.05", [0.1]])
def test_a_share_that_is_none_is_refused(taught, reject):
    with pytest.raises(InputError, match="reject is the share"):
        taught.predict(X[:2], reject=reject)


# ---- costs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two():
    learner = small("er-las", "mlp")
    for seed in range(5):
        learner.learn(*blobs(8, seed=seed))
    return learner


def test_costs_decide_by_least_expected_cost(two):
    x = blobs(40, seed=50)[0]
    chances, size = two.predict_proba(x).astype(float), len(two.labels)
    draw = np.random.default_rng(0)
    matrix = draw.uniform(0, 5, (size, size))
    wanted = [min(range(size), key=lambda j: float(row @ matrix[:, j])) for row in chances]
    assert two.predict_indices(x, costs=matrix).tolist() == wanted
    nested = {
        label: dict(zip(two.labels, matrix[i], strict=True)) for i, label in enumerate(two.labels)
    }
    assert two.predict_indices(x, costs=nested).tolist() == wanted


def test_the_cost_of_missing_a_label_weighs_its_probability(two):
    x = blobs(40, seed=50)[0]
    dear = two.labels[0]
    weighed = two.predict_proba(x) * np.where(np.arange(len(two.labels)) == 0, 30, 1)
    assert two.predict_indices(x, costs={dear: 30}).tolist() == weighed.argmax(1).tolist()
    assert (two.predict(x, costs={dear: 1e9}) == dear).all()
    assert two.predict(x, costs={dear: 1}).tolist() == two.predict(x).tolist()


def test_costs_go_with_priors(two):
    x, prior = blobs(40, seed=50)[0], {label: i + 1 for i, label in enumerate(two.labels)}
    weighed = two.predict_proba(x, prior) * np.where(np.arange(len(two.labels)) == 1, 9, 1)
    found = two.predict_indices(x, prior, costs={two.labels[1]: 9})
    assert found.tolist() == weighed.argmax(1).tolist()


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ({9: 2}, "never learned"),
        ({0: -1}, "not negative"),
        ({0: math.inf}, "finite"),
        ({0: "much"}, "numbers"),
        ({0: {9: 1}}, "never learned"),
        (np.ones((2, 5)), "shape"),
        (np.full((4, 4), np.nan), "shape|finite"),
        ("dear", "costs must be"),
        (3.0, "shape"),
    ],
)
def test_costs_that_make_no_sense_are_refused(two, costs, said):
    before = two.fingerprint()
    with pytest.raises(InputError, match=said):
        two.predict(blobs(2)[0], costs=costs)
    assert two.fingerprint() == before


def test_costs_of_nothing_are_refused(two):
    with pytest.raises(InputError, match="all be zero"):
        two.predict(blobs(2)[0], costs=np.zeros((len(two.labels),) * 2))


def test_stored_rows_are_looked_at_again_once_there_are_many_more(taught):
    """Then no score is older than the last time."""
    assert taught.calibration.steps[taught.calibration.steps > 0].min() > 1
    ridge = taught.composition.rule.forms["ranpac"]
    strength, level = taught.calibration.scale.tolist()
    assert strength == ridge.familiarity_scale[0] and abs(level - ridge.familiarity_scale[1]) <= 1


def test_without_stored_rows_scores_are_kept_as_long_as_the_penalty_is():
    learner = small("ranpac:width=30,ridge=1", "identity")
    for seed in range(30):
        learner.learn(*blobs(8, seed=seed))
    assert int(learner.calibration.counts.sum()) > 200


# ---- rows of a table come later and later ----------------------------------------------------


def dated(days, seed=0):
    """A table of eight kinds, in order of time; the last third has two that came never before."""
    draw = np.random.default_rng(seed)
    kinds = np.concatenate([draw.integers(0, 6, 1000), draw.integers(0, 8, 500)])
    frame = pd.DataFrame(draw.normal(0, 2.2, (8, 6))[kinds] + draw.normal(0, 1, (1500, 6)))
    frame.columns = list("abcdef")
    late = np.sort(draw.uniform(0, days * 1.5, 1500))
    frame.insert(0, "when", pd.Timestamp("2024-01-01") + pd.to_timedelta(late, unit="D"))
    return frame, kinds


@pytest.mark.parametrize("days", [20, 200])
def test_a_later_date_alone_makes_no_row_unknown(days, tmp_path):
    frame, kinds = dated(days)
    learner = Learner(seed=0, table=TableEncoder.infer(frame[:20]))
    for start in range(0, 1000, 20):
        learner.learn(frame[start : start + 20], kinds[start : start + 20])
    rest, known = frame[1000:], kinds[1000:] < 6
    rejected = np.array([each is None for each in learner.predict(rest, reject=0.05)])
    assert rejected[known].mean() < 0.1 and rejected[~known].mean() > 0.3
    familiar = learner.familiarity(rest)
    assert roc_auc_score(known, familiar) > 0.85
    # only weekday and time of day tell rows apart that differ in their dates
    moved = rest.assign(when=rest["when"] + pd.Timedelta(weeks=520))
    np.testing.assert_allclose(learner.familiarity(moved), familiar, rtol=1e-4)
    assert not np.array_equal(learner.predict_proba(moved), learner.predict_proba(rest))
    learner.save(tmp_path)
    snapshot = learner.snapshot()
    learner.learn(frame[1000:1100], kinds[1000:1100])
    for other in (snapshot, Learner.load(tmp_path)):
        assert np.array_equal(other.familiarity(rest), familiar)


@pytest.mark.parametrize("spec", ["er", "slda", "er@ncm"])
@pytest.mark.parametrize("memory", [0, 50])
def test_every_score_leaves_the_date_out(spec, memory):
    if memory == 0 and "ncm" in spec:
        return
    frame, kinds = dated(200)
    encoder = TableEncoder.infer(frame[:20])
    learner = Learner(spec, "normalised-mlp", seed=0, memory=memory, table=encoder)
    for start in range(0, 400, 20):
        learner.learn(frame[start : start + 20], kinds[start : start + 20])
    moved = frame.assign(when=frame["when"] + pd.Timedelta(weeks=520))
    near, far = (learner.familiarity(each[:50]) for each in (frame, moved))
    np.testing.assert_allclose(far, near, rtol=1e-4, atol=1e-5)
