"""Training on two views of the same rows: unchanged, and with contrastive augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from evenstream.augment import Latents, Preprocess
from evenstream.core.criterion import Need
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import Method


@dataclass
class TwoViews(Method):
    """Base of the methods that see every row twice."""

    own_view: ClassVar[str] = "resized-crop0.2{size}+flip+jitter+gray"
    """The article's augmentation; {size} stands for the learner's size, if it has one."""
    view: Literal["own", "stream"] = "own"
    """The augmented view of images: the article's, or the stream's, as for other methods. Other
    inputs always get the latter."""

    @property
    def needs(self) -> frozenset[Need]:
        """A memory to replay from."""
        return frozenset({"memory"})

    def on_setup(self, learner: LearnerState) -> None:
        """Create the second view, with the learner's normalisation and size."""
        self.augmented = common = learner.preprocess
        if (
            self.view == "own"
            and len(learner.kind_of_inputs.shape) == 3
            and not isinstance(common, Latents)
        ):
            size = "" if common.size is None else f"@{common.size}"
            self.augmented = Preprocess(self.own_view.format(size=size), common.mean, common.std)

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The batch and a replayed one, in both views."""
        return self.two_views(step.incoming, step.retrieve())

    def two_views(self, *groups: Rows) -> list[Rows]:
        """The groups un-augmented, then all of them augmented."""
        for rows in groups:
            rows.made = rows.plain()
        return [*groups, *(replace(rows, preprocess=self.augmented, made=None) for rows in groups)]
