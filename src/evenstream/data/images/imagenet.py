"""ImageNet ILSVRC-2012, in the folders its users sort it into."""

from __future__ import annotations

import re
from pathlib import Path

from evenstream.data.dataset import Dataset
from evenstream.data.image_files import OnCorrupt
from evenstream.data.images.trees import class_folders, contents, labelled_images, sub_folders
from evenstream.errors import DataError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SYNSET = re.compile(r"n\d{8}")


def read_imagenet(path: Path, *, size: int = 256, on_corrupt: OnCorrupt = "stop") -> Dataset:
    """Read `train/SYNSET/*.JPEG` and, to test on, `val/SYNSET/*.JPEG`.

    The labels are the synsets, sorted. Images are kept larger than the 224 pixels that networks
    see, for random crops.
    """
    root = path.resolve()
    if not {"train", "val"} <= set(sub_folders(root)):
        raise DataError(
            f"{root} is not ImageNet as expected: it needs the folders train and val with a folder "
            f"for each synset, but holds {contents(root)}"
        )
    if not sub_folders(root, "val"):
        raise DataError(
            f"{root / 'val'} has no folders: sort the validation images into one for each synset, "
            "val/n01440764/*.JPEG and so on, as in train"
        )
    classes = class_folders(root, "train")
    others = [name for name in classes if not SYNSET.fullmatch(name)]
    if others:
        raise DataError(
            f"{root / 'train'} has folders that are not synsets like n01440764: "
            f"{', '.join(others[:5])}; a plain folder of images can be read as an image folder"
        )
    train = labelled_images(root, "train", classes, size, on_corrupt)
    test = labelled_images(root, "val", classes, size, on_corrupt)
    return Dataset("imagenet", *train, *test, classes=[*classes], mean=MEAN, std=STD)
