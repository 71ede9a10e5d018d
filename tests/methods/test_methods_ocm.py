"""OCM: its losses, the sixteen turns of an image, and what it does in a learner."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import Learner
from evenstream.errors import InputError
from evenstream.methods.ocm import PREVIOUS
from evenstream.methods.parts.contrast import nt_new, nt_same
from evenstream.methods.parts.projection import PROJECTION
from evenstream.methods.parts.rotations import pseudo_labels, rotations
from evenstream.testing import feed, toy_stream
from tests.helpers.contrast_samples import (
    LABELS,
    VIEWS,
    colour_stream,
    image_learner,
    random_views,
    seeds,
    sizes,
)
from tests.helpers.method_samples import assert_value, watch_groups
from tests.helpers.small_streams import feed as learn_all
from tests.helpers.small_streams import images, same, small

# ---- OCM's losses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "new", "same_class"), [(0.07, 21.333870, 2.888268), (0.5, 19.756762, 1.045305)]
)
def test_ocm_worked_numbers(temperature, new, same_class):
    similarities = VIEWS @ VIEWS.T
    assert float(nt_new(similarities, LABELS, temperature)) == pytest.approx(new, abs=2e-5)
    assert_value(nt_same(similarities, LABELS, temperature), same_class)


def ocm_by_rows(similarities, labels, temperature, new):
    """The definition, one pair at a time."""
    n, total = len(labels), 0.0
    for i in range(n):
        top = max(similarities[i])
        weights = [math.exp((s - top) / temperature) for s in similarities[i]]
        if new:
            weights[i] = 0.0
        losses = [-math.log(w / (sum(weights) + 1e-8) + 1e-8) for w in weights]
        own = [losses[j] for j in range(n) if labels[j] == labels[i]]
        mean = sum(own) / len(own)
        total += 2 * mean + losses[(i + n // 2) % n] if new else mean
    return total / n


@settings(max_examples=30)
@given(seeds, sizes, st.sampled_from([0.07, 0.5]))
def test_ocm_losses_are_their_definitions(seed, n, temperature):
    embeddings, labels = random_views(seed, n)
    similarities = embeddings @ embeddings.flip(0).T
    for loss, new in ((nt_new, True), (nt_same, False)):
        expected = ocm_by_rows(similarities.tolist(), labels.tolist(), temperature, new)
        assert float(loss(similarities, labels, temperature)) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=30)
@given(seeds, sizes)
def test_the_similarity_of_a_row_with_itself_has_no_gradient_in_new_data(seed, n):
    embeddings, labels = random_views(seed, n)
    similarities = (embeddings @ embeddings.T).requires_grad_()
    nt_new(similarities, labels, 0.5).backward()
    assert similarities.grad.diagonal().eq(0).all() and similarities.grad.isfinite().all()
    # Its place in the mean over the class is a constant of 2·18.42/|P| a row.
    counted = (labels[:, None] == labels).sum(1)
    constant = float((2 * math.log(1e8) / counted).mean())
    assert float(nt_new(similarities.detach(), labels, 0.5)) > constant - 1e-6


# ---- rotations -----------------------------------------------------------------------------------


def test_sixteen_distinct_images():
    image = torch.arange(16).view(1, 1, 4, 4)
    found = rotations(image)
    assert found.shape == (16, 1, 4, 4) and len(found.flatten(1).unique(dim=0)) == 16
    assert torch.equal(found[0], image[0])
    assert found[1, 0, 0].tolist() == [13, 12, 2, 3]  # the left half turned
    assert (found.flatten(1).sort(1)[0] == torch.arange(16)).all()


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 7), seeds)
def test_rotations_are_turns_of_halves_and_wholes(n, channels, side, seed):
    draw = np.random.default_rng(seed)
    raw = draw.integers(0, 256, (n, channels, side, side)).astype(np.uint8)
    found = rotations(torch.from_numpy(raw)).numpy().reshape(4, 4, n, channels, side, side)
    for i, image in enumerate(raw):
        for local, (left, right) in enumerate([(0, 0), (1, 0), (1, 1), (0, 1)]):
            changed, half = image.copy(), side // 2
            if left:
                changed[:, :, :half] = changed[:, ::-1, :half][:, :, ::-1]
            if right:
                changed[:, :, half:] = changed[:, ::-1, half:][:, :, ::-1]
            for turned, quarters in zip(found[:, local, i], (0, 2, 1, 3), strict=True):
                np.testing.assert_array_equal(turned, np.rot90(changed, quarters, (1, 2)))
                np.testing.assert_array_equal(
                    np.rot90(turned, 4 - quarters, (1, 2)), changed
                )  # four quarters are none


def test_every_class_appears_under_sixteen_labels():
    y = torch.tensor([2, 0, 2])
    labels = pseudo_labels(y, n_classes=5)
    assert len(labels) == 48 and labels[:3].tolist() == [2, 0, 2] and labels[3:5].tolist() == [7, 5]
    assert torch.equal(labels % 5, y.repeat(16)) and len(labels.unique()) == 32


def test_only_square_images_can_be_turned():
    with pytest.raises(InputError, match="square images, not of 4x6"):
        rotations(torch.zeros(1, 3, 4, 6))


# ---- OCM -----------------------------------------------------------------------------------------


def ocm_learner(**options):
    """OCM on small images, in the second task."""
    learner, stream = image_learner("ocm", **options), colour_stream()
    learn_all(learner, stream[:3])
    learner.end_task()
    learner.start_task()
    return learner, stream[3:]


def test_ocm_turns_images_and_keeps_the_memory_as_it_is():
    learner, stream = ocm_learner()
    sizes, features = [], learner.network.features
    learner.network.features = lambda x: sizes.append(len(x)) or features(x)
    learner.learn(*stream[0])
    assert sizes == [4, 2 * 16 * (4 + 4), 4]  # the head's, all views, the accuracy's
    assert learner.memory.field("x").shape[1:] == (3, 8, 8)


def test_ocm_counts_whom_the_head_learns_from():
    learner = image_learner("ocm-las")
    seen = watch_groups(learner)
    stream = colour_stream()
    learn_all(learner, stream[:3])
    assert [group.slots for (group,) in seen] == [None] * 3
    learner.end_task()
    learner.start_task()
    learn_all(learner, stream[3:])
    assert all(group.slots is not None for (group,) in seen[3:])


def test_ocm_previous_model_and_projection_are_frozen():
    learner, stream = ocm_learner()
    method = learner.method
    previous = {name: p.detach().clone() for name, p in method.modules[PREVIOUS].named_parameters()}
    network = {n: v.clone() for n, v in method.previous.network.state_dict().items()}
    assert same(previous, dict(method.modules[PROJECTION].named_parameters()))
    learn_all(learner, stream)
    assert same(previous, dict(method.modules[PREVIOUS].named_parameters()))
    assert same(network, dict(method.previous.network.state_dict()))
    assert not same(previous, dict(method.modules[PROJECTION].named_parameters()))
    assert not any(p.requires_grad for p in method.modules[PREVIOUS].parameters())


def watched_step(learner, batch):
    """A step of OCM: its result, the head's rows, each forward's (x, features), window starts."""
    network, forwards, starts = learner.network, [], []
    features, randint, seen = network.features, torch.randint, watch_groups(learner)

    def noted(*args, **more):
        found = randint(*args, **more)
        if more.get("generator") is learner.randomness.method:
            starts.append(int(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randint", noted)
        patch.setattr(
            network, "features", lambda x: forwards.append((x, features(x))) or forwards[-1][1]
        )
        result = learner.learn(*batch)
    ((rows,),) = seen
    return result, rows, forwards, starts


def unit(values):
    return F.normalize(values, dim=1)


def ocm_similarity(method, features, start, weight):
    """Embeddings with each other and with a window of features, as a whole of length one."""
    g = unit(method.modules[PROJECTION](features))
    window = unit(features)[:, start : start + g.shape[1]]
    return (weight * g @ window.T + weight * g @ g.T).tolist()


def turned_labels(y, classes):
    return [copy * classes + int(label) for copy in range(16) for label in y]


def test_ocm_in_the_first_task_is_cross_entropy_and_the_contrast_of_new_rows():
    """Similarities have the factor 1, and the memory is not asked."""
    learner, stream = image_learner("ocm:projection=5", lr=0.0), colour_stream()
    learner.learn(*stream[0])
    result, rows, forwards, starts = watched_step(learner, stream[1])
    (x, features), (_, every), _ = forwards
    assert len(every) == 2 * 16 * 4 and rows.slots is None and len(learner.memory) == 8
    assert rows.preprocess.augment == "resized-crop0.3+flip+gray0.25"
    assert torch.equal(x, rows.x) and not torch.equal(x, rows.plain())
    assert len(starts) == 1 and 0 < starts[0] <= 128 - 5
    with torch.no_grad():
        head = float(F.cross_entropy(learner.network.logits(features), rows.y))
        similar = ocm_similarity(learner.method, every, starts[0], 1.0)
    contrast = ocm_by_rows(similar, turned_labels(rows.y, 2) * 2, 0.07, new=True)
    assert result.loss == pytest.approx(head + contrast, rel=1e-4)


def test_ocm_loss_is_the_sum_of_its_terms():
    learner, stream = ocm_learner(lr=0.0)
    method, network = learner.method, learner.network
    result, rows, forwards, starts = watched_step(learner, stream[0])
    (x, features), (_, every) = forwards[:2]
    logits = network.head(features, network.width)
    of_new, of_old = every[:128], every[128:]
    incoming = [learner.labels.index(label) for label in stream[0][1]]
    new_labels, old_labels = (turned_labels(y, len(learner.labels)) for y in (incoming, rows.y))
    turned = rotations(rows.raw)
    with torch.no_grad():
        before = unit(
            method.modules[PREVIOUS](method.previous.outputs(learner.preprocess.plain(turned))[0])
        )
        now = unit(method.modules[PROJECTION](of_old[:64]))
        similar = [
            ocm_similarity(method, part, start, 0.5)
            for part, start in zip((of_new, of_old), starts, strict=True)
        ]
        expected = (
            float(F.cross_entropy(logits, rows.y))
            + ocm_by_rows(similar[0], new_labels * 2, 0.07, new=True)
            + ocm_by_rows(similar[1], old_labels * 2, 0.07, new=False)
            + ocm_by_rows((now @ before.T).tolist(), old_labels, 0.07, new=False)
            + float(F.mse_loss(logits[:, :2], method.previous.outputs(x)[1]))
        )
    assert result.loss == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("spec", "beta2"), [("ocm", 0.99), ("ocm:beta2=0.9", 0.9)])
def test_ocm_gives_adam_its_betas(spec, beta2, tmp_path):
    learner = image_learner(spec, optimizer="adam")
    learner.learn(*colour_stream()[0])
    learner.save(tmp_path)
    for each in (learner, Learner.load(tmp_path)):
        for optimizer in (each.optimizer, each.method.optimizers[PROJECTION]):
            assert [group["betas"] for group in optimizer.param_groups] == [(0.9, beta2)]


@pytest.mark.parametrize(("features", "expected"), [(24, 24), (200, 128)])
def test_ocm_projection_is_not_wider_than_the_features(features, expected):
    learner = small("ocm", torch.nn.Linear(6, features), batch=6)
    learner.start_task()
    feed(learner, toy_stream(4))
    assert learner.method.modules[PROJECTION].weight.shape == (expected, features)


def test_ocm_refuses_images_it_cannot_turn():
    learner = image_learner("ocm")
    before = learner.fingerprint()
    with pytest.raises(InputError, match="square images"):
        learner.learn(images(4, 10, 3)[:, :, :8], [0, 1, 0, 1])
    assert learner.fingerprint() == before
