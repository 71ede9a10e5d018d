"""Inference rules: how an input's features and logits become a score for each class."""

from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.policies.rules.argmax import ArgMax
from evenstream.policies.rules.bias_correction import BiasCorrected
from evenstream.policies.rules.contest import Contest
from evenstream.policies.rules.from_memory import NearestClassMean
from evenstream.policies.rules.moving_average import MovingAverage
from evenstream.policies.rules.normalised_weights import NormalisedWeights
from evenstream.policies.rules.post_hoc import PostHocCorrection
from evenstream.policies.rules.rescaling import Rescaled
from evenstream.policies.rules.rule import RULES, InferenceRule, register_rule
from evenstream.policies.rules.solved import Solved

__all__ = [
    "RULES",
    "ArgMax",
    "BiasCorrected",
    "Contest",
    "InferenceContext",
    "InferenceRule",
    "MovingAverage",
    "NearestClassMean",
    "NormalisedWeights",
    "Outputs",
    "PostHocCorrection",
    "Rescaled",
    "Solved",
    "register_rule",
]


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
