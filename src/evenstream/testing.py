"""One suite of promises that every method keeps, now and in future.

`check_method("my-method")` trains tiny learners and raises an AssertionError that says which
promise is broken. It needs no test framework; with pytest, parametrise over `CHECKS`. In addition,
`check_long_stream` takes about a minute.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenstream.checkpoint import flatten
from evenstream.composition import compose
from evenstream.errors import EvenstreamError
from evenstream.learner.learner import Learner
from evenstream.methods import METHODS
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.text import LAS, MethodText

DIM = 6
NAMES = ("bolt", 7, ("gear", 2), True, "1", "nut")
LABEL_COUNTS = dict.fromkeys(NAMES, 10)
NEEDS_TASKS = {"boundaries", "label_counts", "second_pass"}
EPOCH = 8
"""Number of batches in a task's data, for methods that visit it more than once."""
SHORT = 6
"""Steps in a stream that is just long enough for new classes and a full memory."""
FLOOR = 0.7
"""Accuracy that a method with a memory must reach on all classes of the toy stream."""

Batch = tuple[np.ndarray[Any, Any], list[Any]]


class Backbone(nn.Module):
    """A small module with everything that has state: BatchNorm and dropout."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.layers = nn.Sequential(
                nn.Linear(DIM, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(dropout)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Features."""
        features: Tensor = self.layers(x)
        return features


