"""A table of the runs of a plan in a file: what each is, where it is, what came of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenstream.files import write_atomically
from evenstream.sweep.plan import Plan
from evenstream.sweep.store import Store


def write_listing(plan: Plan, store: Store) -> Path:
    """Write `NAME.csv` into the store, one line a run; returns its path."""
    text = io.StringIO()
    lines = list(_lines(plan, store))
    writer = csv.DictWriter(text, dict.fromkeys(name for line in lines for name in line))
    writer.writeheader()
    writer.writerows(lines)
    path = store.root / f"{plan.name}.csv"
    write_atomically(path, text.getvalue())
    return path


def _lines(plan: Plan, store: Store) -> Iterator[dict[str, Any]]:
    for cell, configs in plan.cells.items():
        for config in configs:
            found = store.metrics(config) or {}
            values = {name: found.get(name) for name in plan.experiment.metrics}
            yield {
                **dict(cell.keys),
                "scale": plan.scale,
                "seed": config.seed,
                "status": store.status(config),
                **{k: v for k, v in values.items() if isinstance(v, int | float | None)},
                "train_seconds": found.get("train_seconds"),
                "folder": store.folder(config).relative_to(store.root),
            }
