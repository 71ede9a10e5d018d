"""The options of a learner that are independent of its method, checked once, saved with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import torch

from evenstream.errors import InputError, shown
from evenstream.learner.optimizers import OPTIMIZERS

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
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral):
            raise InputError(f"seed must be a whole number, got {self.seed!r}")
        self._make_plain("seed", int)
        for name in ("lr", "momentum", "weight_decay"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 <= value < math.inf):
                raise InputError(f"{name} must be a finite number of 0 or more, got {value!r}")
            self._make_plain(name, float)
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

    def _make_plain(self, name: str, kind: type) -> None:
        """Turn a NumPy number, which no checkpoint can hold, into a Python one."""
        if not isinstance(getattr(self, name), (int, float)):
            object.__setattr__(self, name, kind(getattr(self, name)))


def resolve_device(device: str | torch.device) -> torch.device:
    """Check that the device exists here."""
    why: object = "it is not the name of a device"
    try:
        if isinstance(device, (str, torch.device)):
            resolved = torch.device(device)
            torch.empty(0, device=resolved)
            if resolved.type != "meta":
                return resolved
            why = "tensors have no values there"
    except (RuntimeError, AssertionError) as error:
        why = error
    raise InputError(f"device {shown(str(device))} cannot be used here: {why}") from None


def resolve_dtype(dtype: str, device: torch.device) -> str:
    """Turn "auto" into bfloat16 on a CPU with AMX (2 to 4 times faster there), else float32."""
    if not (isinstance(dtype, str) and dtype == "auto"):
        return dtype
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    return "bfloat16" if device.type == "cpu" and has_amx() else "float32"
