"""What is used where nothing is said: the one place that decides it, from the shape of an input.

Fixed on scikit-learn's wine, breast cancer, iris and digits, in shuffled order and class by class,
and on descriptions of Debian packages (docs/methods/auto.md). Named streams have protocols of
their own (`streams/catalogue.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from evenstream.text import MethodText

AUTO = "auto"
SMALLEST_IMAGE, LARGE_IMAGE = 8, 128


@dataclass(frozen=True)
class Choice:
    """A network and how it is trained."""

    network: str
    why: str
    optimizer: str = "sgd"
    lr: float = 0.03
    weight_decay: float = 0.0
    batch: int = 32
    replay_batch: int = 32

    def training(self) -> dict[str, Any]:
        """All but the network and the reason."""
        return {name: v for name, v in asdict(self).items() if name not in ("network", "why")}


ALIASES = {
    "las": "fine-tune-las",
    "even": "er-las@ema:warmup=true,measure_every=16",
    "even-x2": "er-las:window=2@ema:decay=0.995,warmup=true,measure_every=16",
}
"""Other names of methods, with options and a rule: the paper calls Logit Adjusted Softmax without
memory LAS; `even` is the strongest learner found at the cost of a step of `er-las`, `even-x2` at
twice that."""
_NO_NETWORK = ("class-means", "slda", "ranpac", "randumb")
MADE_FOR: dict[str, dict[str, Any]] = {
    "even": {"optimizer": "muon", "lr": 0.02},
    "even-x2": {"optimizer": "muon", "lr": 0.02, "steps": 2, "replay_batch": 96},
    **{name: {"network": "identity"} for name in _NO_NETWORK},
}
"""Settings that a method is made for, by its name: `identity` for those that train no network."""

_FLAT = Choice(
    "normalised-mlp",
    "columns are of unknown scale, so each is normalised as it comes; AdamW's rate needs no tuning",
    optimizer="adamw",
    lr=3e-3,
    weight_decay=1e-4,
    batch=10,
    replay_batch=32,
)
_SMALL = Choice("convnet", "small images", optimizer="adamw", lr=1e-3, weight_decay=1e-4, batch=10)
_LARGE = Choice("resnet18-imagenet", f"images of {LARGE_IMAGE} pixels or more a side")


def choose(shape: tuple[int, ...]) -> Choice:
    """Network, optimiser, learning rate, batch and replay for inputs of this shape.

    Three dimensions are images (channels, height, width); tables, embeddings and all else are taken
    as flat.
    """
    if len(shape) != 3 or min(shape[1:]) < SMALLEST_IMAGE:
        return _FLAT
    return _SMALL if min(shape[1:]) < LARGE_IMAGE else _LARGE


def meant_by(method: MethodText) -> MethodText:
    """What an alias stands for; options and a rule that follow it replace those it has."""
    meant = ALIASES.get(method.name)
    return method if meant is None else method.over(MethodText.read(meant))


def made_for(method: str, given: Collection[str]) -> dict[str, Any]:
    """The settings that a method is made for, but for those given.

    Rates are made for one optimiser: if another one is given, they are left out.

    Args:
        method: its text.
        given: names of settings.
    """
    given = {*given, *(("lr", "weight_decay") if "optimizer" in given else ())}
    usual = MADE_FOR.get(MethodText.read(method).name, {})
    return {name: value for name, value in usual.items() if name not in given}
