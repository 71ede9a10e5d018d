"""Threads: predictions during learning change nothing, and always reflect complete steps."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from campaign.cases import methods
from campaign.processes import Failure
from evenstream import Learner

EACH, FULL = 1, 200
_STEPS = 25
_ASKED = np.linspace(-1, 1, 50, dtype=np.float32).reshape(10, 5)


def attack(seed: int, folder: Path) -> None:
    warnings.simplefilter("ignore")
    draw, over = random.Random(seed), threading.Event()
    specs = [draw.choice(methods(of_streams=True)) for _ in range(draw.choice([1, 2]))]
    network, readers = draw.choice(["mlp", "mlp-norm", "mlp-norm"]), draw.randint(1, 3)
    sys.setswitchinterval(draw.choice([1e-6, 1e-4, 5e-3]))

    def learner(spec: str) -> Learner:
        return Learner(spec, network, memory=20, lr=0.05, optimizer="adam", seed=1)

    def read(learner: Learner) -> None:
        while not over.is_set():
            learner.predict(_ASKED)
            if learner.predict_proba(_ASKED).tobytes() not in known:
                raise Failure("an answer that no complete step gives")

    known = {b""}
    expected = [_learned(learner(spec), known) for spec in specs]
    what = f"{specs} with {network} and {readers} threads that predict"
    with ThreadPoolExecutor(readers + len(specs)) as threads:
        try:
            learners = [learner(spec) for spec in specs]
            reading = [threads.submit(read, learners[0]) for _ in range(readers)]
            found = list(threads.map(lambda each: _learned(each, None), learners))
            over.set()
            for thread in reading:
                thread.result()
        except Exception as error:
            raise Failure(f"{what}: {type(error).__name__}: {error}") from error
        finally:
            over.set()
    if found != expected:
        raise Failure(f"{what}: other weights than without threads")


def _learned(learner: Learner, answers: set[bytes] | None) -> str:
    """The fingerprint after a short stream; what it answers after each step is noted."""
    draw = np.random.default_rng(0)
    for step in range(_STEPS):
        y = draw.integers(0, 2 + step // 5, 6)
        learner.learn(y[:, None] + draw.normal(size=(6, 5)), y.tolist())
        if answers is not None:
            answers.add(learner.predict_proba(_ASKED).tobytes())
    return learner.fingerprint()
