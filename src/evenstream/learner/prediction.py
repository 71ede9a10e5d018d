"""What may be known at deployment besides the inputs: class frequencies (Eq. 5), error costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenstream.composition import Composition
from evenstream.core.labels import LabelMap, plain_labels
from evenstream.errors import InputError, shown, some_of

Costs = Mapping[Any, Any] | Sequence[Sequence[float]] | np.ndarray[Any, Any]
"""Costs of errors: {label: cost of missing it}, {label: {answer: cost}}, or a square array."""


def no_priors_by_logits(composition: Composition) -> str | None:
    """Why the network's logits contain the class frequencies of the stream; None if they do not."""
    reason = composition.criterion.why_not_prior_free
    if reason is None and not composition.method.logits_follow_criterion:
        return "another loss term shapes its logits beside the adjusted one"
    return reason


def deployment_prior(
    composition: Composition, label_map: LabelMap, priors: Mapping[Any, float]
) -> Tensor:
    """Log-probabilities of the seen labels, all of which must be mentioned.

    Adding them to scores free of the stream's own class frequencies gives the Bayes decision
    (Eq. 5); rejected for methods whose scores contain them.
    """
    reason = composition.rule.why_no_priors(no_priors_by_logits(composition))
    if reason is not None:
        raise InputError(f"priors cannot be used with {composition.text}: {reason}")
    if not isinstance(priors, Mapping):
        raise InputError("priors must be {label: probability}")
    weights = torch.zeros(len(label_map), dtype=torch.float64)
    named = plain_labels(list(priors))
    for label, value in zip(named, priors.values(), strict=True):
        index = label_map.get(label)
        if index is None:
            raise InputError(f"priors names the label {label!r}, which was never learned")
        try:
            weights[index] = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            raise InputError(f"priors must be numbers, got {shown(value)}") from None
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()) or not bool(weights.any()):
        raise InputError("priors must be finite, not negative, and not all zero")
    known = set(named)  # True counts as 1, since a dict holds only one of them
    left_out = [repr(label) for label in label_map if label not in known]
    if left_out:
        raise InputError(
            f"priors leave out {some_of(left_out)}; give every class a number, 0 if it does not "
            "occur"
        )
    weights = weights / weights.max()  # a sum of the largest numbers would be infinite
    return (weights / weights.sum()).log().float()


def least_cost(scores: Tensor, costs: Tensor) -> Tensor:
    """The answer of least expected cost for each row, given a cost for each (label, answer)."""
    return (scores.double().softmax(1) @ costs).argmin(1)


def cost_matrix(label_map: LabelMap, costs: Costs) -> Tensor:
    """The cost of answering `j` where `i` is right, as a matrix over the seen labels.

    Errors not mentioned cost 1, correct answers 0.
    """
    size = len(label_map)
    if isinstance(costs, Mapping):
        matrix = 1 - torch.eye(size, dtype=torch.float64)
        for index, given in _by_index(label_map, costs):
            if isinstance(given, Mapping):
                for answer, cost in _by_index(label_map, given):
                    matrix[index, answer] = _cost(cost)
            else:
                matrix[index] *= _cost(given)
    else:
        try:
            matrix = torch.from_numpy(np.array(costs, dtype=np.float64))
        except (TypeError, ValueError):
            raise InputError(
                "costs must be {label: cost}, {label: {answer: cost}} or a square array of numbers,"
                f" got {shown(costs)}"
            ) from None
        if matrix.shape != (size, size):
            raise InputError(
                f"costs have the shape {tuple(matrix.shape)}; with {size} labels it must be "
                f"{(size, size)}: a row for each label, a column for each answer"
            )
    if not bool((torch.isfinite(matrix) & (matrix >= 0)).all()):
        raise InputError("costs must be finite and not negative")
    if size > 1 and not bool(matrix.any()):
        raise InputError("costs must not all be zero, or every answer would be equally good")
    return matrix


def _by_index(label_map: LabelMap, given: Mapping[Any, Any]) -> list[tuple[int, Any]]:
    """Values by the index of their label."""
    found = []
    for label, value in zip(plain_labels(list(given)), given.values(), strict=True):
        index = label_map.get(label)
        if index is None:
            raise InputError(f"costs names the label {label!r}, which was never learned")
        found.append((index, value))
    return found


def _cost(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"costs must be numbers, got {shown(value)}") from None


def check_reject(reject: Any) -> float:
    """The share of rows of known classes that may be rejected."""
    number = isinstance(reject, (int, float, np.integer, np.floating))
    if not number or isinstance(reject, bool) or not 0 < reject < 1:
        raise InputError(
            "reject is the share of rows of known classes that may be taken for unknown, between "
            f"0 and 1, such as 0.05; got {shown(reject)}"
        )
    return float(reject)
