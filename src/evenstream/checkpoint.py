"""Checkpoints: safetensors for tensors, JSON for the rest, atomic, checksummed, last two kept.

A checkpoint is a pair of files, `checkpoint-<step>.safetensors` and `checkpoint-<step>.json`.
Each is written to a temporary name, flushed to the disk and renamed; the JSON comes last and holds
the SHA-256 of the tensors and of itself, so its appearance is the moment the checkpoint exists. A
crash at any other moment leaves the one before it in force. Nothing here can run code on reading.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from evenstream.errors import CheckpointError

FORMAT = 1
KEEP = 2
_TENSOR = "__tensor__"


def flatten(tree: Any, path: str = "") -> tuple[dict[str, Tensor], Any]:
    """Split a tree into its tensors, by path, and the rest with references to them."""
    if isinstance(tree, Tensor):
        return {path: tree}, {_TENSOR: path}
    if isinstance(tree, dict):
        parts = {str(k): flatten(v, f"{path}/{k}" if path else str(k)) for k, v in tree.items()}
        tensors = {name: t for found, _ in parts.values() for name, t in found.items()}
        return tensors, {key: rest for key, (_, rest) in parts.items()}
    if isinstance(tree, (list, tuple)):
        items = [flatten(value, f"{path}/{index}") for index, value in enumerate(tree)]
        tensors = {name: t for found, _ in items for name, t in found.items()}
        return tensors, [rest for _, rest in items]
    return {}, tree


def unflatten(tensors: dict[str, Tensor], rest: Any) -> Any:
    """The inverse of `flatten` (tuples come back as lists)."""
    if isinstance(rest, dict):
        if set(rest) == {_TENSOR}:
            return tensors[rest[_TENSOR]]
        return {key: unflatten(tensors, value) for key, value in rest.items()}
    if isinstance(rest, list):
        return [unflatten(tensors, value) for value in rest]
    return rest


def write_checkpoint(folder: Path, step: int, tree: dict[str, Any]) -> Path:
    """Write a checkpoint and remove all but the newest two. Returns the JSON file's path."""
    tensors, rest = flatten(tree)
    stem = folder / f"checkpoint-{step:012d}"
    stored = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = stem.with_suffix(f".tmp-{os.getpid()}")
        try:
            save_file(stored, temporary)
            digest = _file_digest(temporary)
            _sync(temporary)
            temporary.replace(stem.with_suffix(".safetensors"))
            body = {"format": FORMAT, "step": step, "tensors_sha256": digest, "state": rest}
            text = json.dumps({**body, "sha256": _text_digest(body)}, indent=1)
            temporary.write_text(text, encoding="utf-8")
            _sync(temporary)
            temporary.replace(stem.with_suffix(".json"))
        finally:
            temporary.unlink(missing_ok=True)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"cannot write a checkpoint to {folder}: {error}; the one before it is still there"
        ) from error
    _remove_old(folder, keep_from=step)
    return stem.with_suffix(".json")


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """The newest checkpoint that is whole; a damaged one is passed over for the one before it."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder with checkpoints")
    problems = []
    for manifest in sorted(folder.glob("checkpoint-*.json"), reverse=True):
        try:
            return _read(manifest)
        except CheckpointError as error:
            problems.append(str(error))
    detail = "; ".join(problems) or "it has none"
    raise CheckpointError(f"no usable checkpoint in {folder}: {detail}")


def has_checkpoint(folder: Path) -> bool:
    """Whether a checkpoint was ever completed here."""
    return any(folder.glob("checkpoint-*.json"))


def _read(manifest: Path) -> dict[str, Any]:
    try:
        body = json.loads(manifest.read_text(encoding="utf-8"))
        claimed = body.pop("sha256")
        intact = claimed == _text_digest(body)
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{manifest.name} is damaged ({error})") from None
    if not intact:
        raise CheckpointError(f"{manifest.name} was altered: its checksum does not match")
    if body["format"] != FORMAT:
        raise CheckpointError(
            f"{manifest.name} has format {body['format']}, this version reads {FORMAT}; "
            "use the evenstream version that wrote it"
        )
    data = manifest.with_suffix(".safetensors")
    if not data.is_file() or _file_digest(data) != body["tensors_sha256"]:
        raise CheckpointError(f"{data.name} is missing, truncated or altered")
    try:
        tree: dict[str, Any] = unflatten(load_file(data), body["state"])
    except (SafetensorError, KeyError) as error:
        raise CheckpointError(f"{data.name} cannot be read: {error}") from None
    return tree


def _remove_old(folder: Path, keep_from: int) -> None:
    """Keep the newest `KEEP` pairs; drop files of later steps (a run that was cut back) too."""
    manifests = sorted(folder.glob("checkpoint-*.json"))
    current = [m for m in manifests if int(m.stem.split("-")[1]) <= keep_from]
    kept = {manifest.stem for manifest in current[-KEEP:]}
    with contextlib.suppress(OSError):
        for file in sorted(folder.glob("checkpoint-*")):  # .json sorts before .safetensors
            if file.stem not in kept:
                file.unlink(missing_ok=True)


def _text_digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Force a file or folder to the disk, so that a power cut cannot undo a rename."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
