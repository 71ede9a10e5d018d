"""Checks user input before anything changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from evenstream.errors import InputError, shown


@dataclass(frozen=True)
class InputKind:
    """Shape and type of one input; fixed by the first batch."""

    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, x: Tensor) -> InputKind:
        """The kind of the rows of a checked batch."""
        return cls(tuple(x.shape[1:]), str(x.dtype).removeprefix("torch."))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> InputKind:
        """The inverse of `asdict`, with checks."""
        kind = cls(tuple(state["shape"]), state["dtype"])
        sizes = all(type(size) is int and size > 0 for size in kind.shape)
        if kind.shape and sizes and kind.dtype in ("uint8", "float32", "float16"):
            return kind
        if kind == TEXTS:
            return kind
        raise ValueError(f"there are no inputs of shape {kind.shape} and dtype {kind.dtype!r}")

    @property
    def advice(self) -> str:
        """What to pass instead of anything else."""
        return (
            f"this learner has learned from arrays of shape {self.shape} each; pass a batch of them"
        )

    def example(self) -> Tensor:
        """A batch of one row of zeros."""
        return torch.zeros((1, *self.shape), dtype=getattr(torch, self.dtype))


TEXTS = InputKind((), "text")
"""Texts of any length, which a frozen part turns into numbers."""
Batch = Tensor | list[str]
"""Checked inputs."""


def kind_of(batch: Batch) -> InputKind:
    """The kind of the rows of a checked batch."""
    return TEXTS if isinstance(batch, list) else InputKind.of(batch)


def are_texts(x: Any) -> bool:
    """Whether the input is meant as texts: one, or a sequence containing some."""
    if isinstance(x, (str, Tensor)):
        return isinstance(x, str)
    if isinstance(x, (list, tuple)):
        return any(isinstance(each, str) for each in x)
    kind = getattr(getattr(x, "dtype", None), "kind", "O")
    if not hasattr(x, "__array__") or kind not in "OUT":
        return False
    array = np.asarray(x)
    return array.dtype.kind in "UT" or any(isinstance(each, str) for each in array.flat)


def check_texts(x: Any) -> list[str]:
    """A batch of texts as a list; rejects rows that are not text."""
    if isinstance(x, str):
        raise InputError("inputs are a single text; pass a list with one text for each sample")
    rows = list(x) if isinstance(x, (list, tuple)) else np.asarray(x).tolist()
    for index, text in enumerate(rows):
        if not isinstance(text, str):
            raise InputError(f"row {index} is {shown(text)}, not text; pass texts only")
    return [str(text) for text in rows]


def refuse_unusual(what: str, tensor: Tensor) -> None:
    """Reject a tensor whose values cannot be read."""
    kind = None
    if is_lazy(tensor):
        kind = "a parameter that has no values yet"
    elif tensor.is_meta:
        kind = "one on the device meta, which has no values"
    elif tensor.is_nested:
        kind = "a nested one"
    elif tensor.is_quantized or tensor.layout != torch.strided:
        kind = f"one of {tensor.dtype} and {tensor.layout}"
    if kind is not None:
        raise InputError(f"{what} must be a plain tensor, got {kind}")


def check_weights(weights: Any, rows: int) -> Tensor | None:
    """A weight per row as float32; None if there are none, or all are equal."""
    if weights is None:
        return None
    found = weights.detach().cpu() if isinstance(weights, Tensor) else weights
    try:
        array = np.asarray(found, dtype=np.float32)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"weights must be numbers, one for each row: {error}") from None
    if array.shape != (rows,):
        raise InputError(f"{rows} rows but weights of shape {array.shape}; pass one for each row")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError("weights must be finite numbers of 0 or more")
    return None if (array == 1).all() else torch.from_numpy(array.copy())


def _kinds(array: np.ndarray[Any, Any]) -> str:
    """The types of some values, in words."""
    return " and ".join(sorted({type(value).__name__ for value in array.flat[:100]}))


def _no_numbers(x: Any, array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """What is wrong with inputs that are not numbers, and what to do unless something is known."""
    if array.ndim == 2 and array.dtype.kind in "OUT":
        return (
            f"inputs must be numbers; rows of {_kinds(array)} are a table",
            "pass a frame with named columns (pandas, polars, Arrow)",
        )
    if array.size and isinstance(array.flat[0], dict):
        return "inputs must be numbers, got dicts", "pass a frame: pandas.DataFrame(list_of_dicts)"
    if are_texts(x):
        return (
            "inputs must be numbers, got texts",
            "to learn from texts, give the learner an encoder: model='wordllama', or "
            "Frozen(function) with a function from a list of texts to a matrix",
        )
    return f"inputs must be numbers, got an array of dtype {array.dtype}", ""


def check_inputs(x: Any, expected: InputKind | None, advice: str = "") -> Tensor:
    """A private copy of the batch on the CPU, uint8 or float32; rejects unusable input.

    `advice` says what to pass, if that is not an array like those expected.
    """
    if expected is not None:
        advice = advice or expected.advice
    if isinstance(x, Tensor):
        refuse_unusual("inputs", x)
        rows = x.detach()
    else:
        parts = x if isinstance(x, (list, tuple)) else ()
        if any(map(np.ma.is_masked, (x, *parts))):
            raise InputError("inputs are masked: some values are missing; fill them: x.filled(0)")
        try:
            array = np.asarray(x)
        except (ValueError, TypeError, RuntimeError, AttributeError) as error:
            raise InputError(f"inputs are not an array: {error}") from None
        if array.dtype.kind not in "uifb":
            what, usual = _no_numbers(x, array)
            raise InputError("; ".join(filter(None, [what, advice or usual])))
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is rejected below
            rows = torch.from_numpy(array.astype(array.dtype if array.dtype == np.uint8 else "f4"))
    if rows.is_complex():
        raise InputError(f"inputs must be real numbers, got {rows.dtype}")
    if rows.shape[:1] == (0,):
        raise InputError("the batch is empty; pass at least one row")
    if rows.ndim < 2:
        if expected is None or rows.shape == expected.shape:
            advice = (
                "pass a batch, one row for each sample (x[None] turns a single sample into a batch "
                "of one)"
            )
        raise InputError(f"inputs have shape {tuple(rows.shape)}; {advice}")
    if 0 in rows.shape:
        raise InputError(f"inputs have shape {tuple(rows.shape)}: a sample must have values")
    kept = torch.uint8 if rows.dtype == torch.uint8 else torch.float32
    try:
        rows = rows.to("cpu", kept, copy=True, memory_format=torch.contiguous_format)
    except RuntimeError as error:  # an expanded tensor may be larger than the memory
        raise InputError(f"inputs cannot be copied: {error}") from None
    kind = InputKind.of(rows)
    if expected is not None and kind.shape != expected.shape:
        raise InputError(f"inputs have shape {kind.shape} each; {advice}")
    if expected is not None and kind.dtype != expected.dtype:
        raise InputError(
            f"inputs are {kind.dtype}, but this learner has learned from {expected.dtype} "
            "(uint8 is scaled to 0..1, float is not); convert them"
        )
    if kept != torch.uint8 and not bool(torch.isfinite(rows).all()):
        bad = int((~torch.isfinite(rows.flatten(1)).all(1)).nonzero()[0])
        raise InputError(f"inputs contain NaN or infinite values (first in row {bad}); clean them")
    return rows
