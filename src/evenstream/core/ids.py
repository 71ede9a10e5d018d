"""Sample ids, stored as 128-bit digests whatever their kind."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenstream.core.labels import Label, label_to_json, plain_labels
from evenstream.errors import InputError, shown


def plain_ids(ids: Any) -> list[Label]:
    """Ids as a list of Python values: text, whole numbers, or tuples of them."""
    if isinstance(ids, str | int):
        raise InputError(f"ids must be a list, got {shown(ids)}; pass [{shown(ids)}]")
    try:
        return plain_labels(ids)
    except InputError as error:
        said = str(error).replace("a label", "an id").replace("label", "id")
        raise InputError(f"ids cannot be used: {said}") from None


def digests(ids: list[Label]) -> Tensor:
    """Two 64-bit numbers per id, which are distinct for all practical purposes."""
    found = [hashlib.sha256(json.dumps(label_to_json(each)).encode()).digest()[:16] for each in ids]
    return torch.from_numpy(np.frombuffer(b"".join(found), "<i8").astype(np.int64).reshape(-1, 2))


def row_ids(ids: Any, rows: int) -> Tensor | None:
    """The digest of an id for each row; None if there are none."""
    if ids is None:
        return None
    found = plain_ids(ids)
    if len(found) != rows:
        raise InputError(f"{rows} rows but {len(found)} ids; pass one for each row")
    return digests(found)


def no_ids(rows: int) -> Tensor:
    """The digest of rows without an id."""
    return torch.zeros(rows, 2, dtype=torch.int64)


def where(stored: Tensor, wanted: Tensor) -> Tensor:
    """The position of each stored row's id among those wanted; -1 if it is not among them."""
    places = {tuple(each): place for place, each in enumerate(wanted.tolist())}
    return torch.tensor(
        [places.get(tuple(each), -1) for each in stored.tolist()], dtype=torch.int64
    )
