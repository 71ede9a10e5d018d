"""The configuration of a run: every option that can change its result, in a readable file."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tomli_w

from evenstream.errors import EvenstreamError, InputError
from evenstream.files import AS_IT_IS, write_atomically
from evenstream.options import Schedule, TrainingOptions
from evenstream.text import option_types, without_none

CONFIG = "config.toml"
COMPARISON = "comparison.toml"
PRETRAINING = "pretraining.toml"


@dataclass(frozen=True)
class TomlSettings:
    """Settings stored in a file of their folder."""

    FILE: ClassVar[str]
    ALWAYS_WRITTEN: ClassVar[frozenset[str]] = frozenset()
    """Entries that every file has, although they have a default."""

    def values(self) -> dict[str, Any]:
        """All values that are not None, as stored in files; those without a default come first."""
        own = {name: value for name, value in asdict(self).items() if value is not None}
        return dict(sorted(own.items(), key=lambda entry: entry[0] not in self._wanted()))

    def write(self, folder: Path) -> None:
        """Write the file."""
        write_atomically(folder / self.FILE, tomli_w.dumps(self.values()))

    @classmethod
    def _wanted(cls) -> frozenset[str]:
        """Entries that every file has."""
        return cls.ALWAYS_WRITTEN | {f.name for f in fields(cls) if f.default is MISSING}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file; rejects entries that this version does not know."""
        return cls.from_values(folder / cls.FILE, read_toml(folder / cls.FILE))

    @classmethod
    def of_this_version(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert values written by earlier versions."""
        return dict(values)

    @classmethod
    def from_values(cls, path: Path, values: dict[str, Any]) -> Self:
        """Check the names and types of values that were read from a file."""
        values = {n: v for n, v in cls.of_this_version(values).items() if v is not None}
        hints = option_types(cls)
        known = {field.name for field in fields(cls)}
        for trouble, names in (
            ("unknown entries", values.keys() - known),
            ("no entry for", cls._wanted() - values.keys()),
        ):
            if names:
                raise EvenstreamError(f"{path} has {trouble}: {', '.join(sorted(names))}")
        typed = {name: _typed(path, name, v, hints[name]) for name, v in values.items()}
        return cls(**typed)


@dataclass(frozen=True, kw_only=True)
class RunConfig(TrainingOptions, TomlSettings):
    """The full, resolved configuration of one run."""

    FILE = CONFIG
    ALWAYS_WRITTEN = frozenset(
        {"method", "stream", "seed", "memory", "batch", "replay_batch", "lr", "network", "augment"}
    )

    method: str
    stream: str
    network: str = "mlp"
    """mlp, mlp-norm, normalised, normalised-mlp, identity, convnet, resnet18, slim-resnet18,
    resnet18-imagenet or resnet34, or the frozen encoder efficientnet-lite0."""
    weights: str | None = None
    """File of weights to start from: .safetensors, .pth or .pt, with torchvision's names."""
    weights_sha256: str | None = None
    threads: int = 1
    """Threads per run; with one, results are reproducible bit for bit."""
    class_order: Literal["label", "seed"] = "label"
    """Order in which the classes arrive."""
    tasks: int | None = None
    """Number of tasks to divide the classes into."""
    test_fraction: float | None = None
    """Share to set aside for testing, for data without a test set."""
    epochs: int = 1
    """Passes over each task's data; 1 is online."""
    milestones: tuple[int, ...] = ()
    """Epochs of each task after which the learning rate is divided by ten (DER's code: 35,45)."""
    lr_decay: Literal["none", "linear"] = "none"
    """Whether the learning rate falls linearly to zero in each task."""
    reset_optimizer: bool = False
    """Start each task with a new optimiser, without the old momentum or moments."""
    store: Literal["every-epoch", "first-epoch"] = "every-epoch"
    """In which epochs of a task its rows are offered to the memory."""
    batch_schedule: Schedule = "constant"
    """How the batch size changes from task to task; --batch is the largest."""
    corrupt: Literal["stop", "skip"] = "stop"
    """What to do with an image that cannot be read: stop, or skip and count it."""
    eval_every: int = 0
    """Steps between online evaluations, for A_AUC (the paper: 5); 0 means none."""
    eval_images: int = 1000
    """Number of test samples in online evaluations: a fixed choice, balanced over classes and the
    same for all methods and seeds; 0 means all."""
    eval_future: bool = False
    """Also test on tasks that have not started (for FWT and a literal F_T); takes twice as long."""
    checkpoint_every: int = 500
    """Steps between checkpoints; there is also one after each task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("threads", "checkpoint_every", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("eval_every", "eval_images"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.milestones and self.epochs == 1:
            raise InputError("milestones need several epochs per task: set epochs")
        for epoch in self.milestones:
            if not 0 < epoch < self.epochs:
                raise InputError(
                    f"milestones must lie after the first epoch and before the end: 1 to "
                    f"{self.epochs - 1} for {self.epochs} epochs, not {epoch}"
                )

    @classmethod
    def of_this_version(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert values of earlier versions, which had texts instead of None and tuples."""
        now = {n: None if n in _NOTHING and v == _NOTHING[n] else v for n, v in values.items()}
        if isinstance(now.get("milestones"), str):
            now["milestones"] = read_milestones(values["milestones"])
        return now

    def lr_at(self, epoch: int, done: float = 0.0) -> float:
        """The learning rate in an epoch of a task, counted from 0, after a share of it."""
        falls = 1 - done if self.lr_decay == "linear" else 1.0
        passed = sum(epoch >= milestone for milestone in self.milestones)
        return float(self.lr * 0.1**passed * falls)


_NOTHING = {"weights": "", "weights_sha256": "", "tasks": 0, "test_fraction": 0.0}
"""How versions before 0.2 wrote None."""


def read_milestones(text: str) -> tuple[int, ...]:
    """Epochs joined by commas."""
    words = [word.strip() for word in text.split(",") if text]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(f"milestones are epochs joined by commas, as in 35,45; got {text!r}")
    return tuple(map(int, words))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8", errors=AS_IT_IS))
    except (FileNotFoundError, NotADirectoryError):
        raise EvenstreamError(f"{path.parent} holds no run: there is no {path.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise EvenstreamError(f"{path} cannot be read: {error}") from None


def _typed(path: Path, name: str, value: Any, kind: Any) -> Any:
    """Convert a value from a file to the type of its field, or raise an error that names it."""
    kind = without_none(kind)  # never in a file
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise EvenstreamError(f"{path}: {name} must be a list, not {value!r}")
        return tuple(_typed(path, name, each, typing.get_args(kind)[0]) for each in value)
    if kind is float and type(value) is int:
        return float(str(value))  # infinite, where float(value) would be too large
    choices = typing.get_args(kind)
    if (value not in choices) if choices else (type(value) is not kind):
        wanted = f"one of {', '.join(choices)}" if choices else f"of type {kind.__name__}"
        raise EvenstreamError(f"{path}: {name} must be {wanted}, not {value!r}")
    if kind is str and "\0" in value:
        raise EvenstreamError(f"{path}: {name} must have no NUL character")
    return value
