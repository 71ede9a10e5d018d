"""Counts what a stream looks like over time, without reading any inputs."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenstream.data.samples import Indices
from evenstream.errors import InputError
from evenstream.files import write_atomically
from evenstream.streams.stream import Stream


@dataclass(frozen=True, eq=False)
class Profile:
    """Counts of training samples, by class, in the order of arrival and by task."""

    class_names: list[str]
    """Names of the columns."""
    edges: Indices
    """Positions in the stream where the bins begin, and where the last one ends."""
    over_time: Indices
    """Samples of each class in each bin, (bins, classes)."""
    task_ends: Indices
    """Position in the stream where each task ends."""
    in_task: Indices
    """Samples of each class in each task, (tasks, classes)."""
    domain_names: list[str]
    """Names of the domains; none in a stream without domains."""
    domains_in_task: Indices | None
    """Samples of each class and domain in each task, (tasks, classes, domains)."""

    @property
    def classes_per_task(self) -> list[int]:
        """Distinct classes in each task."""
        return [int(count) for count in (self.in_task > 0).sum(axis=1)]

    @property
    def new_classes_per_task(self) -> list[int]:
        """Classes in each task that were in none before."""
        known = (np.cumsum(self.in_task, axis=0) > 0).sum(axis=1)
        return [int(count) for count in np.diff(known, prepend=0)]

    @property
    def domains_per_class(self) -> Indices | None:
        """Distinct domains of each class in each task, (tasks, classes)."""
        return None if self.domains_in_task is None else (self.domains_in_task > 0).sum(axis=2)


def profile(stream: Stream, bins: int = 100) -> Profile:
    """Count a stream's classes over time in bins of equally many samples (or one more)."""
    if bins < 1:
        raise InputError(f"bins must be 1 or more, got {bins}")
    n_classes, n_tasks, order = stream.dataset.n_classes, len(stream), stream.order()
    labels = stream.dataset.y_train[order]
    sizes = [len(task.train) for task in stream.tasks]
    task = np.repeat(np.arange(n_tasks), sizes)
    edges = np.linspace(0, len(order), min(bins, max(len(order), 1)) + 1).astype(np.int64)
    in_bin = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    domains = stream.domains
    return Profile(
        class_names=stream.dataset.label_names,
        edges=edges,
        over_time=_table((len(edges) - 1, n_classes), in_bin, labels),
        task_ends=np.cumsum(sizes),
        in_task=_table((n_tasks, n_classes), task, labels),
        domain_names=[] if domains is None else domains.names,
        domains_in_task=None
        if domains is None
        else _table((n_tasks, n_classes, len(domains.names)), task, labels, domains.train[order]),
    )


def write_counts(found: Profile, path: Path) -> Path:
    """Write the samples of each class (and domain) in each task as a CSV file."""
    tasks = [f"task {number + 1}" for number in range(len(found.in_task))]
    text = io.StringIO(newline="")
    table = csv.writer(text)
    if found.domains_in_task is None:
        table.writerow(["class", *tasks])
        for name, counts in zip(found.class_names, found.in_task.T, strict=True):
            table.writerow([name, *counts.tolist()])
    else:
        table.writerow(["class", "domain", *tasks])
        for index, name in enumerate(found.class_names):
            for number, domain in enumerate(found.domain_names):
                table.writerow([name, domain, *found.domains_in_task[:, index, number].tolist()])
    write_atomically(path, text.getvalue())
    return path


def _table(shape: tuple[int, ...], *columns: Indices) -> Indices:
    """How often each combination of values occurs."""
    cells = np.ravel_multi_index(columns, shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
