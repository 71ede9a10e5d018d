"""TinyImageNet, as it comes out of its archive."""

from __future__ import annotations

from pathlib import Path

from evenstream.data.dataset import Dataset
from evenstream.data.image_files import OnCorrupt
from evenstream.data.images.imagenet import SYNSET
from evenstream.data.images.trees import labelled_images, listed_images, read_text
from evenstream.errors import DataError

MEAN, STD = (0.4802, 0.4480, 0.3975), (0.2770, 0.2691, 0.2821)
_ANNOTATIONS = "val/val_annotations.txt"


def read_tiny_imagenet(path: Path, *, size: int = 64, on_corrupt: OnCorrupt = "stop") -> Dataset:
    """Read the folder `tiny-imagenet-200`; its validation images are the test set.

    The labels are the synsets of `wnids.txt`, sorted; `words.txt` has their names.
    """
    root = path.resolve()
    classes = sorted(read_text(root, "wnids.txt").split())
    if not classes or not all(SYNSET.fullmatch(label) for label in classes):
        raise DataError(f"{root / 'wnids.txt'} is not a list of synsets like n01443537")
    train = labelled_images(root, "train", classes, size, on_corrupt)
    missing = set(range(len(classes))) - set(train[1].tolist())
    if missing:
        raise DataError(
            f"{root / 'train'} lacks {len(missing)} of the {len(classes)} classes in wnids.txt, "
            f"{classes[min(missing)]} for one"
        )
    listed = [(f"val/images/{name}", label) for name, label in _pairs(root, _ANNOTATIONS)]
    test = listed_images(root, _ANNOTATIONS, listed, classes, size, on_corrupt)
    words = dict(_pairs(root, "words.txt"))
    return Dataset(
        "tinyimagenet",
        *train,
        *test,
        classes=[*classes],
        label_names=[words.get(label, label) for label in classes],
        mean=MEAN,
        std=STD,
    )


def _pairs(root: Path, name: str) -> list[tuple[str, str]]:
    """The first two columns of a file whose columns are separated by tabs."""
    lines = [line.split("\t") for line in read_text(root, name).splitlines() if line.strip()]
    if any(len(line) < 2 for line in lines):
        raise DataError(f"{root / name} must have at least two columns, separated by tabs")
    return [(line[0], line[1]) for line in lines]
