"""The interface of inference rules, and the table of rules by name.

The class with the highest score is predicted; softmax of the scores gives probabilities. A rule is
a part of the learner and may keep its own statistics (`after_step`, `on_task_end`). Its typed
fields are its options, so any method can use a different rule by name: `er-las@ncm`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from evenstream.bounds import check_options
from evenstream.core.heads import Head
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.core.part import Part
from evenstream.core.rows import Rows
from evenstream.policies.criteria import CrossEntropy
from evenstream.registry import Registry

R = TypeVar("R", bound="type[InferenceRule]")


@dataclass
class InferenceRule(Part):
    """Scores the seen classes. Scoring has no side effects."""

    name: ClassVar[str] = ""
    reads_memory: ClassVar[bool] = True
    """Whether `prepare` looks at stored rows. Predictions that do not wait for a step then need a
    copy of the memory, so set this to False if it does not."""
    gives_logits: ClassVar[bool] = False
    """Whether the scores are logits of the network."""

    def __post_init__(self) -> None:
        super().__init__()
        check_options(self)

    def why_not_with(self, criterion: CrossEntropy, head: Head) -> str | None:
        """Why the rule makes no sense for a network trained in this way; None if it does."""
        return None

    def prepare(self, context: InferenceContext) -> Any:
        """Whatever the rule needs once per call of `predict` (class means, weights, ...)."""
        return None

    @property
    def asked_every(self) -> int:
        """The accuracy before an update is measured once in this many steps; 0 is never."""
        return 1

    @property
    def weighs_classes(self) -> bool:
        """Whether a class whose rows have more weight is predicted more often."""
        return True

    def why_no_priors(self, not_by_logits: str | None) -> str | None:
        """Why known class priors cannot be added to the scores; None if they can.

        `not_by_logits` is the reason why they cannot be added to the network's logits.
        """
        if self.gives_logits:
            return not_by_logits
        return (
            f"class frequencies cannot be added to the scores of its rule {self.name}; make the "
            'learner with method="er-las", or say with costs= which errors weigh more'
        )

    def prepare_for_priors(self, context: InferenceContext, *, by_logits: bool) -> Any:
        """Like `prepare`, for scores that known class priors are added to.

        `by_logits` tells whether they may be added to the network's logits.
        """
        return self.prepare(context)

    def prepare_for_step(self, context: InferenceContext) -> Any:
        """Like `prepare`, for the accuracy of a step; expensive parts may be slightly stale."""
        return self.prepare(context)

    def before_export(self) -> None:
        """Called on a copy whose `scores`, prepared once and for all, is about to be traced.

        The copy must keep no rows of the stream, and nothing that PyTorch can trace for only one
        batch size.
        """

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """One score for each input and seen class."""
        raise NotImplementedError

    # ---- what looks like no known class ----------------------------------------------------------

    @property
    def familiar_every(self) -> int:
        """The familiarity of arriving rows is measured once in this many steps."""
        return 8 if self.asked_every else 64

    def familiarity(self, outputs: Outputs, prepared: Any) -> Tensor:
        """How familiar each input looks, compared with the known classes; higher is more familiar.

        By default, how far the highest score lies above the mean of the finite ones.
        """
        scores = self.scores(outputs, prepared).double()
        finite = torch.where(scores.isfinite(), scores, torch.nan)
        return (scores.max(1).values - finite.nanmean(1)).nan_to_num(nan=0.0)

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """When this changes, earlier and later scores are no longer comparable."""
        return 0.0, 0.0

    def familiarity_for_step(self, outputs: Outputs, prepared: Any) -> Tensor | None:
        """The same before rows are learned; None if it would be too expensive right now."""
        return self.familiarity(outputs, prepared)

    def familiarity_left_out(self, rows: Rows, seen: Tensor | None = None) -> Tensor | None:
        """The same for replayed rows, each as if it had never been learned; None if unknown.

        `seen` is what they are judged by, if not by all that was learned of them.
        """
        return None


RULES: Registry[type[InferenceRule]] = Registry("inference rule")


def register_rule(name: str) -> Callable[[R], R]:
    """Register a rule by name: METHOD@NAME."""
    return RULES.register_class(name, InferenceRule)
