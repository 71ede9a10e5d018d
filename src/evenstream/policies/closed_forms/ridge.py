"""Ridge regression on random features; its strength is chosen from the sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Factor
from evenstream.policies.closed_forms.form import BLOCK, Solution, normalised
from evenstream.policies.closed_forms.linear_equations import factored, solved
from evenstream.policies.closed_forms.random_features import RandomFeatures, Scaling
from evenstream.policies.closed_forms.sums import Sums, no_bias

STRENGTHS = tuple(10 ** (power / 2) for power in range(-8, 5))
"""Candidates for the weight of the penalty, in units of a random feature's mean sum of squares."""
ASKED = 3
"""Groups of rows that a step asks about: those that arrive, are replayed and are looked back at."""
NOTHING = 1e-12
"""Eigenvalues below this share of the largest are rounding errors."""
FREEDOM = 0.5
"""Degrees of freedom that the regression may have per row. Beyond that, generalised
cross-validation fails: two similar rows can be enough to make no penalty look best."""
GROWTH = 1.25
"""Growth in the number of rows after which old scores of familiarity are no longer comparable."""
SHARPNESS, FOR_EACH_CLASS = 4.0, 2.5
"""Regression on one-hot labels estimates probabilities that may lie outside 0 to 1. A softmax turns
its scores into proper ones, after multiplying by the first number plus the second times the
logarithm of the number of classes: close to the best factor on digits, wine, breast cancer and
iris."""


