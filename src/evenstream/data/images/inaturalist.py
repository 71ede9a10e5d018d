"""iNaturalist 2017: images in folders of species, listed in JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenstream.data.dataset import Dataset
from evenstream.data.image_files import OnCorrupt
from evenstream.data.images.imagenet import MEAN, STD
from evenstream.data.images.trees import listed_images, read_text
from evenstream.errors import DataError

_TRAIN, _TEST = "train2017.json", "val2017.json"
_TABLES = {"images", "annotations", "categories"}
_KEPT = _TABLES | {"id", "file_name", "image_id", "category_id", "name"}


def read_inaturalist(path: Path, *, size: int = 341, on_corrupt: OnCorrupt = "stop") -> Dataset:
    """Read `train2017.json` and `val2017.json`, which name the images in `train_val_images`.

    The labels are the category numbers, in the order of the file; their names are the scientific
    ones. The validation images are the test set. Images are kept larger than the 299 pixels that
    networks see, for random crops.
    """
    root = path.resolve()
    species, listed = _read_annotations(root, _TRAIN)
    train = listed_images(root, _TRAIN, listed, [*species], size, on_corrupt)
    _, listed = _read_annotations(root, _TEST)
    test = listed_images(root, _TEST, listed, [*species], size, on_corrupt)
    return Dataset(
        "inaturalist2017",
        *train,
        *test,
        classes=[*species],
        label_names=[*species.values()],
        mean=MEAN,
        std=STD,
    )


def _read_annotations(root: Path, name: str) -> tuple[dict[int, str], list[tuple[str, int]]]:
    """Names by category number, and the category number of each image file."""
    try:
        # Everything else is dropped while it is read: the files are large.
        content = json.loads(
            read_text(root, name),
            object_hook=lambda entry: {key: entry[key] for key in entry.keys() & _KEPT},
        )
        species = {_whole(entry["id"]): str(entry["name"]) for entry in content["categories"]}
        category = {entry["image_id"]: entry["category_id"] for entry in content["annotations"]}
        listed = [
            (str(image["file_name"]), _whole(category[image["id"]])) for image in content["images"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{root / name} is not a list of annotations as expected (images with id and "
            "file_name, annotations with image_id and category_id, categories with id and name): "
            f"{type(error).__name__}: {error}"
        ) from error
    return species, listed


def _whole(number: Any) -> int:
    if type(number) is not int:  # int() would cut 1.9 and read "1_0"
        raise TypeError(f"{number!r} is not a whole number")
    return number
