"""What adapters for other libraries share: a learner created from parameters, and its pickles.

A pickled adapter holds its learner as the bytes of evenstream's own save format. Reading them runs
no code; unpickling itself is up to the other library, and only as safe as the pickle's source.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from evenstream.augment import Augmentation
from evenstream.checkpoint import from_bytes
from evenstream.core.criterion import NEEDS_BOUNDARIES
from evenstream.core.drift import Adwin
from evenstream.core.heads import Head
from evenstream.core.optimizers import OptimizerFactory
from evenstream.errors import InputError
from evenstream.learner.frozen import Frozen
from evenstream.learner.learner import Learner
from evenstream.methods import Method
from evenstream.options import DType, GivenOptions
from evenstream.policies.criteria import CrossEntropy
from evenstream.policies.retrieval import Retrieval
from evenstream.policies.rules import InferenceRule
from evenstream.policies.storing import Storing

RENAMED = {"predict": "rule"}
"""Arguments of `Learner` with a different name in an adapter, where theirs is taken by a method."""


@dataclass(kw_only=True, eq=False, repr=False)
class LearnerParameters(GivenOptions):
    """The parameters of every adapter: arguments of `evenstream.Learner`, which explains them.

    With None the learner chooses. Modules and other parts are copied before use.
    """

    method: str | Method | None = field(default=None, kw_only=False)
    model: str | nn.Module | Frozen | None = field(default=None, kw_only=False)
    criterion: CrossEntropy | None = None
    head: Head | None = None
    rule: InferenceRule | str | None = None
    """The inference rule, which `evenstream.Learner` calls `predict`."""
    retrieval: Retrieval | None = None
    storing: Storing | None = None
    optimizer: str | OptimizerFactory | None = None
    device: str | torch.device | None = None
    dtype: DType = "float32"
    """Not "auto": with bfloat16 the probabilities of a row would depend on the rows next to it."""
    augment: str | Augmentation | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    head_size: int | None = None
    weights: str | Path | None = None
    drift: Adwin | None = None


PASSED_ON = tuple(option.name for option in fields(LearnerParameters))


def learner_arguments(adapter: LearnerParameters) -> dict[str, Any]:
    """Copies of an adapter's parameters for its learner, since training must not change them."""
    own = {new: old for old, new in RENAMED.items()}
    given = {own.get(name, name): getattr(adapter, name) for name in PASSED_ON}
    return {name: copy.deepcopy(value) for name, value in given.items() if value is not None}


def new_learner(adapter: LearnerParameters, **others: Any) -> Learner:
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


def bring_back(adapter: LearnerParameters, name: str) -> None:
    """Rebuild a learner from the bytes of `written`, with the parts that only the adapter has."""
    data = vars(adapter).get(name)
    if not isinstance(data, bytes):
        return
    state, given = from_bytes(data), learner_arguments(adapter)
    model = given.get("model")
    parts: Any = {part: given[part] for part in state.get("unwritten", {}) if part in given}
    own = model if isinstance(model, nn.Module | Frozen) else None
    setattr(adapter, name, Learner.from_state(state, own, **parts))
