"""Distillation: worked numbers, and what the methods that use it promise (Algorithm 3)."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream import Learner, LogitAdjustedSoftmax
from evenstream.composition import compose
from evenstream.errors import InputError
from evenstream.methods.parts.distillation import distillation
from evenstream.methods.parts.geodesic import geodesic_distance
from tests.helpers.method_samples import (
    Group,
    assert_value,
    by_tasks,
    fixed_teacher,
    normed,
    step_of,
)
from tests.helpers.small_streams import Noisy, class_stream, feed, images, parameters, same, small

NEW, OLD = torch.tensor([[1.0, 2, 0, 3]]), torch.tensor([[2.0, 1, 0]])  # the teacher knows three

TAUGHT = ["lwf", "lucir", "geodl"]
BOTH = [*TAUGHT, *(f"{name}-las" for name in TAUGHT)]

seeds = st.integers(0, 10_000)
temperatures = st.floats(0.5, 8)
forms = st.sampled_from(["ce", "kl"])


def pairs(seed):
    return torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(seed)) * 3


# ---- the loss ------------------------------------------------------------------------------------


def test_worked_values_and_gradient():
    new = NEW.clone().requires_grad_()
    loss = distillation(new[:, :3], OLD, 2.0)
    assert_value(loss, 1.119834)
    assert_value(distillation(NEW[:, :3], OLD, 2.0, form="kl"), 0.099642)
    assert_value(distillation(NEW[:, :3], OLD, 2.0, form="kl", scaled=True), 4 * 0.0996422)
    assert_value(distillation(OLD, OLD, 2.0), 1.020191)  # the entropy of the teacher
    (gradient,) = torch.autograd.grad(0.5 * loss, new)
    expected = torch.tensor([[-0.049821, 0.049821, 0, 0]])
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-6)


@given(seeds, temperatures, forms, st.floats(-50, 50))
def test_a_constant_added_to_either_side_changes_nothing(seed, temperature, form, constant):
    new, old = pairs(seed)
    loss = distillation(new, old, temperature, form=form)
    for moved in ((new + constant, old), (new, old + constant)):
        torch.testing.assert_close(
            distillation(*moved, temperature, form=form), loss, rtol=1e-4, atol=1e-5
        )


@given(seeds, temperatures)
def test_forms_differ_by_the_teachers_entropy_and_have_one_gradient(seed, temperature):
    new, old = pairs(seed)
    new.requires_grad_()
    ce, kl = (distillation(new, old, temperature, form=form) for form in ("ce", "kl"))
    q = (old / temperature).softmax(1)
    entropy = -(q * q.log()).sum(1).mean()
    torch.testing.assert_close(ce - kl, entropy, rtol=1e-4, atol=1e-5)
    ours, theirs = (torch.autograd.grad(loss, new)[0] for loss in (ce, kl))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    expected = ((new / temperature).softmax(1) - q) / temperature / len(new)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


@given(seeds, temperatures)
def test_divergence_is_zero_only_where_both_agree(seed, temperature):
    new, old = pairs(seed)
    assert abs(float(distillation(old + 7, old, temperature, form="kl"))) < 1e-5
    assert float(distillation(new, old, temperature, form="kl")) > 1e-4


@given(seeds, temperatures, forms)
def test_mean_over_rows(seed, temperature, form):
    new, old = pairs(seed)
    rows = [
        distillation(new[i : i + 1], old[i : i + 1], temperature, form=form)
        for i in range(len(new))
    ]
    torch.testing.assert_close(
        distillation(new, old, temperature, form=form), torch.stack(rows).mean()
    )


@pytest.mark.parametrize("form", ["ce", "kl"])
def test_far_apart_logits_stay_finite_and_one_class_says_nothing(form):
    far = distillation(torch.tensor([[0.0, 1000]]), torch.tensor([[1000.0, 0]]), 2.0, form=form)
    assert_value(far, 500.0)
    assert_value(distillation(torch.randn(3, 1), torch.randn(3, 1), 2.0, form=form), 0.0)


# ---- what a loss is made of ----------------------------------------------------------------------


def given_step(incoming, replayed=None):
    """A step whose network is the identity: the rows are features and logits at once."""
    groups = [incoming] if replayed is None else [incoming, replayed]
    return step_of(*groups, forward=lambda x: (x, x))


def adjusted(step, window, n_classes=4):
    """The same step with Logit Adjusted Softmax, the labels of its window being given."""
    criterion = LogitAdjustedSoftmax()
    criterion.observe(torch.tensor(window), n_classes)
    step.ce = criterion.score
    return step


def taught(spec, old=OLD):
    """A method whose teacher gives the same features and logits for all rows."""
    method = compose(spec).method
    method.teacher = fixed_teacher(old, features=F.pad(old, (0, 4 - old.shape[1])))
    return method


def beyond_classification(method, step):
    """The weighted distance: what the loss has beside the classification."""
    x, y = step.joint()
    return method.loss(step) - step.ce(x, y)


def test_lwf_worked_totals():
    group = Group(NEW.tolist(), [3])
    window = [0, 1, 3, 3, 3, 3, 3, 3]
    assert_value(taught("lwf").loss(given_step(group)), 1.000106)
    assert_value(taught("lwf").loss(adjusted(given_step(group), window)), 0.640454)
    assert_value(taught("lwf:weight=0").loss(adjusted(given_step(group), window)), 0.080537)
    scaled = taught("lwf:form=kl,scaled=true").loss(given_step(group))
    assert_value(scaled, 0.440190 + 0.5 * 4 * 0.0996422)


def test_lucir_worked_value():
    method = compose("lucir").method
    method.teacher = fixed_teacher(torch.zeros(2, 1), torch.tensor([[3.0, 4], [1, 0]]))
    group = Group([[4.0, 3], [0, 2]], [0, 1])
    assert_value(beyond_classification(method, given_step(group)), 2.6)


@pytest.mark.parametrize(("known", "factor"), [(1, (1 / 3) ** 0.5), (3, 3**0.5), (4, 2.0)])
def test_lucir_adaptive_weight_with_and_without_new_classes(known, factor):
    group = Group(NEW.tolist(), [3])
    old = torch.tensor([[2.0, 1, 0, 9]])[:, :known]
    constant, adaptive = (
        beyond_classification(taught(spec, old), given_step(group)).detach()
        for spec in ("lucir", "lucir:adaptive=true")
    )
    assert_value(adaptive, float(factor * constant))


@pytest.mark.parametrize("form", ["cosine", "quadratic"])
@pytest.mark.parametrize("centring", ["batch", "none", "feature"])
def test_geodl_is_the_geodesic_distance_of_features(form, centring):
    old, new = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    method = compose(f"geodl:form={form},centring={centring},weight=3").method
    method.teacher = fixed_teacher(torch.zeros(6, 2), old)
    group = Group(new.tolist(), [0, 1, 2, 3, 0, 1])
    expected = 3 * geodesic_distance(old, new, form=form, centring=centring)
    assert_value(beyond_classification(method, given_step(group)), float(expected))


def test_both_parts_of_the_batch_are_distilled():
    old, new = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
    incoming, replayed = Group(new[:3].tolist(), [3, 3, 2]), Group(new[3:].tolist(), [0, 1])
    loss = taught("lwf", old[:, :2]).loss(given_step(incoming, replayed))
    expected = F.cross_entropy(new, torch.tensor([3, 3, 2, 0, 1]))
    expected = expected + 0.5 * distillation(new[:, :2], old[:, :2], 2.0)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("name", TAUGHT)
def test_las_changes_the_classification_only(name):
    old, new = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(2))
    method = taught(name, old)
    group = Group(new.tolist(), [0, 1, 3, 3, 3])
    plain, las = given_step(group), adjusted(given_step(group), [0, 1, 3, 3, 3])
    one, other = (beyond_classification(method, step) for step in (plain, las))
    torch.testing.assert_close(one, other)
    assert one > 0.01 and plain.ce(group.x, group.y) != las.ce(group.x, group.y)


@pytest.mark.parametrize("name", TAUGHT)
def test_the_teacher_reaches_classes_that_las_leaves_alone(name):
    """Column 2 is absent from the window: no gradient of the classification, but the teacher's."""
    old = torch.randn(5, 4, generator=torch.Generator().manual_seed(3))
    for weight, reached in ((0, False), (5, True)):
        group = Group(torch.eye(4)[[0, 1, 2, 3, 0]].tolist(), [0, 1, 3, 3, 3])
        method = taught(f"{name}:weight={weight}", old)
        method.loss(adjusted(given_step(group), [0, 1, 3, 3, 3])).backward()
        assert bool(group.x.grad[:, 2].ne(0).any()) == reached


