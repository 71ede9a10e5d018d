"""Targets 1, 2 and 3: the whole online step, against bare passes and with against without LAS."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, alternate, take_turns

NO_BF16 = "no fast bfloat16"


def lines(patience: Patience) -> Iterator[Line]:
    """ResNet18 has more time than the others, as its steps take longest."""
    for network, factor, at_most in (("resnet18", 4, 1.03), ("slim-resnet18", 2, 1.10)):
        learner = parts.learner_after("er-las", network)
        step, rows = parts.steps_of(learner, network), 2 * parts.BATCH
        shape = parts.SHAPES[network]
        plain = parts.bare_step(parts.plain_baseline(network), rows, shape)
        name = f"bare fp32 NCHW / er-las step, {network}"
        slow = "" if learner.options.dtype == "bfloat16" else NO_BF16
        bare = parts.bare_step(parts.bare_twin(learner), rows, shape)
        times = take_turns(plain, step, bare, patience=patience.times(factor), warm_up=1)
        ratio = Ratio.of(times[0], times[1])
        target = 3.0 if network == "resnet18" else None
        yield Line(1, name, ratio, at_least=target, unmeasurable=slow)
        name = f"er-las step / bare in the same precision, {network}"
        yield Line(2, name, Ratio.of(times[1], times[2]), at_most=at_most)
    learner = parts.learner_after("er-las", "mlp")
    bare = parts.bare_step(parts.bare_twin(learner), 2 * parts.BATCH, parts.SHAPES["mlp"])
    ratio = alternate(parts.steps_of(learner, "mlp"), bare, patience, warm_up=20)
    yield Line(2, "er-las step / bare, mlp", ratio)
    for network, factor, target in (("slim-resnet18", 3, 1.01), ("mlp", 1, None)):
        las, er = (
            parts.steps_of(parts.learner_after(method, network), network)
            for method in ("er-las", "er")
        )
        ratio = alternate(las, er, patience.times(factor))
        yield Line(3, f"er-las step / er step, {network}", ratio, at_most=target)
