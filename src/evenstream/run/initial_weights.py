"""The weights file that a run starts from, and what it may know about the stream."""

from __future__ import annotations

import json
from pathlib import Path

from evenstream.errors import InputError
from evenstream.files import with_home
from evenstream.networks.weights import file_digest, read_metadata
from evenstream.run.config import RunConfig
from evenstream.streams import Stream

METADATA = "evenstream"
"""The metadata entry in which `evenstream pretrain` describes its result."""


def identified(path: Path) -> dict[str, str]:
    """A weights file in a configuration: its path and checksum, to repeat a run."""
    path = with_home(path).absolute()
    return {"weights": str(path), "weights_sha256": file_digest(path)}


def reserved_classes(stream: Stream) -> list[int]:
    """The classes of the data set that the stream sets aside for pre-training, as indices."""
    streamed = stream.streamed_classes()
    return [index for index in range(stream.dataset.n_classes) if index not in streamed]


def check_weights(config: RunConfig, stream: Stream) -> None:
    """Reject a changed file, and weights that already know what the stream will teach.

    Weights from another data set, or of unknown origin, are accepted.
    """
    if not config.weights:
        return
    if file_digest(config.weights) != config.weights_sha256:
        raise InputError(f"{config.weights} has changed since the run was started; put it back")
    _check_classes(Path(config.weights), stream)


def _check_classes(path: Path, stream: Stream) -> None:
    try:
        made = json.loads(read_metadata(path)[METADATA])
        dataset, known, source = made["dataset"], set(made["classes"]), made["stream"]
    except (KeyError, TypeError, ValueError):
        return
    base = {stream.dataset.classes[index] for index in reserved_classes(stream)}
    if dataset != stream.dataset.name or known == base:
        return
    taught = len(known - base)
    trouble = (
        f"know {taught} of the classes that {stream.name} teaches"
        if taught
        else f"know {len(known)} of the {len(base)} classes that {stream.name} sets aside"
    )
    raise InputError(
        f"the weights in {path} {trouble}; they are for {source}, and `evenstream pretrain` makes "
        "others"
    )


def note_missing(config: RunConfig, stream: Stream) -> str:
    """What to tell a user whose run starts from scratch although its stream expects weights."""
    if config.weights:
        return ""
    base = reserved_classes(stream)
    if base:
        return (
            f"{stream.name} sets {len(base)} classes aside for pre-training, but no --weights were "
            f"given: the network starts from scratch (`evenstream pretrain --stream {stream.name}` "
            "makes weights)"
        )
    if stream.protocol.network == config.network == "resnet18-imagenet":
        return (
            f"no --weights were given: {config.network} starts from scratch (the paper starts it "
            "from weights for ImageNet, such as torchvision's resnet18)"
        )
    return ""
