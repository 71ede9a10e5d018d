"""A table of the runs of a plan in a file: what each is, where it is, what came of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from evenstream.errors import EvenstreamError
from evenstream.files import write_atomically
from evenstream.run.config import RunConfig
from evenstream.run.metrics_file import Metrics
from evenstream.sweep.plan import Plan
from evenstream.sweep.store import Store


def write_listing(plan: Plan, store: Store) -> Path:
    """Write `NAME.csv` into the store, one line a run; returns its path.

    Runs of earlier sweeps that this one leaves out, of other cells or seeds, stay listed as long as
    their folders are there.
    """
    path = store.root / f"{plan.name}.csv"
    lines = list(_lines(plan, store))
    own = {line["folder"] for line in lines}
    lines += [line for line in _listed(path, plan, store) if line["folder"] not in own]
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(name for line in lines for name in line))
    writer.writeheader()
    writer.writerows(lines)
    write_atomically(path, text.getvalue())
    return path


def _lines(plan: Plan, store: Store) -> Iterator[dict[str, Any]]:
    for cell, configs in plan.cells.items():
        for config in configs:
            keys = {**dict(cell.keys), "scale": plan.scale, "seed": config.seed}
            yield {**keys, **_result(config, plan, store)}


def _listed(path: Path, plan: Plan, store: Store) -> Iterator[dict[str, Any]]:
    """The lines already in the file, updated with what has become of their runs."""
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    with suppress(csv.Error):  # damaged: the rest of the file is given up
        for line in csv.DictReader(text.splitlines()):
            with suppress(EvenstreamError):  # the folder is gone, or of another version
                if folder := line.get("folder"):
                    yield {**line, **_result(RunConfig.read(store.root / folder), plan, store)}


def _result(config: RunConfig, plan: Plan, store: Store) -> dict[str, Any]:
    found = store.metrics(config) or Metrics()
    values = {name: found.entries.get(name) for name in plan.experiment.metrics}
    return {
        "status": store.status(config),
        **{k: v for k, v in values.items() if isinstance(v, int | float | None)},
        "train_seconds": found.entries.get("train_seconds"),
        "folder": str(store.folder(config).relative_to(store.root)),
    }
