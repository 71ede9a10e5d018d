"""Logit Adjusted Softmax: the spec's numbers, brute force, and what must never happen."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import CrossEntropy, LogitAdjustedSoftmax
from evenstream.errors import EvenstreamError, InputError
from evenstream.slots import criteria
from evenstream.slots.criteria import MANY_CLASSES
from evenstream.slots.priors import PriorEstimator, SlidingWindow

A_LOGITS = [2.0, 1.0, 0.5, -1.0]
A_COUNTS = [4, 1, 3, 0]


class Fixed(PriorEstimator):
    """Weights given in advance: counts or frequencies."""

    def __init__(self, weights):
        self.given = torch.as_tensor(weights)

    def observe(self, labels, n_classes):
        pass

    def weights(self):
        return self.given


def labels_of(counts):
    return torch.tensor([c for c, count in enumerate(counts) for _ in range(count)])


def with_counts(counts, **options):
    criterion = LogitAdjustedSoftmax(**options)
    criterion.observe(labels_of(counts), len(counts))
    return criterion


def loss_and_gradient(criterion, logits, y):
    z = torch.tensor([logits], requires_grad=True)
    loss = criterion.score(z, torch.tensor([y]))
    loss.backward()
    return loss.item(), z.grad[0]


def brute_force(z, y, weights, tau):
    """Eq. 6 by the letter, in float64, class by class."""
    z = [float(v) for v in z]
    if tau == 0:
        return -z[y] + math.log(sum(math.exp(v) for v in z))
    total = 0.0
    for c, w in enumerate(weights):
        if math.isinf(tau):
            total += 0.0 if w < weights[y] else w / weights[y] * math.exp(z[c] - z[y])
        elif w > 0:
            total += (w / weights[y]) ** tau * math.exp(z[c] - z[y])
    return math.log(total)


# ---- the spec's worked examples ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tau", "expected"),
    [(0, 1.4951819), (0.5, 2.0131823), (1, 2.6168643), (2, 3.9110482), (3, 5.2540852)],
)
def test_example_a(tau, expected):
    loss, _ = loss_and_gradient(with_counts(A_COUNTS, tau=tau), A_LOGITS, 1)
    assert loss == pytest.approx(expected, abs=1e-6)


def test_example_a_gradient():
    _, gradient = loss_and_gradient(with_counts(A_COUNTS), A_LOGITS, 1)
    expected = torch.tensor([0.7940809, -0.9269685, 0.1328876, 0.0])
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=0)
    assert gradient[3].item() == 0.0


def test_example_a_frequencies_give_the_same_as_counts():
    frequencies = torch.tensor(A_COUNTS) / sum(A_COUNTS)
    loss, gradient = loss_and_gradient(LogitAdjustedSoftmax(prior=Fixed(frequencies)), A_LOGITS, 1)
    _, counted = loss_and_gradient(with_counts(A_COUNTS), A_LOGITS, 1)
    assert loss == pytest.approx(2.6168643, abs=1e-6)
    torch.testing.assert_close(gradient, counted)


def test_example_a_uniform_over_the_present_classes_is_masked_cross_entropy():
    loss, _ = loss_and_gradient(with_counts([2, 2, 2, 0]), A_LOGITS, 1)
    assert loss == pytest.approx(1.4643688, abs=1e-6)


def test_example_b():
    criterion = LogitAdjustedSoftmax(reduction="none")
    labels = torch.tensor([2, 2, 3, 0])
    losses = criterion(torch.zeros(4, 4), labels)
    expected = torch.tensor([math.log(2), math.log(2), math.log(4), math.log(4)])
    torch.testing.assert_close(losses, expected)
    mean = LogitAdjustedSoftmax()(torch.zeros(4, 4), labels)
    assert mean.item() == pytest.approx(1.0397208, abs=1e-6)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (1, (0, 0, 0.5, 0.5)),
        (2, (0.125, 0.125, 0.5, 0.25)),
        (3, (0.25, 0.25, 1 / 3, 1 / 6)),
        (9, (0.25, 0.25, 1 / 3, 1 / 6)),
    ],
)
def test_example_c(window, expected):
    prior = SlidingWindow(window)
    for batch in ([0, 0, 1, 1], [0, 1, 2, 2], [2, 2, 3, 3]):
        prior.observe(torch.tensor(batch), 4)
    frequencies = prior.weights() / prior.weights().sum()
    torch.testing.assert_close(frequencies, torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize(
    ("tau", "y", "expected"),
    [
        (1, 0, 0.645056),
        (1, 1, 0.743668),
        (0.5, 0, 0.943673),
        (2, 0, 0.263926),
        (0, 0, 2.407606),
        (math.inf, 0, 0.0),
        (math.inf, 1, 0.743668),
    ],
)
def test_golden_numbers(tau, y, expected):
    loss, _ = loss_and_gradient(with_counts([3, 1, 0], tau=tau), [1.0, 2.0, 3.0], y)
    assert loss == pytest.approx(expected, abs=2e-6)


def test_golden_gradient():
    _, gradient = loss_and_gradient(with_counts([3, 1, 0]), [1.0, 2.0, 3.0], 0)
    torch.testing.assert_close(gradient, torch.tensor([-0.4754, 0.4754, 0.0]), atol=5e-5, rtol=0)


@pytest.mark.parametrize(("window", "expected"), [(2, 0.948154), (1, 0.313262)])
def test_golden_window(window, expected):
    criterion = LogitAdjustedSoftmax(window=window)
    for batch in ([0, 0, 0, 0], [1, 1, 2, 2]):  # together (4, 2, 2)
        criterion.observe(torch.tensor(batch), 3)
    loss, _ = loss_and_gradient(criterion, [0.5, 1.0, 0.0], 1)
    assert loss == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("y", "expected", "gradient"),
    [
        (0, 0.0, [0.0, 0.0, 0.0, 0.0]),
        (1, 2.6168643, [0.7940809, -0.9269685, 0.1328876, 0.0]),
        (2, 1.9424163, [0.8566429, 0.0, -0.8566429, 0.0]),
    ],
)
def test_infinite_tau_on_example_a(y, expected, gradient):
    loss, found = loss_and_gradient(with_counts(A_COUNTS, tau=math.inf), A_LOGITS, y)
    assert loss == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(found, torch.tensor(gradient), atol=1e-6, rtol=0)


def test_infinite_tau_keeps_ties():
    loss, _ = loss_and_gradient(with_counts([2, 2, 1], tau=math.inf), [0.3, -0.2, 5.0], 0)
    expected = F.cross_entropy(torch.tensor([[0.3, -0.2]]), torch.tensor([0]))
    assert loss == pytest.approx(expected.item(), abs=1e-6)


# ---- tau = 0, uniform counts, one class ----------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tau_zero_is_cross_entropy_bit_for_bit(reduction, dtype):
    torch.manual_seed(0)
    z = torch.randn(6, 5, dtype=dtype, requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1, 1, 4])
    loss = LogitAdjustedSoftmax(tau=0, reduction=reduction)(z, labels)
    (mine,) = torch.autograd.grad(loss.sum(), z)
    expected = F.cross_entropy(z, labels, reduction=reduction)
    (theirs,) = torch.autograd.grad(expected.sum(), z)
    assert loss.dtype == expected.dtype
    assert torch.equal(loss, expected) and torch.equal(mine, theirs)
    assert torch.equal(CrossEntropy(reduction)(z, labels), expected)


def test_tau_zero_scores_what_was_never_observed():
    z = torch.tensor([[0.0, 1.0]])
    loss = LogitAdjustedSoftmax(tau=0).score(z, torch.tensor([1]))
    assert torch.equal(loss, F.cross_entropy(z, torch.tensor([1])))


@pytest.mark.parametrize("tau", [0.5, 1, 2, math.inf])
@pytest.mark.parametrize("present", [[0, 1, 2, 3], [0, 2], [3, 1, 2]])
def test_uniform_counts_are_cross_entropy_over_the_present_classes(tau, present):
    torch.manual_seed(1)
    z = torch.randn(2 * len(present), 4)
    labels = torch.tensor(present * 2)
    loss = LogitAdjustedSoftmax(tau=tau)(z, labels)
    position = torch.tensor([present.index(c) for c in labels.tolist()])
    torch.testing.assert_close(loss, F.cross_entropy(z[:, present], position))


def test_a_single_class_has_no_loss_and_no_gradient():
    criterion = LogitAdjustedSoftmax()
    z = torch.randn(3, 4, requires_grad=True)
    loss = criterion(z, torch.tensor([2, 2, 2]))
    loss.backward()
    assert loss.item() == 0 and criterion.single_class
    assert torch.equal(z.grad, torch.zeros(3, 4))
    criterion(z, torch.tensor([2, 1, 2]))
    assert not criterion.single_class


def test_a_single_class_is_nothing_special_without_adjustment():
    criterion = LogitAdjustedSoftmax(tau=0)
    criterion(torch.zeros(1, 2), torch.tensor([1]))
    assert not criterion.single_class and not CrossEntropy().single_class


# ---- against brute force -------------------------------------------------------------------------


@st.composite
def cases(draw):
    classes = draw(st.integers(1, 6))
    rows = draw(st.integers(1, 8))
    number = st.floats(-20, 20, width=32)
    z = [[draw(number) for _ in range(classes)] for _ in range(rows)]
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    before = draw(st.lists(st.lists(st.integers(0, classes - 1), max_size=5), max_size=3))
    tau = draw(st.sampled_from([0, 0.25, 1, 1.5, 4, math.inf]))
    return z, labels, before, tau, draw(st.integers(1, 4))


@settings(max_examples=150)
@given(cases())
def test_loss_and_gradient_equal_brute_force(case):
    z, labels, before, tau, window = case
    classes = len(z[0])
    criterion = LogitAdjustedSoftmax(tau, window, reduction="none")
    for batch in before:
        criterion.observe(torch.tensor(batch, dtype=torch.int64), classes)
    logits = torch.tensor(z, requires_grad=True)
    losses = criterion(logits, torch.tensor(labels))
    held = [c for batch in [*before, labels][-window:] for c in batch]
    counts = [held.count(c) for c in range(classes)]
    expected = [brute_force(row, y, counts, tau) for row, y in zip(z, labels, strict=True)]
    torch.testing.assert_close(losses, torch.tensor(expected), atol=2e-5, rtol=1e-5)

    losses.sum().backward()
    torch.testing.assert_close(
        logits.grad.sum(1), torch.zeros(len(z)), atol=1e-6, rtol=0
    )  # each row's gradient sums to 0
    if tau > 0:
        absent = torch.tensor(counts) == 0
        assert (logits.grad[:, absent] == 0).all()
    for row, y, gradient in zip(z, labels, logits.grad, strict=True):
        for c in range(classes):
            total = brute_force(row, y, counts, tau)
            if tau == 0:
                share = math.exp(row[c] - row[y] - total)
            elif math.isinf(tau):
                ratio = 0 if counts[c] < counts[y] else counts[c] / counts[y]
                share = ratio * math.exp(row[c] - row[y] - total)
            else:
                share = (counts[c] / counts[y]) ** tau * math.exp(row[c] - row[y] - total)
            assert gradient[c].item() == pytest.approx(share - (c == y), abs=2e-5)


def test_reductions():
    z, labels = torch.randn(5, 3), torch.tensor([0, 0, 1, 2, 2])
    rows = LogitAdjustedSoftmax(reduction="none")(z, labels)
    assert rows.shape == (5,)
    torch.testing.assert_close(LogitAdjustedSoftmax(reduction="sum")(z, labels), rows.sum())
    torch.testing.assert_close(LogitAdjustedSoftmax()(z, labels), rows.mean())
    criterion = LogitAdjustedSoftmax()
    criterion.observe(labels, 3)
    assert torch.equal(criterion.score(z, labels, "none"), rows)


def test_float64_keeps_its_precision():
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    criterion = with_counts([1, 2, 3])
    labels = torch.tensor([0, 1, 2, 2])
    assert criterion.score(z, labels).dtype == torch.float64
    assert torch.autograd.gradcheck(lambda logits: criterion.score(logits, labels), (z,))


@pytest.mark.parametrize("tau", [0, 1, math.inf])
def test_float32_inside_autocast(tau):
    z = torch.randn(4, 3, dtype=torch.bfloat16)
    labels = torch.tensor([0, 1, 1, 2])
    with torch.autocast("cpu", torch.bfloat16):
        inside = LogitAdjustedSoftmax(tau=tau)(z, labels)
    outside = LogitAdjustedSoftmax(tau=tau)(z.float(), labels)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, outside)


def test_extreme_logits_stay_finite():
    z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    loss = LogitAdjustedSoftmax(tau=3)(z, torch.tensor([1, 0]))
    loss.backward()
    assert loss.isfinite() and z.grad.isfinite().all()


# ---- observing and scoring -----------------------------------------------------------------------


def test_a_call_is_observe_then_score():
    torch.manual_seed(2)
    one, two = LogitAdjustedSoftmax(window=2), LogitAdjustedSoftmax(window=2)
    for batch in ([0, 1], [1, 1, 2], [2, 0, 0]):
        labels, z = torch.tensor(batch), torch.randn(len(batch), 3)
        two.observe(labels, 3)
        assert torch.equal(one(z, labels), two.score(z, labels))


def test_scoring_does_not_count():
    criterion = with_counts([1, 2])
    for _ in range(3):
        criterion.score(torch.zeros(1, 2), torch.tensor([0]))
    assert criterion.prior.weights().tolist() == [1, 2]


def test_observing_does_not_keep_the_callers_tensor():
    criterion, labels = LogitAdjustedSoftmax(window=2), torch.tensor([0, 1])
    criterion.observe(labels, 3)
    labels.fill_(2)
    criterion.observe(torch.tensor([0]), 3)
    criterion.observe(torch.tensor([0]), 3)  # the first batch leaves: 0 and 1, not 2 and 2
    assert criterion.prior.weights().tolist() == [2, 0, 0]


def test_eval_mode_is_cross_entropy_and_pushes_nothing():
    criterion = with_counts([1, 3, 0]).eval()
    before = criterion.prior.weights().clone()
    z = torch.randn(2, 3)
    labels = torch.tensor([2, 0])  # 2 was never observed: no error in eval mode
    assert torch.equal(criterion(z, labels), F.cross_entropy(z, labels))
    assert torch.equal(criterion.prior.weights(), before)
    criterion.train()
    assert not torch.equal(criterion(z, labels), F.cross_entropy(z, labels))


@pytest.mark.parametrize("tau", [0.5, 1, math.inf])
def test_scoring_what_was_never_observed_is_refused(tau):
    criterion = with_counts([2, 1, 0], tau=tau)
    with pytest.raises(InputError, match=r"\[2\].*observe"):
        criterion.score(torch.zeros(2, 4), torch.tensor([0, 2]))
    with pytest.raises(InputError, match=r"\[3\]"):  # beyond the classes counted
        criterion.score(torch.zeros(1, 4), torch.tensor([3]))
    with pytest.raises(InputError, match="observe"):
        LogitAdjustedSoftmax(tau=tau).score(torch.zeros(1, 2), torch.tensor([0]))


def test_what_left_the_window_is_not_observed_any_more():
    criterion = LogitAdjustedSoftmax(window=1)
    criterion.observe(torch.tensor([0]), 2)
    criterion.observe(torch.tensor([1]), 2)
    with pytest.raises(InputError, match=r"\[0\]"):
        criterion.score(torch.zeros(1, 2), torch.tensor([0]))


def test_the_class_count_may_grow_between_calls():
    criterion = LogitAdjustedSoftmax(window=2)
    criterion(torch.zeros(2, 2), torch.tensor([0, 1]))
    z = torch.randn(2, 5, requires_grad=True)
    loss = criterion(z, torch.tensor([4, 0]))  # counts 2 1 0 0 1
    loss.backward()
    rows = [
        brute_force(row, y, [2, 1, 0, 0, 1], 1) for row, y in zip(z.tolist(), [4, 0], strict=True)
    ]
    assert loss.item() == pytest.approx(sum(rows) / 2, abs=1e-5)
    assert (z.grad[:, 2:4] == 0).all()


def test_logits_of_fewer_classes_than_were_counted_are_refused():
    criterion = with_counts([1, 1, 1])
    for call in (criterion.score, criterion):
        with pytest.raises(InputError, match="3 classes"):
            call(torch.zeros(1, 2), torch.tensor([0]))
    assert criterion.prior.weights().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([0, 3]),
        torch.tensor([-1, 0]),
        torch.tensor([0.0, 1.0]),
        torch.tensor([[0, 1]]),
        torch.tensor(1),
        torch.tensor([0, 1], dtype=torch.int32),
    ],
)
def test_bad_labels_are_refused_and_not_counted(labels):
    criterion = with_counts([1, 2, 0])
    with pytest.raises(InputError):
        criterion(torch.zeros(2, 3), labels)
    assert criterion.prior.weights().tolist() == [1, 2, 0]


@pytest.mark.parametrize("labels", [torch.tensor([-1]), torch.tensor([7])])
@pytest.mark.parametrize("tau", [1, math.inf])
def test_scoring_labels_out_of_range_is_refused(labels, tau):
    with pytest.raises(InputError):
        with_counts([1, 1, 1], tau=tau).score(torch.zeros(1, 3), labels)


@pytest.mark.parametrize("tau", [-1, -0.001, math.nan, -math.inf, "1", None, True])
def test_bad_tau_is_refused(tau):
    with pytest.raises(InputError, match="tau"):
        LogitAdjustedSoftmax(tau=tau)


@pytest.mark.parametrize("window", [0, -1, 1.5, "2", None, True])
def test_bad_window_is_refused(window):
    with pytest.raises(InputError, match="window"):
        LogitAdjustedSoftmax(window=window)


def test_bad_reduction_is_refused():
    for kind in (CrossEntropy, LogitAdjustedSoftmax):
        with pytest.raises(InputError, match="reduction"):
            kind(reduction="average")


# ---- many classes --------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.5, 1, math.inf])
@pytest.mark.parametrize("held", [40, 900, MANY_CLASSES])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_leaving_out_absent_classes_changes_nothing(monkeypatch, tau, held, reduction):
    generator = torch.Generator().manual_seed(held)
    criterion = LogitAdjustedSoftmax(tau, reduction=reduction)
    window = torch.cat([torch.arange(held), torch.randint(0, held, (held,), generator=generator)])
    window = torch.randperm(MANY_CLASSES, generator=generator)[window]
    criterion.observe(window, MANY_CLASSES)
    logits = 5 * torch.randn(32, MANY_CLASSES, generator=generator)
    labels = window[torch.randperm(len(window), generator=generator)[:32]]

    def scored():
        z = logits.clone().requires_grad_()
        loss = criterion.score(z, labels)
        loss.sum().backward()
        return loss.detach(), z.grad

    loss, gradient = scored()
    monkeypatch.setattr(criteria, "MANY_CLASSES", MANY_CLASSES + 1)
    whole_loss, whole_gradient = scored()
    torch.testing.assert_close(loss, whole_loss, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient, whole_gradient, atol=1e-6, rtol=1e-5)


def test_the_softmax_of_many_classes_is_over_those_of_the_window(monkeypatch):
    widths, plain = [], F.cross_entropy

    def noted(logits, *args, **options):
        widths.append(logits.shape[1])
        return plain(logits, *args, **options)

    monkeypatch.setattr(criteria.F, "cross_entropy", noted)
    criterion = LogitAdjustedSoftmax()
    for classes in (MANY_CLASSES - 1, 100_000):
        criterion(torch.zeros(3, classes), torch.tensor([5, 999, 5]))
    assert widths == [MANY_CLASSES - 1, 2]


# ---- what it is for ------------------------------------------------------------------------------

GIVEN_0, GIVEN_1 = (0.7, 0.2, 0.1), (0.1, 0.3, 0.6)  # P(x | class) of the spec's example


def population():
    """1000 rows with exactly the population's frequencies; the prior is (0.9, 0.1)."""
    cells = [(x, 0, round(900 * p)) for x, p in enumerate(GIVEN_0)]
    cells += [(x, 1, round(100 * p)) for x, p in enumerate(GIVEN_1)]
    rows = [(x, y) for x, y, count in cells for _ in range(count)]
    return torch.tensor([x for x, _ in rows]), torch.tensor([y for _, y in rows])


