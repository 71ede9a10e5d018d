"""Checks that the data behind a stream is unchanged since the run started."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.data.dataset import Inputs
from evenstream.errors import CheckpointError
from evenstream.streams import Stream

SAMPLED_ROWS = 64


def describe_data(stream: Stream) -> dict[str, Any]:
    """A cheap description of a stream's data: sizes, labels, order, and a sample of the inputs.

    For inputs that are read from files on demand, only the names of the files.
    """
    data = stream.dataset
    return {
        "training samples": len(data.y_train),
        "test samples": len(data.y_test),
        "classes": _digest(json.dumps(data.classes).encode()),
        "labels": _digest(data.y_train, data.y_test),
        "order": _digest(stream.order()),
        "tasks": _digest(*(rows for task in stream.tasks for rows in (task.train, task.test))),
        "boundaries": stream.boundaries,
        "short batches": not stream.drop_last,
        "inputs": _digest(_sample(data.x_train), _sample(data.x_test)),
    }


def check_same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Reject continuing if the data has changed since the run was saved."""
    changed = [name for name, value in before.items() if now.get(name, value) != value]
    if changed:
        raise CheckpointError(
            "the data behind the stream has changed since the run was saved: it has different "
            f"{', '.join(changed)}; put the old data back or start a new run"
        )


def _sample(x: Inputs) -> bytes | NDArray[Any]:
    """Inputs, or files below their folder, spread evenly over a data set."""
    rows = np.linspace(0, len(x) - 1, SAMPLED_ROWS).astype(np.int64)
    if isinstance(x, np.ndarray):
        return x[rows]
    return os.fsencode("\n".join(x.path(row).relative_to(x.root).as_posix() for row in rows))


def _digest(*parts: bytes | NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
