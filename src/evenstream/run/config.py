"""What a run is: every option that can change its result, in a file that can be read by eye."""

from __future__ import annotations

import tomllib
import typing
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tomli_w

from evenstream.errors import EvenstreamError, InputError
from evenstream.run.files import write_atomically

CONFIG = "config.toml"
COMPARISON = "comparison.toml"


@dataclass(frozen=True)
class RunConfig:
    """The full, resolved configuration of one run."""

    method: str
    stream: str
    seed: int
    memory: int
    batch: int
    replay_batch: int
    lr: float
    network: str
    augment: str
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
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        for name in ("threads", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")

    def write(self, folder: Path) -> None:
        """Write `config.toml`."""
        write_atomically(folder / CONFIG, tomli_w.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> RunConfig:
        """Read `config.toml`; refuses what a run of this version does not know."""
        return cls.from_values(folder / CONFIG, read_toml(folder / CONFIG))

    @classmethod
    def from_values(cls, path: Path, values: dict[str, Any]) -> RunConfig:
        """Check the names and types of values that were read from a file."""
        hints = typing.get_type_hints(cls)
        wanted = {field.name for field in fields(cls) if field.default is MISSING}
        for trouble, names in (
            ("unknown entries", values.keys() - hints),
            ("no entry for", wanted - values.keys()),
        ):
            if names:
                raise EvenstreamError(f"{path} has {trouble}: {', '.join(sorted(names))}")
        return cls(**{name: _typed(path, name, v, hints[name]) for name, v in values.items()})


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise EvenstreamError(f"{path.parent} holds no run: there is no {path.name}") from None
    except (OSError, ValueError) as error:
        raise EvenstreamError(f"{path} cannot be read: {error}") from None


def _typed(path: Path, name: str, value: Any, kind: Any) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    choices = typing.get_args(kind)
    if (value not in choices) if choices else (type(value) is not kind):
        wanted = f"one of {', '.join(choices)}" if choices else f"of type {kind.__name__}"
        raise EvenstreamError(f"{path}: {name} must be {wanted}, not {value!r}")
    return value
