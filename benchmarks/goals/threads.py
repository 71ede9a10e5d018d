"""The CPU time it costs that predictions never wait for a step."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, cpu_seconds, take_turns
from evenstream import Learner

GOAL = 10
CASES = (("er-las", "mlp"), ("er@ncm", "mlp"), ("er-las@ema", "mlp"), ("er-las", "slim-resnet18"))


def lines(patience: Patience) -> Iterator[Line]:
    """Steps of learners that one thread uses, and of those that several do."""
    used, unwatched = (parts.learner_after("er-las", "mlp") for _ in range(2))
    _never_asked(unwatched)
    ratio = _ratio(used, unwatched, "mlp", patience)
    what = "step of a learner that one thread uses / without any thought of others, er-las, mlp"
    yield Line(GOAL, what, ratio, at_most=1.01)
    for method, network in CASES:
        shared, alone = (parts.learner_after(method, network) for _ in range(2))
        shared.snapshot()
        ratio = _ratio(shared, alone, network, patience)
        yield Line(GOAL, f"step with a snapshot after it / without, {method}, {network}", ratio)


def _ratio(one: Learner, other: Learner, network: str, patience: Patience) -> Ratio:
    """Of the CPU time of their steps."""
    calls = [parts.steps_of(learner, network) for learner in (one, other)]
    return Ratio.of(*take_turns(*calls, patience=patience, warm_up=20, measure=cpu_seconds))


def _never_asked(learner: Learner) -> None:
    """Skip even the check whether another thread uses the learner."""
    for name in ("before_change", "after_change"):
        setattr(learner, name, lambda: None)
