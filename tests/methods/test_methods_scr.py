"""SCR: the supervised contrastive loss, its projection, and the review at task ends."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector

from evenstream.composition import compose
from evenstream.errors import InputError
from evenstream.methods.parts.contrast import supervised_contrastive
from evenstream.methods.parts.projection import PROJECTION
from evenstream.testing import Backbone, feed, make_learner, toy_stream
from tests.helpers.contrast_samples import LABELS, VIEWS, random_views, seeds, sizes
from tests.helpers.method_samples import assert_value, watch_groups
from tests.helpers.small_streams import parameters, same

# ---- the supervised contrastive loss -------------------------------------------------------------


def by_anchors(embeddings, labels, temperature):
    """The definition, one anchor at a time."""
    losses = []
    for i in range(len(labels)):
        others = [a for a in range(len(labels)) if a != i]
        total = sum(math.exp(float(embeddings[i] @ embeddings[a]) / temperature) for a in others)
        positives = [p for p in others if labels[p] == labels[i]]
        terms = [
            float(embeddings[i] @ embeddings[p]) / temperature - math.log(total) for p in positives
        ]
        losses.append(-sum(terms) / len(terms))
    return losses


def test_supervised_contrastive_worked_numbers():
    assert_value(supervised_contrastive(VIEWS, LABELS, 0.5), 0.668040)
    assert_value(supervised_contrastive(VIEWS, LABELS, 0.07), 1.456593)
    expected = [0.000190, 2.912996, 2.912996, 0.000190]
    order = [0, 2, 1, 3]  # both views of the first sample, then those of the second
    found = by_anchors(VIEWS[order], LABELS[order], 0.07)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@settings(max_examples=30)
@given(seeds, sizes, st.sampled_from([0.07, 0.5, 2.0]))
def test_supervised_contrastive_is_its_definition(seed, n, temperature):
    embeddings, labels = random_views(seed, n)
    expected = np.mean(by_anchors(embeddings, labels.tolist(), temperature))
    found = float(supervised_contrastive(embeddings, labels, temperature))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=30)
@given(seeds, sizes)
def test_supervised_contrastive_does_not_care_for_rotation_and_order(seed, n):
    embeddings, labels = random_views(seed, n)
    loss = supervised_contrastive(embeddings, labels, 0.07)
    draw = torch.Generator().manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(5, 5, generator=draw, dtype=torch.float64))
    order = torch.randperm(2 * n, generator=draw)
    torch.testing.assert_close(supervised_contrastive(embeddings @ turn, labels, 0.07), loss)
    torch.testing.assert_close(supervised_contrastive(embeddings[order], labels[order], 0.07), loss)


@settings(max_examples=30)
@given(seeds, sizes)
def test_supervised_contrastive_of_equal_embeddings(seed, n):
    _, labels = random_views(seed, n)
    loss = supervised_contrastive(torch.eye(5)[:1].expand(2 * n, -1), labels, 0.07)
    assert float(loss) == pytest.approx(math.log(2 * n - 1), abs=1e-5)


# ---- SCR -----------------------------------------------------------------------------------------


def test_scr_trains_network_and_projection_but_not_the_head():
    learner = feed(make_learner("scr"), toy_stream(3))
    before, projection = parameters(learner), learner.method.modules[PROJECTION]
    weights = [p.detach().clone() for p in projection.parameters()]
    learner.learn(*toy_stream(12)[2])
    after = parameters(learner)
    assert same({"w": before["head.weight"]}, {"w": after["head.weight"]})
    assert not torch.equal(before["backbone.layers.0.weight"], after["backbone.layers.0.weight"])
    assert all(not torch.equal(a, b) for a, b in zip(weights, projection.parameters(), strict=True))
    shapes = [tuple(p.shape) for p in projection.parameters()]
    assert shapes == [(24, 24), (24,), (128, 24), (128,)]


def test_scr_loss_is_that_of_its_parts():
    learner = feed(make_learner("scr", model=Backbone(dropout=0.0)), toy_stream(3))
    seen, losses = watch_groups(learner), learner.method.contrast  # type: ignore[attr-defined]
    noted = []
    learner.method.contrast = lambda features, y: noted.append(features) or losses(features, y)  # type: ignore[attr-defined]
    projection = [p.detach().clone() for p in learner.method.modules[PROJECTION].parameters()]
    result = learner.learn(*toy_stream()[3])
    hidden = F.relu(F.linear(noted[0], projection[0], projection[1]))
    embedded = F.normalize(F.linear(hidden, projection[2], projection[3]), dim=1)
    labels = torch.cat([rows.y for rows in seen[0]]).tolist()
    expected = np.mean(by_anchors(embedded.detach().double(), labels, 0.07))
    assert result.loss == pytest.approx(expected, rel=1e-4)
    assert result.rows == len(labels) == 2 * (6 + 6) and result.accuracy is None


def test_scr_cannot_be_adjusted_or_asked_for_logits():
    with pytest.raises(InputError, match="no softmax"):
        compose("scr-las")
    with pytest.raises(InputError, match="only the rule ncm"):
        make_learner("scr@argmax")
    with pytest.raises(InputError, match="memory=0"):
        make_learner("scr", memory=0)


def test_scr_reviews_the_memory_at_task_ends():
    plain, reviewed = make_learner("scr"), make_learner("scr:review=true")
    assert plain.needs == {"memory"} and reviewed.needs == {"memory", "boundaries"}
    for learner in (plain, reviewed):
        if not learner.in_task:
            learner.start_task()
        feed(learner, toy_stream()[:3])
    assert same(parameters(plain), parameters(reviewed))
    before = parameters(plain)
    seen, optimise = [], reviewed.update
    reviewed.update = lambda loss, *groups: seen.append(groups) or optimise(loss, *groups)
    for learner in (plain, reviewed):
        learner.end_task()
    assert same(parameters(plain), before) and not same(parameters(reviewed), before)
    assert seen == [("network", PROJECTION)] * 2  # 18 stored rows, in batches of 6 + 6


def review_changes(whole):
    """What one batch of review adds to backbone and projection, with its loss or the `whole`."""
    learner = make_learner("scr:review=true", model=Backbone(dropout=0.0))
    feed(learner, toy_stream()[:2])  # 12 stored rows, a batch of 6 + 6
    contrast, optimise, losses = learner.method.contrast, learner.update, []  # type: ignore[attr-defined]
    learner.method.contrast = lambda *rows: losses.append(contrast(*rows)) or losses[-1]  # type: ignore[attr-defined]
    if whole:
        learner.update = lambda loss, *groups: optimise(losses[-1], *groups)
    modules = learner.network.backbone, learner.method.modules[PROJECTION]
    before = [parameters_to_vector(module.parameters()).detach() for module in modules]
    learner.end_task()
    assert len(losses) == 1
    after = [parameters_to_vector(module.parameters()).detach() for module in modules]
    return [new - old for new, old in zip(after, before, strict=True)]


def test_a_review_has_a_tenth_of_the_gradient():
    for tenth, full in zip(review_changes(False), review_changes(True), strict=True):
        torch.testing.assert_close(tenth, 0.1 * full, rtol=1e-3, atol=1e-6)
        assert full.abs().max() > 1e-3


def test_a_review_of_nothing():
    learner = make_learner("scr:review=true")
    learner.end_task()
    assert not learner.built
