"""From inputs to class scores, without changing the learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evenstream.errors import InputError, shown
from evenstream.learner.classifier import Classifier, evaluation_mode
from evenstream.learner.labels import plain_labels
from evenstream.learner.outputs import Model, outputs

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner


def infer(learner: Learner, network: Classifier, raw: Tensor) -> Tensor:
    """Scores of the seen classes by the method's inference rule, in eval mode, in batches."""
    rule = learner.method.inference
    with evaluation_mode(network):
        prepared = rule.prepare(Model(network, learner.memory, learner.preprocess))
        parts = [rule.scores(out, prepared).float() for out in outputs(learner, network, raw)]
    return torch.cat(parts)


def deployment_prior(learner: Learner, priors: Mapping[Any, float]) -> Tensor:
    """Log-probabilities of the seen labels; a label that is not mentioned has probability 0.

    Adding them to prior-free logits gives the Bayes decision (Eq. 5); refused for methods whose
    logits contain the stream's own class frequencies.
    """
    method, label_map = learner.method, learner.label_map
    reason = learner.criterion.why_not_prior_free
    if reason is None and not method.logits_follow_criterion:
        reason = "another loss term shapes its logits beside the adjusted one"
    if reason is None and not method.inference.gives_logits:
        reason = f"its scores by the rule {method.inference.name} are not logits"
    if reason is not None:
        raise InputError(f"priors cannot be used with {method.spec}: {reason}")
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
