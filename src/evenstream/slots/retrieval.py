"""The retrieval slot: which stored rows a step replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from evenstream.learner.rows import Rows

if TYPE_CHECKING:
    from evenstream.learner.step import Step


class Retrieval:
    """Picks rows from the memory as it was before the incoming batch."""

    def pick(self, step: Step, count: int) -> Rows:
        """At most `count` rows; none if the memory is empty."""
        raise NotImplementedError


class Uniform(Retrieval):
    """min(count, |memory|) rows, uniformly, without replacement."""

    def pick(self, step: Step, count: int) -> Rows:
        """Draw the slots and fetch them."""
        order = torch.randperm(len(step.memory), generator=step.randomness.retrieve)
        return step.fetch(order[:count])
