"""The options of a learner that are independent of its method, checked once, saved with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import torch

from evenstream.errors import InputError
from evenstream.learner.optimizers import OPTIMIZERS

MOST = 2**40
"""Of all counts, so that no size in bytes, which has 63 bits, can overflow."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Not float16: its small gradients are lost unless the loss is scaled, which nothing here does."""


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
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise InputError(f"{name} must be a whole number of {least} or more, got {value!r}")
            self._make_plain(name, int)
            if int(value) > MOST:
                raise InputError(f"{name} must be {MOST:,} at most, got {value!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral):
            raise InputError(f"seed must be a whole number, got {self.seed!r}")
        self._make_plain("seed", int)
        for name in ("lr", "momentum", "weight_decay"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 <= value < math.inf):
                raise InputError(f"{name} must be a finite number of 0 or more, got {value!r}")
            self._make_plain(name, float)
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"optimizer must be one of {', '.join(OPTIMIZERS)}")
        if self.dtype not in DTYPES:
            raise InputError(f"dtype must be auto or one of {', '.join(DTYPES)}")
        if self.scope not in ("seen", "all"):
            raise InputError(f"scope must be seen or all, got {self.scope!r}")
        if self.scope == "all" and not self.head_size:
            raise InputError("scope='all' needs head_size, the total number of classes")

    def _make_plain(self, name: str, kind: type) -> None:
        """Turn a NumPy number, which no checkpoint can hold, into a Python one."""
        if not isinstance(getattr(self, name), (int, float)):
            object.__setattr__(self, name, kind(getattr(self, name)))


def resolve_device(device: str | torch.device) -> torch.device:
    """Check that the device exists here."""
    try:
        resolved = torch.device(device)
        torch.zeros(1, device=resolved).item()  # "meta" has no numbers to return
    except (RuntimeError, AssertionError, ImportError) as error:
        raise InputError(f"device {str(device)!r} cannot be used here: {error}") from None
    return resolved


def resolve_dtype(dtype: str, device: torch.device) -> str:
    """Turn "auto" into bfloat16 on a CPU with AMX (2 to 4 times faster there), else float32."""
    if dtype != "auto":
        return dtype
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    return "bfloat16" if device.type == "cpu" and has_amx() else "float32"
