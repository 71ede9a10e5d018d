"""Short commands for every method, and what they leave behind when nothing goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from campaign.outcomes import difference, outcome
from campaign.processes import Ended, Failure, Life, Operations
from evenstream.checkpoint import fingerprint, has_checkpoint, read_checkpoint
from evenstream.composition import compose, method_names
from evenstream.errors import EvenstreamError
from evenstream.policies.rules import RULES
from evenstream.testing import NEEDS_TASKS

OUT = "out"
_BEGUN = ("config.toml", "comparison.toml", "pretraining.toml")
"""Files that say that `resume` is the way to go on."""
_BATCH = 4
_RUN = (
    f"--out {OUT} --network mlp --memory 12 --batch 4 --replay-batch 4 --dtype float32 "
    "--tasks 2 --checkpoint-every 3 --eval-every 2"
)
_MORE = [
    "--lr 0.01 --momentum 0.9", "--lr 0.05 --epochs 3 --milestones 2", "--lr 0.01 --optimizer adam",
    "--lr 0.05 --class-order seed",
]  # fmt: skip
_LEARN = f"learn {OUT} --memory 12 --batch {_BATCH} --checkpoint-every 3 --patience 100 --from "
_PRETRAIN = "pretrain --stream c-digits:reserve=4 --epochs 2 --batch 64 --checkpoint-every 3 --out "
_VARIANTS = [
    "er-las:window=3", "er-las:tau=inf", "er-las:prior=macro", "er-ace:head=cosine",
    "er-obc:surrogate_head=true,correction_draw=balanced", "ewc:tasks=separate",
    "lucir-full:fine_tune_epochs=2,mix=replay", "lwf:averaging=0.9", "mro:update_first=true",
    "pec:schedule=constant,teacher_width=5",
]  # fmt: skip
_EXPERIMENT = """
name = "small"
seeds = 2
metrics = ["A_T", "F_T"]
rows = ["method"]
settings = { network = "mlp", batch = 4, replay_batch = 4, lr = 0.05, tasks = 2, memory = 12, \
dtype = "float32", checkpoint_every = 3 }
grid = { method = ["er", "er-las"], stream = ["TABLE"] }
"""


@dataclass(frozen=True)
class Case:
    """A command that writes to `out` in the current folder."""

    words: tuple[str, ...]
    rows: str = ""
    """A table for its standard input."""
    before: Path | None = None
    """What `out` is before it."""

    @property
    def key(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @property
    def has_workers(self) -> bool:
        """Whether it starts processes of its own, which only a real process should do."""
        return self.words[0] in ("compare", "sweep")

    def next_words(self, folder: Path) -> list[str]:
        """The command to continue in a folder where it may have been stopped."""
        if self.words[0] == "correct" and edits_made(folder / OUT):
            return ["--version"]  # it is as it is afterwards: there is nothing to go on with
        begun = any((folder / OUT / name).exists() for name in _BEGUN)
        return ["resume", OUT] if begun else list(self.words)

    def live(
        self, folder: Path, prepare: Callable[[], None] = lambda: None, *, real: bool = False
    ) -> Life:
        """Start or continue; a pipe then carries the rows that were not learned yet."""
        feed = b""
        if self.words[0] in ("predict", "export"):
            (folder / OUT).mkdir(parents=True, exist_ok=True)
        if self.before is not None and not (folder / OUT).exists():
            shutil.copytree(self.before, folder / OUT)
        if self.rows:
            header, *rows = self.rows.encode().splitlines(keepends=True)
            feed = b"".join([header, *rows[_BATCH * steps_made(folder / OUT) :]])
        return Life(self.next_words(folder), folder, prepare, real=real, feed=feed)

    def outcome(self, folder: Path) -> dict[str, Any]:
        """What it left behind; after a broken pipe, only the learner must be the same."""
        if self.words[0] == "export":  # a zip file, which notes when it was made
            import torch

            program = torch.export.load(folder / self.words[2])
            return {"probabilities": program.module()(torch.ones(2, 5)).tolist()}
        if self.rows:
            saved = read_checkpoint(folder / OUT)
            return {"learner": fingerprint({k: v for k, v in saved.items() if k != "live"})}
        found: dict[str, Any] = json.loads(json.dumps(outcome(folder / OUT)))
        if self.words[0] == "correct":  # written after the save: the next command makes up for it
            del found["metrics.json"]
        return found


def steps_made(folder: Path) -> int:
    """How many steps the learner saved there has made; 0 without one."""
    if not has_checkpoint(folder):
        return 0
    return int(read_checkpoint(folder)["progress"]["step"])


def edits_made(folder: Path) -> int:
    """How many corrections a learner that is saved there has had."""
    return int(read_checkpoint(folder)["progress"].get("edits", 0)) if has_checkpoint(folder) else 0


@dataclass(frozen=True)
class Reference:
    """The outcome of an undisturbed command, how long it took and how often it wrote."""

    outcome: dict[str, Any]
    seconds: float
    operations: int


Blow = Callable[[Case, Path, Reference], Ended]
"""Leads one life of a command, with some harm; it ended with 0 if it was over before."""


def reference(case: Case, home: Path) -> Reference:
    """The outcome of an uninterrupted run, computed once."""
    place = home / "references" / f"{case.key}.json"
    if not place.exists():
        folder = place.with_name(f"{case.key}-{os.getpid()}")
        counter, began = Operations(), time.monotonic()
        ended = case.live(folder, counter.watch, real=case.has_workers).end()
        seconds = time.monotonic() - began
        if ended.status != 0:
            raise Failure(f"even without harm: {ended}")
        made = folder / "reference.json"
        made.write_text(json.dumps([case.outcome(folder), seconds, counter.count]))
        made.replace(place)
    return Reference(*json.loads(place.read_text()))


def besiege(
    cases: list[Case], folder: Path, draw: random.Random, blow: Blow, times: int, most: int = 5
) -> None:
    """Interrupt commands `times` times in all, let each finish, and compare."""
    hits = 0
    for number in range(20 * times):
        case, place = cases[number % len(cases)], folder / str(number)
        expected, enough = reference(case, folder.parents[1]), hits + draw.randint(1, most)
        while hits < min(enough, times) and blow(case, place, expected).status != 0:
            hits += 1
        ended = case.live(place).end()
        if ended.status != 0:
            raise Failure(f"it does not go on: {ended}")
        wrong = difference(case.outcome(place), expected.outcome)
        if wrong:
            raise Failure(f"{case.words} is not as without harm: {wrong}")
        if hits == times:
            return
    raise Failure(f"only {hits} of {times} blows came in time")


@cache
def methods(*, of_streams: bool = False) -> list[str]:
    """All methods and `er` with every rule; `of_streams`: those that need no tasks."""
    found = [*method_names(), *_VARIANTS]
    for spec in (f"{name}@{rule}" for name in ("er", "er-las") for rule in RULES):
        try:
            compose(spec)
        except EvenstreamError:
            continue
        found.append(spec)
    return [s for s in found if not (of_streams and compose(s).needs & NEEDS_TASKS)]


def prepare(home: Path) -> None:
    """Write the tables, the experiment and the learner that cases use."""
    folder = home / "samples"
    folder.mkdir(parents=True, exist_ok=True)
    draw, y = np.random.default_rng(3), np.arange(100) % 4
    x = 2 * draw.normal(size=(4, 5))[y] + 0.7 * draw.normal(size=(100, 5))
    names = np.array([f"kind {label}" for label in y])
    parts = {"x_train": x[:80], "y_train": names[:80], "x_test": x[80:], "y_test": names[80:]}
    np.savez(folder / "table.npz", **parts)  # type: ignore[arg-type]
    np.savez(folder / "rows.npz", x=x, y=names)
    np.savez(folder / "pictures.npz", x=draw.integers(0, 256, (100, 1, 8, 8), np.uint8), y=y)
    lines = [",".join([*map(str, row), name]) for row, name in zip(x, names, strict=True)]
    (folder / "table.csv").write_text("\n".join(["a,b,c,d,e,label", *lines]) + "\n")
    (folder / "small.toml").write_text(_EXPERIMENT.replace("TABLE", str(folder / "table.npz")))
    keyed = [f"{number},{line}" for number, line in enumerate(lines)]
    (folder / "keyed.csv").write_text("\n".join(["key,a,b,c,d,e,label", *keyed]) + "\n")
    learn = "learn keyed --method er-las --memory 60 --ids key --from keyed.csv"
    for words in (["learn", "plant", "--from", "table.csv"], learn.split()):
        if Life(words, folder).end().status:
            raise Failure(f"the samples cannot be made: see {folder}")


def turned(cases: list[Case], by: int) -> list[Case]:
    """The same items, starting at a different one for each seed."""
    by %= len(cases)
    return cases[by:] + cases[:by]


def quick_cases(home: Path) -> list[Case]:
    """The cases that need no processes of their own."""
    return [*run_cases(home), *live_cases(home), *other_cases(home)]


def run_cases(home: Path) -> list[Case]:
    """A run of every method; most options occur."""
    stream = ("--stream", str(home / "samples" / "table.npz"))
    return [
        Case(("run", method, *stream, *_RUN.split(), *_MORE[index % len(_MORE)].split()))
        for index, method in enumerate(methods())
    ]


def live_cases(home: Path, *, pipes: bool = True) -> list[Case]:
    """Learning from tables, arrays and pipes."""
    samples, found = home / "samples", []
    sources = ["table.csv", "rows.npz", *(["-"] if pipes else [])]
    for index, method in enumerate(methods(of_streams=True)[::3]):
        source = sources[index % len(sources)]
        rows = (samples / "table.csv").read_text() if source == "-" else ""
        data = source if rows else str(samples / source)
        found.append(Case((*_LEARN.split(), data, "--method", method), rows))
    return found


def other_cases(home: Path) -> list[Case]:
    """Pre-training, predictions, and what is done to a learner."""
    samples = home / "samples"
    data = (str(samples / "plant"), str(samples / "table.csv"))
    predict = Case(("predict", *data, "--out", f"{OUT}/predictions.csv"))
    return [Case((*_PRETRAIN.split(), OUT)), predict, *owner_cases(home)]


def owner_cases(home: Path) -> list[Case]:
    """Corrections of a learner, and its export."""
    keyed = home / "samples" / "keyed"
    changes = [
        ("relabel", OUT, "kind 1", "--ids", "1", "2", "5", "9"),
        ("forget", OUT, "--ids", "1", "2", "5", "9", "--saves"),
        ("rename", OUT, "kind 1", "another"),
    ]
    corrections = [Case(("correct", *change), before=keyed) for change in changes]
    return [*corrections, Case(("export", str(keyed), f"{OUT}/keyed.pt2"))]


def worker_cases(home: Path) -> list[Case]:
    """Comparisons and sweeps."""
    samples = home / "samples"
    stream = ("--stream", str(samples / "table.npz"), "--seeds", "2", "--jobs", "2")
    sweep = Case(("sweep", str(samples / "small.toml"), "--jobs", "2", "--out", OUT))
    return [Case(("compare", "er", "er-las", *stream, *_RUN.split())), sweep]
