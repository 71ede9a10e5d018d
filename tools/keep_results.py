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
    kept = []
    for metrics in sorted(source.rglob("metrics.json")):
        if json.loads(metrics.read_text(encoding="utf-8")).get("status") != "finished":
            continue
        folder = target / metrics.parent.relative_to(source)
        folder.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            if (metrics.parent / name).exists():
                shutil.copyfile(metrics.parent / name, folder / name)
        kept.append(folder)
    return kept


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"kept {len(keep_results(Path(sys.argv[1]), Path(sys.argv[2])))} runs")
