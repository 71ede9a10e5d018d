"""The backends that make the runs of a sweep: local processes, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal

from evenstream.errors import InputError
from evenstream.run.config import RunConfig
from evenstream.sweep.backends.backend import Backend

__all__ = ["Backend", "BackendName", "open_backend"]

BackendName = Literal["local", "ray"]


def open_backend(
    name: BackendName, runs: Sequence[RunConfig], jobs: int = 0, address: str | None = None
) -> AbstractContextManager[Backend]:
    """A backend for some runs.

    Args:
        name: name of the backend.
        runs: the runs to make; each may need as many threads as the most demanding one.
        jobs: number at the same time; 0 means one per core (with Ray on GPUs, per GPU).
        address: address of the Ray cluster.
    """
    threads = max(config.threads for config in runs)
    if name == "ray":
        from evenstream.sweep.backends.ray_backend import on_ray

        gpus = int(any(config.device.startswith("cuda") for config in runs))
        return on_ray(jobs, threads, gpus, address)
    from evenstream.sweep.backends.local import on_this_machine

    if address is not None:
        raise InputError("--address is for --backend ray")
    return on_this_machine(jobs, threads)
