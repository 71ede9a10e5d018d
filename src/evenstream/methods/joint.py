"""Joint training: fine-tuning on the same samples in random order (the upper bound)."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.methods.base import register
from evenstream.methods.fine_tune import FineTune


@register("joint")
@dataclass
class Joint(FineTune):
    """One pass over the shuffled stream: the gap to this is what the order of the classes costs."""

    citation = "the one-pass upper bound: the same samples, independent and identically distributed"
    needs = frozenset({"shuffled"})
