"""Checkpoints: safetensors for tensors, JSON for the rest, atomic, checksummed, last two kept.

A checkpoint is a pair of files, `checkpoint-<number>-step-<step>.safetensors` and `.json`, numbered
in the order of writing. Both are written in a separate folder, flushed to disk and renamed into
place; the JSON comes last and holds the SHA-256 of the tensors and of itself, so the checkpoint
exists from the moment it appears. No file is ever overwritten: a crash at any other moment leaves
the previous checkpoints in force. Reading never runs code.

Whatever else a later format changes, `format`, `evenstream` (the version that wrote it) and the two
checksums stay where they are, so that an earlier version can say what it cannot read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save, save_file
from torch import Tensor

from evenstream.entries import entry
from evenstream.errors import CheckpointError, DamagedCheckpoint, DamageWarning, shown
from evenstream.version import __version__

T = TypeVar("T")
log = logging.getLogger(__name__)

FORMAT = 3
"""The format written. Format 2, of evenstream 0.1.0, differs only in the state of learners."""
READABLE = (2, FORMAT)
_TENSOR, _ESCAPE = "__tensor__", "~"
ALONE = "alone"
"""Marks a checkpoint before which none may remain."""
_INCOMING = "incoming"
_NUMBER = re.compile(r"checkpoint-(\d+)")


def flatten(tree: Any, path: str = "") -> tuple[dict[str, Tensor], Any]:
    """Split a tree into its tensors, by path, and the rest with references to them."""
    if isinstance(tree, Tensor):
        return {path: tree}, {_TENSOR: path}
    if isinstance(tree, dict):
        parts = {str(k): flatten(v, f"{path}/{k}" if path else str(k)) for k, v in tree.items()}
        tensors = {name: t for found, _ in parts.values() for name, t in found.items()}
        return tensors, {_escaped(key): rest for key, (_, rest) in parts.items()}
    if isinstance(tree, (list, tuple)):
        items = [flatten(value, f"{path}/{index}") for index, value in enumerate(tree)]
        tensors = {name: t for found, _ in items for name, t in found.items()}
        return tensors, [rest for _, rest in items]
    return {}, tree


def unflatten(tensors: dict[str, Tensor], rest: Any) -> Any:
    """The inverse of `flatten` (tuples come back as lists)."""
    if isinstance(rest, dict):
        if set(rest) == {_TENSOR} and isinstance(rest[_TENSOR], str):
            return tensors[rest[_TENSOR]]
        return {_unescaped(key): unflatten(tensors, value) for key, value in rest.items()}
    if isinstance(rest, list):
        return [unflatten(tensors, value) for value in rest]
    return rest


def _escaped(key: str) -> str:
    """A key that cannot be mistaken for the mark of a tensor."""
    return _ESCAPE + key if key.lstrip(_ESCAPE) == _TENSOR else key


def _unescaped(key: str) -> str:
    return key.removeprefix(_ESCAPE) if key.lstrip(_ESCAPE) == _TENSOR else key


def fingerprint(tree: dict[str, Any]) -> str:
    """A SHA-256 over a whole tree."""
    tensors, rest = flatten(tree)
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.flatten().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_checkpoint(folder: Path, step: int, tree: dict[str, Any], *, alone: bool = False) -> Path:
    """Write a checkpoint, keeping the previous one. Returns the JSON file's path.

    With `alone`, the checkpoint itself records that earlier ones must go, because something in them
    is to be forgotten, so that they are removed even if the process is killed first.
    """
    stored, rest = _stored(tree)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        newest = folder / f"checkpoint-{_next_number(folder):06d}-step-{step}.json"
        incoming = folder / _INCOMING
        shutil.rmtree(incoming, ignore_errors=True)  # of a killed process
        incoming.mkdir()
        try:
            manifest = incoming / newest.name
            data = manifest.with_suffix(".safetensors")
            save_file(stored, data)
            digest = _file_digest(data)
            text = json.dumps(_manifest(step, digest, rest, alone), indent=1)
            manifest.write_text(text, encoding="utf-8")
            shutil.copymode(manifest, data)  # safetensors files are readable by their owner only
            sync(data)
            sync(manifest)
            data.replace(newest.with_suffix(".safetensors"))
            manifest.replace(newest)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        sync(folder)
    except (OSError, SafetensorError, TypeError, ValueError, RecursionError) as error:
        before = "the previous one is still there" if has_checkpoint(folder) else "there is none"
        raise CheckpointError(
            f"cannot write a checkpoint to {folder}: {error}; {before}"
        ) from error
    _remove_old(folder, newest, alone=alone)
    log.debug("saved %s", newest)
    return newest


def _stored(tree: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
    """Copies of the tensors, and the rest."""
    tensors, rest = flatten(tree)
    return {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}, rest


def _manifest(step: int, tensors_sha256: str, rest: Any, alone: bool = False) -> dict[str, Any]:
    """The contents of the JSON file."""
    body = {
        "format": FORMAT,
        "evenstream": __version__,
        "step": step,
        "tensors_sha256": tensors_sha256,
        "state": rest,
        **({ALONE: True} if alone else {}),
    }
    return {**body, "sha256": text_digest(body)}


def to_bytes(step: int, tree: dict[str, Any]) -> bytes:
    """A checkpoint as one block of bytes: its JSON on one line, then its tensors."""
    stored, rest = _stored(tree)
    data = save(stored)
    line = json.dumps(_manifest(step, hashlib.sha256(data).hexdigest(), rest))
    return line.encode() + b"\n" + data


def from_bytes(written: bytes) -> dict[str, Any]:
    """The inverse of `to_bytes`.

    Raises:
        DamagedCheckpoint: they were cut off or altered.
    """
    if not isinstance(written, bytes | bytearray):
        raise CheckpointError(f"a checkpoint is read from bytes, got {shown(written)}")
    line, _, data = bytes(written).partition(b"\n")
    body = _checked_text(line)
    if hashlib.sha256(data).hexdigest() != body.get("tensors_sha256"):
        raise DamagedCheckpoint("its tensors are cut off or altered: their checksum does not match")
    _check_format("the checkpoint", body)
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise DamagedCheckpoint(f"its tensors cannot be read ({error})") from None
    return _tree(tensors, body)


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """The newest intact checkpoint; a damaged one is skipped in favour of the one before it."""
    return restore(folder, lambda tree: tree)


def restore(folder: Path, build: Callable[[dict[str, Any]], T]) -> T:
    """The result of `build` for the newest checkpoint that it can use.

    One that is damaged, or for which `build` raises `DamagedCheckpoint` (see `entry`), is skipped
    in favour of the one before it; other errors reach the user.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder with checkpoints")
    problems = []
    for manifest in _manifests(folder):
        try:
            built = build(_read(manifest))
        except DamagedCheckpoint as error:
            problems.append(f"{manifest.name}: {error}")
        else:
            if problems:
                warnings.warn(
                    f"{problems[0]}; continuing from the checkpoint before it",
                    DamageWarning,
                    stacklevel=2,
                )
            log.debug("read %s", manifest)
            return built
    detail = "; ".join(problems) or "it has none"
    raise DamagedCheckpoint(f"no usable checkpoint in {folder}: {detail}")


