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
from evenstream.core.inputs import InputKind
from evenstream.errors import CheckpointError
from evenstream.learner.engine import Engine

KIND = "learner"


def learner_state(learner: Engine) -> dict[str, Any]:
    """Everything that decides how the learner goes on: what a checkpoint holds."""
    starts_from = learner.weights if not learner.built else None
    return {
        "kind": KIND,
        "method": learner.text,
        "unwritten": learner.composition.unwritten,
        "model": learner.model if isinstance(learner.model, str) else None,
        "weights": None if starts_from is None else str(starts_from),
        "options": asdict(learner.options),
        **{name: piece.state() for name, piece in learner.pieces.items()},
    }


def load_learner_state(learner: Engine, state: dict[str, Any]) -> None:
    """Bring a new learner, made with the same options, to a saved state."""
    state = of_this_version(state)
    learner.label_map.load_state(state["labels"])
    learner.progress.load_state(state["progress"])
    saved = state["network"]
    if saved is not None:
        if isinstance(learner.model, nn.Module):
            _check_module(learner.model, saved["weights"])
        kind = InputKind(tuple(saved["input"]["shape"]), saved["input"]["dtype"])
        with learner.randomness.owned_global():
            learner.build(kind.example().to(learner.device))
        learner.grow_head(len(saved["weights"]["head.weight"]))
        learner.trained.load_state(saved)
    learner.memory.load_state(state["memory"])
    learner.criterion.load_state(state["criterion"])
    for index, part in enumerate(learner.composition.parts):
        part.load_state(state[f"part{index}"], learner)
    learner.randomness.load_state(state["randomness"])


def of_this_version(state: dict[str, Any]) -> dict[str, Any]:
    """A state as versions before 0.2 wrote it, in the form of this one."""
    if "progress" in state:
        return state
    state = dict(state)
    names = ("step", "task", "in_task", "task_counts", "pending")
    state["progress"] = {name: state.pop(name) for name in names}
    weights, kind, optimizer = state.pop("network"), state.pop("input"), state.pop("optimizer")
    state["network"] = None
    if weights is not None:
        state["network"] = {"input": kind, "weights": weights, "optimizer": optimizer}
    parts = state.pop("parts")
    return {**state, "unwritten": {}, **{f"part{i}": part for i, part in enumerate(parts)}}


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
