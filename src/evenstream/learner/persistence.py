"""Converts a learner to a tree of tensors and plain values, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream.augment import Augmentation
from evenstream.checkpoint import fingerprint
from evenstream.composition import (
    held_by,
    import_path,
    read_method,
    settings_of,
    structure_of,
)
from evenstream.core.heads import Head
from evenstream.core.inputs import InputKind
from evenstream.core.memory import X
from evenstream.core.optimizers import OptimizerFactory
from evenstream.core.part import Part
from evenstream.entries import entry
from evenstream.errors import CheckpointError, InputError, UnknownName, shown
from evenstream.learner.engine import Engine
from evenstream.learner.front import frozen_again
from evenstream.learner.frozen import Frozen
from evenstream.methods import Method
from evenstream.policies.criteria import CrossEntropy
from evenstream.policies.retrieval import Retrieval
from evenstream.policies.rules import InferenceRule
from evenstream.policies.storing import Storing
from evenstream.tabular import TableEncoder

KIND = "learner"
TABLE = "table"
"""Key of the table encoder in a save; absent if there was no table."""
DRIFT = "drift"
"""Key of the drift detectors' state; absent if there are none."""
STRUCTURE = "structure"
"""Key of what the user's module consists of; absent for named networks."""
LIVE = "live"
"""Key of the position in streams, if the learner was saved by `follow`."""


def learner_state(learner: Engine) -> dict[str, Any]:
    """Everything that determines how the learner continues: what a checkpoint holds."""
    starts_from = learner.weights if not learner.built else None
    unwritten = learner.unwritten
    settings = {name: said for name, thing in unwritten.items() if (said := settings_of(thing))}
    states = {name: piece.state() for name, piece in learner.pieces.items()}
    told = {n: held for n, held in states.items() if held is not None or n not in learner.optional}
    return {
        "kind": KIND,
        "method": learner.text,
        "unwritten": {name: import_path(thing) for name, thing in unwritten.items()},
        **({"unwritten_settings": settings} if settings else {}),
        **({"unwritten_held": learner.held} if learner.held else {}),
        **({STRUCTURE: _structure(learner.model)} if isinstance(learner.model, nn.Module) else {}),
        "model": learner.model if isinstance(learner.model, str) else None,
        "weights": None if starts_from is None else str(starts_from),
        "options": asdict(learner.options) | dict.fromkeys(sorted(learner.undecided)),
        **told,
    }


# ---- what a saved learner is made with -----------------------------------------------------------


class OwnParts(TypedDict, total=False):
    """Parts of a learner that text cannot express, other than its module."""

    method: Method
    criterion: CrossEntropy
    head: Head
    predict: InferenceRule
    retrieval: Retrieval
    storing: Storing
    optimizer: OptimizerFactory
    augment: Augmentation


def made_with(
    state: dict[str, Any], model: nn.Module | Frozen | None, given: OwnParts
) -> dict[str, Any]:
    """Method, model and other parts of a saved learner: its own, or the caller's if they fit."""
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise CheckpointError("this checkpoint does not hold a learner")
    used = _model(state, model)
    _check_given(state, given)
    own = given.get("method")
    if not isinstance(own, Method | None):
        raise InputError(
            f"method must be the one that the learner was made with, got {shown(own)}; leave it "
            "out for methods with a name"
        )
    with entry("method"):
        if not isinstance(state["method"], str):
            raise TypeError(f"it is {shown(state['method'])}")
        read = read_method(state["method"], None if own is None else type(own))
    if own is None:
        return {"method": state["method"], **given, "model": used}
    return (
        {"criterion": read.criterion, "head": read.head, "predict": read.rule}
        | given
        | {"model": used}
    )


def _model(state: dict[str, Any], model: Any) -> str | nn.Module | Frozen:
    """The network of a saved learner, its frozen part included, or the caller's if it fits."""
    with entry("model"):
        name = state["model"]
        if not isinstance(name, str | None):
            raise TypeError(f"it is {shown(name)}")
    with entry("front"):
        front = None if state.get("front") is None else dict(state["front"])
    if front is not None:
        again = frozen_again(front, name, model)
        if isinstance(again.then, nn.Module):
            _check_structure(again.then, state)
        return again
    if not isinstance(model, nn.Module | None):
        raise InputError(
            f"model must be the torch module that the learner was made with, got {shown(model)}; "
            "leave it out for networks with a name"
        )
    if name is not None and model is not None:
        raise CheckpointError(f"this learner was made with model={name!r}; leave model= out")
    used = name if model is None else model
    if used is None:
        raise CheckpointError(
            "this learner was made with your own module; pass it again: load(path, model=...)"
        )
    if isinstance(used, nn.Module):
        _check_structure(used, state)
    return used


