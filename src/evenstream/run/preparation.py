"""Creates and checks everything before a run writes anything."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from evenstream.core.criterion import NEEDS_BOUNDARIES
from evenstream.encoders import is_encoder
from evenstream.errors import InputError
from evenstream.learner.frozen import FEATURES, Frozen
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import OwnParts
from evenstream.options import TrainingOptions
from evenstream.plugins import import_function
from evenstream.run.config import RunConfig
from evenstream.run.evaluation import Evaluation
from evenstream.run.initial_weights import check_weights
from evenstream.run.machine import use_machine
from evenstream.streams import Stream, open_stream
from evenstream.streams.schedules import batch_sizes

MOST_TASK_BYTES = 8 * 2**30
"""Largest amount of task data that may be held in memory."""


def prepare(config: RunConfig) -> Stream:
    """Open the stream of a run and check everything that can be checked before it runs."""
    make_learner(config)  # rejects bad options before any data is loaded
    stream = open_stream(
        config.stream,
        seed=config.seed,
        class_order=config.class_order,
        tasks=config.tasks,
        test_fraction=config.test_fraction,
        corrupt=config.corrupt,
    )
    fit(config, stream)
    return stream


def fit(config: RunConfig, stream: Stream) -> None:
    """Check that method, network, evaluation and stream go together."""
    use_machine(config.threads)
    check_weights(config, stream)
    learner = make_learner(config, stream)
    for need, what in NEEDS_BOUNDARIES.items():
        if need in learner.needs and not stream.boundaries:
            raise InputError(
                f"{config.method} needs {what}, and {stream.name} does not say where tasks begin; "
                "use a method that does without, or a stream with boundaries (c-...)"
            )
    if not stream.boundaries:
        for asked, what in (
            (config.epochs > 1, "it has one epoch only"),
            (config.lr_decay != "none", "no learning rate can fall inside them"),
            (config.reset_optimizer, "no optimiser can be reset there"),
        ):
            if asked:
                raise InputError(f"{stream.name} does not say where tasks begin, so {what}")
    if "second_pass" in learner.needs and config.corrupt == "skip":
        raise InputError(
            f"{config.method} needs every sample of a task, so leave out --corrupt skip"
        )
    if "second_pass" in learner.needs and stream.largest_task_bytes() > MOST_TASK_BYTES:
        raise InputError(
            f"{config.method} looks at a whole task's data at once, and a task of {stream.name} "
            f"has {stream.largest_task_bytes() / 2**30:.1f} GiB; use a method that does without"
        )
    make_batch_sizes(config, stream)
    make_evaluation(config, stream)
    _rehearse(learner, stream)
    if config.milestones or config.lr_decay != "none":
        learner.lr = config.lr  # refused if the optimiser's rates are its own


def make_learner(config: RunConfig, stream: Stream | None = None) -> Learner:
    """The learner of a run, before its first step."""
    shared: dict[str, Any] = {f.name: getattr(config, f.name) for f in fields(TrainingOptions)}
    shared |= own_functions(config)
    if config.scope == "all":  # any number will do while there is no stream
        shared["head_size"] = 1 if stream is None else len(stream.streamed_classes())
    if stream is not None and not is_encoder(config.network):
        shared |= {"mean": stream.dataset.mean, "std": stream.dataset.std}
    network: str | Frozen = config.network
    if is_encoder(config.network):
        network = Frozen.read(config.network, then=FEATURES)  # as in runs that are stored
    table = None if stream is None else stream.dataset.table
    return Learner(config.method, network, weights=config.weights, table=table, **shared)


def own_functions(config: RunConfig) -> OwnParts:
    """The optimiser and the augmentation, if they are functions named as `MODULE:FUNCTION`."""
    named = {"optimizer": config.optimizer, "augment": config.augment}
    found = {what: import_function(what, t) for what, t in named.items() if ":" in t}
    return cast(OwnParts, found)


def make_evaluation(config: RunConfig, stream: Stream) -> Evaluation:
    """The evaluations that a run requires."""
    return Evaluation(
        stream, every=config.eval_every, images=config.eval_images, future=config.eval_future
    )


def make_batch_sizes(config: RunConfig, stream: Stream) -> list[int]:
    """The size of incoming batches in each task."""
    return batch_sizes(config.batch_schedule, config.batch, len(stream), config.seed)


def begin_first_task(learner: Learner, stream: Stream) -> None:
    """Tell a learner what it may know about the first task."""
    if stream.boundaries:
        data = stream.task_data(0) if "second_pass" in learner.needs else None
        learner.start_task(stream.label_counts(0), data)


def _rehearse(learner: Learner, stream: Stream) -> None:
    """Make one step with a learner that is then discarded.

    Anything that does not fit (a network, an augmentation) fails here, before anything is written,
    and what PyTorch loads at its first step does not count as training time.
    """
    begin_first_task(learner, stream)
    for batch in stream.batches(0, batch=2):
        if len(batch.labels):
            learner.learn(batch.x, batch.labels)
            learner.predict_indices(batch.x)
            break
