"""Streams: data sets in the order of a scenario."""

from evenstream.streams.blurry import Blurry
from evenstream.streams.catalogue import (
    PROTOCOLS,
    SCENARIOS,
    STREAMS,
    StreamInfo,
    register_scenario,
)
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.domain_incremental import DomainIncremental
from evenstream.streams.gradual import Gradual
from evenstream.streams.initial_letter import InitialLetter
from evenstream.streams.long_tailed import LongTailed
from evenstream.streams.mix_class_domain import MixClassDomain, coupling
from evenstream.streams.opening import absolute_name, open_stream, read_spec
from evenstream.streams.profile import Profile, profile
from evenstream.streams.recurring import Recurring
from evenstream.streams.scenario import Layout, Scenario
from evenstream.streams.schedules import Schedule, batch_sizes
from evenstream.streams.stream import Batch, Domains, Protocol, Stream, Task
from evenstream.streams.sum_class_domain import SumClassDomain

__all__ = [
    "PROTOCOLS",
    "SCENARIOS",
    "STREAMS",
    "Batch",
    "Blurry",
    "ClassIncremental",
    "DomainIncremental",
    "Domains",
    "Gradual",
    "InitialLetter",
    "Layout",
    "LongTailed",
    "MixClassDomain",
    "Profile",
    "Protocol",
    "Recurring",
    "Scenario",
    "Schedule",
    "Stream",
    "StreamInfo",
    "SumClassDomain",
    "Task",
    "absolute_name",
    "batch_sizes",
    "coupling",
    "open_stream",
    "profile",
    "read_spec",
    "register_scenario",
]


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