def toy_stream(steps: int = 12, batch: int = 6, classes: int = 4, seed: int = 0) -> list[Batch]:
    """Well separated classes that arrive two at a time, with labels of several types."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, DIM)) * 2
    found: list[Batch] = []
    for step in range(steps):
        first = 2 * (step * (classes // 2) // steps)
        y = first + draw.integers(0, 2, batch)
        x = (centres[y] + draw.normal(size=(batch, DIM)) * 0.4).astype(np.float32)
        found.append((x, [NAMES[index] for index in y]))
    return found


def make_learner(method: str, **options: Any) -> Learner:
    """A small learner for the checks, inside a first task if the method needs one."""
    settings: dict[str, Any] = {
        "memory": 20,
        "batch": 6,
        "replay_batch": 6,
        "lr": 0.05,
        "dtype": "float32",
        **options,
    }
    learner = Learner(method, settings.pop("model", None) or Backbone(), **settings)
    if learner.needs & NEEDS_TASKS:
        learner.start_task(LABEL_COUNTS, toy_task(learner, 0))
    return learner


def toy_task(learner: Learner, task: int) -> Batch | None:
    """All data of a task, for learners that visit it more than once."""
    if "second_pass" not in learner.needs:
        return None
    stream = toy_stream(3 * EPOCH, classes=6)
    x, y = zip(*stream[EPOCH * task : EPOCH * (task + 1)], strict=True)
    return np.concatenate(x), [label for labels in y for label in labels]


def feed(learner: Learner, stream: Iterable[Batch]) -> Learner:
    """Learn every batch of a stream, announcing tasks to a learner that is in one."""
    for x, labels in stream:
        while learner.in_task and learner.task < NAMES.index(labels[0]) // 2:
            learner.end_task(toy_task(learner, learner.task))
            learner.start_task(LABEL_COUNTS, toy_task(learner, learner.task + 1))
        learner.learn(x, labels)
        if "second_pass" in learner.needs and learner.step % EPOCH == 0:
            learner.start_epoch()
    return learner


def check_learns(method: str) -> None:
    """It learns to separate the classes of an easy stream, including old ones if it has a memory.

    A short stream is enough for most; methods that need more get a longer one.
    """
    for steps in (12, 24, 40, 120):
        learner = make_learner(method, model=Backbone(dropout=0.0), memory=40)
        right = _accuracy(feed(learner, toy_stream(steps)))
        if right >= FLOOR:
            break
    _assert_learned(method, right)


def _accuracy(learner: Learner) -> float:
    """Accuracy on all classes of the toy stream, or on the last two without a memory."""
    if learner.in_task:
        learner.end_task(toy_task(learner, learner.task))
    stream = toy_stream(20, seed=5)
    if not learner.method.uses_memory:
        stream = stream[10:]
    truth = [label for _, labels in stream for label in labels]
    guess = learner.predict(np.concatenate([x for x, _ in stream]))
    return float(
        np.mean([type(a) is type(b) and a == b for a, b in zip(guess, truth, strict=True)])
    )


def _assert_learned(method: str, right: float) -> None:
    assert right >= FLOOR, (
        f"{method} got {right:.0%} of a separable stream right, below {FLOOR:.0%}"
    )


def check_same_seed_same_weights(method: str) -> None:
    """Two learners with the same seed are equal bit for bit; a different seed differs."""
    stream = toy_stream(SHORT)
    one, two, other = (feed(make_learner(method, seed=seed), stream[:2]) for seed in (0, 0, 1))
    assert one.fingerprint() != other.fingerprint(), f"{method} does not depend on the seed"
    one, two = feed(one, stream[2:]), feed(two, stream[2:])
    assert one.fingerprint() == two.fingerprint(), (
        f"{method} is not reproducible: it draws from a generator that is not saved"
    )


def check_resumes_exactly(method: str) -> None:
    """Saved halfway, loaded and continued, it equals an uninterrupted run."""
    stream = toy_stream(10)
    whole = feed(make_learner(method), stream[:1])
    for first, last in ((1, 7), (7, 10)):
        with tempfile.TemporaryDirectory() as folder:
            whole.save(folder)
            resumed = Learner.load(folder, model=Backbone())
        for learner in (whole, resumed):
            feed(learner, stream[first:last])
        assert resumed.fingerprint() == whole.fingerprint(), (
            f"{method} saved after {first} steps continues differently: state is missing from "
            "tensors, modules or optimizers"
        )


def check_las_form_differs(method: str) -> None:
    """Its `-las` form scores only observed rows and learns differently: its loss uses `step.ce`."""
    plain = compose(method)
    adjusted = isinstance(plain.criterion, LogitAdjustedSoftmax)
    if adjusted or plain.method.why_not_las is not None:
        return
    said = MethodText.read(method)
    one, other = (
        make_learner(spec, model=Backbone(dropout=0.0))
        for spec in (method, str(replace(said, name=said.name + LAS)))
    )
    for batch in toy_stream(14, classes=6):
        feed(one, [batch])
        feed(other, [batch])
        if not all(map(torch.equal, _parameters(one), _parameters(other))):
            return
    raise AssertionError(
        f"{method} and its -las form learn the same: supervised terms must go through step.ce, not "
        "F.cross_entropy; a method that has none says so in why_not_las"
    )


def _parameters(learner: Learner) -> list[Tensor]:
    own = [module for part in learner.composition.parts for module in part.modules.values()]
    return [value for module in (learner.network, *own) for value in module.parameters()]


def check_takes_any_batch(method: str) -> None:
    """It accepts single samples, varying batch sizes and late classes."""
    learner = make_learner(method)
    for number, (x, labels) in enumerate(toy_stream(9, classes=6)):
        size = (1, 3, 6)[number % 3]
        feed(learner, [(x[:size], labels[:size])])
    assert len(learner.predict(x)) == len(x)
    assert learner.predict_proba(x).shape == (len(x), len(learner.labels))


def check_memory_is_bounded(method: str) -> None:
    """The memory never holds more than its capacity, nor anything it was told not to store.

    Its class counts are right, and the method works with nothing stored.
    """
    for capacity in (1, 5):
        learner = make_learner(method, memory=capacity)
        for batch in toy_stream(SHORT):
            feed(learner, [batch])
            assert len(learner.memory) <= capacity, f"{method} overfills its memory"
        if len(learner.memory):
            counts = learner.memory.class_counts
            stored = torch.bincount(learner.memory.field("y"), minlength=len(counts))
            assert torch.equal(counts, stored)
        before = learner.memory.seen, learner.memory.class_counts.clone()
        learner.learn(*batch, store=False)
        assert learner.memory.seen == before[0], f"{method} stores what it was told not to"
        assert torch.equal(learner.memory.class_counts, before[1])
    learner = make_learner(method)
    for batch in toy_stream(SHORT, classes=2):
        learner.learn(*batch, store=False)
    assert learner.memory.seen == 0, f"{method} stores what it was told not to"


def check_batchnorm_is_left_alone(method: str) -> None:
    """Selecting, scoring and storing rows does not touch BatchNorm's running statistics."""
    learner = feed(make_learner(method), toy_stream(6))
    network = learner.network
    assert network is not None

    def guarded(call: Callable[..., Any], what: str) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            before = [buffer.clone() for buffer in network.buffers()]
            found = call(*arguments)
            unchanged = all(map(torch.equal, before, network.buffers()))
            assert unchanged, f"{method}: {what} changes BatchNorm's running statistics"
            return found

        return wrapper

    inner: Any = learner.method
    for name in ("training_rows", "stored_rows", "after_step"):
        setattr(inner, name, guarded(getattr(inner, name), name))
    inner.storing.place = guarded(inner.storing.place, "storing")
    feed(learner, toy_stream(8)[6:])
    before = [buffer.clone() for buffer in network.buffers()]
    learner.predict(toy_stream()[0][0])
    assert all(map(torch.equal, before, network.buffers())), f"{method}: predict touches BatchNorm"


