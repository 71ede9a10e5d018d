"""A stream, a learner, and what two folders must share, for the tests of following."""

from __future__ import annotations

import json

from evenstream.checkpoint import fingerprint, read_checkpoint
from tests.helpers.small_runs import read_events
from tests.helpers.small_streams import class_stream, small


def stream():
    return class_stream(steps=24)


def fresh(**options):
    return small("er-las", memory=12, **options)


class Numbered:
    """A stream that knows where it is."""

    def __init__(self, batches, fail_at=None):
        self.batches, self.fail_at, self.next, self.given = batches, fail_at, 0, 0

    def __iter__(self):
        while self.next < len(self.batches):
            if self.next == self.fail_at:
                raise ConnectionError("gone")
            self.next, self.given = self.next + 1, self.given + 1
            yield self.batches[self.next - 1]

    def state(self):
        return {"next": self.next}

    def load_state(self, state):
        self.next = state["next"]


def outcome(folder):
    """Everything a folder holds that does not tell the time."""
    saved = read_checkpoint(folder)
    tally = saved.pop("live")
    tally.pop("seconds")
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics.pop("train_seconds")
    return {
        "learner": fingerprint(saved),
        "tally": tally,
        "metrics": metrics,
        "events": read_events(folder),
    }
