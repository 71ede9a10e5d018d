"""Learning from your own streams: tables, folders, pipes, any iterable of (inputs, labels)."""

from evenstream.live.following import follow
from evenstream.live.sources import register_source
from evenstream.live.tally import Tally

__all__ = ["Tally", "follow", "register_source"]