def check_inputs_stay(method: str) -> None:
    """Inputs are neither changed nor kept; predicting changes nothing."""
    learner, twin = make_learner(method), make_learner(method)
    for x, labels in toy_stream(SHORT):
        mine = x.copy()
        feed(learner, [(mine, labels)])
        assert np.array_equal(mine, x), f"{method} changes its inputs"
        mine[:] = np.nan
        feed(twin, [(x, labels)])
    before = learner.fingerprint()
    learner.predict(toy_stream()[0][0])
    assert before == learner.fingerprint(), f"{method}: predict changes the learner"
    assert before == twin.fingerprint(), f"{method} keeps its inputs instead of copying them"


def check_refusals_leave_no_trace(method: str) -> None:
    """Bad input and a non-finite loss leave everything unchanged."""
    learner = feed(make_learner(method), toy_stream(6))
    before = learner.fingerprint()
    good, labels = toy_stream()[-1]
    huge = np.full_like(good, 3e38)
    for x, y in (
        (good * np.nan, labels),
        (good[:0], []),
        (good, labels[:-1]),
        (good[:, 1:], labels),
    ):
        _assert_refused(learner, x, y)
        assert learner.fingerprint() == before, f"{method}: a rejected batch leaves a trace"
    if learner.method.trains_on_incoming:
        _assert_refused(learner, huge, [*labels[:-1], "a new class"])
        assert learner.fingerprint() == before, f"{method}: a non-finite loss leaves a trace"


def _assert_refused(learner: Learner, x: Any, labels: list[Any]) -> None:
    try:
        learner.learn(x, labels)
    except EvenstreamError:
        return
    raise AssertionError(f"{learner.text} accepts a batch that it should reject")


class _HookFailed(Exception):
    """The error that a hook raises in the check below."""


def check_failed_task_hooks_leave_no_trace(method: str) -> None:
    """A task that fails to begin or end, even in its very last hook, leaves no trace.

    The head need not grow: undoing its growth would hide what else is left in its rows.
    """
    learner, stream = make_learner(method, momentum=0.9, head_size=len(NAMES)), toy_stream(6)
    first, second = toy_task(learner, 0), toy_task(learner, 1)
    if not learner.in_task:
        learner.start_task(LABEL_COUNTS, first)
    feed(learner, stream[:3])
    _assert_undone(learner, "on_task_end", learner.end_task, first)
    learner.end_task(first)
    _assert_undone(learner, "on_epoch_start", learner.start_task, LABEL_COUNTS, second)
    learner.start_task(LABEL_COUNTS, second)
    feed(learner, stream[3:])
    _assert_undone(learner, "on_task_end", learner.end_task, second)


def _assert_undone(learner: Learner, hook: str, action: Callable[..., Any], *what: Any) -> None:
    """Let the last hook fail once it is done."""
    last, before = learner.parts[-1], learner.fingerprint()
    own = getattr(last, hook)

    def failing(*arguments: Any) -> None:
        own(*arguments)
        raise _HookFailed

    setattr(last, hook, failing)
    try:
        action(*what)
    except _HookFailed:
        pass
    finally:
        delattr(last, hook)
    assert learner.fingerprint() == before, (
        f"{learner.text}: {action.__name__} leaves a trace when it fails"
    )


def check_corrections(method: str) -> None:
    """Classes can be renamed, removed, merged and emptied; all state per class follows.

    The remaining classes are predicted as before, a failed correction leaves no trace, and a saved
    and loaded learner continues identically. Your own method may reject corrections instead, if it
    does not declare its tensors.
    """
    learner = feed(make_learner(method, momentum=0.9), toy_stream(SHORT))
    if learner.in_task:
        learner.end_task(toy_task(learner, learner.task))
    rows = toy_stream(SHORT, seed=5)
    others = [(x, y) for xs, ys in rows for x, y in zip(xs, ys, strict=True) if y != 7]
    x = np.stack([row for row, _ in others])
    before = learner.scores(x)
    learner.rename("bolt", "renamed")
    assert np.array_equal(learner.scores(x), before), f"{method}: a new name changes predictions"
    if not type(learner.method).__module__.startswith("evenstream.") and _refuses(learner):
        return
    _assert_undone(learner, "regroup", learner.remove_class, 7)
    kept = [index for index, label in enumerate(learner.labels) if label != 7]
    learner.remove_class(7)
    assert 7 not in learner.labels
    now = learner.scores(x)
    assert now.shape == (len(x), 3), f"{method}: a class that was removed has a score"
    assert np.array_equal(now.argmax(1), before[:, kept].argmax(1)), (
        f"{method}: the remaining classes are predicted differently"
    )
    learner.merge("renamed", True)
    learner.forget(label=("gear", 2))
    assert learner.predict_proba(x).shape == (len(x), 2)
    counts = dict(zip(learner.labels, learner.memory.class_counts.tolist(), strict=False))
    assert not counts.get(("gear", 2)), f"{method} has samples that were deleted"
    twin = Learner.from_state(learner.state(), Backbone())
    for each in (learner, twin):
        if each.needs & NEEDS_TASKS:
            each.start_task(LABEL_COUNTS, toy_task(each, 2))
        for batch in toy_stream(6, classes=6, seed=3)[3:]:
            each.learn(*batch)
        if each.in_task:
            each.end_task(toy_task(each, 2))
    assert learner.fingerprint() == twin.fingerprint(), f"{method}: corrections are not all saved"


