"""Runs of a few steps for the tests of run/ and cli/, and what two of them must share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from evenstream.checkpoint import fingerprint, read_checkpoint
from evenstream.run.config import RunConfig
from evenstream.run.events import EventTail

METRIC_TIMES = {"train_seconds", "eval_seconds", "train_seconds_after_task", "samples_per_second"}
METRIC_TIMES |= {"cpu_seconds"}
POSITION_TIMES = {"train_seconds", "eval_seconds", "seconds_after_task", "cpu_seconds"}


def save_table(path: Path, classes: int = 4, per_class: int = 20, width: int = 5) -> Path:
    """An .npz file of separable rows; the labels are words."""
    draw = np.random.default_rng(3)
    centres = 2 * draw.normal(size=(classes, width))

    def part(each):
        y = np.repeat(np.arange(classes), each)
        return centres[y] + 0.7 * draw.normal(size=(len(y), width)), [f"kind {c}" for c in y]

    (x_train, y_train), (x_test, y_test) = part(per_class), part(5)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


def save_images(path: Path, classes: int = 4, per_class: int = 8) -> Path:
    """An .npz file of 8x8 images."""
    draw = np.random.default_rng(4)
    y = np.repeat(np.arange(classes), per_class)
    noise = draw.integers(0, 100, (len(y), 1, 8, 8))
    x = (noise + 30 * y[:, None, None, None]).astype(np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return path


def small_config(stream: Path | str, method: str = "er-las", **options: Any) -> RunConfig:
    """20 steps of 4 in two tasks, on `save_table`'s file."""
    defaults: dict[str, Any] = {
        "seed": 0, "memory": 12, "batch": 4, "replay_batch": 4, "lr": 0.05, "network": "mlp",
        "augment": "none", "dtype": "float32", "tasks": 2, "checkpoint_every": 7,
    }  # fmt: skip
    return RunConfig(method=method, stream=str(stream), **{**defaults, **options})


def names(folder: Path) -> list[str]:
    """What is in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


def read_events(folder: Path) -> list[dict[str, Any]]:
    """All events of a run, in order."""
    return EventTail(folder).read()


def outcome(out: Path) -> dict[str, Any]:
    """Everything a run leaves behind that does not tell the time."""
    saved = read_checkpoint(out / "checkpoint")
    metrics = json.loads((out / "metrics.json").read_text())
    return {
        "learner": fingerprint(saved["learner"]),
        "position": {k: v for k, v in saved["position"].items() if k not in POSITION_TIMES},
        "metrics": {k: v for k, v in metrics.items() if k not in METRIC_TIMES},
        "events": [{k: v for k, v in e.items() if k != "seconds"} for e in read_events(out)],
        "config": (out / "config.toml").read_text(),
    }


def finished(config: RunConfig, **values: Any) -> str:
    """The text of a `metrics.json` with little in it."""
    times = dict.fromkeys(("train_seconds", "eval_seconds", "samples_per_second"), 1.0)
    found = {"status": "finished", "method": config.method, "seed": config.seed, "steps": 20}
    found |= {"A_T": None, "F_T": None}
    return json.dumps({**found, **times, "dtype": "float32", **values})


class StopAfter:
    """A flag that is set when it is asked for the n-th time, once a step."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def is_set(self) -> bool:
        self.left -= 1
        return self.left <= 0
