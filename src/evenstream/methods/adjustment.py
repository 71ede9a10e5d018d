"""What `-las` behind a method's name means: the options of its logit adjusted criterion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from evenstream.core.part import Need
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.priors import (
    ExponentialWindow,
    MacroPrior,
    PriorEstimator,
    RandomPrior,
    SlidingWindow,
)


@dataclass(frozen=True)
class LogitAdjustment:
    """Options of Logit Adjusted Softmax, shared by every method's `-las` form."""

    tau: float = 1.0
    """Strength of the adjustment; 0 is plain cross-entropy, inf the paper's ablation."""
    window: int = 1
    """Batches that the class prior is counted over (prior=window)."""
    prior: Literal["window", "exponential", "random", "macro"] = "window"
    """Estimator of the class prior; random and macro are the paper's ablations."""
    decay: float = 0.9
    """How much of the counts is kept at each batch (prior=exponential)."""
    redraw: int = 1
    """Steps between two draws of the prior (prior=random); the paper does not say how many."""

    def __post_init__(self) -> None:
        self.build(seed=0)  # refuses bad values before anything is made

    @cached_property
    def needs(self) -> frozenset[Need]:
        """What the stream must tell the criterion; asked at every step, so built only once."""
        return self.build(seed=0).needs

    def build(self, seed: int) -> LogitAdjustedSoftmax:
        """The criterion; `seed` is used by prior=random only."""
        estimators: dict[str, PriorEstimator] = {
            "window": SlidingWindow(self.window),
            "exponential": ExponentialWindow(self.decay),
            "random": RandomPrior(seed, self.redraw),
            "macro": MacroPrior(),
        }
        return LogitAdjustedSoftmax(tau=self.tau, prior=estimators[self.prior])
