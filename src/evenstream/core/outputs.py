"""The network's outputs for rows, in eval mode and in batches: the raw material of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from evenstream.augment import Preprocess
from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.core.labels import LabelMap
from evenstream.core.memory import Memory
from evenstream.core.state import LearnerState
from evenstream.interruption import let_through

PREDICT_BATCH = 256


@dataclass(frozen=True)
class InferenceContext:
    """What a rule may read besides the inputs."""

    network: Classifier
    memory: Memory
    preprocess: Preprocess


@dataclass(frozen=True)
class Outputs:
    """A batch on its way to a decision, one row for each input."""

    x: Tensor
    features: Tensor
    logits: Tensor

    @property
    def n_classes(self) -> int:
        """Number of classes seen."""
        return self.logits.shape[1]


class OutputsOnDemand(Outputs):
    """Outputs of a network, computed when they are first needed.

    Not `cached_property`, because of its lock: in Python 3.11 all threads share it, and a
    prediction would wait for a step.
    """

    def __init__(self, network: Classifier, x: Tensor, n_classes: int) -> None:
        vars(self).update(x=x, _network=network, _n_classes=n_classes)

    @property
    def n_classes(self) -> int:
        """Number of classes seen."""
        return int(vars(self)["_n_classes"])

    @property
    def features(self) -> Tensor:
        """The network's features."""
        own = vars(self)
        if "_features" not in own:
            own["_features"] = own["_network"].features(self.x)
        made: Tensor = own["_features"]
        return made

    @property
    def logits(self) -> Tensor:
        """The network's logits for the seen classes."""
        own = vars(self)
        if "_logits" not in own:
            own["_logits"] = own["_network"].logits(self.features)[:, : self.n_classes]
        made: Tensor = own["_logits"]
        return made


class Predicting(Protocol):
    """Something that turns rows into outputs: a learner, or a copy of the relevant parts."""

    label_map: LabelMap
    preprocess: Preprocess
    device: torch.device


def plain_outputs(learner: LearnerState, raw: Tensor) -> tuple[Tensor, Tensor]:
    """Features and logits for un-augmented rows, in eval mode, in batches."""
    with evaluation_mode(learner.network):
        batches = outputs(learner, learner.network, raw)
        parts = [(out.features, out.logits) for out in batches]
    features, logits = zip(*parts, strict=True)
    return torch.cat(features), torch.cat(logits)


def plain_batches(
    preprocess: Preprocess, raw: Tensor, device: torch.device | None = None
) -> Iterator[Tensor]:
    """Un-augmented inputs, a few rows at a time: as floats, all of them would be large."""
    for part in torch.split(raw, PREDICT_BATCH):
        yield preprocess.plain(part.to(device))


def outputs(learner: Predicting, network: Classifier, raw: Tensor) -> Iterator[Outputs]:
    """Compute a few un-augmented rows at a time; the caller sets the mode."""
    n_classes = len(learner.label_map)
    for x in plain_batches(learner.preprocess, raw, learner.device):
        let_through()
        yield OutputsOnDemand(network, x, n_classes)
