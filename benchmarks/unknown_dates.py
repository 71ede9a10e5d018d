"""`predict(reject=0.05)` on made-up tables with a date column that goes on after learning.

python -m benchmarks.unknown_dates
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from evenstream import Learner

LEARNED, LATER, KNOWN, KINDS, SEEDS = 2400, 800, 6, 8, 3


def made_up(seed: int, days: int, in_turn: bool) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Rows in order of time, `days` of which are learned; the later ones have two new kinds."""
    draw = np.random.default_rng(seed)
    rows = LEARNED + LATER
    centres = draw.normal(0, 2.2, (KINDS, 6))
    times = np.sort(draw.uniform(0, days * rows / LEARNED, rows))
    y = draw.integers(0, KNOWN, rows)
    if in_turn:
        y[:LEARNED] = np.sort(draw.integers(0, KNOWN, LEARNED))
    y[LEARNED:] = draw.integers(0, KINDS, LATER)
    x = centres[y] + draw.normal(0, 1, (rows, 6))
    frame = pd.DataFrame(x, columns=list("abcdef"))
    frame["kind"] = np.array(list("pqrs"))[(y + draw.integers(0, 2, rows)) % 4]
    frame.insert(0, "when", pd.Timestamp("2024-01-01") + pd.to_timedelta(times, unit="D"))
    return frame, y


def measured(days: int, in_turn: bool, dates: bool) -> NDArray[np.float64]:
    """AUROC, known and unknown rows rejected, and known rows predicted right; over the seeds."""
    found = []
    for seed in range(SEEDS):
        frame, y = made_up(seed, days, in_turn)
        frame = frame if dates else frame.drop(columns="when")
        learner = Learner(seed=seed)
        for start in range(0, LEARNED, 20):
            learner.learn(frame[start : start + 20], y[start : start + 20])
        later, truth = frame[LEARNED:], y[LEARNED:]
        known = truth < KNOWN
        rejected = np.array([each is None for each in learner.predict(later, reject=0.05)])
        right = learner.predict(later[known]) == truth[known]
        area = roc_auc_score(known, learner.familiarity(later))
        found.append([area, rejected[known].mean(), rejected[~known].mean(), right.mean()])
    means: NDArray[np.float64] = np.array(found).mean(0)
    return means


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for in_turn in (False, True):
        for days, dates in ((30, True), (300, True), (1000, True), (300, False)):
            area, known, unknown, right = measured(days, in_turn, dates)
            with_date = "with" if dates else "without"
            order = "in turn" if in_turn else "mixed"
            print(
                f"{days} days, {with_date} the date, classes {order}: AUROC {area:.3f}, "
                f"rejected {known:.1%} of the known and {unknown:.1%} of the unknown rows, "
                f"{right:.1%} of the known right",
                flush=True,
            )
