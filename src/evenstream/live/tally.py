"""What has been learned from live streams so far, and how well it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evenstream.entries import check_fields
from evenstream.metrics import Prequential


@dataclass
class Place:
    """How much of one stream has been learned."""

    batches: int = 0
    samples: int = 0
    state: Any = None
    """What the stream needs to continue, if it is `Resumable`."""
    ended: bool = False
    """Whether that was all of it, when last followed."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Place:
        """Create from saved fields; old checkpoints do not record whether the stream had ended."""
        place = cls(**{"ended": True, **state})
        check_fields(place)
        return place

    @property
    def notes(self) -> Mapping[str, Any]:
        """The state, if it is a dictionary."""
        return self.state if isinstance(self.state, Mapping) else {}


@dataclass
class Tally:
    """Counts over all streams that a folder's learner has followed."""

    batches: int = 0
    """Batches taken, including rejected ones."""
    samples: int = 0
    """Samples learned."""
    refused: int = 0
    """Batches that the learner rejected."""
    seconds: float = 0.0
    """Time spent learning."""
    accuracy: Prequential = field(default_factory=Prequential)
    """Accuracy on each sample before it was learned."""
    streams: dict[str, Place] = field(default_factory=dict)
    """Progress in each stream, by name, in the order they were first seen."""

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        streams = {name: asdict(place) for name, place in self.streams.items()}
        return {**vars(self), "accuracy": self.accuracy.state(), "streams": streams}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Tally:
        """The inverse of `state`."""
        accuracy = Prequential()
        accuracy.load_state(state["accuracy"])
        streams = {name: Place.from_state(place) for name, place in state["streams"].items()}
        tally = cls(**{**state, "accuracy": accuracy, "streams": streams})
        check_fields(tally)
        return tally
