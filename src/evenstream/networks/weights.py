"""Weights of a network in a file: read without running code, checked, written.

The names in a file are torchvision's (`layer2.0.downsample.0.weight`), so its files can be read and
ours can be used elsewhere.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from evenstream.errors import InputError

_NESTED = ("state_dict", "model")
_PREFIXES = ("module.", "backbone.")
_CLASSIFIERS = ("fc.", "head.")
_NOT_ALWAYS_STORED = "num_batches_tracked"  # torchvision's files are older than it


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The weights in a file, without those of the classifier, under this package's names.

    Args:
        path: A `.safetensors` file, or a `.pth` or `.pt` file with a state_dict (as it is, or under
            "state_dict" or "model"). Prefixes that wrappers leave ("module.") are dropped.

    Raises:
        InputError: The file is missing or damaged, or holds anything but tensors.
    """
    tensors: dict[str, Tensor] = {}
    for name, value in _read(Path(path)).items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(f"{path}: {name!r} is not a tensor; save a network's state_dict alone")
        while name.startswith(_PREFIXES):
            name = name.partition(".")[2]
        if not name.startswith(_CLASSIFIERS):
            tensors[name.replace(".downsample.", ".shortcut.")] = value
    return tensors


def read_metadata(path: str | Path) -> dict[str, str]:
    """The metadata of a `.safetensors` file; empty for other files."""
    if Path(path).suffix != ".safetensors":
        return {}
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def load_weights(backbone: nn.Module, path: str | Path) -> None:
    """Load the weights of a file into a network; a file that does not fit leaves it unchanged.

    Raises:
        InputError: The file cannot be read, or names, shapes or values do not fit.
    """
    found, wanted = read_weights(path), backbone.state_dict()
    missing = [name for name in wanted if name not in found and _NOT_ALWAYS_STORED not in name]
    unexpected = [name for name in found if name not in wanted]
    for trouble, names in (("lack", missing), ("have besides", unexpected)):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise _unfit(path, f"they {trouble} {names[0]}{more}")
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            shapes = f"{tuple(value.shape)} instead of {tuple(wanted[name].shape)}"
            raise _unfit(path, f"{name} has shape {shapes}")
        if not bool(torch.isfinite(value).all()):
            raise InputError(f"{path}: {name} has NaN or infinite values; use an intact file")
    backbone.load_state_dict({**wanted, **found})


def pack_weights(
    backbone: Mapping[str, Tensor], head: Mapping[str, Tensor], metadata: dict[str, str]
) -> bytes:
    """The content of a `.safetensors` file: a backbone, its classifier as `fc`, and metadata."""
    tensors = {name.replace(".shortcut.", ".downsample."): t for name, t in backbone.items()}
    tensors |= {f"fc.{name}": tensor for name, tensor in head.items()}
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(stored, metadata)


def file_digest(path: str | Path) -> str:
    """The SHA-256 of a file of weights."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"the weights cannot be read: {error}") from None


def _read(path: Path) -> dict[Any, Any]:
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"{path}: weights are read from .safetensors, .pth or .pt files")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        tree = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(
            f"{path} is damaged, or holds more than tensors and could run code when it is opened; "
            "save the tensors alone: torch.save(model.state_dict(), 'weights.pth')"
        ) from None
    except Exception as error:  # a damaged file can fail in many ways
        raise InputError(f"{path} is damaged or not a file of weights ({error!r})") from None
    for key in _NESTED:
        if isinstance(tree, dict) and isinstance(tree.get(key), dict):
            tree = tree[key]
    if not isinstance(tree, dict):
        raise InputError(f"{path} must hold a state_dict, got a {type(tree).__name__}")
    return tree


def _unfit(path: str | Path, trouble: str) -> InputError:
    return InputError(
        f"the weights in {path} are those of another network: {trouble} "
        "(torchvision's resnet18 is resnet18-imagenet here, its resnet34 is resnet34)"
    )
