"""A stream in which labels arrive late, change and go; the same every time it is run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from evenstream import Learner, drift, follow
from evenstream.core.tickets import ticket
from evenstream.live import Tally

STEPS, ROWS, CLASSES = 18, 4, 5
CENTRES = 2 * np.random.default_rng(3).normal(size=(CLASSES, 5))


def batches(seed: int) -> Iterator[tuple[Any, list[str], list[int]]]:
    """Rows with labels and ids; new classes keep coming until the end."""
    for step in range(STEPS):
        draw = np.random.default_rng([seed, step])
        y = draw.integers(0, 2 + 3 * step // STEPS, ROWS)
        x = (CENTRES[y] + 0.5 * draw.normal(size=(ROWS, 5))).astype(np.float32)
        yield x, [f"kind {label}" for label in y], [ROWS * step + row for row in range(ROWS)]


def lead(method: str, seed: int, folder: Path) -> None:
    """Follow a stream; after each batch something happens to labels and samples.

    Half of the lives are watched for drift.
    """
    watch = drift.Adwin(delta=0.5) if seed % 2 else None
    learner = Learner(
        method, "mlp", memory=12, batch=4, lr=0.05, dtype="float32", seed=1, drift=watch
    )
    stream = batches(seed)
    with_ids = bool(learner.memory.capacity)
    given = (batch if with_ids else batch[:2] for batch in stream)
    follow(learner, given, folder, checkpoint_every=3, on_step=happening(learner, seed, with_ids))


def happening(learner: Learner, seed: int, with_ids: bool) -> Callable[[Any, Tally], None]:
    """What happens after each batch, decided by the seed and by how the learner is then."""

    def happens(_: Any, tally: Tally) -> None:
        draw = random.Random(f"{seed} {tally.batches}")
        labels, saves = learner.labels, draw.random() < 0.5
        ids = [draw.randrange(ROWS * tally.batches) for _ in range(3)]
        x = np.random.default_rng([seed, tally.batches, 7]).normal(size=(3, 5)).astype(np.float32)
        held = learner.tickets.held
        learned, given, _ = next(islice(batches(seed), tally.batches - 1, None))
        rows = sorted(draw.sample(range(ROWS), 2))
        options: list[Callable[[], Any]] = [
            lambda: learner.ask(x),
            lambda: learner.forget(x=learned[rows], labels=[given[row] for row in rows]),
            lambda: learner.predict(x, reject=0.1),
            lambda: learner.limit_tickets(draw.randint(len(x), 8), draw.randint(1, STEPS)),
        ]
        if with_ids:
            options += [
                lambda: learner.relabel(ids, draw.choice([*labels, "another"])),
                lambda: learner.forget(ids=ids, saves=saves),
            ]
        if held:
            number = draw.choice(list(held))
            options += [
                lambda: learner.learn_later(ticket(number, held[number]), draw.choice(labels))
            ] * 2
        if len(labels) > 2:
            one, other = draw.sample(range(len(labels)), 2)
            options += [
                lambda: learner.rename(labels[one], f"{tally.batches} {labels[one]}"),
                lambda: learner.merge(labels[one], labels[other]),
                lambda: learner.remove_class(labels[one], saves=saves),
                lambda: learner.forget(label=labels[one]),
            ]
        draw.choice(options)()

    return happens
