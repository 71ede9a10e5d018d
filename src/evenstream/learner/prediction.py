"""Known class frequencies at deployment, as log-probabilities to add to logits (Eq. 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evenstream.composition import Composition
from evenstream.core.labels import LabelMap, plain_labels
from evenstream.errors import InputError, shown


def deployment_prior(
    composition: Composition, label_map: LabelMap, priors: Mapping[Any, float]
) -> Tensor:
    """Log-probabilities of the seen labels; a label that is not mentioned has probability 0.

    Adding them to prior-free logits gives the Bayes decision (Eq. 5); refused for methods whose
    logits contain the stream's own class frequencies.
    """
    reason = composition.criterion.why_not_prior_free
    if reason is None and not composition.method.logits_follow_criterion:
        reason = "another loss term shapes its logits beside the adjusted one"
    if reason is None and not composition.rule.gives_logits:
        reason = f"its scores by the rule {composition.rule.name} are not logits"
    if reason is not None:
        raise InputError(f"priors cannot be used with {composition.text}: {reason}")
    if not isinstance(priors, Mapping):
        raise InputError("priors must be {label: probability}")
    weights = torch.zeros(len(label_map), dtype=torch.float64)
    for label, value in zip(plain_labels(list(priors)), priors.values(), strict=True):
        index = label_map.get(label)
        if index is None:
            raise InputError(f"priors names the label {label!r}, which was never learned")
        try:
            weights[index] = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            raise InputError(f"priors must be numbers, got {shown(value)}") from None
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()) or not bool(weights.any()):
        raise InputError("priors must be finite, not negative, and not all zero")
    weights = weights / weights.max()  # a sum of the largest numbers would be infinite
    return (weights / weights.sum()).log().float()
