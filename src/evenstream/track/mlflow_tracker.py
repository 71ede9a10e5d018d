"""MLflow: the server at MLFLOW_TRACKING_URI, or files in `mlruns/`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from evenstream.track.tracker import Scalar, TrackedRun, Tracker

MOST_METRICS = 1000
"""Maximum number of points per request in MLflow."""


class MLflow(Tracker):
    """A run in the experiment MLFLOW_EXPERIMENT_NAME, or `evenstream`."""

    def __init__(self, run: TrackedRun) -> None:
        server = os.environ.get("MLFLOW_TRACKING_URI")
        if server is None:  # files need no server, but newer versions require opting in
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            server = (run.home / "mlruns").absolute().as_uri()
        self._client = MlflowClient(tracking_uri=server)
        self._run: str = run.known.get("run") or self._create(run)
        self._finished = False

    def _create(self, run: TrackedRun) -> str:
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", "evenstream")
        found = self._client.get_experiment_by_name(title)
        experiment = found.experiment_id if found else self._client.create_experiment(title)
        created = self._client.create_run(
            experiment, run_name=run.name, tags={"folder": str(run.folder.absolute())}
        )
        params = [Param(name, str(value)) for name, value in run.params.items()]
        self._client.log_batch(created.info.run_id, params=params)
        return str(created.info.run_id)

    def remember(self) -> Mapping[str, Any]:
        """The id of the run."""
        return {"run": self._run}

    def log(self, scalars: Sequence[Scalar]) -> None:
        """Send the points."""
        now = int(time.time() * 1000)
        metrics = [Metric(scalar.name, scalar.value, now, scalar.step) for scalar in scalars]
        for first in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._run, metrics[first : first + MOST_METRICS])

    def finish(self, results: Sequence[Scalar]) -> None:
        """Send the results of the run."""
        self.log(results)
        self._finished = True

    def close(self) -> None:
        """End the run, for now or for good."""
        self._client.set_terminated(self._run, "FINISHED" if self._finished else "KILLED")