def _refuses(learner: Learner) -> bool:
    """Whether a class cannot be removed; the rejection must leave no trace."""
    before = learner.fingerprint()
    try:
        Learner.from_state(learner.state(), Backbone()).remove_class(7)
    except EvenstreamError:
        with suppress(EvenstreamError):
            learner.remove_class(7)
        assert learner.fingerprint() == before, f"{learner.text}: a rejection leaves a trace"
        return True
    return False


def check_bfloat16(method: str) -> None:
    """It works under bfloat16 autocast, and the stored state stays finite."""
    learner = feed(make_learner(method, dtype="bfloat16"), toy_stream(6))
    assert all(bool(torch.isfinite(p).all()) for p in learner.network.parameters())


def check_whole_head(method: str) -> None:
    """It works with future classes in the softmax (scope="all"), and resumes."""
    options, stream = {"scope": "all", "head_size": 20}, toy_stream(SHORT)
    learner = feed(make_learner(method, **options), stream[:4])
    twin = Learner.from_state(learner.state(), Backbone())
    feed(learner, stream[4:])
    assert learner.predict_proba(stream[0][0]).shape == (6, 4), (
        f"{method} predicts classes that it has not seen"
    )
    assert feed(twin, stream[4:]).fingerprint() == learner.fingerprint()


def check_boundaries(method: str) -> None:
    """A method that needs boundaries says so when there are none."""
    learner = Learner(method, Backbone(), memory=20)
    if not learner.needs & NEEDS_TASKS:
        return
    x, labels = toy_stream()[0]
    before = learner.fingerprint()
    _assert_refused(learner, x, labels)
    assert learner.fingerprint() == before


CHECKS: tuple[Callable[[str], None], ...] = (
    check_learns,
    check_same_seed_same_weights,
    check_resumes_exactly,
    check_las_form_differs,
    check_takes_any_batch,
    check_memory_is_bounded,
    check_batchnorm_is_left_alone,
    check_inputs_stay,
    check_refusals_leave_no_trace,
    check_failed_task_hooks_leave_no_trace,
    check_corrections,
    check_bfloat16,
    check_whole_head,
    check_boundaries,
)


def check_long_stream(method: str, steps: int = 10_000) -> None:
    """Over ten thousand steps with recurring classes, it learns, resumes and does not grow."""

    def batches(first: int, last: int) -> Iterator[Batch]:
        for start in range(first, last, 100):
            yield from toy_stream(100, seed=start)

    learner = feed(make_learner(method), batches(0, steps // 2))
    half = learner.state()
    twin = Learner.from_state(half, Backbone())
    for each in (learner, twin):
        feed(each, batches(steps // 2, steps))
    assert learner.fingerprint() == twin.fingerprint(), f"{method} resumed differently"
    assert _numbers(learner.state()) <= 1.1 * _numbers(half), f"{method}: its state grows"
    assert all(bool(torch.isfinite(value).all()) for value in flatten(learner.state())[0].values())
    _assert_learned(method, _accuracy(learner))


def _numbers(state: dict[str, Any]) -> int:
    return sum(value.numel() for value in flatten(state)[0].values())


def check_method(method: str | type) -> None:
    """Run every check on a registered method (its name, its spec or its class)."""
    spec = method if isinstance(method, str) else _registered_name(method)
    compose(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single-class windows are expected here
        for check in CHECKS:
            check(spec)


def _registered_name(cls: Any) -> str:
    name: str = getattr(cls, "name", "")
    assert METHODS.get(name) is cls, f"{cls.__name__} is not registered; use @register"
    return name