def _structure(module: nn.Module) -> dict[str, Any]:
    return {"torch": str(torch.__version__), "parts": structure_of(module)}


def _check_structure(module: nn.Module, state: dict[str, Any]) -> None:
    """Compare the classes of a user's module, and PyTorch's settings, with those of the saved one.

    Another version of PyTorch may write settings in another way, so they are then left out.
    """
    with entry(STRUCTURE):
        if state.get(STRUCTURE) is None:  # as in saves of earlier versions
            return
        saved, version = dict(state[STRUCTURE]["parts"]), state[STRUCTURE]["torch"]
    here = structure_of(module)
    for name in sorted(here.keys() | saved.keys()):
        before, now = saved.get(name, "nothing"), here.get(name, "nothing")
        kinds = [each.partition("(") for each in (before, now)]
        settled = version == torch.__version__ and all(brackets for _, brackets, _ in kinds)
        if (before != now) if settled else (kinds[0][0] != kinds[1][0]):
            raise CheckpointError(
                f"the module does not fit the saved one: {name or 'it'} is {now} here and was "
                f"{before}"
            )


def _check_given(state: dict[str, Any], given: OwnParts) -> None:
    """Reject loading if a part that only the user can provide is missing or different."""
    with entry("unwritten"):
        paths = dict(state.get("unwritten", {}))
        settings = dict(state.get("unwritten_settings", {}))
        held = dict(state.get("unwritten_held", {}))
    parts: dict[str, object] = {**given}
    for name in parts:
        if name not in OwnParts.__annotations__:
            raise UnknownName("part of a learner", name, OwnParts.__annotations__)
        if name not in paths and name != "method":  # compared with the text
            raise CheckpointError(
                f"this learner's {name} is saved with it; leave {name}= out, or make a new learner"
            )
    for name, path in paths.items():
        if name not in parts:
            raise CheckpointError(
                f"this learner was made with {name}={path}, which is not saved; pass it again: "
                f"load(path, {name}=...)"
            )
        here = import_path(parts[name]), settings_of(parts[name])
        saved = path, settings.get(name, "")
        if here[0] != path or (name in settings and here != saved):
            one, other = (f"{where} ({said})" if said else where for where, said in (saved, here))
            raise CheckpointError(f"this learner was made with {name}={one}, not with {other}")
        if name in held and held[name] != held_by(parts[name]):
            raise CheckpointError(
                f"this learner was made with a {name} that holds {held[name]}, not "
                f"{held_by(parts[name]) or 'nothing'}"
            )


# ---- what it has learned -------------------------------------------------------------------------


def load_learner_state(learner: Engine, state: dict[str, Any]) -> None:
    """Load a saved state into a new learner with the same options, or leave it new.

    Raises:
        DamagedCheckpoint: an entry is missing or invalid.
    """
    state = of_this_version(state)
    pieces = learner.pieces
    marks = {name: piece.mark() for name, piece in pieces.items()}
    try:
        network = None
        for name, piece in pieces.items():
            with entry(name):
                saved: Any = state.get(name) if name in learner.optional else state[name]
                if piece is learner.trained:
                    network = _network(learner, saved)
                elif isinstance(piece, Part):
                    piece.load_state(saved, learner)
                else:
                    piece.load_state(saved)
        _check_agreement(learner)
        if network is not None:
            with entry("network"):  # its weights come last, since this may be the user's module
                learner.trained.load_state(network)
    except BaseException:
        for name, piece in pieces.items():
            piece.restore(marks[name])
        raise
    for piece in pieces.values():
        piece.settle()
    learner.after_change()


