"""SCR, OCM and PCR: worked numbers, properties, and what they do in a learner."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import assert_value, watch_groups
from torch.nn.utils import parameters_to_vector

from evenstream import Learner, LogitAdjustedSoftmax
from evenstream.errors import InputError
from evenstream.learner.heads import cosines
from evenstream.methods import make_method
from evenstream.methods.ocm import PREVIOUS
from evenstream.methods.parts.contrast import nt_new, nt_same, supervised_contrastive
from evenstream.methods.parts.projection import PROJECTION
from evenstream.methods.parts.rotations import pseudo_labels, rotations
from evenstream.testing import Backbone, feed, make_learner, toy_stream
from small_streams import feed as learn_all
from small_streams import images, parameters, same, small

# Two samples of labels 0 and 1, all first views before all second ones.
VIEWS = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8], [-0.8, 0.6]])
LABELS = torch.tensor([0, 1, 0, 1])


def random_views(seed, n, size=5):
    """Unit embeddings of n samples in two views, and labels."""
    draw = torch.Generator().manual_seed(seed)
    embeddings = F.normalize(torch.randn(2 * n, size, generator=draw, dtype=torch.float64), dim=1)
    return embeddings, torch.randint(3, (n,), generator=draw).repeat(2)


sizes = st.integers(1, 6)
seeds = st.integers(0, 10_000)

# ---- the supervised contrastive loss -------------------------------------------------------------


def test_supervised_contrastive_worked_numbers():
    assert_value(supervised_contrastive(VIEWS, LABELS, 0.5), 0.668040)
    assert_value(supervised_contrastive(VIEWS, LABELS, 0.07), 1.456593)


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


def test_supervised_contrastive_of_each_anchor():
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


# ---- two views -----------------------------------------------------------------------------------


def colour_stream(steps=6, batch=4, channels=3, side=8):
    x = images(steps * batch, side, channels, seed=1)
    labels = [f"class {2 * (row * 2 // len(x)) + row % 2}" for row in range(len(x))]
    return [(x[i : i + batch], labels[i : i + batch]) for i in range(0, len(x), batch)]


def image_learner(method, **options):
    learner = small(method, "convnet", **{"batch": 4, **options})
    if "boundaries" in learner.needs:
        learner.start_task()
    return learner


@pytest.mark.parametrize("method", ["scr", "pcr"])
@pytest.mark.parametrize("augment", ["none", "crop1+flip"])
def test_rows_are_seen_as_they_are_and_augmented(method, augment):
    learner = image_learner(method, augment=augment, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    seen = watch_groups(learner)
    learn_all(learner, colour_stream())
    incoming, replayed, *augmented = seen[-1]
    for rows, other in zip((incoming, replayed), augmented, strict=True):
        assert torch.equal(rows.x, learner.preprocess.plain(rows.raw))
        assert torch.equal(rows.raw, other.raw) and torch.equal(rows.y, other.y)
        assert other.x.shape == rows.x.shape and not torch.equal(rows.x, other.x)
    own = learner.method.augmented
    assert own.augment == "resized-crop0.2+flip+jitter+gray"
    assert (own.mean, own.std) == (learner.preprocess.mean, learner.preprocess.std)


def test_the_second_view_of_the_stream():
    learner = image_learner("scr:view=stream", augment="flip")
    seen = watch_groups(learner)
    learn_all(learner, colour_stream())
    assert learner.method.augmented is learner.preprocess
    raw, view = seen[-1][2].raw, seen[-1][2].x
    either = torch.stack([learner.preprocess.plain(raw), learner.preprocess.plain(raw).flip(3)])
    assert (view == either).flatten(2).all(2).any(0).all()


def test_the_second_view_has_the_size_of_the_learners():
    learner = learn_all(image_learner("scr", augment="resized-crop0.5@8"), colour_stream(side=10))
    assert learner.method.augmented.augment == "resized-crop0.2@8+flip+jitter+gray"
    assert learner.memory.field("x").shape[2:] == (10, 10)


@pytest.mark.parametrize("method", ["scr", "pcr", "ocm"])
def test_images_of_one_channel(method):
    learner = learn_all(image_learner(method), colour_stream(channels=1))
    assert len(learner.predict(colour_stream(channels=1)[0][0])) == 4


@pytest.mark.parametrize("method", ["scr", "pcr"])
def test_no_update_while_the_memory_is_empty(method):
    learner, stream = make_learner(method), toy_stream()
    learner.learn(*stream[0])
    fresh = {f"backbone.{name}": value for name, value in Backbone().state_dict().items()}
    assert same(fresh, {name: v for name, v in parameters(learner).items() if name in fresh})
    assert len(learner.memory) == len(stream[0][1])
    assert learner.learn(*stream[1]).loss is not None


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
    seen, losses = watch_groups(learner), learner.method.contrast
    noted = []
    learner.method.contrast = lambda features, y: noted.append(features) or losses(features, y)
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
        make_method("scr-las")
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
    seen, optimise = [], reviewed.optimise
    reviewed.optimise = lambda loss, *groups: seen.append(groups) or optimise(loss, *groups)
    for learner in (plain, reviewed):
        learner.end_task()
    assert same(parameters(plain), before) and not same(parameters(reviewed), before)
    assert seen == [("network", PROJECTION)] * 2  # 18 stored rows, in batches of 6 + 6


def review_changes(whole):
    """What one batch of review adds to backbone and projection, with its loss or the `whole`."""
    learner = make_learner("scr:review=true", model=Backbone(dropout=0.0))
    feed(learner, toy_stream()[:2])  # 12 stored rows, a batch of 6 + 6
    contrast, optimise, losses = learner.method.contrast, learner.optimise, []
    learner.method.contrast = lambda *rows: losses.append(contrast(*rows)) or losses[-1]
    if whole:
        learner.optimise = lambda loss, *groups: optimise(losses[-1], *groups)
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
    assert learner.network is None


# ---- PCR -----------------------------------------------------------------------------------------


def proxy_loss(features, proxies, labels, temperature):
    """PCR's: each row against the proxies of all rows of the batch, itself included."""
    similarities = F.normalize(features, dim=1) @ F.normalize(proxies, dim=1)[labels].T
    own = similarities.diagonal() / temperature
    return (torch.logsumexp(similarities / temperature, 1) - own).mean()


