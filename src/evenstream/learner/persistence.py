"""A learner as a tree of tensors and plain values, and back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream.checkpoint import flatten
from evenstream.entries import entry, whole_number
from evenstream.errors import CheckpointError, InputError, shown
from evenstream.learner.inputs import InputKind
from evenstream.learner.labels import LabelMap, label_from_json, label_to_json, plain_counts
from evenstream.learner.memory import X
from evenstream.learner.optimizers import load_optimizer_state, optimizer_state
from evenstream.methods import Method, make_method

if TYPE_CHECKING:
    from evenstream.learner.labels import Label
    from evenstream.learner.learner import Learner


def learner_state(learner: Learner) -> dict[str, Any]:
    """Everything that decides how the learner goes on: what a checkpoint holds."""
    network, optimizer, counts = learner.network, learner.optimizer, learner.task_counts
    pending = None
    if learner.pending:
        pending = {
            "x": torch.cat([rows for rows, _ in learner.pending]),
            "labels": [label_to_json(v) for _, values in learner.pending for v in values],
        }
    return {
        "kind": "learner",
        "method": learner.method.spec,
        "model": learner.model if isinstance(learner.model, str) else None,
        "options": asdict(learner.options),
        "labels": [label_to_json(label) for label in learner.label_map],
        "step": learner.step,
        "task": learner.task,
        "in_task": learner.in_task,
        "task_counts": counts and [[label_to_json(k), int(v)] for k, v in counts.items()],
        "input": learner.input_kind and asdict(learner.input_kind),
        "weights": str(learner.weights) if learner.weights and network is None else None,
        "network": None if network is None else dict(network.state_dict()),
        "optimizer": None if optimizer is None else optimizer_state(optimizer),
        "memory": learner.memory.state(),
        "criterion": learner.criterion.state(),
        "randomness": learner.randomness.state(),
        "parts": [part.state() for part in learner.parts],
        "pending": pending,
    }


def check_what_is_passed(
    state: dict[str, Any], model: nn.Module | None, method: Method | None
) -> tuple[Method, str | nn.Module]:
    """The method and the model of a saved learner: its own, or the caller's if they fit."""
    if not isinstance(state, dict) or state.get("kind") != "learner":
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
    if method is not None:
        method = make_method(method)
    with entry("method"):
        spec = state["method"]
        method = make_method(spec) if method is None else method
    if method.spec != spec:
        raise CheckpointError(f"saved with method {shown(spec)}, not with {method.spec}")
    return method, used


def load_learner_state(learner: Learner, state: dict[str, Any]) -> None:
    """Bring a new learner, made with the same options, to a saved state; or leave it new.

    Raises:
        DamagedCheckpoint: an entry is missing or is not what it should be.
    """
    before = [(dict(p.modules), dict(p.optimizers), dict(p.tensors)) for p in learner.parts]
    try:
        _load_progress(learner, state)
        if learner.input_kind is not None:
            _load_network(learner, state)
        with entry("memory"):
            learner.memory.load_state(state["memory"])
            _check_memory(learner)
        with entry("criterion"):
            learner.criterion.load_state(state["criterion"])
        with entry("parts"):
            for part, saved in zip(learner.parts, state["parts"], strict=True):
                part.load_state(saved, learner)
        with entry("randomness"):
            torch.Generator().set_state(state["randomness"]["global"])  # which is not used at once
            learner.randomness.load_state(state["randomness"])
        with entry("pending"):
            learner.pending = _pending(learner, state["pending"])
        if learner.network is not None:
            with entry("network"):  # at last, since this may be the user's module
                learner.network.load_state_dict(state["network"])
    except BaseException:
        learner.begin()
        for part, own in zip(learner.parts, before, strict=True):
            part.modules, part.optimizers, part.tensors = own
        raise


def _load_progress(learner: Learner, state: dict[str, Any]) -> None:
    with entry("labels"):
        labels = [label_from_json(label) for label in state["labels"]]
        learner.label_map = LabelMap(labels)
        if len(learner.label_map) != len(labels):
            raise ValueError("a label comes twice")
    with entry("step"):
        learner.step = whole_number(state, "step")
    with entry("task"):
        learner.task, learner.in_task = whole_number(state, "task", -1), state["in_task"]
        if not isinstance(learner.in_task, bool):
            raise TypeError(f"in_task is {learner.in_task!r}")
    with entry("task_counts"):
        counts = state["task_counts"]
        if counts is not None:
            learner.task_counts = plain_counts({label_from_json(k): v for k, v in counts})
    with entry("input"):
        kind = state["input"]
        learner.input_kind = None if kind is None else InputKind.from_state(kind)
        if kind is None and (learner.step or labels):
            raise ValueError("it is empty, though something was learned")


def _load_network(learner: Learner, state: dict[str, Any]) -> None:
    """Build the network, which gets its weights later, and its optimiser."""
    assert learner.input_kind is not None
    with entry("network"):
        saved = dict(state["network"])
        rows = len(saved["head.weight"])
        if rows < len(learner.label_map):
            raise ValueError(f"its head has {rows} rows for {len(learner.label_map)} labels")
    if isinstance(learner.model, nn.Module):
        _check_module(learner.model, saved)
    with entry("network"), learner.randomness.owned_global():
        network = learner.build(learner.input_kind.example().to(learner.device))
        learner.grow_head(rows)
        differs = _difference(network.state_dict(), saved)
        if differs is not None:
            raise ValueError(differs)
    with entry("optimizer"):
        assert learner.optimizer is not None
        load_optimizer_state(learner.optimizer, state["optimizer"])


def _check_memory(learner: Learner) -> None:
    memory = learner.memory
    if len(memory.class_counts) > len(learner.label_map):
        raise ValueError("it holds classes that have no label")
    if memory.size and InputKind.of(memory.field(X)) != learner.input_kind:
        raise ValueError("it holds samples of another shape or dtype than the inputs")


def _pending(learner: Learner, saved: dict[str, Any] | None) -> list[tuple[Tensor, list[Label]]]:
    """Rows that were gathered for the next step."""
    if saved is None:
        return []
    x, labels = saved["x"], [label_from_json(label) for label in saved["labels"]]
    if len(x) != len(labels) or InputKind.of(x) != learner.input_kind:
        raise ValueError("its rows are not those of its labels")
    return [(x, labels)]


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