def of_this_version(state: dict[str, Any]) -> dict[str, Any]:
    """Convert a state written by versions before 0.2 to the current format."""
    if "progress" in state:
        return state
    state, progress = dict(state), {}
    for name in ("step", "task", "in_task", "task_counts", "pending"):
        with entry(name):
            progress[name] = state.pop(name)
    network = {}
    for name, before in (("weights", "network"), ("input", "input"), ("optimizer", "optimizer")):
        with entry(before):
            network[name] = state.pop(before)
    with entry("parts"):
        parts = {f"part{index}": part for index, part in enumerate(list(state.pop("parts")))}
    built = None if network["weights"] is None else network
    return {**state, "unwritten": {}, "progress": progress, "network": built, **parts}


def _network(learner: Engine, saved: dict[str, Any] | None) -> dict[str, Any] | None:
    """Build the network, which gets its weights later; returns its saved state."""
    if saved is None:
        if learner.step or len(learner.label_map):
            raise ValueError("it is empty, though something was learned")
        return None
    kind, weights = InputKind.from_state(saved["input"]), dict(saved["weights"])
    rows = len(weights["head.weight"])
    if rows < len(learner.label_map):
        raise ValueError(f"its head has {rows} rows for {len(learner.label_map)} labels")
    if isinstance(learner.model, nn.Module):
        _check_module(learner.model, weights)
    with learner.randomness.owned_global():
        learner.build(kind.example().to(learner.device))
    learner.grow_head(rows)
    differs = _difference(learner.network.state_dict(), weights)
    if differs is not None:
        raise ValueError(differs)
    return saved


def _check_agreement(learner: Engine) -> None:
    """Reject pieces that are sound but do not belong together."""
    memory, classes, kind = learner.memory, len(learner.label_map), learner.trained.input_kind
    with entry("memory"):
        if len(memory.class_counts) > classes:
            raise ValueError("it holds classes that have no label")
        if memory.size and InputKind.of(memory.field(X)) != kind:
            raise ValueError("it holds samples of another shape or dtype than the inputs")
    with entry("pending"):
        for batch in learner.progress.pending:
            parts = (batch.rows, batch.labels, batch.weights)
            sizes = {len(part) for part in parts if part is not None}
            if len(sizes) > 1 or InputKind.of(batch.rows) != kind:
                raise ValueError("its rows are not those of its labels")
    with entry(TABLE):
        encoder, given = learner.known_table.encoder, learner.input_kind
        if encoder is not None and given is not None and (encoder.width,) != given.shape:
            raise ValueError(f"it gives {encoder.width} inputs, the network takes {given.shape}")
    with entry("calibration"):
        if len(learner.calibration.counts) > classes:
            raise ValueError(f"it has more than the {classes} classes that have a label")


def _check_module(module: nn.Module, saved: dict[str, Any]) -> None:
    """Compare a user's module with the saved one by parameter names and shapes.

    Parameters of a lazy module without a shape yet will get it from the inputs.
    """
    prefix = "backbone."
    theirs = {n.removeprefix(prefix): v for n, v in saved.items() if n.startswith(prefix)}
    differs = _difference(module.state_dict(), theirs)
    if differs is not None:
        raise CheckpointError(f"the module does not fit the saved one: {differs}")


def _difference(here: dict[str, Any], saved: dict[str, Any]) -> str | None:
    """The first difference in name or shape between the weights of two modules, if any."""
    theirs = {name: _shape(value) for name, value in saved.items()}
    mine = {n: theirs.get(n) if is_lazy(v) else _shape(v) for n, v in here.items()}
    for name in sorted(mine.keys() | theirs.keys()):
        shapes = mine.get(name, "missing"), theirs.get(name, "missing")
        if shapes[0] != shapes[1]:
            return f"{name} has shape {shapes[0]} here and {shapes[1]} in the save"
    return None


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of a tensor; results of `get_extra_state` have none."""
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def learner_fingerprint(state: dict[str, Any]) -> str:
    """A SHA-256 of the state of a learner.

    The names of plain numeric columns are left out: a learner that learns the same numbers from
    arrays is the same. The description of a user's module is left out as well.
    """
    state = {name: part for name, part in state.items() if name != STRUCTURE}
    if TABLE in state:
        with entry(TABLE):
            plain = TableEncoder.from_state(state[TABLE]).plain
        state = {name: part for name, part in state.items() if name != TABLE or not plain}
    return fingerprint(state)
