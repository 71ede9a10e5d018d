"""What `print(learner)` and notebooks show."""

from __future__ import annotations

from html import escape
from typing import Any

from evenstream.choosing import AUTO, choose
from evenstream.composition import import_path
from evenstream.core.labels import label_to_json
from evenstream.errors import some_of
from evenstream.learner.engine import Engine


def facts(learner: Engine) -> dict[str, Any]:
    """What `metrics.json` says of the learner itself, beside what it has followed."""
    return {
        "method": learner.text,
        "network": learner.model if isinstance(learner.model, str) else None,
        "labels": [label_to_json(label) for label in learner.labels],
        "steps": learner.step,
        **({"corrections": learner.progress.edits} if learner.progress.edits else {}),
        **({"tickets": learner.tickets.counts} if learner.tickets.given else {}),
        **({"drift": dict(learner.drifting.found)} if learner.drifting.watch else {}),
    }


def summary(learner: Engine) -> dict[str, str]:
    """Method, network, classes, memory, steps and device, in words."""
    labels, memory = learner.labels, learner.memory
    network = learner.model if isinstance(learner.model, str) else type(learner.model).__name__
    why = _why(learner)
    if learner.front is not None:
        network = f"{learner.front.frozen.title} (frozen), {network}"
    if learner.built:
        count = sum(parameter.numel() for parameter in learner.network.parameters())
        network += f", {count:,} parameters"
    else:
        network += f", {'chosen' if learner.model == AUTO else 'made'} with the first batch"
        if learner.undecided:
            network += f" ({', '.join(sorted(learner.undecided))} too)"
    classes = f"{len(labels):,}: {some_of(list(map(repr, labels)), 5)}" if labels else "none yet"
    told = [said for part in learner.composition.parts if (said := part.says())]
    return {
        "method": ", ".join([learner.text, *_unwritten(learner)]),
        "network": network,
        **({"because": why} if why else {}),
        **({"training": _training(learner)} if learner.model != AUTO else {}),
        "classes": classes,
        "memory": f"{len(memory):,} of {memory.capacity:,} samples",
        "steps": f"{learner.step:,}",
        "device": f"{learner.device}, {learner.options.dtype}",
        **({"tickets": str(learner.tickets)} if learner.tickets.given else {}),
        **({"rule": "; ".join(told)} if told else {}),
        **({"drift": learner.drifting.says()} if learner.drifting.watch else {}),
    }


def _unwritten(learner: Engine) -> list[str]:
    """The parts that the text of the method does not tell."""
    others = {name: thing for name, thing in learner.unwritten.items() if name != "method"}
    return [f"{name}={import_path(thing).partition(':')[2]}" for name, thing in others.items()]


def _why(learner: Engine) -> str | None:
    """Why it has this network and optimiser, if `auto` chose them."""
    if not learner.built:
        return None
    shape, options = learner.kind_of_inputs.shape, learner.options
    choice = choose(shape if learner.front is None else shape[:1])
    training = {name: getattr(options, name) for name in choice.training()}
    if learner.model != choice.network or training != choice.training():
        return None
    return f"auto: {choice.why}"


def _training(learner: Engine) -> str:
    """Optimiser, rate, rows of a batch and steps with them."""
    options = learner.options
    rows = f"{options.batch} + {options.replay_batch} rows per step"
    if options.steps > 1:
        rows = f"{options.batch} + {options.replay_batch} rows in {options.steps} steps"
    rate = f" at {options.lr:g}" if learner.optimizer_factory is None else ""
    return f"{options.optimizer}{rate}, {rows}"


def as_text(learner: Engine) -> str:
    """A line for each entry."""
    found = summary(learner)
    lines = [f"  {name:<8} {text}" for name, text in found.items() if name != "method"]
    return "\n".join([f"Learner {found['method']}", *lines])


def as_html(learner: Engine) -> str:
    """A small table."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{name}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in summary(learner).items()
    )
    return f"<table>{rows}</table>"
