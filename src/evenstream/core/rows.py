"""A group of training rows: raw samples with labels, and the views created so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from evenstream.augment import Preprocess
from evenstream.core.memory import WEIGHT


@dataclass(eq=False)
class Rows:
    """Rows of the incoming batch or of the memory.

    `x` is the augmented view; it is created on first use and kept, so a retrieval that scores
    candidates passes on the very views it scored. `view()` creates another one, `plain()` returns
    the un-augmented input.
    """

    raw: Tensor
    y: Tensor
    preprocess: Preprocess
    generator: Generator
    slots: Tensor | None = None
    """Memory slots the rows came from; None for incoming rows."""
    fields: dict[str, Tensor] = field(default_factory=dict)
    """A method's own stored fields (logits, task, ...)."""
    made: Tensor | None = None
    """The view that `x` returns, once it exists."""

    def __len__(self) -> int:
        return self.y.shape[0]

    @property
    def weights(self) -> Tensor:
        """The weight of each row in the mean of the loss; 1 unless set in `learn`."""
        ones = torch.ones(len(self), device=self.y.device)
        return self.fields.get(WEIGHT, ones)

    @property
    def x(self) -> Tensor:
        """The augmented, normalised view that this step trains on."""
        if self.made is None:
            self.made = self.view()
        return self.made

    def view(self) -> Tensor:
        """A fresh augmented view."""
        return self.preprocess.train(self.raw, self.generator)

    def plain(self) -> Tensor:
        """The normalised input without augmentation."""
        return self.preprocess.plain(self.raw)

    def take(self, index: Tensor) -> Rows:
        """Some of the rows, with their view if it exists."""
        return Rows(
            raw=self.raw[index],
            y=self.y[index],
            preprocess=self.preprocess,
            generator=self.generator,
            slots=None if self.slots is None else self.slots[index],
            fields={name: values[index] for name, values in self.fields.items()},
            made=None if self.made is None else self.made[index],
        )


def joint_view(groups: Sequence[Rows]) -> Tensor:
    """The views of all groups in one batch; missing views are created in one call."""
    groups = [group for group in groups if len(group)]
    if len(groups) == 1:
        return groups[0].x
    first = groups[0]
    alike = (first.preprocess, first.generator)
    if all(g.made is None and (g.preprocess, g.generator) == alike for g in groups):
        joint = first.preprocess.train(torch.cat([g.raw for g in groups]), first.generator)
        for group, view in zip(groups, torch.split(joint, [len(g) for g in groups]), strict=True):
            group.made = view
        return joint
    return torch.cat([group.x for group in groups])