def tidy(folder: Path) -> None:
    """Finish the clean-up of a process that was killed right after its save."""
    shutil.rmtree(folder / _INCOMING, ignore_errors=True)
    manifests = _manifests(folder)
    if manifests:
        alone = False
        with contextlib.suppress(CheckpointError):
            alone = _checked(manifests[0]).get(ALONE) is True
        _remove_old(folder, manifests[0], alone=alone)


def has_checkpoint(folder: Path) -> bool:
    """Whether a checkpoint was ever completed here."""
    return bool(_manifests(folder))


def _manifests(folder: Path) -> list[Path]:
    """The JSON files, newest first."""
    return sorted(folder.glob("checkpoint-*.json"), key=_number, reverse=True)


def _number(file: Path) -> int:
    found = _NUMBER.match(file.name)
    return int(found[1]) if found else -1


def _next_number(folder: Path) -> int:
    return max(map(_number, folder.glob("checkpoint-*")), default=0) + 1


def _read(manifest: Path) -> dict[str, Any]:
    body = _checked(manifest)
    _check_format(str(manifest), body)
    data = manifest.with_suffix(".safetensors")
    try:
        tensors = load_file(data)
    except (OSError, SafetensorError) as error:
        raise DamagedCheckpoint(f"{data.name} cannot be read ({error})") from None
    return _tree(tensors, body)


def _tree(tensors: dict[str, Tensor], body: dict[str, Any]) -> dict[str, Any]:
    with entry("state"):
        tree = unflatten(tensors, body["state"])
        if isinstance(tree, dict):
            return tree
        raise TypeError("it is not a dictionary")


def _checked(manifest: Path) -> dict[str, Any]:
    """The contents of the JSON file, after verifying its checksum and that of the tensors."""
    try:
        text = manifest.read_bytes()
    except OSError as error:
        raise DamagedCheckpoint(f"it is damaged ({error})") from None
    body = _checked_text(text)
    data = manifest.with_suffix(".safetensors")
    try:
        digest = _file_digest(data)
    except OSError as error:
        raise DamagedCheckpoint(f"{data.name} cannot be read ({error})") from None
    if digest != body.get("tensors_sha256"):
        raise DamagedCheckpoint(f"{data.name} is truncated or altered: its checksum does not match")
    return body


def _checked_text(text: bytes) -> dict[str, Any]:
    """The contents of the JSON, after verifying its own checksum."""
    try:
        body: dict[str, Any] = json.loads(text.decode("utf-8"))
        claimed = body.pop("sha256")
        intact = claimed == text_digest(body)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCheckpoint(f"it is damaged ({error})") from None
    if not intact:
        raise DamagedCheckpoint("it was altered: its checksum does not match")
    return body


def _check_format(where: str, body: dict[str, Any]) -> None:
    """Reject an unknown format; the file is intact, so falling back to an earlier one would be
    wrong.
    """
    written = body.get("format")
    if written in READABLE:
        return
    known = " and ".join(map(str, READABLE))
    version = body.get("evenstream")
    by = f"evenstream {version}" if isinstance(version, str) else "another version of evenstream"
    raise CheckpointError(
        f"{where} has format {shown(written)} and was written by {by}; this is evenstream "
        f"{__version__}, which reads formats {known}: use the version that wrote it"
    )


def _remove_old(folder: Path, newest: Path, *, alone: bool = False) -> None:
    """Keep the newest and the last intact one before it; remove all other files."""
    kept = [newest]
    for manifest in [] if alone else _manifests(folder):
        with contextlib.suppress(CheckpointError):
            if manifest != newest and _checked(manifest):
                kept.append(manifest)
                break
    names = {file.name for pair in kept for file in (pair, pair.with_suffix(".safetensors"))}
    with contextlib.suppress(OSError):
        for file in sorted(folder.glob("checkpoint-*")):  # .json sorts before .safetensors
            if file.name not in names:
                file.unlink(missing_ok=True)


def text_digest(body: Any) -> str:
    """The checksum of a manifest, independent of its layout."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush a file or folder to disk, so that a power cut cannot undo a rename."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
