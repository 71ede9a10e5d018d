"""TensorBoard: event files in `tensorboard/`, one folder per run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from torch.utils.tensorboard import SummaryWriter

from evenstream.track.tracker import Scalar, TrackedRun, Tracker


class TensorBoard(Tracker):
    """A folder of event files: curves, the configuration as text and as hyper-parameters."""

    def __init__(self, run: TrackedRun) -> None:
        self._params = run.params
        self._writer = SummaryWriter(str(run.home / "tensorboard" / run.name))
        if not run.known:
            self._writer.add_text("config", json.dumps(self._params, indent=1))

    def log(self, scalars: Sequence[Scalar]) -> None:
        """Write and flush."""
        for scalar in scalars:
            self._writer.add_scalar(scalar.name, scalar.value, scalar.step)
        self._writer.flush()

    def finish(self, results: Sequence[Scalar]) -> None:
        """Write the hyper-parameters with their results."""
        found = {scalar.name: scalar.value for scalar in results}
        step = max((scalar.step for scalar in results), default=None)
        self._writer.add_hparams(self._params, found, run_name=".", global_step=step)

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