@pytest.mark.parametrize(
    ("criterion", "differences", "error"),
    [
        (CrossEntropy(), (-4.1431, -1.7918, -0.4055), 0.5),
        (LogitAdjustedSoftmax(), (-1.9459, 0.4055, 1.7918), 0.2),
    ],
    ids=["cross-entropy", "adjusted"],
)
def test_population_optimum(criterion, differences, error):
    x, y = population()
    table = torch.zeros(3, 2, requires_grad=True)  # a free logit for each state and class
    optimizer = torch.optim.SGD([table], lr=3.0)
    for _ in range(1500):
        optimizer.zero_grad()
        criterion(table[x], y).backward()
        optimizer.step()
    found = (table[:, 1] - table[:, 0]).detach()
    torch.testing.assert_close(found, torch.tensor(differences), atol=2e-3, rtol=0)
    guess = table.argmax(1)
    wrong_0 = sum(p for p, g in zip(GIVEN_0, guess, strict=True) if g != 0)
    wrong_1 = sum(p for p, g in zip(GIVEN_1, guess, strict=True) if g != 1)
    assert (wrong_0 + wrong_1) / 2 == pytest.approx(error)


def test_two_lines_in_a_foreign_training_loop(capsys):
    script = """
import torch
from evenstream import LogitAdjustedSoftmax  # line 1

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
criterion = LogitAdjustedSoftmax(tau=1.0, window=1)  # line 2
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
centres = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
for _ in range(150):
    labels = (torch.rand(64) < 0.05).long()  # 19 to 1
    x = centres[labels] + 0.7 * torch.randn(64, 2)
    optimizer.zero_grad()
    criterion(model(x), labels).backward()
    optimizer.step()

labels = torch.arange(2).repeat(500)
x = centres[labels] + 0.7 * torch.randn(1000, 2)
model.eval(), criterion.eval()
print(criterion(model(x), labels).item())
print((model(x).argmax(1) == labels).float()[labels == 1].mean().item())
"""
    with torch.random.fork_rng():
        exec(script, {})
    loss, rare_accuracy = map(float, capsys.readouterr().out.split())
    assert loss < 0.6 and rare_accuracy > 0.8


def test_it_is_a_module_that_prints_its_settings():
    text = repr(LogitAdjustedSoftmax(tau=2, window=3))
    assert "tau=2" in text and "SlidingWindow" in text
    assert issubclass(InputError, EvenstreamError) and issubclass(InputError, ValueError)
