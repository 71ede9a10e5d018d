"""What a run is: every option that can change its result, in a file that can be read by eye."""

from __future__ import annotations

import tomllib
import typing
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tomli_w

from evenstream.errors import EvenstreamError, InputError
from evenstream.files import AS_IT_IS, write_atomically
from evenstream.streams.schedules import Schedule
from evenstream.text import option_types

CONFIG = "config.toml"
COMPARISON = "comparison.toml"
PRETRAINING = "pretraining.toml"


@dataclass(frozen=True)
class TomlSettings:
    """Settings that are kept in a file of the folder they belong to."""

    FILE: ClassVar[str]

    def write(self, folder: Path) -> None:
        """Write the file."""
        write_atomically(folder / self.FILE, tomli_w.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file; refuses what this version does not know."""
        return cls.from_values(folder / cls.FILE, read_toml(folder / cls.FILE))

    @classmethod
    def from_values(cls, path: Path, values: dict[str, Any]) -> Self:
        """Check the names and types of values that were read from a file."""
        hints = option_types(cls)
        known = {field.name: field for field in fields(cls)}
        wanted = {name for name, field in known.items() if field.default is MISSING}
        for trouble, names in (
            ("unknown entries", values.keys() - known),
            ("no entry for", wanted - values.keys()),
        ):
            if names:
                raise EvenstreamError(f"{path} has {trouble}: {', '.join(sorted(names))}")
        return cls(**{name: _typed(path, name, v, hints[name]) for name, v in values.items()})


@dataclass(frozen=True)
class RunConfig(TomlSettings):
    """The full, resolved configuration of one run."""

    FILE = CONFIG

    method: str
    stream: str
    seed: int
    memory: int
    batch: int
    replay_batch: int
    lr: float
    network: str
    augment: str
    weights: str = ""
    """The file that the network starts from, if any."""
    weights_sha256: str = ""
    optimizer: str = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    device: str = "cpu"
    dtype: str = "auto"
    threads: int = 1
    class_order: Literal["label", "seed"] = "label"
    tasks: int = 0
    """0: as the stream says."""
    test_fraction: float = 0.0
    """0: the data has a test set."""
    epochs: int = 1
    """Passes over each task's data; 1 is online."""
    milestones: str = ""
    """Epochs of each task from which on the learning rate is a tenth: "35,45"."""
    store: Literal["every-epoch", "first-epoch"] = "every-epoch"
    """In which epochs of a task the memory is offered its rows."""
    checkpoint_every: int = 500
    batch_schedule: Schedule = "constant"
    """How the batch size changes from task to task; `batch` is the largest."""
    eval_every: int = 0
    """Steps between online evaluations; 0: none."""
    eval_images: int = 1000
    """Test samples of online evaluations; 0: all."""
    eval_future: bool = False
    """Whether to test on the tasks ahead, too."""
    corrupt: Literal["stop", "skip"] = "stop"
    """What to do about a sample that cannot be read."""

    def __post_init__(self) -> None:
        for name in ("threads", "checkpoint_every", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("eval_every", "eval_images"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be 0 or more, got {getattr(self, name)}")
        self.lr_in(0)

    def lr_in(self, epoch: int) -> float:
        """The learning rate in an epoch of a task, counted from 0."""
        words = [word.strip() for word in self.milestones.split(",") if self.milestones]
        if not all(word.isascii() and word.isdigit() for word in words):
            raise InputError(
                f"milestones are epochs joined by commas, as in 35,45; got {self.milestones!r}"
            )
        if words and self.epochs == 1:
            raise InputError("milestones are for several epochs a task: say how many epochs")
        late = [word for word in words if not 0 < int(word) < self.epochs]
        if late:
            raise InputError(
                f"milestones lie after the first epoch and before the end: 1 to "
                f"{self.epochs - 1} for {self.epochs} epochs, not {late[0]}"
            )
        return float(self.lr * 0.1 ** sum(epoch >= int(word) for word in words))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8", errors=AS_IT_IS))
    except (FileNotFoundError, NotADirectoryError):
        raise EvenstreamError(f"{path.parent} holds no run: there is no {path.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise EvenstreamError(f"{path} cannot be read: {error}") from None


def _typed(path: Path, name: str, value: Any, kind: Any) -> Any:
    if kind is float and type(value) is int:
        return float(str(value))  # infinite, where float(value) would be too large
    choices = typing.get_args(kind)
    if (value not in choices) if choices else (type(value) is not kind):
        wanted = f"one of {', '.join(choices)}" if choices else f"of type {kind.__name__}"
        raise EvenstreamError(f"{path}: {name} must be {wanted}, not {value!r}")
    if kind is str and "\0" in value:
        raise EvenstreamError(f"{path}: {name} must have no NUL character")
    return value
