"""The inference slot: how an input's features and logits become a score for each class."""

from evenstream.learner.outputs import Model, Outputs
from evenstream.slots.inference.argmax import ArgMax
from evenstream.slots.inference.bias_correction import BiasCorrected
from evenstream.slots.inference.class_means import NearestClassMean
from evenstream.slots.inference.moving_average import MovingAverage
from evenstream.slots.inference.normalised_weights import NormalisedWeights
from evenstream.slots.inference.post_hoc import PostHocCorrection
from evenstream.slots.inference.rescaling import Rescaled
from evenstream.slots.inference.rule import RULES, InferenceRule, make_rule, register_rule

__all__ = [
    "RULES",
    "ArgMax",
    "BiasCorrected",
    "InferenceRule",
    "Model",
    "MovingAverage",
    "NearestClassMean",
    "NormalisedWeights",
    "Outputs",
    "PostHocCorrection",
    "Rescaled",
    "make_rule",
    "register_rule",
]
