"""Copy what is worth keeping of finished runs: settings, metrics and environment, no checkpoints.

    python tools/keep_results.py FROM TO

FROM is searched for run folders, of whichever command; TO gets them under the same names. The
store of a sweep kept like this can be copied back, and `evenstream paper run` will not make those
runs again.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

KEPT = ("config.toml", "metrics.json", "env.json")


def keep_results(source: Path, target: Path) -> list[Path]:
    """Copy the small files of all finished runs below `source`; returns the runs' folders."""
    if target.resolve().is_relative_to(source.resolve()):
        sys.exit(f"{target} is inside {source}: its copies would be copied again")
    kept = []
    for metrics in sorted(source.rglob("metrics.json")):
        if not _finished(metrics):
            continue
        folder = target / metrics.parent.relative_to(source)
        folder.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            if (metrics.parent / name).exists():
                shutil.copyfile(metrics.parent / name, folder / name)
        kept.append(folder)
    return kept


def _finished(metrics: Path) -> bool:
    try:
        found = json.loads(metrics.read_text(encoding="utf-8"))
        return bool(found["status"] == "finished")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"left out, cannot be read: {metrics} ({error})", file=sys.stderr)
        return False


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"kept {len(keep_results(Path(sys.argv[1]), Path(sys.argv[2])))} runs")
