"""Builds a `Dataset` from the files of a registered data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.data.cifar import parse_cifar, parse_names
from evenstream.data.dataset import CoarseLabels, Dataset, int_classes
from evenstream.data.digits import load_digits
from evenstream.data.idx import parse_images_and_labels
from evenstream.data.known import DatasetInfo

ReadFile = Callable[[str], bytearray]
"""Returns the checked content of the data file with that name."""

_CIFAR10_TRAINING_FILES = [f"data_batch_{number}.bin" for number in range(1, 6)]


def build(info: DatasetInfo, read: ReadFile) -> Dataset:
    """Read a registered data set of a few files, in the layout given by the registry."""
    return _BUILDERS[info.layout](info, read)


def read_images(info: DatasetInfo, folder: Path, **options: Any) -> Dataset:
    """Read a registered folder of images; options are those of all their readers."""
    from evenstream.data.images.imagenet import read_imagenet
    from evenstream.data.images.inaturalist import read_inaturalist
    from evenstream.data.images.tiny_imagenet import read_tiny_imagenet

    readers: dict[str, Callable[..., Dataset]] = {
        "tinyimagenet": read_tiny_imagenet,
        "imagenet": read_imagenet,
        "inaturalist2017": read_inaturalist,
    }
    return readers[info.layout](folder, **options)


def _build_bundled(info: DatasetInfo, read: ReadFile) -> Dataset:
    return load_digits()


def _build_idx(info: DatasetInfo, read: ReadFile) -> Dataset:
    def part(prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        images, labels = read(f"{prefix}-images-idx3-ubyte"), read(f"{prefix}-labels-idx1-ubyte")
        return parse_images_and_labels(images, labels, f"{info.name} {prefix}")

    x_train, y_train = part("train")
    x_test, y_test = part("t10k")
    return _dataset(info, x_train, y_train, x_test, y_test, list(info.label_names))


def _build_cifar10(info: DatasetInfo, read: ReadFile) -> Dataset:
    batches = [parse_cifar(read(name), 1, name) for name in _CIFAR10_TRAINING_FILES]
    x_test, (y_test,) = parse_cifar(read("test_batch.bin"), 1, "test_batch.bin")
    names = parse_names(read("batches.meta.txt"), "batches.meta.txt")
    x_train = np.concatenate([images for images, _ in batches])
    y_train = np.concatenate([labels for _, (labels,) in batches])
    return _dataset(info, x_train, y_train, x_test, y_test, names)


def _build_cifar100(info: DatasetInfo, read: ReadFile) -> Dataset:
    x_train, (coarse_train, y_train) = parse_cifar(read("train.bin"), 2, "train.bin")
    x_test, (coarse_test, y_test) = parse_cifar(read("test.bin"), 2, "test.bin")
    names = parse_names(read("fine_label_names.txt"), "fine_label_names.txt")
    coarse_names = parse_names(read("coarse_label_names.txt"), "coarse_label_names.txt")
    coarse = CoarseLabels(coarse_train, coarse_test, coarse_names)
    return _dataset(info, x_train, y_train, x_test, y_test, names, coarse)


def _dataset(
    info: DatasetInfo,
    x_train: NDArray[np.uint8],
    y_train: NDArray[np.int64],
    x_test: NDArray[np.uint8],
    y_test: NDArray[np.int64],
    names: list[str],
    coarse: CoarseLabels | None = None,
) -> Dataset:
    return Dataset(
        info.name,
        x_train,
        y_train,
        x_test,
        y_test,
        classes=int_classes(len(names)),
        label_names=names,
        mean=info.mean,
        std=info.std,
        coarse=coarse,
    )


_BUILDERS: dict[str, Callable[[DatasetInfo, ReadFile], Dataset]] = {
    "bundled": _build_bundled,
    "idx": _build_idx,
    "cifar10": _build_cifar10,
    "cifar100": _build_cifar100,
}
