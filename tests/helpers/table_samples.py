"""Folders that look like finished runs, and experiments to report on, for the tests of tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenstream.report.experiments import Background, Contents, Stated, collect_outcome, find_runs
from evenstream.report.experiments.layout import tables
from evenstream.run.config import RunConfig
from evenstream.sweep.experiment import Cell, Experiment
from evenstream.sweep.experiment_file import read_experiment

ENV = {"evenstream": "0.1.0", "commit": "abc1234", "cpu": "A Processor", "cores": 2}

CIFAR10 = {"stream": "c-cifar10"}

EXPERIMENT = """
name = "own"
title = "An experiment"
seeds = 2
metrics = ["A_T", "F_T"]
rows = ["method"]
[settings]
network = "resnet18"
[grid]
method = ["er", "er-las"]
stream = ["c-cifar10", "c-cifar100"]
memory = [100]
[scale.cpu]
seeds = 1
settings = { network = "slim-resnet18" }
grid = { stream = ["c-cifar10"] }
[scale.smoke]
seeds = 1
settings = { network = "mlp" }
grid = { stream = ["c-digits"], memory = [50] }
"""


def make_experiment(folder: Path, text: str = EXPERIMENT) -> Experiment:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "own.toml"
    file.write_text(text, encoding="utf-8")
    return read_experiment(file)


def config_of(
    experiment: Experiment, seed: int = 0, scale: str | None = None, **keys: Any
) -> RunConfig:
    """The run of the one cell that has these keys."""
    (cell,) = [cell for cell in experiment.cells(scale) if _has(cell, keys)]
    return replace(experiment.configs(cell, scale, seeds=1)[0], seed=seed)


def _has(cell: Cell, keys: dict[str, Any]) -> bool:
    return all(cell[key.replace("__", ":")] == value for key, value in keys.items())


def write_run(folder: Path, config: RunConfig, accuracy: float = 50.0, **further: Any) -> Path:
    """A finished run; three tasks, of which the last is predicted most."""
    folder.mkdir(parents=True)
    config.write(folder)
    row = [max(accuracy - 10, 0), max(accuracy - 10, 0), min(accuracy + 20, 100)]
    metrics = {
        "format": 1, "status": "finished", "method": config.method, "stream": config.stream,
        "seed": config.seed, "tasks": [["a"], ["b"], ["c"]],
        "accuracy_matrix": [[90, None, None], [80, 90, None], row],
        "average_accuracy": [90, 85, accuracy], "A_T": accuracy, "F_T": 100 - accuracy,
        "prediction_share": [0.2, 0.2, 0.6], "true_share": [0.25, 0.25, 0.5],
        "train_seconds": 100.0, "eval_seconds": 20.0, "train_seconds_after_task": [30, 60, 100],
        "steps": 10, "device": "cpu", "dtype": "float32", "threads": 1,
    }  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps({**metrics, **further}))
    (folder / "env.json").write_text(json.dumps(ENV))
    return folder


def fill(
    folder: Path, experiment: Experiment, accuracies: dict[str, list[float]], **keys: Any
) -> Path:
    """Runs of several methods in otherwise the same cell, one for each seed."""
    for method, values in accuracies.items():
        for seed, value in enumerate(values):
            config = config_of(experiment, seed, method=method, **keys)
            write_run(folder / f"{method}-{len(list(folder.glob('*')))}", config, value)
    return folder


def stated(mean, std=1.0, decimals=1, source="tab:one", runs=10):
    return Stated(mean, std, runs, decimals, source)


def printing(**numbers):
    """A background that prints the same numbers for every cell but those of `smoke`."""
    return Background(
        lambda cell, scale: {} if scale == "smoke" else numbers, "the paper", ("A note.",), "do it"
    )


def outcome_of(folder, experiment, background=None):
    return collect_outcome(experiment, find_runs([folder]).runs, background)


def measured(outcome, metric="A_T"):
    return {
        (each.scale, each.cell["method"], each.cell["stream"]): each
        for each in outcome.measured
        if each.metric.name == metric
    }


def details_of(outcome):
    """The lists of all cells, one for each scale."""
    return [table for table in tables(outcome) if table.kind == "detail"]


def grids_of(outcome):
    return [table for table in tables(outcome) if table.kind == "grid"]


def sample_contents(runs: Path, experiment: Experiment) -> Contents:
    """Runs at all scales, printed numbers that contradict each other."""
    fill(runs, experiment, {"er": [20, 21, 22], "er-las": [50, 51, 52]}, **CIFAR10)
    for seed in (0, 1):
        write_run(runs / f"cpu{seed}", config_of(experiment, seed, "cpu", method="er"), 30 + seed)
    write_run(runs / "smoke", config_of(experiment, 0, "smoke", method="er"), 70)
    twice = [stated(21.5, source="tab:one"), stated(45.4, source="tab:two")]
    outcome = outcome_of(runs, experiment, printing(A_T=twice, A_T_gain=[stated(9.9, None)]))
    return Contents("Title", "Lead.", [outcome])