@pytest.mark.parametrize("name", ["lucir", "geodl"])
def test_what_holds_the_features_has_no_gradient_for_the_head(name):
    old, new = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(6))
    head = torch.randn(3, 4, generator=torch.Generator().manual_seed(7), requires_grad=True)
    group = Group(new.tolist(), [0, 1, 2, 2, 0])
    step = step_of(group, forward=lambda x: (x, x @ head.T))
    method = compose(name).method
    method.teacher = fixed_teacher(torch.zeros(5, 2), old)
    gradients = [
        torch.autograd.grad(loss, [head, group.x])
        for loss in (method.loss(step), step.ce(group.x @ head.T, group.y))
    ]
    (of_head, of_features), (classification, plain) = gradients
    assert torch.equal(of_head, classification) and not torch.allclose(of_features, plain)


def test_lwf_leaves_new_columns_alone():
    group = Group(NEW.tolist(), [3])
    beyond_classification(taught("lwf"), given_step(group)).backward()
    expected = torch.tensor([[-0.049821, 0.049821, 0, 0]])
    torch.testing.assert_close(group.x.grad, expected, rtol=0, atol=1e-6)


# ---- in a stream ---------------------------------------------------------------------------------


def second_task(spec, stream, **options):
    """A learner at the start of its second task."""
    learner = by_tasks(small(spec, **options), stream, tasks=1)
    learner.start_task()
    return learner


