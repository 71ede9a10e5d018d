"""How familiar rows of known classes looked before they were learned: the basis of rejections."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.core.edits import Compaction, Regrouping

KEPT = 16
"""Number of scores kept per class; older ones, from when the class was little known, are
dropped."""


class Calibration:
    """The newest scores of each class, as the state of a learner.

    Each is weighted by the number of steps made at the time: a score from halfway counts half as
    much.
    """

    def __init__(self) -> None:
        self.scores = torch.zeros(0, KEPT, dtype=torch.float64)
        """Scores, one row per class; NaN where there is none yet."""
        self.steps = torch.zeros(0, KEPT, dtype=torch.float64)
        """The steps at which they were measured; 0 where there is none yet."""
        self.counts = torch.zeros(0, dtype=torch.int64)
        """Number of scores that each class has had."""
        self.scale = torch.zeros(2, dtype=torch.float64)
        """Identifies the scale of the scores; scores on different scales cannot be compared."""

    def add(self, scores: Tensor, labels: Tensor, step: int) -> None:
        """Record the scores of rows that are about to be learned."""
        if not len(labels):
            return
        missing = max(int(labels.max()) + 1 - len(self.counts), 0)
        kept = F.pad(self.scores, (0, 0, 0, missing), value=math.nan)
        steps = F.pad(self.steps, (0, 0, 0, missing))
        counts = F.pad(self.counts, (0, missing))
        if not missing:  # not copied by the padding
            kept, steps, counts = kept.clone(), steps.clone(), counts.clone()
        table, steps_of, so_far = kept.numpy(), steps.numpy(), counts.numpy()
        for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
            place = so_far[label] % KEPT
            table[label, place], steps_of[label, place] = score, step
            so_far[label] += 1
        self.scores, self.steps, self.counts = kept, steps, counts

    def change_scale(self, scale: tuple[float, float], *, forget: bool) -> None:
        """Future scores are on a different scale; drop the earlier ones if it is far off."""
        kept = Calibration().mark() if forget else {}
        self.restore({**kept, "scale": torch.tensor(scale, dtype=torch.float64)})

    def threshold(self, share: float) -> float:
        """The score that at most this share of rows of known classes stays below.

        Minus infinity, which rejects nothing, while there are too few rows to estimate it.
        """
        scores, order = self.scores[~self.scores.isnan()].sort()
        if not len(scores):
            return -math.inf
        weights = self.steps[~self.scores.isnan()][order]
        weights = weights / weights.max()
        below = int((weights.cumsum(0) <= share * (weights.sum() + 1)).sum())
        return float(scores[below - 1]) if below else -math.inf

    # ---- state ---------------------------------------------------------------------------------

    def mark(self) -> dict[str, Tensor]:
        """The tensors, which are replaced, never modified."""
        return dict(vars(self))

    def restore(self, mark: dict[str, Tensor]) -> None:
        """Restore the tensors of the mark."""
        vars(self).update(mark)

    def settle(self) -> None:
        """Nothing to discard."""

    def regroup(self, classes: Regrouping) -> None:
        """Keep the scores of remaining classes; when merged, a class keeps its own."""
        by_class = ("scores", "steps", "counts")
        self.restore({name: classes.entries(getattr(self, name)) for name in by_class})

    def compact(self, slots: Compaction) -> None:
        """Nothing here depends on stored samples."""

    def state(self) -> dict[str, Any] | None:
        """The tensors; None until there are scores."""
        return dict(vars(self)) if len(self.counts) else None

    def load_state(self, state: dict[str, Any] | None) -> None:
        """The inverse of `state`; saves of earlier versions have none."""
        if state is None:
            return self.restore(Calibration().mark())
        found = {name: state[name].cpu().clone() for name in vars(self)}
        scores, steps, counts, scale = (found[name] for name in vars(self))
        if scale.shape != (2,) or scale.dtype != torch.float64:
            raise ValueError("its scale is not a pair of numbers")
        if counts.ndim != 1 or counts.dtype != torch.int64:
            raise ValueError("its counts are not those of classes")
        for values in (scores, steps):
            if values.shape != (len(counts), KEPT) or values.dtype != torch.float64:
                raise ValueError(f"it does not have {KEPT} numbers per class")
        if bool((counts < 0).any()) or not bool((steps >= 0).all()):
            raise ValueError("it has a negative count")
        self.restore(found)
