"""Damaged folders: a reader reports the damage, or gets exactly what it would have without it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from campaign.cases import (
    OUT,
    Case,
    live_cases,
    other_cases,
    reference,
    run_cases,
    worker_cases,
)
from campaign.kinds.archives import NAME, good_files, packed, register
from campaign.outcomes import difference
from campaign.processes import LOG, Failure, Life, Operations, die

EACH, FULL = 1, 300
_WAYS = [
    "truncated", "flipped", "overwritten", "emptied", "longer", "mutated", "mutated", "deleted",
    "now a folder", "now a loop", "swapped",
]  # fmt: skip
_WRONG = [
    True, -1, 0, 1.5, 10**18, "", "x", "__tensor__", [], [[]], {}, {"__tensor__": "x"}, "\x1b[31m"
]  # fmt: skip
_JUNK = [
    b"{}", b"[]", b"null", b"{", b'{"step": 1}', b'{"step": "x"}', b'{"step": null}', b"\xff\xfe",
    b'{"step": 10, "task": []}', b'{"step": 1e999}',
]  # fmt: skip


def attack(seed: int, folder: Path) -> None:
    """Damage a copy of what a command left behind, read it and continue with it."""
    draw, home, place = random.Random(seed), folder.parents[1], folder / "copy"
    if seed % 10 == 9:
        _damage_data(folder, draw)
        return
    kinds = [run_cases(home), live_cases(home, pipes=False), other_cases(home)[:1]]
    case = draw.choice(draw.choices([*kinds, worker_cases(home)], [5, 3, 1, 1])[0])
    shutil.copytree(_half_done(case, draw.choice([3, 6, 10]), home), place)
    done = [_damage(place / OUT, draw) for _ in range(draw.choice([1, 1, 2, 3]))]
    what = f"{case.words}, then {', '.join(text for text, _ in done)}"
    table = str(home / "samples" / "table.csv")
    readers = [["report", OUT], ["predict", OUT, table], ["learn", "new", "--from", table]]
    try:
        words = draw.choice(readers)
        Life([*words, *(["--start", OUT] if "new" in words else [])], place).end().check()
        ended = Life(case.next_words(place), place).end()
        ended.check()
    except Failure as failure:
        raise Failure(f"{what}: {failure}") from failure
    told = ended.status or "warning" in ended.output or not all(shows for _, shows in done)
    wrong = told or difference(*map(_results, (case.outcome(place), reference(case, home).outcome)))
    if wrong and not told:
        raise Failure(f"{what}: other results without a word of warning: {wrong}")


def _damage_data(folder: Path, draw: random.Random) -> None:
    """Damage a folder of data sets, or its records."""
    archive = folder / f"{NAME}.zip"
    archive.write_bytes(packed("zip", good_files()))
    for line in ("import", "damage", "list", "verify", "get", "import"):
        if line == "damage":
            _damage(folder / "data", draw, draw.choice(["imports.json", "*"]))
            continue
        words = {"list": [], "import": [NAME, "."]}.get(line, [NAME])
        Life(["data", line, *words], folder, lambda: register(archive.name, folder)).end().check()


def _results(found: dict[str, Any]) -> dict[str, Any]:
    """What counts: the metrics, and what was learned, but not the log.

    A finished run is not made again for its checkpoint, so that may be the one before the last.
    """
    counts = ("metrics.json", "safetensors", *(["learner"] if "learner" in found else []))
    return {name: value for name, value in found.items() if name.endswith(counts)}


def _half_done(case: Case, tenths: int, home: Path) -> Path:
    """What a command leaves when killed after some tenths of its work; computed once."""
    whole = tenths == 10 or case.has_workers
    at = 0 if whole else reference(case, home).operations * tenths // 10
    place = home / "half-done" / f"{case.key}-{at}"
    if not place.exists():
        made = place.with_name(f"{place.name}-{os.getpid()}")
        case.live(made, lambda: Operations().watch(at, die), real=case.has_workers).end()
        for log in made.glob(f"{LOG}*"):
            log.unlink()
        try:
            made.rename(place)
        except OSError:  # another attempt was faster
            shutil.rmtree(made)
    return place


def _damage(folder: Path, draw: random.Random, names: str = "*") -> tuple[str, bool]:
    """Damage a file; returns what was done, and whether a reader can notice."""
    files = sorted(path for path in folder.rglob(names) if path.is_file())
    if not files:
        return "nothing left to damage", True
    path, other, how = draw.choice(files), draw.choice(files), draw.choice(_WAYS)
    content = path.read_bytes()
    if how in ("deleted", "now a folder", "now a loop"):
        path.unlink()
        if how == "now a folder":
            path.mkdir()
        elif how == "now a loop":
            path.symlink_to(path.name)
        shows = True
    elif how == "swapped":
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
        shows = False
    else:
        path.write_bytes(_changed(content, how, draw))
        has_checksum = path.name.startswith("checkpoint-") or path.suffix == ".safetensors"
        cut = how in ("truncated", "emptied") and path.suffix != ".toml"  # which has defaults
        shows = cut or (has_checksum and how != "mutated")
    return f"{path.relative_to(folder)} is {how}", shows


def _changed(content: bytes, how: str, draw: random.Random) -> bytes:
    if how == "truncated":
        return content[: draw.randrange(len(content) + 1)]
    if how == "flipped":
        flipped = bytearray(content or b"x")
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
        return bytes(flipped)
    if how == "overwritten":
        return draw.choice([draw.randbytes(200), b"[" * 100_000, b"\n" * 3, b'{"a": ' * 5000])
    if how == "emptied":
        return b""
    if how == "mutated":
        for read, write in ((json.loads, json.dumps), (tomllib.loads, tomli_w.dumps)):
            try:
                return write(_mutated(read(content.decode()), draw)).encode()
            except (ValueError, TypeError):
                continue
    return content + b"\n".join(draw.choices(_JUNK, k=3)) + b"\n"


def _mutated(tree: Any, draw: random.Random) -> Any:
    """A tree with a wrong value somewhere and a matching checksum."""
    at = tree
    while isinstance(at, dict | list) and at:
        key = draw.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if not isinstance(at[key], dict | list) or draw.random() < 0.3:
            at[key] = draw.choice(_WRONG)
            break
        at = at[key]
    if isinstance(tree, dict) and "tensors_sha256" in tree:
        body = {key: value for key, value in tree.items() if key != "sha256"}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return {**body, "sha256": digest}
    return tree
