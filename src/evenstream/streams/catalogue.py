"""Streams by name, each with its protocol. Listing them imports neither PyTorch nor data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenstream.errors import InputError, UnknownName
from evenstream.streams.base import Protocol

if TYPE_CHECKING:
    from evenstream.streams.base import Stream
    from evenstream.streams.class_incremental import ClassOrder

_CIFAR = Protocol(network="resnet18", augment="crop+flip")


@dataclass(frozen=True)
class StreamInfo:
    """A named stream: a data set, the number of tasks, and the defaults that go with it."""

    dataset: str
    tasks: int
    protocol: Protocol
    description: str


STREAMS: dict[str, StreamInfo] = {
    "c-digits": StreamInfo(
        "digits",
        5,
        Protocol(batch=10, replay_batch=10, memory=100, lr=0.1),
        "scikit-learn's 8x8 digits, 5 tasks of 2 classes; embedded, needs no download",
    ),
    "c-mnist": StreamInfo("mnist", 5, Protocol(), "handwritten digits, 5 tasks of 2 classes"),
    "c-fashion-mnist": StreamInfo(
        "fashion-mnist", 5, Protocol(), "articles of clothing, 5 tasks of 2 classes"
    ),
    "c-cifar10": StreamInfo("cifar10", 5, _CIFAR, "the paper's C-CIFAR10, 5 tasks of 2 classes"),
    "c-cifar100": StreamInfo(
        "cifar100", 10, _CIFAR, "the paper's C-CIFAR100, 10 tasks of 10 classes"
    ),
}


def open_stream(
    name: str,
    *,
    seed: int = 0,
    class_order: ClassOrder = "label",
    tasks: int | None = None,
    test_fraction: float | None = None,
) -> Stream:
    """Load a stream by its name, or a class-incremental one over the classes of an `.npz` file."""
    from evenstream.data import load_dataset
    from evenstream.streams.class_incremental import class_incremental

    info = STREAMS.get(name)
    if info is not None:
        if test_fraction is not None:
            raise InputError(f"{name} has a test set of its own; --test-fraction is for .npz files")
        dataset = load_dataset(info.dataset)
        n_tasks, protocol = tasks or info.tasks, info.protocol
    elif name.endswith(".npz"):
        dataset = load_dataset(Path(name), test_fraction=test_fraction, seed=seed)
        n_tasks = tasks or max(1, min(10, dataset.n_classes // 2))
        protocol = Protocol(network="convnet" if dataset.is_image else "mlp")
    else:
        raise UnknownName("stream", name, [*STREAMS, "PATH.npz"])
    return class_incremental(name, dataset, n_tasks, protocol, seed, class_order)
