"""What closed forms have in common: sums over the stream, solved when an answer is needed.

A closed form needs no gradient step and no stored samples. Each row adds to sums, so one pass in
any order and in batches of any size gives what the batch solution over all rows gives. Rows wait
in a block before they are added: one product of matrices costs less than many with a row each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import check_options
from evenstream.core.classes import pad_classes
from evenstream.core.edits import Compaction, Regrouping
from evenstream.core.part import Correction, Part
from evenstream.core.state import LearnerState
from evenstream.errors import InputError
from evenstream.policies.closed_forms.sums import Sums

BLOCK = 256
"""Rows that may wait to be added to the sums."""
CHEAP = 512
"""Columns up to which the equations of a covariance are solved at each step."""
LAG = 0.05
"""Share of new rows after which an expensive solution for steps is recomputed."""
SAME = 1e-5
"""Relative difference up to which a row counts as one that is waiting: the features of a network
differ slightly with the size of its batches."""
LARGEST = 1e18
"""Largest allowed feature: the square of a larger one would drown all others in a sum."""


class Solution(NamedTuple):
    """Scores that are linear in the columns: `columns @ weight + bias`."""

    weight: Tensor
    bias: Tensor
    strength: float = 0.0
    """How much it was regularised."""
    whiten: Tensor | None = None
    """What makes the covariance of columns that of independent ones, if it has one."""


@dataclass
class ClosedForm(Part):
    """Sums over the stream, kept as the state of any part is. Fields of a subclass are options."""

    second_moments: ClassVar[bool] = True
    """Whether all of x·xᵀ is summed, or its diagonal only."""
    shares_covariance: ClassVar[bool] = True
    """Whether the second moments are used as a covariance shared by the classes."""

    ROWS, LABELS, WEIGHTS = "rows", "labels", "weights"
    NUMBER, COUNTS, SUMS, SQUARES = "number", "counts", "sums", "squares"
    WEIGHT, BIAS, SOLVED = "weight", "bias", "solved"

    def __post_init__(self) -> None:
        super().__init__()
        check_options(self)
        self._n_columns = 0
        self._exact: tuple[Tensor, Tensor | None, Solution] | None = None
        self._all: tuple[Tensor, Tensor | None, Sums] | None = None

    @property
    def why_no_priors(self) -> str | None:
        """Why class frequencies cannot be added to its scores, which follow those of the stream.

        None if all classes are taken for equally frequent, whatever their rows weigh.
        """
        return None

    # ---- what a form writes ----------------------------------------------------------------------

    def solve(self, sums: Sums, strength: float | None = None) -> Solution:
        """The solution; `strength` is how much to regularise, None to choose it from the sums."""
        raise NotImplementedError

    def solve_rows(
        self, columns: Tensor, labels: Tensor, weights: Tensor, strength: float | None = None
    ) -> Solution:
        """The same while all rows are at hand; by default by way of their sums."""
        return self.solve(self._added().plus(columns, labels, weights), strength)

    def begin(self, learner: LearnerState, features: int) -> None:
        """Make room for rows of this many features; a random map is drawn first."""
        self.tensors[self.ROWS] = torch.zeros(0, features, device=learner.device)
        self.tensors[self.LABELS] = torch.zeros(0, dtype=torch.int64, device=learner.device)
        self.tensors[self.WEIGHTS] = torch.zeros(0, dtype=torch.float64, device=learner.device)
        self._n_columns = self.columns(self.tensors[self.ROWS]).shape[1]

    def columns(self, features: Tensor) -> Tensor:
        """The columns to sum, in float64; by default the features themselves."""
        return features.double()

    def fix_scale(self, rows: Tensor) -> None:
        """The first rows are about to be added to the sums: fix what depends on them."""

    @property
    def block(self) -> int:
        """Rows that wait before they are added."""
        return BLOCK

    # ---- the stream ------------------------------------------------------------------------------

    def take(self, features: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Take rows in; those without weights count as one each."""
        check_size(features)
        weights = torch.ones(len(labels), device=labels.device) if weights is None else weights
        new = {
            self.ROWS: features.detach().float(),
            self.LABELS: labels,
            self.WEIGHTS: weights.double(),
        }
        waiting = {name: torch.cat([self.tensors[name], new[name]]) for name in new}
        add = len(waiting[self.ROWS]) >= self.block
        if add:
            rows, *others = waiting.values()
            if not self.has_sums:
                self.fix_scale(rows)
            self._keep(self._added().plus(self.columns(rows), *others))
            waiting = {name: rows[:0].clone() for name, rows in waiting.items()}
        self.tensors |= waiting
        if self.is_expensive:
            self.follow(*new.values(), added=add)

    def follow(self, features: Tensor, labels: Tensor, weights: Tensor, *, added: bool) -> None:
        """Update an expensive solution for steps before it falls too far behind.

        Args:
            features: the rows that have just been taken in.
            labels: theirs.
            weights: theirs.
            added: whether all that waited, these included, were added to the sums.
        """
        if self._lags():
            self._solve_for_steps()

    def _added(self) -> Sums:
        own = self.tensors
        if not self.has_sums:
            device = own[self.ROWS].device
            return Sums.nothing(self._n_columns, whole=self.second_moments, device=device)
        return Sums(own[self.NUMBER], own[self.COUNTS], own[self.SUMS], own[self.SQUARES])

    @property
    def has_sums(self) -> bool:
        """Whether any rows have been added; before that, nothing large is kept or saved."""
        return self.COUNTS in self.tensors

    def _keep(self, sums: Sums) -> None:
        self.tensors |= {
            self.NUMBER: sums.number,
            self.COUNTS: sums.counts,
            self.SUMS: sums.sums,
            self.SQUARES: sums.squares,
        }

    @property
    def _waiting(self) -> tuple[Tensor, Tensor, Tensor]:
        own = self.tensors
        return self.columns(own[self.ROWS]), own[self.LABELS], own[self.WEIGHTS]

    def all_sums(self) -> Sums:
        """The sums over every row taken in so far; kept until the next one comes."""
        rows, counts = self.tensors[self.ROWS], self.tensors.get(self.COUNTS)
        if self._all is None or self._all[0] is not rows or self._all[1] is not counts:
            self._all = rows, counts, self._added().plus(*self._waiting)
        return self._all[2]

    def _solve(self, strength: float | None = None) -> Solution:
        if not self.rows_taken:
            none = self.tensors[self.WEIGHTS][:0]
            return Solution(none.expand(self._n_columns, 0), none)
        if len(self.tensors[self.ROWS]) and not self.has_sums:
            return self.solve_rows(*self._waiting, strength)
        return self.solve(self.all_sums(), strength)

    def class_counts(self) -> Tensor:
        """The total weight of each class's rows, including those that are waiting."""
        waiting = torch.bincount(self.tensors[self.LABELS], self.tensors[self.WEIGHTS]).double()
        added = self.tensors.get(self.COUNTS, waiting[:0])
        size = max(len(waiting), len(added))
        return pad_classes(waiting, size) + pad_classes(added, size)

    @property
    def rows_taken(self) -> int:
        """Rows taken in so far."""
        added = round(float(self.tensors[self.NUMBER])) if self.has_sums else 0
        return added + len(self.tensors[self.ROWS])

    # ---- corrections -----------------------------------------------------------------------------

    def correct(self, features: Tensor, rows: Correction) -> None:
        """Remove rows, and add them again if they have a new label."""
        self.take_back(features, rows.before, rows.weights)
        if rows.after is not None:
            self.take(features, rows.after, rows.weights)

    def take_back(self, features: Tensor, labels: Tensor, weights: Tensor) -> None:
        """Remove rows: the sums are as if they had never arrived."""
        features, weights = features.detach().float(), weights.double()
        added = torch.ones(len(labels), dtype=torch.bool, device=labels.device)
        gone = torch.zeros(len(self.tensors[self.ROWS]), dtype=torch.bool, device=labels.device)
        for place in range(len(labels)):
            found = self._place_in_block(features[place], labels[place], weights[place], gone)
            if found is not None:
                gone[found], added[place] = True, False
        self._keep_waiting(~gone)
        if bool(added.any()):
            self._subtract(features[added], labels[added], weights[added])
        self.refresh()

    def _place_in_block(
        self, row: Tensor, label: Tensor, weight: Tensor, gone: Tensor
    ) -> int | None:
        """The position of this row among those that are waiting, if it is one of them."""
        own = self.tensors
        alike = (own[self.LABELS] == label) & (own[self.WEIGHTS] == weight) & ~gone
        places = alike.nonzero().squeeze(1)
        if not len(places):
            return None
        apart = (own[self.ROWS][places] - row).abs().amax(1)
        nearest = int(apart.argmin())
        near = float(apart[nearest]) <= SAME * float(row.abs().max())
        return int(places[nearest]) if near else None

    def _keep_waiting(self, stay: Tensor) -> None:
        for name in (self.ROWS, self.LABELS, self.WEIGHTS):
            self.tensors[name] = self.tensors[name][stay]

    def _subtract(self, features: Tensor, labels: Tensor, weights: Tensor) -> None:
        added, columns = self._added(), self.columns(features)
        sums = added.plus(columns, labels, weights, times=-1.0)
        if len(sums.counts) > len(added.counts) or bool((sums.counts < -1e-9).any()):
            raise InputError(
                "more rows are to be forgotten than were learned with these labels and weights"
            )
        empty = sums.counts.abs() <= 1e-9  # but for rounding errors
        sums.counts[empty], sums.sums[empty] = 0, 0
        self._keep(sums)

    def forget_class(self, index: int) -> None:
        """Remove all rows of a class; its part in what classes share cannot be separated."""
        if self.ROWS not in self.tensors:
            return
        self._keep_waiting(self.tensors[self.LABELS] != index)
        sums = self._added()
        if index < len(sums.counts):
            self._keep(sums.without(index, shared=self.shares_covariance))
        self.refresh()

    def regroup(self, classes: Regrouping) -> None:
        """Add up the sums of merged classes; a removed class has no rows left."""
        if self.ROWS not in self.tensors:
            return
        self.tensors[self.LABELS] = classes.indices(self.tensors[self.LABELS])
        if self.has_sums:
            for name in (self.COUNTS, self.SUMS):
                self.tensors[name] = classes.totals(self.tensors[name])
        self.refresh()

    def compact(self, slots: Compaction) -> None:
        """Nothing to do: sums do not depend on the memory."""

    def refresh(self) -> None:
        """Recompute what depends on the sums; without rows there are no sums."""
        self._exact = self._all = None
        if self.has_sums and not float(self._added().counts.sum()):
            for name in (self.NUMBER, self.COUNTS, self.SUMS, self.SQUARES):
                del self.tensors[name]
        chosen_at = float(self.tensors[self.SOLVED][1]) if self.SOLVED in self.tensors else 0.0
        halved = 2 * self.rows_taken <= chosen_at  # until then, the strength stays
        for name in (self.WEIGHT, self.BIAS, *([self.SOLVED] if halved else [])):
            self.tensors.pop(name, None)
        if self.is_expensive and self.rows_taken:
            self.resolve()

    def resolve(self) -> None:
        """Recompute the expensive solution for steps."""
        self._solve_for_steps()

    # ---- solutions -------------------------------------------------------------------------------

    def solution(self) -> Solution:
        """The solution for all rows so far, cached until the next one arrives."""
        rows, counts = self.tensors[self.ROWS], self.tensors.get(self.COUNTS)
        if self._exact is None or self._exact[0] is not rows or self._exact[1] is not counts:
            self._exact = rows, counts, self._solve()
        return self._exact[2]

    def current_solution(self) -> Solution:
        """The solution for all rows so far, as cheaply as possible.

        The strength of its regularisation may have been chosen a while ago.
        """
        return self.solution()

    def guess_for_step(self, features: Tensor, n_classes: int) -> Tensor:
        """Log-probabilities to measure the accuracy of a step; an expensive solution may lag."""
        if not self.is_expensive or self.WEIGHT not in self.tensors:
            solution = self.solution()
        else:
            solution = Solution(self.tensors[self.WEIGHT], self.tensors[self.BIAS])
        return self.log_probabilities(features, solution, n_classes)

    def guess_left_out(self, features: Tensor, labels: Tensor, n_classes: int) -> Tensor | None:
        """Log-probabilities of rows that were taken in, each as if it had not been.

        None if that would need another pass over all rows.
        """
        return None

    @property
    def tells_familiar(self) -> bool:
        """Whether it has a better score of familiarity than its probabilities."""
        return False

    def familiarity(self, features: Tensor) -> Tensor:
        """How similar each row is to those taken in; only if `tells_familiar`."""
        raise NotImplementedError

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """Scores from before and after this changes are not comparable."""
        return 0.0, 0.0

    def familiarity_for_step(self, features: Tensor) -> Tensor | None:
        """The same before rows are taken in; None where it would cost too much just now."""
        return self.familiarity(features)

    def familiarity_left_out(
        self, features: Tensor, labels: Tensor, weights: Tensor, seen: Tensor | None = None
    ) -> Tensor | None:
        """The same for rows that were taken in, each as if it had not been; None: cannot be said.

        Args:
            features: the rows.
            labels: theirs.
            weights: theirs.
            seen: what each is judged by instead, once it is left out.
        """
        return None

    @property
    def is_expensive(self) -> bool:
        """Whether a solution costs more than a step should."""
        return self.second_moments and self._n_columns > CHEAP

    def _lags(self) -> bool:
        solved = self.tensors.get(self.SOLVED)
        return solved is None or self.rows_taken >= (1 + LAG) * float(solved[0])

    def _solve_for_steps(self) -> None:
        """Solve; the strength is chosen again once the number of rows has doubled."""
        rows, chosen_at, strength = float(self.rows_taken), 0.0, None
        if self.SOLVED in self.tensors:
            _, chosen_at, before = self.tensors[self.SOLVED].tolist()
            strength = before if rows < 2 * chosen_at else None
        found = self._solve(strength)
        solved = [rows, rows if strength is None else chosen_at, found.strength]
        self.tensors |= {
            self.WEIGHT: found.weight,
            self.BIAS: found.bias,
            self.SOLVED: torch.tensor(solved, dtype=torch.float64),
        }

    def drop_rows(self) -> None:
        """Drop rows and sums, in a copy that has its solution and will not learn again."""
        if not self.has_sums:
            self.fix_scale(self.tensors[self.ROWS])
        of_rows = (self.ROWS, self.LABELS, self.COUNTS, self.SUMS, self.SQUARES)
        self.tensors = {name: t for name, t in self.tensors.items() if name not in of_rows}
        self._exact = self._all = None

    def log_probabilities(self, features: Tensor, solution: Solution, n_classes: int) -> Tensor:
        """Log-probabilities of each class for each row; -inf for a class without rows."""
        found = normalised(self.columns(features) @ solution.weight + solution.bias, n_classes)
        return torch.where(solution.bias.isfinite().any(), found, 0.0)  # 0 if no class has rows


def normalised(scores: Tensor, n_classes: int) -> Tensor:
    """Log-probabilities of all classes; those without a column of scores get -inf."""
    scores = F.pad(scores, (0, n_classes - scores.shape[1]), value=-torch.inf)
    return scores.log_softmax(1).float()


def check_size(features: Tensor) -> None:
    """Reject rows that would spoil the sums."""
    if not bool((features.abs() <= LARGEST).all()):
        raise InputError(
            f"features that are NaN or larger than {LARGEST:g} cannot be summed up; scale the "
            "inputs, or look at what the model makes of them"
        )
