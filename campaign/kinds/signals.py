"""Ctrl-C and SIGTERM: commands end cleanly and resume exactly; calls happen fully or not."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from campaign.cases import Case, Reference, besiege, methods, quick_cases, turned, worker_cases
from campaign.kinds.kill_real import see_work
from campaign.processes import Ended, Failure, Operations
from evenstream import Learner

EACH, FULL = 5, 600


def attack(seed: int, folder: Path) -> None:
    draw, home = random.Random(seed), folder.parents[1]
    if seed % 2:
        _interrupt_learner(draw, folder)
    elif seed % 20 == 0:
        besiege(worker_cases(home), folder, draw, lambda *life: _blow(draw, *life), EACH)
    else:
        cases = turned(quick_cases(home), seed)
        besiege(cases, folder, draw, lambda *life: _blow(draw, *life), EACH, most=3)


def _blow(draw: random.Random, case: Case, place: Path, expected: Reference) -> Ended:
    number = draw.choice([signal.SIGINT, signal.SIGTERM])
    if case.has_workers:
        life = case.live(place, real=True)
        see_work(life, place)
        life.ends(draw.random() * 2)
        life.hit(number, group=number == signal.SIGINT)
    elif draw.random() < 0.5:
        at = draw.randint(1, expected.operations)
        life = case.live(place, lambda: Operations().watch(at, lambda: os.kill(0, number)))
    else:
        life = case.live(place)
        life.ends(draw.random() * expected.seconds)
        life.hit(number)
        if draw.random() < 0.2:
            life.hit(signal.SIGINT)  # twice stops at once
    ended = life.end()
    if ended.status not in (-signal.SIGTERM, -signal.SIGINT):  # before there was a handler
        ended.check((0, 130))
    return ended


def _interrupt_learner(draw: random.Random, folder: Path) -> None:
    """Call twins alike, one with Ctrl-C at a line of Python: it happens fully or not."""
    warnings.simplefilter("ignore")
    spec, network = draw.choice(methods()), draw.choice(["mlp", "mlp-norm"])
    optimizer = draw.choice(["sgd", "adam"])
    whole, torn = (Learner(spec, network, memory=12, optimizer=optimizer) for _ in range(2))
    for name, call in _calls(draw, folder):
        before = torn.fingerprint()
        lines = _lines(call, whole)
        after, at = whole.fingerprint(), draw.randint(1, lines)
        try:
            _lines(call, torn, at)
        except KeyboardInterrupt:
            if torn.fingerprint() == before:
                call(torn)
        if torn.fingerprint() != after:
            raise Failure(f"{spec}: {name}, stopped at line {at} of {lines}, is half done")


def _calls(draw: random.Random, folder: Path) -> list[tuple[str, Callable[[Learner], Any]]]:
    """One call for each attempt."""
    y = np.random.default_rng(draw.randrange(2**30)).integers(0, 4, (EACH, 6))
    batches = [(labels[:, None] + np.linspace(-1, 1, 30).reshape(6, 5), labels) for labels in y]
    return [
        ("start_task", lambda one: one.start_task(dict.fromkeys(range(4), 6), batches[0])),
        ("learn", lambda one: one.learn(*batches[1])),
        ("learn", lambda one: one.learn(*batches[2])),
        draw.choice([
            ("learn", lambda one: one.learn(*batches[3])),
            ("save", lambda one: one.save(folder / "save")),
            ("predict", lambda one: one.predict(batches[3][0])),
        ]),
        ("end_task", lambda one: one.end_task(batches[0])),
    ]  # fmt: skip


def _lines(call: Callable[[Learner], Any], learner: Learner, at: int = 0) -> int:
    """Make a call, with Ctrl-C at one of its lines; returns how many lines of Python ran."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        if count == at and event == "line":
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        call(learner)
    finally:
        sys.settrace(None)
    return count
