"""A learner as a tree of tensors and plain values, and back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream.checkpoint import flatten
from evenstream.composition import import_path, read_method
from evenstream.core.inputs import InputKind
from evenstream.core.memory import X
from evenstream.entries import entry
from evenstream.errors import CheckpointError, InputError, shown
from evenstream.learner.engine import Engine
from evenstream.methods import Method

KIND = "learner"


def learner_state(learner: Engine) -> dict[str, Any]:
    """Everything that decides how the learner goes on: what a checkpoint holds."""
    starts_from = learner.weights if not learner.built else None
    return {
        "kind": KIND,
        "method": learner.text,
        "unwritten": learner.unwritten,
        "model": learner.model if isinstance(learner.model, str) else None,
        "weights": None if starts_from is None else str(starts_from),
        "options": asdict(learner.options),
        **{name: piece.state() for name, piece in learner.pieces.items()},
    }


# ---- what a saved learner is made with -----------------------------------------------------------


def made_with(
    state: dict[str, Any], model: nn.Module | None, given: dict[str, Any]
) -> dict[str, Any]:
    """Method, model and other parts of a saved learner: its own, or the caller's if they fit."""
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise CheckpointError("this checkpoint does not hold a learner")
    with entry("model"):
        name = state["model"]
        if not isinstance(name, str | None):
            raise TypeError(f"it is {shown(name)}")
    if not isinstance(model, nn.Module | None):
        raise InputError(
            f"model must be the torch module that the learner was made with, got {shown(model)}; "
            "leave it out for networks with a name"
        )
    used = name if model is None else model
    if used is None:
        raise CheckpointError(
            "this learner was made with a module of your own; pass it: load(path, model=...)"
        )
    with entry("unwritten"):
        unwritten = dict(state.get("unwritten", {}))
    _check_given(unwritten, given)
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


def _check_given(unwritten: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse to load with a part missing or different that only the user can give."""
    for name, path in unwritten.items():
        if name not in given:
            raise CheckpointError(
                f"this learner was made with a {name} of your own ({path}); pass it again: "
                f"load(path, {name}=...)"
            )
        if import_path(given[name]) != path:
            raise CheckpointError(
                f"this learner was made with the {name} {path}, not with {import_path(given[name])}"
            )


# ---- what it has learned -------------------------------------------------------------------------


def load_learner_state(learner: Engine, state: dict[str, Any]) -> None:
    """Bring a new learner, made with the same options, to a saved state; or leave it new.

    Raises:
        DamagedCheckpoint: an entry is missing or is not what it should be.
    """
    state = of_this_version(state)
    pieces = learner.pieces
    marks = {name: piece.mark() for name, piece in pieces.items()}
    try:
        with entry("labels"):
            learner.label_map.load_state(state["labels"])
        with entry("progress"):
            learner.progress.load_state(state["progress"])
        with entry("network"):
            network = _network(learner, state["network"])
        with entry("memory"):
            learner.memory.load_state(state["memory"])
            _check_memory(learner)
        with entry("pending"):
            _check_pending(learner)
        with entry("criterion"):
            learner.criterion.load_state(state["criterion"])
        for index, part in enumerate(learner.composition.parts):
            with entry(f"part{index}"):
                part.load_state(state[f"part{index}"], learner)
        with entry("randomness"):  # after all that may draw
            learner.randomness.load_state(state["randomness"])
        if network is not None:
            with entry("network"):  # at last, since this may be the user's module
                learner.trained.load_state(network)
    except BaseException:
        for name, piece in pieces.items():
            piece.restore(marks[name])
        raise
    for piece in pieces.values():
        piece.settle()


def of_this_version(state: dict[str, Any]) -> dict[str, Any]:
    """A state as versions before 0.2 wrote it, in the form of this one."""
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
    """Build the network, which gets its weights later; returns what was saved of it."""
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


def _check_memory(learner: Engine) -> None:
    memory = learner.memory
    if len(memory.class_counts) > len(learner.label_map):
        raise ValueError("it holds classes that have no label")
    if memory.size and InputKind.of(memory.field(X)) != learner.input_kind:
        raise ValueError("it holds samples of another shape or dtype than the inputs")


def _check_pending(learner: Engine) -> None:
    for rows, labels in learner.progress.pending:
        if len(rows) != len(labels) or InputKind.of(rows) != learner.input_kind:
            raise ValueError("its rows are not those of its labels")


def _check_module(module: nn.Module, saved: dict[str, Any]) -> None:
    """Compare a user's module with the saved one by parameter names and shapes.

    What a lazy module has no shape for yet will get that of the inputs.
    """
    prefix = "backbone."
    theirs = {n.removeprefix(prefix): v for n, v in saved.items() if n.startswith(prefix)}
    differs = _difference(module.state_dict(), theirs)
    if differs is not None:
        raise CheckpointError(f"the module does not fit the saved one: {differs}")


def _difference(here: dict[str, Any], saved: dict[str, Any]) -> str | None:
    """What differs in name or shape between the weights of two modules, if anything does."""
    theirs = {name: _shape(value) for name, value in saved.items()}
    mine = {n: theirs.get(n) if is_lazy(v) else _shape(v) for n, v in here.items()}
    for name in sorted(mine.keys() | theirs.keys()):
        shapes = mine.get(name, "missing"), theirs.get(name, "missing")
        if shapes[0] != shapes[1]:
            return f"{name} has shape {shapes[0]} here and {shapes[1]} in the save"
    return None


def _shape(value: Any) -> tuple[int, ...]:
    """Of a tensor; what `get_extra_state` gave has none."""
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def fingerprint(state: dict[str, Any]) -> str:
    """A SHA-256 over a whole state tree."""
    tensors, rest = flatten(state)
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.flatten().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
