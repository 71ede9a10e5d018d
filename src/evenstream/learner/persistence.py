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
from evenstream.errors import CheckpointError
from evenstream.core.inputs import InputKind
from evenstream.core.labels import LabelMap, label_from_json, label_to_json
from evenstream.core.optimizers import load_optimizer_state, optimizer_state

if TYPE_CHECKING:
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


def load_learner_state(learner: Learner, state: dict[str, Any]) -> None:
    """Bring a new learner, made with the same options, to a saved state."""
    learner.label_map = LabelMap(map(label_from_json, state["labels"]))
    learner.step, learner.task, learner.in_task = state["step"], state["task"], state["in_task"]
    if state["task_counts"] is not None:
        learner.task_counts = {label_from_json(k): v for k, v in state["task_counts"]}
    if state["input"] is not None:
        kind = state["input"]
        learner.input_kind = InputKind(tuple(kind["shape"]), kind["dtype"])
    if state["network"] is not None:
        if isinstance(learner.model, nn.Module):
            _check_module(learner.model, state["network"])
        _load_network(learner, state)
    learner.memory.load_state(state["memory"])
    learner.criterion.load_state(state["criterion"])
    for part, saved in zip(learner.parts, state["parts"], strict=True):
        part.load_state(saved, learner)
    learner.randomness.load_state(state["randomness"])
    if state["pending"] is not None:
        labels = [label_from_json(label) for label in state["pending"]["labels"]]
        learner.pending = [(state["pending"]["x"], labels)]


def _load_network(learner: Learner, state: dict[str, Any]) -> None:
    assert learner.input_kind is not None
    with learner.randomness.owned_global():
        network = learner.build(learner.input_kind.example().to(learner.device))
    learner.grow_head(len(state["network"]["head.weight"]))
    network.load_state_dict(state["network"])
    assert learner.optimizer is not None
    load_optimizer_state(learner.optimizer, state["optimizer"])


def _check_module(module: nn.Module, saved: dict[str, Any]) -> None:
    """Compare a user's module with the saved one by parameter names and shapes.

    What a lazy module has no shape for yet will get that of the inputs.
    """
    theirs = {n: _shape(value) for n, value in saved.items() if n.startswith("backbone.")}
    mine = {
        name: theirs.get(name) if is_lazy(value) else _shape(value)
        for name, value in module.state_dict(prefix="backbone.").items()
    }
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            short = name.removeprefix("backbone.")
            raise CheckpointError(
                f"the module does not fit the saved one: {short} has shape "
                f"{mine.get(name, 'missing')} here and {theirs.get(name, 'missing')} in the save"
            )


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
