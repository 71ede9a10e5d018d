"""Estimators of the class prior: against a recount, and that nothing is lost or kept too long."""

import io
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import LogitAdjustedSoftmax
from evenstream.errors import InputError
from evenstream.policies.priors import ExponentialWindow, MacroPrior, RandomPrior, SlidingWindow

# ---- the window against a recount ----------------------------------------------------------------


@st.composite
def label_batches(draw):
    """Batches over a number of classes that never shrinks."""
    classes, found = draw(st.integers(1, 3)), []
    for _ in range(draw(st.integers(0, 12))):
        classes += draw(st.integers(0, 2))
        labels = draw(st.lists(st.integers(0, classes - 1), max_size=6))
        found.append((torch.tensor(labels, dtype=torch.int64), classes))
    return found


@given(label_batches(), st.integers(1, 6))
def test_window_counts_equal_a_recount(batches, window):
    prior = SlidingWindow(window)
    for index, (labels, classes) in enumerate(batches):
        prior.observe(labels, classes)
        held = [b.tolist() for b, _ in batches[max(0, index + 1 - window) : index + 1]]
        flat = [c for batch in held for c in batch]
        assert prior.weights().tolist() == [flat.count(c) for c in range(classes)]
        assert prior.weights().dtype == torch.int64


class CountingTensor(torch.Tensor):
    """Counts the elements that `bincount` reads."""

    read = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.bincount:
            CountingTensor.read += args[0].numel()
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("window", [1, 3, 50])
def test_a_step_reads_two_batches_whatever_the_window(window):
    prior = SlidingWindow(window)
    CountingTensor.read = 0
    for _ in range(100):
        prior.observe(torch.tensor([0, 1, 1, 2]).as_subclass(CountingTensor), 3)
    assert CountingTensor.read == 100 * 4 + (100 - window) * 4


# ---- every estimator -----------------------------------------------------------------------------

