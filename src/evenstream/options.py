"""The options of a learner that are independent of its method, checked once, saved with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import torch

from evenstream.core.optimizers import OPTIMIZERS
from evenstream.errors import InputError, shown

MOST = 2**40
"""Of all counts, so that no size in bytes, which has 63 bits, can overflow."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Not float16: its small gradients are lost unless the loss is scaled, which nothing here does."""
LONGEST_SEED = 10_000
"""Bits of a seed that checkpoints can still write and read."""
_TOO_LARGE = 2**63
_LARGEST_FLOAT32 = torch.finfo(torch.float32).max


@dataclass(frozen=True)
class Options:
    """See `Learner` for what each option means."""

    memory: int
    lr: float
    batch: int
    replay_batch: int
    optimizer: str
    momentum: float
    weight_decay: float
    seed: int
    device: str
    dtype: str
    augment: str
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    accumulate: int
    scope: Literal["seen", "all"]
    head_size: int

    def __post_init__(self) -> None:
        for name, least in (
            ("memory", 0),
            ("batch", 1),
            ("replay_batch", 0),
            ("accumulate", 1),
            ("head_size", 0),
        ):
            given = getattr(self, name)
            number = plain_number(given)
            if not (isinstance(number, int) and number >= least):
                raise InputError(
                    f"{name} must be a whole number of {least} or more, got {shown(given)}"
                )
            if number > MOST:
                raise InputError(f"{name} must be {MOST:,} at most, got {shown(given)}")
            object.__setattr__(self, name, number)
        seed = plain_number(self.seed)
        if not isinstance(seed, int) or seed.bit_length() > LONGEST_SEED:
            raise InputError(
                f"seed must be a whole number of at most {LONGEST_SEED:,} bits, "
                f"got {shown(self.seed)}"
            )
        object.__setattr__(self, "seed", seed)
        for name in ("lr", "momentum", "weight_decay"):
            given = getattr(self, name)
            number = plain_number(given)
            if number is None or not 0 <= number <= _LARGEST_FLOAT32:
                raise InputError(
                    f"{name} must be a finite number of 0 or more that float32 can hold, "
                    f"got {shown(given)}"
                )
            # a Python integer stays one: the fingerprints of earlier saves have it
            keeps = type(given) is int and number < _TOO_LARGE
            object.__setattr__(self, name, number if keeps else float(number))
        for name, known, or_else in (
            ("optimizer", OPTIMIZERS, ""),
            ("dtype", DTYPES, "auto or "),
            ("scope", ("seen", "all"), ""),
        ):
            value = getattr(self, name)
            if not (isinstance(value, str) and value in known):
                known_ones = ", ".join(known)
                raise InputError(f"{name} must be {or_else}one of {known_ones}, got {shown(value)}")
        if self.scope == "all" and not self.head_size:
            raise InputError("scope='all' needs head_size, the total number of classes")


def plain_number(value: Any) -> int | float | None:
    """The Python number for any real one: NumPy's, a fraction, a tensor without dimensions.

    Checkpoints hold no others. None for what is not a number, booleans included.
    """
    try:
        if isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            return None
        return int(value) if isinstance(value, Integral) else float(value)
    except OverflowError:
        return math.inf
    except (RuntimeError, TypeError, ValueError):  # without values; a time span; signalling NaN
        return None


def resolve_device(device: str | torch.device) -> torch.device:
    """Check that the device exists here."""
    why: object = "it is not the name of a device"
    try:
        if isinstance(device, (str, torch.device)):
            resolved = torch.device(device)
            torch.zeros(1, device=resolved).item()  # "meta" has no numbers to return
            return resolved
    except (RuntimeError, AssertionError, ImportError) as error:
        why = error
    raise InputError(f"device {shown(device)} cannot be used here: {why}") from None


def resolve_dtype(dtype: str, device: torch.device) -> str:
    """Turn "auto" into bfloat16 on a CPU with AMX (2 to 4 times faster there), else float32."""
    if not (isinstance(dtype, str) and dtype == "auto"):
        return dtype
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    return "bfloat16" if device.type == "cpu" and has_amx() else "float32"