@pytest.mark.parametrize("spec", BOTH)
@pytest.mark.parametrize("model", ["mlp", "noisy"])
def test_equals_plain_replay_until_the_first_task_ends(spec, model):
    stream = class_stream(16)
    plain = "er-las" if spec.endswith("-las") else "er"
    one, other = (small(name, "mlp" if model == "mlp" else Noisy()) for name in (spec, plain))
    for learner in (one, other):
        learner.start_task()
    for x, labels in stream[:8]:
        assert one.learn(x, labels) == other.learn(x, labels)
    assert same(parameters(one), parameters(other))
    for learner in (one, other):
        learner.end_task()
        learner.start_task()
    feed(one, stream[8:])
    feed(other, stream[8:])
    assert not same(parameters(one), parameters(other))


@pytest.mark.parametrize("spec", [*BOTH, "lwf-lt"])
def test_the_teacher_is_the_network_at_the_last_task_end_and_never_changes(spec):
    stream = class_stream(16)
    learner = second_task(spec, stream[:8], model=normed())
    saved = parameters(learner)
    teacher = learner.method.teacher.network
    assert learner.method.teacher.known == len(learner.labels) == 2
    for x, labels in stream[8:]:
        learner.learn(x, labels)
        assert same(dict(teacher.state_dict()), saved)
        assert not any(module.training for module in teacher.modules())
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    assert not same(parameters(learner), saved)
    learner.end_task()
    assert same(dict(learner.method.teacher.network.state_dict()), parameters(learner))
    assert learner.method.teacher.known == 4


@pytest.mark.parametrize("spec", ["lwf:form=kl", "lucir", "geodl"])
def test_the_first_step_of_a_task_differs_from_replay_by_the_mode_of_batchnorm_only(spec):
    """The teacher is in eval mode: equal weights are at a distance where BatchNorm is, else not."""
    stream = class_stream(9)
    for model, apart in ((normed, True), (lambda: "mlp", False)):
        ours, plain = (second_task(name, stream[:8], model=model()) for name in (spec, "er"))
        assert same(parameters(ours), parameters(plain))
        distance = ours.learn(*stream[8]).loss - plain.learn(*stream[8]).loss
        assert (distance > 1e-3) if apart else (abs(distance) < 1e-5)


def test_the_teacher_sees_the_rows_that_the_student_sees():
    learner = small("lwf", "convnet", augment="crop+flip")
    for task in range(2):
        learner.start_task()
        learner.learn(images(6, seed=task), [2 * task, 2 * task + 1] * 3)
        learner.end_task()
    learner.start_task()
    seen = []
    for network in (learner.network, learner.method.teacher.network):

        def features(x, inner=network.features):
            seen.append(x)
            return inner(x)

        network.features = features
    learner.learn(images(6, seed=5), [2, 3] * 3)
    assert len(seen) == 2 and seen[0] is seen[1] and len(seen[0]) == 10


