"""Keep what is worth keeping of finished runs: settings, metrics and environment, no checkpoints.

    python tools/keep_results.py FROM TO

FROM is searched for runs, of whichever command: a folder, or a file that this tool wrote. TO, if
its name ends in .runs.jsonl, becomes or grows by one file of text with a line for each run, which
`evenstream paper report --runs` reads; a run of the same name is replaced. Any other TO becomes a
folder with the runs' folders in it: the store of a sweep kept and brought back like this is known
to `evenstream paper run`, which will not make those runs again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from evenstream.errors import EvenstreamError
from evenstream.report.packed import PACKED, PackedRun, is_packed, read_packed, write_packed
from evenstream.run.metrics_file import METRICS


def keep_results(source: Path, target: Path) -> int:
    """Keep all finished runs below `source`; returns how many there are."""
    source = source.resolve()
    if target.resolve().is_relative_to(source):
        raise EvenstreamError(f"{target} is inside {source}: its copies would be copied again")
    found = {run.name: run for run in runs_below(source)}
    if target.name.endswith(PACKED):
        before = {run.name: run for run in read_packed(target)} if target.exists() else {}
        write_packed(target, {**before, **found}.values())
    else:
        for run in found.values():
            run.unpack(target)
    return len(found)


def runs_below(source: Path) -> Iterator[PackedRun]:
    """The finished runs in folders and in packed files, named after where they are."""
    if not source.exists():
        raise EvenstreamError(f"there is no {source}")
    if is_packed(source):
        yield from read_packed(source)
        return
    for file in sorted(source.rglob(f"*{PACKED}")):
        study = file.relative_to(source).as_posix().removesuffix(PACKED)
        for run in read_packed(file):
            yield PackedRun(f"{study}/{run.name}", run.config, run.metrics, run.env)
    for file in sorted(source.rglob(METRICS)):
        folder = file.parent
        name = folder.name if folder == source else folder.relative_to(source).as_posix()
        try:
            run = PackedRun.of_folder(folder, name)
        except EvenstreamError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        if run.metrics.get("status") == "finished":
            yield run


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        print(f"kept {keep_results(Path(sys.argv[1]), Path(sys.argv[2]))} runs")
    except EvenstreamError as problem:
        sys.exit(str(problem))
