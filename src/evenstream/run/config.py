"""What a run is: every option that can change its result, in a file that can be read by eye."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tomli_w

from evenstream.errors import EvenstreamError

CONFIG = "config.toml"


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

    def write(self, folder: Path) -> None:
        """Write `config.toml`."""
        (folder / CONFIG).write_text(tomli_w.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> RunConfig:
        """Read `config.toml`; refuses what a run of this version does not know."""
        return cls(**read_toml(folder / CONFIG, {field.name for field in fields(cls)}))


def read_toml(path: Path, known: set[str]) -> dict[str, Any]:
    """Read a flat TOML file and check its keys."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EvenstreamError(f"{path.parent} holds no run: {path.name} is missing") from None
    except (OSError, ValueError) as error:
        raise EvenstreamError(f"{path} cannot be read: {error}") from None
    unknown = values.keys() - known
    if unknown:
        raise EvenstreamError(f"{path} has unknown entries: {', '.join(sorted(unknown))}")
    return values
