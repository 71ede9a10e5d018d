"""What the network makes of rows, in eval mode and in batches: the raw material of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from evenstream.augment import Preprocess
from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.core.memory import Memory
from evenstream.core.state import LearnerState
from evenstream.interruption import let_through

PREDICT_BATCH = 256


@dataclass(frozen=True)
class InferenceContext:
    """What a rule may read besides the inputs at hand."""

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
        """How many classes have been seen."""
        return self.logits.shape[1]


class OutputsOnDemand(Outputs):
    """Outputs of a network that is not asked before somebody wants to know."""

    def __init__(self, network: Classifier, x: Tensor, n_classes: int) -> None:
        for name, value in (("x", x), ("_network", network), ("_n_classes", n_classes)):
            object.__setattr__(self, name, value)

    @property
    def n_classes(self) -> int:
        """How many classes have been seen."""
        return int(vars(self)["_n_classes"])

    @cached_property
    def features(self) -> Tensor:
        """The network's features."""
        network: Classifier = vars(self)["_network"]
        return network.features(self.x)

    @cached_property
    def logits(self) -> Tensor:
        """The network's logits of the seen classes."""
        network: Classifier = vars(self)["_network"]
        return network.logits(self.features)[:, : self.n_classes]


def plain_outputs(learner: LearnerState, raw: Tensor) -> tuple[Tensor, Tensor]:
    """Features and logits of the seen classes for un-augmented rows, in eval mode, in batches."""
    with evaluation_mode(learner.network):
        batches = outputs(learner, learner.network, raw)
        parts = [(out.features, out.logits) for out in batches]
    features, logits = zip(*parts, strict=True)
    return torch.cat(features), torch.cat(logits)


def plain_batches(
    preprocess: Preprocess, raw: Tensor, device: torch.device | None = None
) -> Iterator[Tensor]:
    """Un-augmented inputs, some rows at a time: all of them as floats would be large."""
    for part in torch.split(raw, PREDICT_BATCH):
        yield preprocess.plain(part.to(device))


def outputs(learner: LearnerState, network: Classifier, raw: Tensor) -> Iterator[Outputs]:
    """Some rows at a time, un-augmented; the caller sets the mode."""
    n_classes = len(learner.label_map)
    for x in plain_batches(learner.preprocess, raw, learner.device):
        let_through()
        yield OutputsOnDemand(network, x, n_classes)