ESTIMATORS = {
    "window": lambda: SlidingWindow(2),
    "exponential": lambda: ExponentialWindow(0.5),
    "random": lambda: RandomPrior(7),
    "random, redrawn rarely": lambda: RandomPrior(7, redraw=3),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
@given(batches=label_batches(), extra=st.lists(st.integers(0, 4), max_size=4))
@settings(max_examples=40)
def test_restore_undoes_observe(kind, batches, extra):
    prior = ESTIMATORS[kind]()
    for labels, classes in batches:
        prior.observe(labels, classes)
    untouched = ESTIMATORS[kind]()
    untouched.load_state(prior.state())
    weights = prior.weights().clone()
    mark = prior.mark()
    prior.observe(torch.tensor(extra, dtype=torch.int64), 40)
    prior.restore(mark)
    assert torch.equal(prior.weights(), weights)
    for labels in ([0, 1], [2, 2, 0], [1]):  # and it goes on as if nothing had been observed
        prior.observe(torch.tensor(labels), 40)
        untouched.observe(torch.tensor(labels), 40)
        assert torch.equal(prior.weights(), untouched.weights())


def test_restore_undoes_set_task_counts():
    prior = MacroPrior()
    prior.set_task_counts(torch.tensor([1.0, 1.0]), torch.tensor([0, 0]), 4, 0)
    weights, mark = prior.weights().clone(), prior.mark()
    prior.set_task_counts(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([5, 0]), 4, 4)
    prior.observe(torch.tensor([0]), 3)
    assert not torch.equal(prior.weights(), weights)
    prior.restore(mark)
    assert torch.equal(prior.weights(), weights)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_state_dict_round_trip(kind, steps):
    def make():
        return LogitAdjustedSoftmax(prior=ESTIMATORS[kind]())

    criterion = make()
    for step in range(steps):
        criterion.observe(torch.tensor([step % 3, 3]), 4 + step)
    file = io.BytesIO()
    torch.save(criterion.state_dict(), file)
    file.seek(0)
    loaded = make()
    loaded.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(loaded.prior.weights(), criterion.prior.weights())
    for batch in ([0, 1], [5, 5, 2], [8]):
        labels, z = torch.tensor(batch), torch.randn(len(batch), 9)
        assert torch.equal(loaded(z, labels), criterion(z, labels))


def test_a_state_does_not_change_when_its_owner_goes_on():
    for make in ESTIMATORS.values():
        prior = make()
        prior.observe(torch.tensor([0, 1]), 2)
        state, weights = prior.state(), prior.weights().clone()
        prior.observe(torch.tensor([1, 1, 2]), 3)
        again = make()
        again.load_state(state)
        assert torch.equal(again.weights(), weights)


def test_a_shorter_window_takes_the_newest_batches_of_a_longer_ones_state():
    long, short = SlidingWindow(5), SlidingWindow(2)
    for batch in ([0], [1], [2], [3]):
        long.observe(torch.tensor(batch), 4)
    short.load_state(long.state())
    assert short.weights().tolist() == [0, 0, 1, 1]
    short.observe(torch.tensor([0]), 4)
    assert short.weights().tolist() == [1, 0, 0, 1]


def test_exponential_window_fades():
    prior = ExponentialWindow(0.5)
    for batch in ([0, 0, 1], [1], [2, 2]):
        prior.observe(torch.tensor(batch), 3)
    assert prior.weights().tolist() == [2 * 0.25, 0.25 + 0.5, 2.0]


def test_exponential_window_without_memory_is_a_window_of_one():
    fading, window = ExponentialWindow(0.0), SlidingWindow(1)
    for batch in ([0, 0, 1], [1, 2], [2]):
        for prior in (fading, window):
            prior.observe(torch.tensor(batch), 3)
        assert fading.weights().tolist() == window.weights().tolist()


@pytest.mark.parametrize("decay", [1, 1.5, -0.1, math.nan, "0.5", None])
def test_bad_decay_is_refused(decay):
    with pytest.raises(InputError, match="decay"):
        ExponentialWindow(decay)


@pytest.mark.parametrize("redraw", [0, -1, 1.5, None, True])
def test_bad_redraw_is_refused(redraw):
    with pytest.raises(InputError, match="redraw"):
        RandomPrior(0, redraw)


def test_random_prior_covers_all_seen_classes_and_is_drawn_anew():
    prior = RandomPrior(0)
    prior.observe(torch.tensor([0, 2]), 4)
    first = prior.weights().clone()
    assert (first > 0).tolist() == [True, False, True, False]
    prior.observe(torch.tensor([1]), 4)
    second = prior.weights().clone()
    assert (second > 0).tolist() == [True, True, True, False]
    assert not torch.equal(first[0], second[0])
    assert (second <= 1).all()


def test_random_prior_is_uniform():
    prior, draws = RandomPrior(1), []
    for _ in range(600):
        prior.observe(torch.tensor([0, 1]), 2)
        draws.append(prior.weights().clone())
    drawn = torch.stack(draws)
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.05)
    assert drawn.var().item() == pytest.approx(1 / 12, abs=0.01)


def test_random_prior_follows_its_seed():
    def first(seed):
        prior = RandomPrior(seed)
        prior.observe(torch.tensor([0]), 1)
        return prior.weights().item()

    assert first(1) == first(1) != first(2)


@pytest.mark.parametrize(
    ("stream", "memory", "expected"),
    [
        # C-CIFAR10, task 2: two current classes, memory of the two old ones.
        ([0, 0, 5, 5], [500, 500], [0.25] * 4),
        # Task 5: a quarter for each current class, a sixteenth for each of the eight old ones.
        ([0] * 8 + [5, 5], [125] * 8, [1 / 16] * 8 + [0.25] * 2),
    ],
)
def test_macro_prior_has_the_papers_values(stream, memory, expected):
    prior = MacroPrior()
    prior.set_task_counts(torch.tensor(stream), torch.tensor(memory), 32, 32)
    torch.testing.assert_close(prior.weights(), torch.tensor(expected))


def test_macro_prior_weighs_by_batch_sizes():
    prior = MacroPrior()
    prior.set_task_counts(torch.tensor([1, 3]), torch.tensor([1, 0]), 6, 2)
    torch.testing.assert_close(prior.weights(), torch.tensor([(1.5 + 2) / 8, 4.5 / 8]))
    prior.set_task_counts(torch.tensor([1, 3]), torch.tensor([0, 0]), 6, 0)
    torch.testing.assert_close(prior.weights(), torch.tensor([0.25, 0.75]))
