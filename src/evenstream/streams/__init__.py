"""Streams: data sets in the order of a scenario."""

from evenstream.streams.base import Protocol, Stream, Task
from evenstream.streams.catalogue import STREAMS, StreamInfo, open_stream

__all__ = ["STREAMS", "Protocol", "Stream", "StreamInfo", "Task", "open_stream"]
