"""What adapters for other libraries share: a learner created from parameters, and its pickles.

A pickled adapter holds its learner as the bytes of evenstream's own save format. Reading them runs
no code; unpickling itself is up to the other library, and only as safe as the pickle's source.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import nn

from evenstream.checkpoint import from_bytes
from evenstream.core.criterion import NEEDS_BOUNDARIES
from evenstream.errors import InputError
from evenstream.learner.frozen import Frozen
from evenstream.learner.learner import Learner

RENAMED = {"predict": "rule"}
"""Arguments of `Learner` with a different name in an adapter, where theirs is taken by a method."""
PASSED_ON = (
    *("method", "model", "criterion", "head", "rule", "retrieval", "storing"),
    *("memory", "lr", "batch", "replay_batch", "steps", "step_rows"),
    *("optimizer", "momentum", "weight_decay"),
    *("device", "dtype", "augment", "mean", "std", "scope", "head_size", "weights"),
    "drift",
)
"""Parameters of an adapter that are arguments of `Learner`; None means the learner chooses."""


def learner_arguments(adapter: object) -> dict[str, Any]:
    """Copies of an adapter's parameters for its learner, since training must not change them."""
    own = {new: old for old, new in RENAMED.items()}
    given = {own.get(name, name): getattr(adapter, name) for name in PASSED_ON}
    return {name: copy.deepcopy(value) for name, value in given.items() if value is not None}


def new_learner(adapter: object, **others: Any) -> Learner:
    """A learner with an adapter's parameters, which the other library can feed."""
    learner = Learner(**learner_arguments(adapter), **others)
    missing = [words for need, words in NEEDS_BOUNDARIES.items() if need in learner.needs]
    if missing:
        raise InputError(
            f"{learner.text} needs {missing[0]}, which this interface cannot provide; use "
            "evenstream.Learner, or another method"
        )
    return learner


def written(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An adapter's attributes, with the learner as bytes."""
    learner = values.get(name)
    return {**values, name: learner.to_bytes()} if isinstance(learner, Learner) else dict(values)


def bring_back(adapter: object, name: str) -> None:
    """Rebuild a learner from the bytes of `written`, with the parts that only the adapter has."""
    data = vars(adapter).get(name)
    if not isinstance(data, bytes):
        return
    state, given = from_bytes(data), learner_arguments(adapter)
    model = given.get("model")
    parts: Any = {part: given[part] for part in state.get("unwritten", {}) if part in given}
    own = model if isinstance(model, nn.Module | Frozen) else None
    setattr(adapter, name, Learner.from_state(state, own, **parts))
