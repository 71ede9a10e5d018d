"""Small experiments and stores for the tests of sweeps and trackers."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from evenstream.run.many import Job
from evenstream.run.workers import Answer, attempt
from evenstream.sweep.backends import Backend
from evenstream.sweep.experiment import Experiment
from evenstream.sweep.experiment_file import read_experiment
from evenstream.sweep.making import Listener

SMALL = """
network = "mlp"
memory = 12
batch = 4
replay_batch = 4
lr = 0.05
dtype = "float32"
tasks = 2
checkpoint_every = 7
"""


def experiment_text(stream: Path | str, methods=("er", "er-las"), name="small", extra="") -> str:
    """Two methods on one stream, two seeds, two memory sizes."""
    return f"""
name = "{name}"
title = "A small experiment"
seeds = 2
metrics = ["A_T", "accuracy_matrix", "F_T"]
rows = ["method"]
[settings]{SMALL}
[grid]
method = [{", ".join(f'"{method}"' for method in methods)}]
stream = ["{stream}"]
memory = [6, 12]
{extra}
[scale.quick]
seeds = 1
grid = {{ memory = [6] }}
"""


def write_experiment(folder: Path, stream: Path | str, **options) -> Path:
    file = folder / f"{options.get('name', 'small')}.toml"
    file.write_text(experiment_text(stream, **options).replace("memory = 12\n", ""))
    return file


def small_experiment(folder: Path, stream: Path | str, **options) -> Experiment:
    return read_experiment(write_experiment(folder, stream, **options))


class Here:
    """A backend without processes; answers as told, else makes the run in this process."""

    def __init__(self, *told: Answer | None) -> None:
        self.told, self.asked = list(told), []
        self.backend = Backend(1, self.work_off)

    def work_off(self, jobs: deque[Job], work, stop):
        while jobs and not stop.is_set():
            job = jobs.popleft()
            self.asked.append((job[0].method, job[0].memory, job[0].seed))
            answer = self.told.pop(0) if self.told else None
            yield job, answer or attempt(work, job, stop)


class Heard(Listener):
    """Keeps what a sweep reports."""

    def __init__(self) -> None:
        self.done, self.runs, self.waited = {}, [], []

    def start(self, done, waiting):
        self.done, self.waiting = dict(done), waiting

    def ended(self, run):
        self.runs.append(run)
        self.waited.append(len(self.waiting))
