"""The network and closed forms side by side."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from evenstream import Learner
from evenstream.composition import compose
from evenstream.methods.auto import Auto
from evenstream.policies.closed_forms import Discriminant, ProjectedRidge
from evenstream.policies.rules import Contest
from tests.helpers.small_streams import blobs, images, small

DIGITS = load_digits()
X, Y = DIGITS.data.astype(np.float32), DIGITS.target


def filled(form, x, y, seed=0):
    learner = Learner("er", "identity", seed=seed)
    learner.learn(x[:2], y[:2])
    form.begin(learner, x.shape[1])
    for start in range(0, len(x), 50):
        form.take(torch.from_numpy(x[start : start + 50]), torch.from_numpy(y[start : start + 50]))
    return form


@pytest.mark.parametrize("rows", [512, 600], ids=["all added", "some waiting"])
def test_ridge_leaves_a_row_out_as_if_it_had_not_come(rows):
    form = filled(ProjectedRidge(600, ridge=1.0), X[:rows], Y[:rows])
    x, y = torch.from_numpy(X[:3]), torch.from_numpy(Y[:3])
    sums, hidden = form.all_sums(), form.columns(x)
    penalty = form.tensors["squares"].diagonal().mean() * torch.eye(600, dtype=torch.float64)
    found = form.guess_left_out(x, y, 10)
    for row, (h, label) in enumerate(zip(hidden, y, strict=True)):
        targets = sums.sums.T.clone()
        targets[:, label] -= h
        weight = torch.linalg.solve(sums.squares - torch.outer(h, h) + penalty, targets)
        wanted = (h @ weight * (4 + 2.5 * np.log(10))).softmax(0)
        torch.testing.assert_close(found[row].exp().double(), wanted, atol=1e-6, rtol=0)


def test_discriminant_leaves_a_row_out_nearly_as_if_it_had_not_come():
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 40)
    x = (draw.normal(size=(40, 5)) + 0.5 * y[:, None]).astype(np.float32)
    every = filled(Discriminant(shrinkage=0.1), x, y)
    rows, labels = torch.from_numpy(x), torch.from_numpy(y)
    kept = every.guess_left_out(rows, labels, 3)
    seen = every.log_probabilities(rows, every.solution(), 3)
    errors = []
    for row in range(len(x)):
        other = np.delete(np.arange(len(x)), row)
        without = filled(Discriminant(shrinkage=0.1), x[other], y[other])
        wanted = without.log_probabilities(rows[row : row + 1], without.solution(), 3)[0, y[row]]
        errors.append([float(abs(g[row, y[row]] - wanted)) for g in (kept, seen)])
    left_out, plain = np.mean(errors, 0)
    assert left_out < 0.2 * plain


def test_steps_and_predictions_are_made_with_all_rows_so_far():
    form = filled(ProjectedRidge(600, ridge=1.0), X[:512], Y[:512])
    rows, labels = torch.from_numpy(X[512:600]), torch.from_numpy(Y[512:600])
    test = torch.from_numpy(X[600:650])
    form.take(rows, labels)
    gram = form.tensors["squares"]
    unit = float(gram.diagonal().mean())
    sums = form.all_sums()
    weight = torch.linalg.solve(
        sums.squares + unit * torch.eye(600, dtype=torch.float64), sums.sums.T
    )
    scores = form.columns(test) @ weight * (4 + 2.5 * np.log(10))
    current = form.current_solution()
    for found in (form.guess_for_step(test, 10), form.log_probabilities(test, current, 10)):
        torch.testing.assert_close(found.exp().double(), scores.softmax(1), atol=1e-6, rtol=0)
    assert form.current_solution() is current
    form.take(rows[:1], labels[:1])
    assert form.current_solution() is not current


def test_auto_trains_on_no_row_that_it_holds_out(monkeypatch):
    trained, stored = set(), set()

    def noted(self, step, training_rows=Auto.training_rows):
        groups = training_rows(self, step)
        trained.update(tuple(row) for rows in groups for row in rows.raw.tolist())
        return groups

    monkeypatch.setattr(Auto, "training_rows", noted)
    learner = small("auto", "normalised-mlp", memory=40)
    assert compose("auto").text == "auto"
    for seed in range(12):
        x, y = blobs(1 if seed > 8 else 8, seed=seed)
        learner.learn(x, y)
        memory = learner.memory
        held = memory.field("held_out").nonzero().squeeze(1)
        stored.update(tuple(row) for row in memory.rows(held)["x"].tolist())
    assert 5 < len(stored) < 12 and not stored & trained


def test_on_images_auto_is_er_las():
    one, two = (small(spec, "convnet") for spec in ("auto", "er-las"))
    for _ in range(3):
        results = [each.learn(images(6), [0, 1, 2] * 2) for each in (one, two)]
        assert results[0].loss == results[1].loss


def test_a_network_that_leans_to_new_classes_is_not_asked():
    """It is right about all rows that come, and wrong about those of the past."""
    learner = Learner("auto")
    learner.prepare(np.zeros((1, 4), np.float32))
    rule = learner.composition.rule
    for name, arriving, stored in (("slda", 6, 7), ("ranpac", 5, 8), ("network", 9, 3)):
        rule.tensors[name] = torch.tensor([[10.0], [arriving]])
        assert rule.best() != "ranpac"  # type: ignore[attr-defined]
        rule.tensors[f"replayed {name}"] = torch.tensor([[10.0], [stored]])
    assert rule.best() == "ranpac"  # type: ignore[attr-defined]
    rule.tensors["replayed network"] = torch.tensor([[10.0], [7.0]])
    assert rule.best() == "network"  # type: ignore[attr-defined]


def test_a_network_that_is_better_predicts():
    """Two rings: no line tells them apart, and random features are too few to."""
    draw = np.random.default_rng(0)
    learner = Learner("er@contest:width=2", "normalised-mlp", optimizer="adamw", lr=0.01)
    for _ in range(60):
        y = draw.integers(0, 2, 16)
        angle = draw.uniform(0, 2 * np.pi, 16)
        radius = 1 + y + draw.normal(size=16) * 0.1
        learner.learn(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), y)
    rule = learner.composition.rule
    assert rule.best() == "network" and "network predicts" in str(learner)  # type: ignore[attr-defined]
    assert rule.shares()["network"] > rule.shares()["slda"] + 0.1  # type: ignore[attr-defined]


def test_a_network_that_has_forgotten_is_not_asked():
    learner = Learner("fine-tune@contest", "normalised-mlp", optimizer="adamw", lr=0.01)
    for first in (0, 2):
        for seed in range(30):
            x, y = blobs(10, classes=2, seed=seed)
            learner.learn(x + 4 * first, np.array(y) + first)
    assert learner.composition.rule.best() != "network"  # type: ignore[attr-defined]


def test_images_are_left_to_the_network():
    learner = small("auto", "convnet")
    learner.learn(images(6), [0, 1, 2] * 2)
    learner.learn(images(6), [0, 1, 2] * 2)
    assert learner.composition.rule.best() == "network"  # type: ignore[attr-defined]
    assert learner.predict_proba(images(2)).shape == (2, 3)


def test_a_step_reduces_all_rows_that_it_asks_about_at_once(monkeypatch):
    """Each triangular solution reads the whole factor, which is most of what a step costs."""
    x, y = X[:, ::4], Y
    learner = Learner("auto", seed=0, memory=300)
    for first in range(0, 360, 20):
        learner.learn(x[first : first + 20], y[first : first + 20])
    rule = learner.composition.rule
    assert isinstance(rule, Contest)
    ridge = rule.forms["ranpac"]
    assert isinstance(ridge, ProjectedRidge) and ridge.is_expensive and ridge.has_sums
    solve, heights = torch.linalg.solve_triangular, []

    def noted(matrix, *others, **options):
        heights.append(len(matrix))
        return solve(matrix, *others, **options)

    monkeypatch.setattr(torch.linalg, "solve_triangular", noted)
    for step, first in enumerate((360, 380, 400), 1):  # stored rows are not measured again
        learner.learn(x[first : first + 20], y[first : first + 20])
        assert heights.count(ridge.width) == step


def test_rows_that_were_expected_are_guessed_the_same():
    one, two = (filled(ProjectedRidge(600, ridge=1.0), X[:600], Y[:600]) for _ in range(2))
    blocks = [torch.from_numpy(X[first : first + 20]) for first in (0, 600, 700)]
    one.expect(*blocks)
    for rows in blocks:
        torch.testing.assert_close(one.guess_for_step(rows, 10), two.guess_for_step(rows, 10))