@dataclass
class ProjectedRidge(RandomFeatures):
    """ReLU of a random projection, then least squares on one-hot labels."""

    scaling: Scaling = "none"
    ridge: Factor = 0.0
    """Weight of the penalty, in units of the mean sum of squares of a random feature; 0: chosen by
    generalised cross-validation."""

    shares_covariance = False

    REDUCED, INNER, TARGETS = "reduced", "inner", "targets"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._made: tuple[Tensor, Tensor, Tensor] | None = None
        self._current: tuple[Tensor, Solution] | None = None
        self._known: tuple[tuple[Tensor, Tensor, Tensor], ...] = ()
        self._block: tuple[Tensor, Tensor, Tensor] | None = None
        self._answers: tuple[tuple[Tensor, Tensor, tuple[Tensor, Tensor]], ...] = ()
        self._first: tuple[Tensor, Tensor | None, Tensor] | None = None
        self._inner: tuple[Tensor, Tensor, tuple[Tensor, Tensor, float]] | None = None

    @property
    def why_no_priors(self) -> str | None:
        """Least squares lean to frequent classes; by how much depends on how far classes overlap.

        Scores divided by the frequencies are fair to rare classes that stand apart, and still never
        answer one that overlaps with a frequent one.
        """
        return (
            "regression leans to the classes that are frequent in the stream, and its scores are "
            'no probabilities that the frequencies could be divided out of; use method="auto", '
            '"slda" or "er-las", or say with costs= which errors weigh more'
        )

    def columns(self, features: Tensor) -> Tensor:
        """The random features; with an offset if zero has no meaning."""
        rows = self.scaled(features)
        projected = rows @ self.projection
        if self.scaling == "columns":
            spread = math.sqrt(rows.shape[1])
            projected = projected + spread * (2 * self.tensors[self.OFFSET].double() - 1)
        return projected.relu()

    def solve(self, sums: Sums, strength: float | None = None) -> Solution:
        """The weights of the regression."""
        gram, targets = sums.squares, sums.sums.T
        unit = mean_square(gram.diagonal())
        strength = strength or self.ridge or chosen_strength(sums)
        penalised = gram.clone()
        penalised.diagonal().add_(strength * unit)
        weight = solved(penalised, targets)
        return Solution(sharpness(sums.counts) * weight, no_bias(sums.counts), strength)

    def solve_rows(
        self, columns: Tensor, labels: Tensor, weights: Tensor, strength: float | None = None
    ) -> Solution:
        """The same from the inner products of the rows, when there are fewer rows than columns."""
        rows = len(columns)
        if rows >= columns.shape[1]:
            return super().solve_rows(columns, labels, weights, strength)
        columns, products, unit = self._inner_products(columns, weights)
        n_classes = int(labels.max()) + 1
        counts = torch.bincount(labels, weights, minlength=n_classes)
        targets = F.one_hot(labels, n_classes) * weights.sqrt()[:, None]
        values, vectors = torch.linalg.eigh(products)
        turned = vectors.T @ targets
        strength = strength or self.ridge or None
        if strength is None:
            parts = values * turned.square().sum(1)
            strength = best_strength(values, parts, rows, float(weights.sum()), unit)
        inner = vectors @ (turned / (values.clamp_min(0) + strength * unit)[:, None])
        return Solution(sharpness(counts) * (columns.T @ inner), no_bias(counts), strength)

    @property
    def _waiting(self) -> tuple[Tensor, Tensor, Tensor]:
        """Cached: a step solves for these rows and compares others with them."""
        own, scale = self.tensors, self.tensors.get(self.SCALE)
        rows, known = own[self.ROWS], self._first
        if known is None or known[0] is not rows or known[1] is not scale:
            self._first = known = rows, scale, self.columns(rows)
        return known[2], own[self.LABELS], own[self.WEIGHTS]

    def _inner_products(self, columns: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, float]:
        """Weighted rows, their inner products and the unit of the penalty; cached likewise."""
        known = self._inner
        if known is None or known[0] is not columns or known[1] is not weights:
            rows = columns * weights.sqrt()[:, None]
            found = rows, rows @ rows.T, mean_square(rows.square().sum(0))
            self._inner = known = columns, weights, found
        return known[2]

    # ---- steps -----------------------------------------------------------------------------------
    #
    # With A = penalised second moments of the rows added so far = L·Lᵀ, and rows H that wait, the
    # weights for all are (A + HᵀH)⁻¹·Q. What is kept of H is V = L⁻¹·Hᵀ, so that a step costs one
    # triangular solution for its rows, and is exact but for the penalty, which is that of A.

    def follow(self, features: Tensor, labels: Tensor, weights: Tensor, *, added: bool) -> None:
        """Update the solution for steps with these rows."""
        if not self.has_sums:
            super().follow(features, labels, weights, added=added)
        elif added:
            self._start_block()
        else:
            new = self._reduced(features) * weights.sqrt()
            own, shared = self.tensors, self.tensors[self.REDUCED].T @ new
            upper = torch.cat([own[self.INNER], shared], 1)
            lower = torch.cat([shared.T, new.T @ new], 1)
            self.tensors |= {
                self.REDUCED: torch.cat([own[self.REDUCED], new], 1),
                self.INNER: torch.cat([upper, lower]),
                self.TARGETS: with_rows(own[self.TARGETS], new * weights.sqrt(), labels),
            }

    def refresh(self) -> None:
        """Recompute what is kept of the waiting rows, too."""
        for name in (self.REDUCED, self.INNER, self.TARGETS):
            self.tensors.pop(name, None)
        self._made = self._current = self._block = self._first = self._inner = None
        self._known = self._answers = ()
        super().refresh()

    def resolve(self) -> None:
        """Start a new block with all waiting rows."""
        if not self.has_sums:
            return super().resolve()
        names = self.ROWS, self.LABELS, self.WEIGHTS
        waiting = {name: self.tensors[name] for name in names}
        self.tensors |= {name: rows[:0] for name, rows in waiting.items()}
        self._start_block()
        self.tensors |= waiting
        if len(waiting[self.ROWS]):
            self.follow(*waiting.values(), added=False)

    def _start_block(self) -> None:
        rows = self.rows_taken
        solved = self.tensors.get(self.SOLVED)
        chosen_at, strength = (0.0, 0.0) if solved is None else solved[1:].tolist()
        sums = self.all_sums()
        if rows >= 2 * chosen_at:
            chosen_at, strength = float(rows), self.ridge or chosen_strength(sums)
        state = torch.tensor([rows, chosen_at, strength], dtype=torch.float64)
        self.tensors[self.SOLVED] = state
        device = sums.counts.device
        targets = torch.linalg.solve_triangular(self._factor(), sums.sums.T, upper=False)
        self.tensors |= {
            self.REDUCED: torch.zeros(len(targets), 0, dtype=torch.float64, device=device),
            self.INNER: torch.zeros(0, 0, dtype=torch.float64, device=device),
            self.TARGETS: targets,
        }

    def _factor(self) -> Tensor:
        """L, which is recomputed rather than saved."""
        gram, solved = self.tensors[self.SQUARES], self.tensors[self.SOLVED]
        if self._made is None or self._made[0] is not gram or self._made[1] is not solved:
            penalised = gram.clone()
            penalised.diagonal().add_(float(solved[2]) * mean_square(gram.diagonal()))
            self._made = gram, solved, torch.linalg.cholesky(penalised)
        return self._made[2]

    def _reduced(self, features: Tensor) -> Tensor:
        """L⁻¹ times the columns; kept, since rows are guessed, looked at and learned in a step."""
        factor, known = self._factor(), self._known
        for made_with, rows, found in known:
            if made_with is factor and torch.equal(rows, features):
                return found
        columns = self.columns(features)
        reduced: Tensor = torch.linalg.solve_triangular(factor, columns.T, upper=False)
        if len(features) <= BLOCK:
            self._known = ((factor, features.detach().clone(), reduced), *known[: ASKED - 1])
        return reduced

    def expect(self, *blocks: Tensor) -> None:
        """Reduce all rows that a step will ask for at once, which costs less than one by one."""
        rows = torch.cat(blocks)
        if not self.is_expensive or not self.has_sums or len(rows) > BLOCK:
            return
        factor, reduced = self._factor(), self._reduced(rows)
        parts = torch.split(reduced, [len(block) for block in blocks], 1)
        self._known = tuple(
            (factor, block.detach().clone(), part)
            for block, part in zip(blocks, parts, strict=True)
        )

    def current_solution(self) -> Solution:
        """The weights for all rows, with the penalty of those added so far."""
        if not self.is_expensive or not self.has_sums:
            return self.solution()
        reduced, targets = self.tensors[self.REDUCED], self.tensors[self.TARGETS]
        if self._current is None or self._current[0] is not targets:
            inner, shared = self._block_factor()
            beside = targets - reduced @ torch.cholesky_solve(shared, inner)
            weight = torch.linalg.solve_triangular(self._factor().T, beside, upper=True)
            counts, strength = self.class_counts(), float(self.tensors[self.SOLVED][2])
            found = Solution(sharpness(counts) * weight, no_bias(counts), strength)
            self._current = targets, found
        return self._current[1]

    def guess_for_step(self, features: Tensor, n_classes: int) -> Tensor:
        """Log-probabilities by the regression on all rows so far."""
        if not self.is_expensive or not self.has_sums:
            return super().guess_for_step(features, n_classes)
        return self._normalised(self._predicted(features)[0], n_classes)

    def guess_left_out(self, features: Tensor, labels: Tensor, n_classes: int) -> Tensor | None:
        """Leave-one-out for least squares: (ŷ - h·y) / (1 - h) with the row's leverage h."""
        if not self.is_expensive or not self.has_sums:
            return None
        return self._normalised(self._left_out(features, labels)[0], n_classes)

    def _left_out(
        self, features: Tensor, labels: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        scores, leverage = self._predicted(features)
        own = F.one_hot(labels, scores.shape[1])
        share = leverage if weights is None else leverage * weights.double()[:, None]
        left = (1 - share).clamp_min(1e-6)
        return (scores - share * own) / left, leverage / left

    def _block_factor(self) -> tuple[Tensor, Tensor]:
        """The factor of I + VᵀV, and Vᵀ times the targets; cached until a row arrives."""
        own, targets = self.tensors, self.tensors[self.TARGETS]
        if self._block is None or self._block[0] is not targets:
            inner = own[self.INNER].clone()
            inner.diagonal().add_(1.0)
            self._block = targets, factored(inner), own[self.REDUCED].T @ targets
        return self._block[1:]

    def _predicted(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Scores by all rows so far, and the leverage that each row would have among them.

        Kept, since a step asks for those of the rows that arrive and of those that it replays more
        than once.
        """
        targets, new, known = self.tensors[self.TARGETS], self._reduced(features), self._answers
        for rows, made_with, found in known:
            if rows is new and made_with is targets:
                return found
        answer = self._predict_reduced(new, targets)
        if len(features) <= BLOCK:
            self._answers = ((new, targets, answer), *known[: ASKED - 1])
        return answer

    def _predict_reduced(self, new: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        reduced = self.tensors[self.REDUCED]
        scores, leverage = new.T @ targets, new.square().sum(0)[:, None]
        if not reduced.shape[1]:
            return scores, leverage
        inner, before = self._block_factor()
        shared = reduced.T @ new
        weighted = torch.cholesky_solve(torch.cat([before, shared], 1), inner)
        beside, from_shared = torch.split(weighted, [targets.shape[1], shared.shape[1]], 1)
        return (
            scores - shared.T @ beside,
            leverage - (shared * from_shared).sum(0)[:, None],
        )

    # ---- how familiar a row is -------------------------------------------------------------------
    #
    # Up to a factor, the regression's variance at a row is its leverage h. The highest score over
    # the square root of n·h is then how sure the regression is that the row has a class at all.

    tells_familiar = True

    def familiarity(self, features: Tensor) -> Tensor:
        """The highest score in units of its standard deviation."""
        if not self.rows_taken:  # all were forgotten
            return torch.zeros(len(features), dtype=torch.float64, device=features.device)
        follows = self.is_expensive and self.has_sums
        return self._sureness(*(self._predicted if follows else self._predicted_anew)(features))

    def _sureness(self, scores: Tensor, leverage: Tensor) -> Tensor:
        counts = self.class_counts()
        highest = (scores + no_bias(counts)).max(1).values
        return highest / (counts.sum() * leverage[:, 0].clamp_min(NOTHING)).sqrt()

    def familiarity_left_out(
        self, features: Tensor, labels: Tensor, weights: Tensor, seen: Tensor | None = None
    ) -> Tensor | None:
        """By leave-one-out, which also divides the leverage h by 1 - h."""
        if not self.is_expensive or not self.has_sums:
            return None
        if seen is None:
            return self._sureness(*self._left_out(features, labels, weights))
        own, leverage = self._predicted(features)
        shared = self._shared_leverage(features, seen)
        weighed = shared * weights.double()[:, None]
        pull = weighed / (1 - leverage * weights.double()[:, None]).clamp_min(1e-6)
        scores, other = self._predicted(seen)
        targets = F.one_hot(labels, own.shape[1])
        return self._sureness(scores - pull * (targets - own), other + pull * shared)

    def _shared_leverage(self, features: Tensor, others: Tensor) -> Tensor:
        """Like the leverage of each row, but between it and another."""
        new, other = self._reduced(features), self._reduced(others)
        shared = (new * other).sum(0)
        reduced = self.tensors[self.REDUCED]
        if reduced.shape[1]:
            inner, _ = self._block_factor()
            beside = torch.cholesky_solve(reduced.T @ other, inner)
            shared = shared - ((reduced.T @ new) * beside).sum(0)
        return shared[:, None]

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """The penalty, on which the variance depends, and roughly the number of rows."""
        strength = float(self.tensors[self.SOLVED][2]) if self.SOLVED in self.tensors else 0.0
        return strength, float(math.floor(math.log(max(self.rows_taken, 1), GROWTH)))

    def familiarity_for_step(self, features: Tensor) -> Tensor | None:
        """Before any rows are added, only where the solution for steps is not behind."""
        behind = self.is_expensive and not self.has_sums and not self._is_fresh
        return None if behind else self.familiarity(features)

    @property
    def _is_fresh(self) -> bool:
        solved = self.tensors.get(self.SOLVED)
        return solved is not None and float(solved[0]) == self.rows_taken

    def _predicted_anew(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The same as `_predicted`, without what steps have prepared."""
        own, columns, counts = self.tensors, self.columns(features), self.class_counts()
        if not self.has_sums and self._is_fresh:
            found = Solution(own[self.WEIGHT], own[self.BIAS], float(own[self.SOLVED][2]))
        elif self.SOLVED in own:  # with the penalty that earlier scores had
            found = self._solve(float(own[self.SOLVED][2]))
        else:
            found = self.solution()
        scores = columns @ found.weight / sharpness(counts)
        waiting, _, weights = self._waiting
        if self.has_sums or len(waiting) >= columns.shape[1]:
            gram = self.all_sums().squares
            penalised = gram.clone()
            penalised.diagonal().add_(found.strength * mean_square(gram.diagonal()))
            reduced = torch.linalg.solve_triangular(factored(penalised), columns.T, upper=False)
            return scores, reduced.square().sum(0)[:, None]
        rows, products, unit = self._inner_products(waiting, weights)
        penalty, inner = found.strength * unit, products.clone()
        inner.diagonal().add_(penalty)
        reduced = torch.linalg.solve_triangular(factored(inner), rows @ columns.T, upper=False)
        leverage = (columns.square().sum(1) - reduced.square().sum(0)) / penalty
        return scores, leverage[:, None]

    def _normalised(self, scores: Tensor, n_classes: int) -> Tensor:
        counts = self.class_counts()
        return normalised(sharpness(counts) * scores + no_bias(counts), n_classes)


def with_rows(targets: Tensor, reduced: Tensor, labels: Tensor) -> Tensor:
    """Sums by class, in columns, with further rows."""
    missing = max(int(labels.max()) + 1 - targets.shape[1], 0)
    return F.pad(targets, (0, missing)).index_add_(1, labels, reduced)


def chosen_strength(sums: Sums) -> float:
    """The best candidate for these sums."""
    values, vectors = torch.linalg.eigh(sums.squares)
    parts = (vectors.T @ sums.sums.T).square().sum(1)
    return best_strength(
        values, parts, sums.rows, sums.weight, mean_square(sums.squares.diagonal())
    )


def mean_square(squares: Tensor) -> float:
    """The unit of the penalty."""
    return float(squares.mean()) or 1.0


def sharpness(counts: Tensor) -> float:
    """The factor on the regression's scores."""
    return SHARPNESS + FOR_EACH_CLASS * math.log(max(int((counts > 0).sum()), 1))


def best_strength(values: Tensor, parts: Tensor, rows: float, weight: float, unit: float) -> float:
    """The candidate with the lowest error by generalised cross-validation.

    That is leave-one-out averaged over all rotations of the rows, so sums are enough, and the
    order of the rows does not matter (Golub, Heath and Wahba, 1979). Candidates that leave the
    regression too free are not considered.

    Args:
        values: eigenvalues of the second moments.
        parts: squared length of the targets' sums along each eigenvector.
        rows: how many rows there are.
        weight: what they weigh together.
        unit: of the candidates.
    """
    real = values > NOTHING * float(values.abs().max())
    values, parts = values[real], parts[real]
    beyond = weight - float((parts / values).sum())  # what no regression can explain
    beyond = beyond if beyond > 1e-9 * weight else 0.0

    def freedom(strength: float) -> float:
        return float((values / (values + strength * unit)).sum())

    def error(strength: float) -> float:
        kept = strength * unit / (values + strength * unit)
        free = max(rows - len(values), 0.0) + float(kept.sum())
        left = beyond + float((parts / values * kept.square()).sum())
        return left / free**2 if free > 0 else math.inf

    strengths = [each for each in STRENGTHS if freedom(each) <= FREEDOM * rows]
    return min(strengths or STRENGTHS[-1:], key=error)
