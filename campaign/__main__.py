"""Attack the promises of docs/concepts/reliability.md; the exit status is 1 if one is broken."""

from __future__ import annotations

import argparse
import os
import pkgutil
import shutil
import signal
import sys
from pathlib import Path

from campaign import kinds, processes


def main() -> int:
    known = sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(kinds.__path__))
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"all, or of {', '.join(known)}")
    parser.add_argument("--minutes", type=float, default=240, help="begin nothing after that")
    parser.add_argument("--size", type=float, default=1, help="1: all that must hold; 0.1: a tenth")
    parser.add_argument("--seed", type=int, default=0, help="another campaign")
    parser.add_argument("--jobs", type=int, default=2, help="attempts at the same time")
    parser.add_argument("--slowness", type=float, default=1, help="3: a busy machine, wait longer")
    parser.add_argument("--repeat", metavar="KIND:SEED", help="one attempt; its folder is kept")
    parser.add_argument("--out", type=Path, default=Path("campaign-out"), help="folder to work in")
    asked = parser.parse_args()
    repeated, _, seed = (asked.repeat or "").partition(":")
    names = [repeated] if repeated else asked.kinds or known
    if unknown := set(names) - set(known):
        parser.error(f"unknown kind {', '.join(unknown)}; known: {', '.join(known)}")
    home = asked.out.absolute()
    processes.slowness = asked.slowness
    _set_environment(home)
    for name in ("first", "samples", "references", "half-done", *([] if repeated else ["work"])):
        shutil.rmtree(home / name, ignore_errors=True)

    from campaign.cases import prepare
    from campaign.runner import Campaign, Kind, warm_up

    warm_up(home)
    prepare(home)
    campaign = Campaign([Kind.named(name, asked.size) for name in names], home)
    if repeated:
        campaign.repeat(int(seed))
    else:
        campaign.run(asked.seed, asked.minutes, asked.jobs)
    return 0 if campaign.conclude() else 1


def _set_environment(home: Path) -> None:
    """One thread for this process and its children, and none of the user's settings."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ["EVENSTREAM_DATA"] = str(home / "data")
    os.environ["EVENSTREAM_DATA_MIRROR"] = "http://127.0.0.1:9/"  # where nobody answers
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends all attempts


if __name__ == "__main__":
    sys.exit(main())
