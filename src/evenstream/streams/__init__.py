"""Streams: data sets in the order of a scenario."""

from evenstream.streams.base import Batch, Domains, Protocol, Stream, Task
from evenstream.streams.catalogue import PROTOCOLS, SCENARIOS, STREAMS, StreamInfo
from evenstream.streams.mix_class_domain import coupling
from evenstream.streams.opening import absolute_name, open_stream, read_spec
from evenstream.streams.profile import Profile, profile
from evenstream.streams.scenario import Layout, Scenario
from evenstream.streams.schedules import Schedule, batch_sizes

__all__ = [
    "PROTOCOLS",
    "SCENARIOS",
    "STREAMS",
    "Batch",
    "Domains",
    "Layout",
    "Profile",
    "Protocol",
    "Scenario",
    "Schedule",
    "Stream",
    "StreamInfo",
    "Task",
    "absolute_name",
    "batch_sizes",
    "coupling",
    "open_stream",
    "profile",
    "read_spec",
]
