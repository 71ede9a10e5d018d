"""Target 5: expensive methods against `er`, and against the passes that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, alternate, take_turns
from evenstream import Learner

NETWORK, MEMORY, CLASSES, CURRENT = "slim-resnet18", 500, 50, 10
"""The memory holds 50 classes; the last ten of them are arriving."""
B = M = parts.BATCH
SMALL = 4
"""The batch of OCM, which makes 33 views of each row."""


@dataclass(frozen=True)
class Passes:
    """What a method must do in `steps` steps, in rows: passes with and without a backward."""

    trained: tuple[int, ...]
    forwards: tuple[int, ...] = ()
    steps: int = 1
    batch: int = B
    memory: int = MEMORY

    def over_er(self) -> float:
        """The theoretical cost relative to `er`; a backward pass costs two forward passes."""
        return (3 * sum(self.trained) + sum(self.forwards)) / (3 * 2 * self.batch * self.steps)


_CANDIDATES = 6 * CLASSES
THEORY = {
    "der++": Passes(trained=(B, M, M)),
    "mir": Passes(trained=(B, B + M), forwards=(160, 160)),
    "aser": Passes(trained=(B + M,), forwards=(B, _CANDIDATES, MEMORY - _CANDIDATES) * 2),
    "ocs": Passes(trained=(B // 2 + M,), forwards=(B, M)),
    "clib": Passes(trained=(B + M,) * 3, forwards=(MEMORY,), steps=3),
    "scr": Passes(trained=(2 * B + 2 * M,)),
    "ocm": Passes(
        trained=(SMALL, 64 * SMALL), forwards=(16 * SMALL, SMALL), batch=SMALL, memory=64
    ),
}
"""Read off the methods' `cost`; ASER's evaluation points are what the candidates leave over."""


OTHERS = {
    **dict.fromkeys(("er-las", "mir-las", "aser-las", "ocs-las"), 1),
    **dict.fromkeys(("er-ace", "mro", "er-obc", "er-cbl", "er-wn", "er-down", "er-up"), 1),
    "ss-il:refresh=5": 1,
    "ocs:gradients=full": 1,
    "er-cba": 5,
}
"""Other replay methods, and in how many steps they do all that they do; without targets."""


def lines(patience: Patience) -> Iterator[Line]:
    """With a full memory."""
    er = cache(lambda memory, batch: _learner("er", memory, batch))
    for method, passes in THEORY.items():
        learner = _learner(method, passes.memory, passes.batch)
        own_er = _steps(er(passes.memory, passes.batch), passes)
        calls = (_steps(learner, passes), own_er, _bare(learner, passes))
        own, of_er, bare = take_turns(*calls, patience=patience, warm_up=1)
        theory = f"theory {passes.over_er():.2f}"
        yield Line(5, f"{method} step / er step, {NETWORK}", Ratio.of(own, of_er), note=theory)
        name = f"{method} step / its forwards and backwards, bare"
        yield Line(5, name, Ratio.of(own, bare), at_most=1.15)


def other_lines(patience: Patience) -> Iterator[Line]:
    """The methods that are not expensive, and those with LAS."""
    for method, steps in OTHERS.items():
        passes = Passes((), steps=steps)
        own, of_er = (
            _steps(_learner(name, passes.memory, passes.batch), passes) for name in (method, "er")
        )
        ratio = alternate(own, of_er, patience, warm_up=1)
        yield Line(5, f"{method} step / er step, {NETWORK}", ratio)


def _learner(method: str, memory: int, batch: int) -> Learner:
    """A learner in its second task, with a full memory."""
    learner = parts.learner_after(method, NETWORK, memory=memory, batch=batch, n_classes=CLASSES)
    learner.end_task()
    learner.start_task()
    return learner


def _steps(learner: Learner, passes: Passes) -> parts.Call:
    step = parts.steps_of(learner, NETWORK, CLASSES, first=CLASSES - CURRENT)

    def steps() -> None:
        for _ in range(passes.steps):
            step()

    return steps


def _bare(learner: Learner, passes: Passes) -> parts.Call:
    network, shape = parts.bare_twin(learner), parts.SHAPES[NETWORK]
    calls = [parts.bare_step(network, rows, shape) for rows in passes.trained]
    calls += [parts.bare_forward(network, rows, shape) for rows in passes.forwards]

    def run() -> None:
        for call in calls:
            call()

    return run
