"""RAR: replay with several steps per batch, each on new, strongly augmented views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenstream.augment import Preprocess
from evenstream.bounds import Positive
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.options import StepRows

STRONGER = "randaugment1@14"


@register("rar")
@dataclass
class RAR(Replay):
    """ER with several steps per batch, on RandAugment views."""

    citation = "Zhang et al., A Simple but Strong Baseline for Online Continual Learning, 2022"
    cost = "(F(b+m) + G(b+m)) · `iterations`"

    iterations: Positive = 10
    """Steps for each batch, each with a new draw from the memory."""
    view: Literal["own", "stream"] = "own"
    """Views of images: the learner's augmentation followed by RandAugment(1, 14), or alone. Inputs
    that are not images get the latter."""

    @property
    def own_steps(self) -> tuple[int, StepRows]:
        """The whole batch, again and again."""
        return self.iterations, "repeat"

    def why_not_steps(self, rows: StepRows) -> str:
        """Its own option sets the number of steps."""
        return "it sets its own steps; use rar:iterations=N"

    def on_setup(self, learner: LearnerState) -> None:
        """Create the stronger augmentation, with the learner's normalisation and size."""
        self.augmented = usual = learner.preprocess
        image = len(learner.kind_of_inputs.shape) == 3 and usual.function is None
        if self.view == "own" and image and "randaugment" not in usual.augment:
            parts = STRONGER if usual.augment == "none" else f"{usual.augment}+{STRONGER}"
            self.augmented = Preprocess(parts, usual.mean, usual.std)

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The batch and a replayed one, in new views."""
        groups = [step.incoming, step.retrieve()]
        for rows in groups:
            rows.preprocess = self.augmented
        return groups
