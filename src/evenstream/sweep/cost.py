"""How long a run would take on this machine, from a few of its steps."""

from __future__ import annotations

import time
from itertools import accumulate, islice
from statistics import fmean

from evenstream.run.config import RunConfig
from evenstream.run.metrics_file import Metrics
from evenstream.run.preparation import begin_first_task, make_batch_sizes, make_learner, prepare
from evenstream.streams import Stream

TIMED_STEPS = 3
MOST_WARM_STEPS = 20
TESTED = 256
"""Test samples whose prediction is timed."""


def measure(config: RunConfig) -> Metrics:
    """The entries of `metrics.json` that say how long a run took, for a run not yet made.

    A rough figure: the steps are the first of the stream, and what a method does at the end of a
    task is left out.
    """
    stream = prepare(config)
    learner = make_learner(config, stream)
    begin_first_task(learner, stream)
    sizes = make_batch_sizes(config, stream)
    warm = min(1 + config.replay_batch // config.batch, MOST_WARM_STEPS)  # until replay is full
    seconds = []
    readable = (batch for batch in stream.batches(0, sizes) if batch.labels)
    for batch in islice(readable, warm + TIMED_STEPS):
        began = time.perf_counter()
        learner.learn(batch.x, batch.labels)
        seconds.append(time.perf_counter() - began)
    each_test = 0.0
    for read in stream.test_batches(stream.tasks[0].test[:TESTED], TESTED):
        if len(read.rows):
            began = time.perf_counter()
            learner.predict_indices(read.x)
            each_test = (time.perf_counter() - began) / len(read.rows)
    steps = sum(stream.steps(task, sizes) for task in range(len(stream))) * config.epochs
    return Metrics(
        {
            "steps": steps,
            "train_seconds": steps * fmean(seconds[-TIMED_STEPS:]),
            "eval_seconds": each_test * _predictions(config, stream, steps),
        }
    )


def _predictions(config: RunConfig, stream: Stream, steps: int) -> int:
    """How many test samples are predicted in all evaluations of a run."""
    every = len(stream.dataset.y_test)
    so_far = list(accumulate(len(task.test) for task in stream.tasks))
    after_tasks = sum(min(every, so_far[-1] if config.eval_future else n) for n in so_far)
    online = steps // config.eval_every if config.eval_every else 0
    return after_tasks + online * min(every, config.eval_images or every)