def test_learning_resumes_between_teachers(tmp_path):
    stream = class_stream(12, classes=6)
    whole = by_tasks(small("geodl-las", Noisy()), stream, tasks=3)
    by_tasks(small("geodl-las", Noisy()), stream[:8], tasks=2).save(tmp_path)
    rest = by_tasks(Learner.load(tmp_path, Noisy()), stream[8:], tasks=1)
    assert rest.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize("name", TAUGHT)
def test_boundaries_are_needed_unless_the_teacher_is_an_average(name):
    x, labels = class_stream(1)[0]
    with pytest.raises(InputError, match="needs task boundaries"):
        small(name).learn(x, labels)
    learner = feed(small(f"{name}:averaging=0.9"), class_stream(6))
    assert not learner.needs and learner.method.teacher.known == 4


def test_a_task_whose_rows_were_dropped_leaves_nothing_to_distil():
    learner = small("lwf", accumulate=10)
    (x, labels), more = class_stream(1)[0], class_stream(4)
    learner.start_task()
    learner.learn(x, labels)
    assert learner.discard() == 4
    learner.end_task()
    learner.start_task()
    feed(learner, more)
    assert learner.step == 1 and learner.labels


def test_lwf_without_memory_is_fine_tuning_until_the_first_task_ends_and_then_is_not():
    stream = class_stream(16)
    one = second_task("lwf", stream[:8], memory=0)
    other = second_task("fine-tune", stream[:8], memory=0)
    assert same(parameters(one), parameters(other))
    feed(one, stream[8:])
    feed(other, stream[8:])
    assert not same(parameters(one), parameters(other)) and len(one.memory) == 0


def test_lwf_lt_lets_new_classes_compete_and_distils_the_old_ones():
    group = Group([[1.0, 2, 0, 3, 1]], [3])
    method = taught("lwf-lt")
    method.tensors["in_task"] = torch.tensor([False, False, False, True, True])
    loss = method.loss(given_step(group))
    assert_value(loss, 0.126928 + 5 * 1.1198339)
    (gradient,) = torch.autograd.grad(loss, group.x)
    expected = torch.tensor([[-0.49821, 0.49821, 0, -0.119203, 0.119203]])
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-5)


def test_lwf_lt_is_the_labels_trick_until_the_first_task_ends():
    stream = class_stream(16)
    one, other = (second_task(name, stream[:8]) for name in ("lwf-lt", "labels-trick:columns=task"))
    assert same(parameters(one), parameters(other)) and len(one.memory) == 0
    assert one.method.teacher.known == 2
    feed(one, stream[8:])
    feed(other, stream[8:])
    assert not same(parameters(one), parameters(other))


# ---- MKD -----------------------------------------------------------------------------------------


def test_mkd_worked_loss_over_both_views():
    old, new, raw = torch.randn(3, 3, 4, generator=torch.Generator().manual_seed(4))
    group = Group(new.tolist(), [0, 1, 3])
    group.plain = lambda: raw  # type: ignore[attr-defined]

    def expected(*views):
        terms = [distillation(view, old[:, :3], 4.0, form="kl", scaled=True) for view in views]
        return F.cross_entropy(new, group.y) + 5.5 * sum(terms) / len(terms)

    for spec, views in (("mkd", (new, raw)), ("mkd:raw_view=false", (new,))):
        torch.testing.assert_close(
            taught(spec, old[:, :3]).loss(given_step(group)), expected(*views)
        )


def test_mkd_teacher_starts_as_a_copy_and_follows_slowly():
    learner, average = small("mkd-las", normed()), {}
    for x, _ in class_stream(6):
        learner.learn(x, ["a", "b", "a", "b"])
        for name, now in parameters(learner).items():
            before = average.get(name, now)
            average[name] = 0.99 * before + 0.01 * now if now.is_floating_point() else now
        teacher = learner.method.teacher.network
        torch.testing.assert_close(dict(teacher.state_dict()), average)
        assert not any(module.training for module in teacher.modules())
    assert not same(dict(teacher.state_dict()), parameters(learner))


def test_mkd_needs_no_tasks_and_distils_from_the_second_step_on():
    stream = class_stream(8)
    one, other = small("mkd"), small("er")
    assert one.learn(*stream[0]) == other.learn(*stream[0])
    for x, labels in stream[1:]:
        one.learn(x, labels)
        other.learn(x, labels)
        assert one.method.teacher.known == len(one.labels)
    assert not one.needs and not same(parameters(one), parameters(other))
    with pytest.raises(InputError, match="needs task boundaries"):
        small("mkd:averaging=0").learn(*stream[0])
