"""Pre-training: many passes over the classes that a stream sets aside, as a start for its runs.

It is a learner without a memory, fed with shuffled epochs, so checks, augmentation, precision and
exact checkpoints are those of a run. The result is a weights file that lists the classes it knows.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evenstream.checkpoint import has_checkpoint, write_checkpoint
from evenstream.encoders import is_encoder
from evenstream.entries import check_fields
from evenstream.errors import DamageWarning, DataError, DataWarning, InputError
from evenstream.files import write_atomically
from evenstream.interruption import Interrupted, StopFlag
from evenstream.learner.learner import Learner
from evenstream.networks.weights import file_digest, pack_weights
from evenstream.options import DType
from evenstream.run.announcing import Progress, Silent
from evenstream.run.config import PRETRAINING, TomlSettings
from evenstream.run.data_identity import describe_data
from evenstream.run.environment import record_session
from evenstream.run.evaluation import Evaluation
from evenstream.run.folder import CHECKPOINTS, claim_folder, resume_command
from evenstream.run.initial_weights import METADATA, reserved_classes
from evenstream.run.machine import use_machine
from evenstream.run.position import Skipped
from evenstream.run.session import take_up, work_on
from evenstream.streams import Stream, open_stream
from evenstream.streams.scenario import task_of
from evenstream.streams.stream import Batch
from evenstream.version import __version__

WEIGHTS = "weights.safetensors"
RESULTS = "pretrain.json"
KIND = "pre-training"


@dataclass(frozen=True)
class PretrainConfig(TomlSettings):
    """The full configuration of a pre-training: SGD, a warm-up, then a cosine down to zero."""

    FILE = PRETRAINING

    stream: str
    network: str
    augment: str
    epochs: int = 90
    batch: int = 256
    lr: float = 0.1
    """The highest learning rate."""
    warmup: float = 0.05
    """Share of the steps during which the learning rate rises to it."""
    momentum: float = 0.9
    weight_decay: float = 1e-4
    seed: int = 0
    device: str = "cpu"
    dtype: DType = "auto"
    threads: int = 1
    corrupt: Literal["stop", "skip"] = "stop"
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "threads", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not 0 < self.lr < math.inf:
            raise InputError(f"lr must be finite and above 0, got {self.lr}")
        if is_encoder(self.network):
            raise InputError(f"{self.network} has fixed weights, which are not trained")
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup must be a share of the steps, 0 to 1, got {self.warmup}")

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate at a step, counted from 0."""
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return self.lr * ((step + 1) / rising)
        return self.lr * (1 + math.cos(math.pi * (step - rising) / (steps - rising))) / 2


@dataclass
class _Position:
    """The position in pre-training, and what it has measured so far."""

    epoch: int = 0
    batch: int = 0
    accuracies: list[float | None] = field(default_factory=list)
    """Held-out accuracy after each epoch."""
    samples: int = 0
    seconds: float = 0.0
    skipped: Skipped = field(default_factory=Skipped)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> _Position:
        position = cls(**{**state, "skipped": Skipped.from_state(state["skipped"])})
        check_fields(position)
        return position


def pretrain(
    config: PretrainConfig,
    stream: Stream,
    out: Path,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
) -> dict[str, Any]:
    """Train on the classes that a stream sets aside; returns the contents of `pretrain.json`.

    Without a `stop` flag, Ctrl-C and SIGTERM save and raise `Interrupted`.
    """
    epochs = _rehearsed(config, stream)
    claim_folder(out, config)
    return _work_on(config, epochs, out, progress, stop)


def resume_pretraining(
    out: Path, progress: Progress | None = None, stop: StopFlag | None = None
) -> dict[str, Any]:
    """Continue from the newest checkpoint; finished pre-training is left alone."""
    config = PretrainConfig.read(out)
    done = finished_results(out)
    if done is not None:
        return done
    stream = open_stream(config.stream, seed=config.seed, corrupt=config.corrupt)
    return _work_on(config, _rehearsed(config, stream), out, progress, stop)


def _work_on(
    config: PretrainConfig,
    epochs: Stream,
    out: Path,
    progress: Progress | None,
    stop: StopFlag | None,
) -> dict[str, Any]:
    progress = progress or Silent()
    return work_on(out, config, lambda: _Pretraining(config, epochs, out, progress), stop)


def finished_results(out: Path) -> dict[str, Any] | None:
    """The contents of `pretrain.json` of finished pre-training; None otherwise, or if damaged."""
    try:
        found: dict[str, Any] = json.loads((out / RESULTS).read_text(encoding="utf-8"))
        whole = (
            all(isinstance(found[name], str) for name in ("stream", "network"))
            and all(isinstance(found[name], list) for name in ("classes", "accuracy"))
            and isinstance(found["accuracy"][-1], (int, float, type(None)))
            and isinstance(found["train_seconds"], (int, float))
        )
        finished = whole and found["status"] == "finished"
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
    return found if finished and _weights_are_whole(out, found) else None


def _weights_are_whole(out: Path, found: Mapping[str, Any]) -> bool:
    """Whether the weights are the ones that `pretrain.json` speaks of."""
    weights = out / WEIGHTS
    if not weights.exists():
        return False
    digest = file_digest(weights)
    if digest == found.get("weights_sha256", digest):
        return True
    warnings.warn(
        f"{weights} is damaged or was changed; it is written again", DamageWarning, stacklevel=3
    )
    return False