@settings(max_examples=30)
@given(seeds, st.integers(1, 20), st.integers(1, 6))
def test_pcr_is_las_on_a_cosine_head(seed, n, classes):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=draw)
    inputs = [torch.randn(k, 4, generator=draw, dtype=torch.float64) for k in (n, classes)]
    features, proxies = (x.clone().requires_grad_() for x in inputs)
    theirs = proxy_loss(features, proxies, labels, 0.09)
    theirs.backward()
    mine = [x.clone().requires_grad_() for x in inputs]
    las = LogitAdjustedSoftmax(tau=1.0, window=1)(cosines(*mine) / 0.09, labels)
    las.backward()
    counts = torch.bincount(labels)[labels].float()
    torch.testing.assert_close(las + counts.log().mean(), theirs, rtol=0, atol=2e-6)
    for one, other in zip(mine, (features, proxies), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=2e-7)


def test_pcr_in_a_learner_is_the_proxy_loss():
    learner = feed(make_learner("pcr", model=Backbone(dropout=0.0)), toy_stream(4))
    seen, network = watch_groups(learner), learner.network
    features, forward = [], network.features
    network.features = lambda x: features.append(forward(x)) or features[-1]
    proxies = network.head.weight.detach().clone()
    result = learner.learn(*toy_stream()[4])
    labels = torch.cat([rows.y for rows in seen[0]])
    expected = proxy_loss(features[0].detach(), proxies, labels, 0.09)
    counts = torch.bincount(labels)[labels].float()
    assert result.loss + float(counts.log().mean()) == pytest.approx(float(expected), abs=1e-4)
    assert len(labels) == 24  # both views are counted


def test_pcr_is_er_las_when_both_views_are_the_same():
    stream = toy_stream()
    pcr = feed(make_learner("pcr:skip_first=false", model=Backbone(dropout=0.0)), stream)
    er = make_learner(f"er-las:head=cosine,head_scale={1 / 0.09}", model=Backbone(dropout=0.0))
    feed(er, stream)
    assert pcr.criterion.tau == 1.0 and pcr.network.head.scale == er.network.head.scale
    for name, value in parameters(er).items():
        if "running" not in name:  # BatchNorm's variance is of twice as many rows
            torch.testing.assert_close(parameters(pcr)[name], value, rtol=1e-3, atol=1e-4)


def test_pcr_has_its_name_and_no_second_adjustment():
    assert make_method("pcr").spec == "pcr"
    method = make_method("pcr:temperature=0.1,head_scale_learned=true")
    assert method.spec == "pcr:temperature=0.1,head_scale_learned=true"
    assert method.head.head_scale == pytest.approx(10)
    with pytest.raises(InputError, match="already"):
        make_method("pcr-las")


def test_pcr_takes_priors():
    learner = feed(make_learner("pcr"), toy_stream())
    assert learner.predict(toy_stream()[0][0], priors={"bolt": 1.0}) == ["bolt"] * 6


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


@pytest.mark.parametrize("method", ["scr", "scr:review=true", "ocm", "pcr"])
def test_resumes_exactly_on_images(method, tmp_path):
    def run(learner, batches):
        for number, (x, labels) in batches:
            if learner.in_task and number == 3:
                learner.end_task()
                learner.start_task()
            learner.learn(x, labels)
        return learner

    numbered = list(enumerate(colour_stream()))
    whole = run(image_learner(method), numbered)
    for cut in (1, 4):
        run(image_learner(method), numbered[:cut]).save(tmp_path / str(cut))
        again = run(Learner.load(tmp_path / str(cut)), numbered[cut:])
        assert again.fingerprint() == whole.fingerprint()
