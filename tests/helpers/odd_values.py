"""Values that no argument is meant for; fuzzing with them must end in an `EvenstreamError`."""

from __future__ import annotations

import datetime
import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import nn

from evenstream.errors import EvenstreamError


class _NoText:
    def __repr__(self) -> str:
        raise RuntimeError("there is no text of this")


def nested(depth: int, kind: type = tuple) -> Any:
    """Tuples or lists inside one another."""
    value = kind(["a"])
    for _ in range(depth):
        value = kind([value])
    return value


with warnings.catch_warnings(action="ignore"):  # prototypes say so
    _NESTED = torch.nested.nested_tensor([torch.ones(5), torch.ones(3)])
    _QUANTISED = torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.qint8)

ODD = {
    "None": None, "no text": "", "a word": "abc", "surrogate": "\ud800", "zero byte": "a\0b",
    "long text": "x" * 5000, "3": 3, "-1": -1, "2**70": 2**70, "10**400": 10**400,
    "10**5000": 10**5000, "nan": math.nan, "inf": math.inf, "1e308": 1e308, "True": True,
    "fraction": Fraction(1, 2), "complex": 1j, "bytes": b"ab", "[]": [], "()": (), "{}": {},
    "set": {1}, "['a']": ["a"], "[None]": [None], "ragged": [[1], [1, 2]], "{1: 'x'}": {1: "x"},
    "deep tuple": nested(600), "deep list": nested(5000, list), "object": object(),
    "without repr": _NoText(), "class": int, "function": len, "date": datetime.date(2020, 1, 1),
    "datetime64": np.datetime64("2020-01-01"), "NaT": np.datetime64("NaT"),
    "timedelta64": np.timedelta64(1, "s"), "dates": np.array(["2020-01-01", "NaT"], "M8[ns]"),
    "spans": np.ones((2, 5), "m8[s]"), "empty array": np.zeros(0), "0-d array": np.array(0.5),
    "objects": np.array([None, object()], object), "complex array": np.ones((2, 5), complex),
    "bytes array": np.array([b"a", b"b"]), "records": np.zeros(2, [("a", "i4"), ("b", "M8[s]")]),
    "masked": np.ma.array(np.ones((2, 5)), mask=np.eye(2, 5)),
    "masked labels": np.ma.array([1, 2], mask=[0, 1]), "mask": np.ma.masked,
    "0-d tensor": torch.tensor(0.5), "tensor": torch.ones(2), "meta": torch.ones(2, device="meta"),
    "meta rows": torch.ones(2, 5, device="meta"), "sparse": torch.ones(2, 5).to_sparse(),
    "sparse labels": torch.ones(2).to_sparse(), "nested": _NESTED, "quantised": _QUANTISED,
    "lazy": nn.UninitializedParameter(), "vast": torch.ones(1, 1).expand(10**5, 10**9),
    "module": nn.Linear(4, 3), "dtype": torch.float32, "(1, 2, 3)": (1, 2, 3),
}  # fmt: skip


def refused_or_taken(call) -> bool:
    """Whether a call was refused, in the one way that there is; anything else fails the test."""
    with warnings.catch_warnings(action="ignore"):  # NumPy's, of masked values
        try:
            call()
        except EvenstreamError as error:
            assert str(error)
            return True
    return False
