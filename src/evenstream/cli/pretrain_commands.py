"""`evenstream pretrain`: weights for streams that set classes aside."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from evenstream.cli.settings import StreamText

if TYPE_CHECKING:
    from evenstream.cli.screen import Screen
    from evenstream.pretrain import PretrainConfig
    from evenstream.streams import Protocol

NewFolder = Annotated[Path, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")]


@dataclass(frozen=True)
class PretrainSettings:
    """options of the training"""

    stream: Annotated[str, tyro.conf.arg(metavar="STREAM")] = "c-imagenet"
    """A stream with classes set aside; any stream can do so with an option: c-digits:reserve=4."""
    epochs: int = 90
    """Passes over the samples."""
    batch: int = 256
    """Samples in each step."""
    lr: float = 0.1
    """Highest learning rate: the rate rises to it, then falls to zero along a cosine."""
    warmup: float = 0.05
    """Share of the steps during which the learning rate rises."""
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 1e-4
    """Of SGD."""
    network: StreamText = None
    """As for `evenstream run`, which must then use the same."""
    augment: StreamText = None
    """As for `evenstream run`."""
    seed: int = 0
    """Seed for weights, order and augmentation; it does not affect which classes are set aside."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto is bfloat16 on CPUs with AMX, otherwise float32."""
    threads: int = 1
    """Number of threads; with one, results are reproducible bit for bit."""
    corrupt: Literal["stop", "skip"] = "stop"
    """What to do with an image that cannot be read: stop, or skip and count it."""
    checkpoint_every: int = 500
    """Steps between checkpoints; there is also one after each epoch."""

    def resolve(self, stream: str, protocol: Protocol) -> PretrainConfig:
        """The full configuration, with the stream's network and augmentation unless set."""
        from evenstream.pretrain import PretrainConfig

        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("network", "augment"):
            if values[name] is None:
                values[name] = getattr(protocol, name)
        return PretrainConfig(**{**values, "stream": stream})


def pretrain(
    out: NewFolder,
    settings: Annotated[PretrainSettings, tyro.conf.OmitArgPrefixes] = PretrainSettings(),  # noqa: B008
) -> int:
    """Train a network on classes that a stream sets aside, so that runs can start from it.

    Example: evenstream pretrain --stream c-digits:reserve=4 --epochs 20 --out out/base

    Writes weights.safetensors, for `evenstream run ... --weights`, pretrain.json, and checkpoints.
    Ctrl-C saves, and `evenstream resume DIR` continues from there.

    Args:
        out: Folder for the results; must be new or empty.
        settings: Options of the training.
    """
    from evenstream.cli.screen import Screen
    from evenstream.pretrain import pretrain as train
    from evenstream.run.announcing import make_progress
    from evenstream.streams import absolute_name, open_stream

    name = absolute_name(settings.stream)
    stream = open_stream(name, seed=settings.seed, corrupt=settings.corrupt)
    config = settings.resolve(name, stream.protocol)
    console = Screen()
    _print_result(console, train(config, stream, out, make_progress(console, "epoch")), out)
    return 0


def resume_pretraining(folder: Path) -> int:
    """Resume interrupted pre-training."""
    from evenstream.cli.screen import Screen
    from evenstream.pretrain import resume_pretraining as go_on
    from evenstream.run.announcing import make_progress

    console = Screen()
    _print_result(console, go_on(folder, make_progress(console, "epoch")), folder)
    return 0


def _print_result(console: Screen, found: dict[str, Any], folder: Path) -> None:
    from evenstream.pretrain import WEIGHTS

    accuracy = found["accuracy"][-1]
    tested = "no test samples" if accuracy is None else f"held-out accuracy {accuracy:.1f} %"
    options = ["--stream", found["stream"], "--network", found["network"]]
    options += ["--weights", str(folder / WEIGHTS)]
    console.print(
        f"{len(found['classes'])} classes, {tested}, {found['train_seconds']:.1f} s of training\n"
        f"start a run from them with `evenstream run er-las {shlex.join(options)}`",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
