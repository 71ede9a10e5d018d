"""PCR: contrast each row with the proxies of the classes in its batch, which is LAS on cosines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from evenstream.bounds import Within
from evenstream.core.heads import Cosine, Head
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.two_views import TwoViews
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.rules import InferenceRule


@register("pcr")
@dataclass
class PCR(TwoViews):
    """Logit Adjusted Softmax on a cosine head, over two views of the batch and of replayed rows.

    Every row is contrasted with the class weights ("proxies") of all rows of the step, so class c
    is counted n_c times: the denominator is Σ_c n_c·exp(cos/T), that of LAS with τ = 1 and a window
    of one batch. The losses differ by the mean of log n_y, which has no gradient.
    """

    citation = (
        "Lin et al., PCR: Proxy-based Contrastive Replay for Online Class-Incremental Continual "
        "Learning, 2023"
    )
    cost = "F(2b+2m) + G(2b+2m)"
    why_not_exits = "it contrasts rows with class weights by their cosines"
    why_not_las = (
        "pcr already is Logit Adjusted Softmax on a cosine head; for other options of it use "
        "er-las:head=cosine"
    )

    temperature: Annotated[float, Within(0.001)] = 0.09
    """T, which divides the cosines."""
    skip_first: bool = True
    """Do not update while the memory is empty, as in the public code."""
    forwards: Literal["joint", "separate"] = "joint"
    """One forward pass over all rows, or, as in the public code, one over both views of the
    incoming rows and one over those of the replayed ones, so that BatchNorm does not mix them."""

    def make_head(self) -> Head:
        """Cosines over the temperature."""
        return Cosine(1 / self.temperature)

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """It is defined on cosines."""
        if isinstance(head, Cosine):
            return None
        return (
            "pcr contrasts rows with class weights by their cosines; with a linear head it is "
            "Logit Adjusted Softmax over two views, so use er-las"
        )

    def make_criterion(self) -> LogitAdjustedSoftmax:
        """τ = 1, counted over the rows of the step."""
        return LogitAdjustedSoftmax()

    def loss(self, step: Step) -> Tensor | None:
        """The adjusted loss over both views of all rows."""
        if self.skip_first and not len(step.memory):
            return None
        if self.forwards == "joint":
            x, y = step.joint()
            return step.ce(step.net(x), y)
        halves = (step.groups[::2], step.groups[1::2])
        present = [views for views in halves if len(views[0])]
        logits = [self.logits_of_views(step, views) for views in present]
        labels = torch.cat([rows.y for views in present for rows in views])
        return step.ce(torch.cat(logits), labels)

    def logits_of_views(self, step: Step, views: Sequence[Rows]) -> Tensor:
        """One forward pass over both views of the same rows."""
        logits = step.net(torch.cat([rows.x for rows in views]))
        parts = torch.split(logits.detach(), [len(rows) for rows in views])
        for rows, part in zip(views, parts, strict=True):
            step.note_logits(rows, part)
        return logits
