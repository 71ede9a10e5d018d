"""Flags shared by `run` and `compare`, and how they combine with a stream's protocol."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from evenstream.run.config import RunConfig
    from evenstream.streams import Protocol, Stream

_STREAM = "(default: the stream's)"
StreamInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint=_STREAM)]
StreamFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint=_STREAM)]
StreamText = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint=_STREAM)]


@dataclass(frozen=True)
class Settings:
    """options of the run"""

    stream: Annotated[str, tyro.conf.arg(metavar="STREAM")] = "c-digits"
    """A stream's name (see `evenstream streams`), or the path of a file or folder of data."""
    protocol: Literal["online", "offline"] = "online"
    """online: each sample is seen once (some methods look at a task again when it ends, see
    docs/methods.md). offline: 50 epochs a task and a memory of 100."""
    epochs: Annotated[
        int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 1, offline 50)")
    ] = None
    """Passes over each task's data."""
    milestones: Annotated[
        str, tyro.conf.arg(metavar="EPOCH,...", help_behavior_hint="(default: none)")
    ] = ""
    """Epochs of each task from which on the learning rate is a tenth (DER's code: 35,45)."""
    store: Literal["every-epoch", "first-epoch"] = "every-epoch"
    """In which epochs of a task the memory is offered its rows."""
    memory: StreamInt = None
    """Samples kept for replay; 0 means none."""
    seed: int = 0
    """Everything random derives from it; `compare` counts up from it."""
    batch: StreamInt = None
    """Samples that arrive in each step."""
    replay_batch: StreamInt = None
    """Stored samples replayed in each step."""
    lr: StreamFloat = None
    """Learning rate."""
    network: StreamText = None
    """mlp, mlp-norm, convnet, resnet18, slim-resnet18, resnet18-imagenet or resnet34."""
    weights: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: start from scratch)"),
    ] = None
    """Weights that the network starts from: .safetensors, .pth or .pt, torchvision's names."""
    augment: StreamText = None
    """none, or parts joined by +: crop, flip, resized-crop, jitter, gray."""
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Optimiser."""
    momentum: float = 0.0
    """Of sgd."""
    weight_decay: float = 0.0
    """Of any optimiser."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto is bfloat16 on CPUs with AMX, else float32."""
    threads: int = 1
    """Threads of a run; results are exact, bit for bit, on one."""
    class_order: Literal["label", "seed"] = "label"
    """Order in which the classes arrive."""
    tasks: StreamInt = None
    """Groups that the classes are cut into."""
    test_fraction: Annotated[
        float | None,
        tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: 0.2 if it has none)"),
    ] = None
    """Part of data without a test set that is kept for testing."""
    inference: Annotated[
        str | None,
        tyro.conf.arg(metavar="RULE", help_behavior_hint="(default: the method's own)"),
    ] = None
    """How to predict: argmax, ncm, ema, ... (see `evenstream methods`); for methods named without
    one: er@ncm is er with it."""
    batch_schedule: Literal["constant", "increase", "decrease", "random"] = "constant"
    """How the batch size changes from task to task; --batch is the largest."""
    corrupt: Literal["stop", "skip"] = "stop"
    """What to do about an image that cannot be read; those skipped are counted."""
    eval_every: StreamInt = None
    """Steps between online evaluations, for A_AUC (the paper: 5); 0 means none."""
    eval: Literal["subset", "full"] = "subset"
    """Test samples of online evaluations; full (the paper's) can cost 8 times the training."""
    eval_images: int = 1000
    """Size of the subset: fixed, balanced over classes, the same for all methods and seeds."""
    eval_future: bool = False
    """Test on tasks not begun as well (FWT, F_T to the letter); doubles the cost of evaluation."""
    checkpoint_every: int = 500
    """Steps between checkpoints (there is one after each task anyway)."""

    def open(self) -> Stream:
        """Load the stream that these flags describe."""
        from evenstream.errors import InputError
        from evenstream.streams import open_stream

        if self.tasks is not None and self.tasks < 1:
            raise InputError(f"--tasks must be 1 or more, got {self.tasks}")
        if self.test_fraction is not None and not 0 < self.test_fraction < 1:
            raise InputError(f"--test-fraction must lie between 0 and 1, got {self.test_fraction}")
        return open_stream(
            self._stream_name(),
            seed=self.seed,
            class_order=self.class_order,
            tasks=self.tasks,
            test_fraction=self.test_fraction,
            corrupt=self.corrupt,
        )

    def named(self, method: str) -> str:
        """The method with the inference rule of these flags, unless it has one; refuses bad names.

        A wrong name is said before any data is loaded.
        """
        from evenstream.composition import compose
        from evenstream.text import MethodText

        said = MethodText.read(method)
        if said.rule is None:
            method = str(replace(said, rule=self.inference))
        compose(method)
        return method

    def resolve(self, method: str, protocol: Protocol) -> RunConfig:
        """The full configuration of a run: the stream's protocol under these flags."""
        from evenstream.run.config import RunConfig

        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["inference"]  # it is in the method's name
        if values.pop("protocol") == "offline":
            protocol = protocol.offline()
        for field in fields(protocol):
            if values[field.name] is None:
                values[field.name] = getattr(protocol, field.name)
        values["stream"] = self._stream_name()
        values |= self._weights()
        values["tasks"] = self.tasks or 0
        values["test_fraction"] = self.test_fraction or 0.0
        if values.pop("eval") == "full":
            values["eval_images"] = 0
        return RunConfig(method=method, **values)

    def _weights(self) -> dict[str, str]:
        if self.weights is None:
            return {"weights": "", "weights_sha256": ""}
        from evenstream.run.initial_weights import identified

        return identified(self.weights)

    def _stream_name(self) -> str:
        """A path in full, so that a run can be resumed from anywhere."""
        from evenstream.streams.opening import absolute_name

        return absolute_name(self.stream)
