"""Logit Adjusted Softmax: special cases, brute force, and what it is for."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import CrossEntropy, LogitAdjustedSoftmax
from evenstream.errors import EvenstreamError, InputError
from evenstream.policies import criteria
from evenstream.policies.criteria import MANY_CLASSES
from tests.helpers.las_samples import brute_force, with_counts

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
