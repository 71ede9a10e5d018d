"""One of everything that can be registered."""

from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlsplit

import numpy as np
from torch import nn

from evenstream import (
    register,
    register_dataset,
    register_head,
    register_metric,
    register_network,
    register_rule,
    register_scenario,
    register_source,
)
from evenstream.core.heads import Linear
from evenstream.data import from_arrays
from evenstream.methods import ER
from evenstream.policies.rules import InferenceRule
from evenstream.streams import ClassIncremental


@register("own-er")
@dataclass
class OwnER(ER):
    """ER under another name."""


@register_rule("first")
@dataclass
class First(InferenceRule):
    """The class that was seen first, whatever the input."""

    def scores(self, outputs, prepared):
        scores = outputs.logits.clone()
        scores[:, 0] = scores.max() + 1
        return scores


@register_head("halved")
@dataclass(frozen=True)
class Halved(Linear):
    """A linear head that begins at half its weights."""

    def build(self, in_features, seed, size):
        head = super().build(in_features, seed, size)
        head.weight.data /= 2
        return head


@register_network("narrow")
class Narrow(nn.Module):
    """Eight units."""

    def __init__(self, input_shape):
        super().__init__()
        self.layer = nn.Linear(int(np.prod(input_shape)), 8)

    def forward(self, x):
        return self.layer(x.flatten(1)).relu()


@register_scenario("rev")
@dataclass(frozen=True, kw_only=True)
class Reversed(ClassIncremental):
    """Class-incremental, the last classes first."""

    def arrange(self, dataset, seed):
        layout = super().arrange(dataset, seed)
        return replace(layout, tasks=layout.tasks[::-1])


def batch_of(n, classes, seed):
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, n)
    return (y[:, np.newaxis] + draw.normal(size=(n, 6))).astype(np.float32), y


@register_dataset("blobs")
def four_blobs():
    """Four blobs."""
    return from_arrays(*batch_of(80, 4, seed=0), *batch_of(40, 4, seed=1), name="blobs")


@register_metric("worst_task", words="worst <task>", better="higher", unit="%")
def worst_task(matrix):
    """Final accuracy on the task that went worst."""
    return np.nanmin(matrix[-1])


@register_source("blobs")
def some_blobs(address):
    """Batches of ten: blobs://CLASSES?batches=N."""
    parts = urlsplit(address)
    number = int(parse_qs(parts.query)["batches"][0])
    return (batch_of(10, int(parts.netloc), seed) for seed in range(number))