def _rehearsed(config: PretrainConfig, stream: Stream) -> Stream:
    """The epochs, as tasks with the same samples in different orders, after one trial step."""
    base = reserved_classes(stream)
    if not base:
        raise InputError(
            f"{stream.name} sets no classes aside for pre-training; say how many, as in "
            f"{stream.name}:reserve=5"
        )
    use_machine(config.threads)
    task = task_of(stream.dataset, np.array(base))
    tasks = [task] * config.epochs
    epochs = Stream(stream.name, stream.dataset, tasks, stream.protocol, config.seed)
    learner = _make_learner(config, epochs)
    for batch in epochs.batches(0, batch=2):
        if len(batch.labels):
            learner.learn(batch.x, batch.labels)
            return epochs
    raise DataError(f"{stream.name}: none of the samples to pre-train on can be read")


def _make_learner(config: PretrainConfig, epochs: Stream) -> Learner:
    return Learner(
        "fine-tune",
        config.network,
        memory=0,
        scope="all",
        head_size=len(epochs.tasks[0].classes),
        lr=config.lr_at(0, _all_steps(config, epochs)),
        batch=config.batch,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        seed=config.seed,
        device=config.device,
        dtype=config.dtype,
        augment=config.augment,
        mean=epochs.dataset.mean,
        std=epochs.dataset.std,
    )


def _all_steps(config: PretrainConfig, epochs: Stream) -> int:
    return config.epochs * epochs.steps(0, config.batch)


class _Pretraining:
    """The loop over epochs and batches."""

    def __init__(
        self, config: PretrainConfig, epochs: Stream, out: Path, progress: Progress
    ) -> None:
        self.config, self.epochs, self.out, self.progress = config, epochs, out, progress
        self.steps = _all_steps(config, epochs)
        self.evaluation = Evaluation(epochs, every=0, images=0, future=False)
        self.data = describe_data(epochs)
        self.checkpoints = out / CHECKPOINTS
        self.at = _Position()
        if has_checkpoint(self.checkpoints):
            self.learner, self.at = take_up(
                out, KIND, config, self.data, config.device, _Position.from_state
            )
        else:
            self.learner = _make_learner(config, epochs)
        record_session(out, self.learner.step)

    def close(self) -> None:
        self.progress.close()

    def go(self, stop: StopFlag) -> dict[str, Any]:
        title = f"pre-training {self.config.network}"
        self.progress.start(title, self.config.seed, self.steps, self.learner.step)
        while self.at.epoch < self.config.epochs:
            self._train_epoch(stop)
            self._warn_of_skipped()
            self.progress.evaluating(self.at.epoch)
            self.at.accuracies.append(self.evaluation.online(self.learner))
            self.progress.evaluated(self.at.epoch, self.at.accuracies[-1])
            self.at.epoch, self.at.batch = self.at.epoch + 1, 0
            self._checkpoint()
            self._write_results("unfinished")
        self._write_weights()
        return self._write_results("finished", weights_sha256=file_digest(self.out / WEIGHTS))

    def _train_epoch(self, stop: StopFlag) -> None:
        for batch in self.epochs.batches(self.at.epoch, self.config.batch, self.at.batch):
            self._learn(batch)
            self.at.batch += 1
            stopping = stop.is_set()
            if stopping or self.at.batch % self.config.checkpoint_every == 0:
                self._checkpoint()
            if stopping:
                raise Interrupted(
                    f"stopped in epoch {self.at.epoch + 1} and saved; "
                    f"continue with `{resume_command(self.out)}`"
                )

    def _learn(self, batch: Batch) -> None:
        if self.at.epoch == 0:  # the others find the same
            self.at.skipped.add(batch.skipped)
        if not len(batch.labels):
            return
        began = time.perf_counter()
        number = self.at.epoch * self.epochs.steps(0, self.config.batch) + self.at.batch
        self.learner.lr = self.config.lr_at(number, self.steps)
        result = self.learner.learn(batch.x, batch.labels)
        self.at.seconds += time.perf_counter() - began
        self.at.samples += len(batch.labels)
        self.progress.step(result, len(batch.labels))

    def _warn_of_skipped(self) -> None:
        skipped = self.at.skipped
        if skipped.count and self.at.epoch == 0:
            warnings.warn(
                f"{skipped.count} training samples could not be read and are left out, the first: "
                f"{skipped.first[0]}",
                DataWarning,
                stacklevel=2,
            )

    def _checkpoint(self) -> None:
        tree = {
            "kind": KIND,
            "config": asdict(self.config),
            "data": self.data,
            "learner": self.learner.state(),
            "position": asdict(self.at),
        }
        write_checkpoint(self.checkpoints, self.learner.step, tree)

    def _write_weights(self) -> None:
        network = self.learner.network
        assert network is not None
        metadata = {METADATA: json.dumps(self._results())}
        content = pack_weights(network.backbone.state_dict(), network.head.state_dict(), metadata)
        write_atomically(self.out / WEIGHTS, content)

    def _write_results(self, status: str, **more: str) -> dict[str, Any]:
        found = {"status": status, **self._results(), "train_seconds": self.at.seconds, **more}
        write_atomically(self.out / RESULTS, json.dumps(found, indent=1))
        return found

    def _results(self) -> dict[str, Any]:
        """Everything known but the elapsed time, so that the same training gives the same file."""
        return {
            "evenstream": __version__,
            "dataset": self.epochs.dataset.name,
            **asdict(self.config),
            "dtype": self.learner.options.dtype,
            "classes": self.learner.labels,
            "epochs_done": self.at.epoch,
            "accuracy": self.at.accuracies,
            "samples": self.at.samples,
            "skipped": asdict(self.at.skipped),
        }
