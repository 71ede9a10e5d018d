"""Small trees of pictures in the layouts of the real data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from evenstream.data.image_files import ImageFiles
from evenstream.data.samples import Read


def picture(seed: int, width: int = 12, height: int = 9) -> Image.Image:
    """A picture of its own for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def plain(colour: tuple[int, int, int], width: int = 12, height: int = 9) -> Image.Image:
    return Image.new("RGB", (width, height), colour)


def save(image: Image.Image, path: Path, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def truncated_jpeg(path: Path) -> Path:
    save(picture(0, 60, 60), path)
    path.write_bytes(path.read_bytes()[:900])
    return path


def read_rows(files: ImageFiles, rows: np.ndarray) -> Read:
    """Decode rows one after the other, without threads."""
    return files.collect(rows, map(files.load, rows.tolist()))


def folder_of_classes(root: Path, counts: dict[str, int], suffix: str = ".jpg") -> Path:
    for label, count in counts.items():
        for number in range(count):
            save(picture(number), root / label / f"{number}{suffix}")
    return root


def tiny_imagenet(root: Path, per_class: int = 3, n_val: int = 4) -> Path:
    """`tiny-imagenet-200` with three classes, listed in no order, as in the original."""
    synsets = {"n03444034": "go-kart", "n01443537": "goldfish, Carassius auratus", "n02999410": ""}
    for synset in synsets:
        for number in range(per_class):
            name = f"{synset}_{number}.JPEG"
            save(picture(number, 64, 64), root / "train" / synset / "images" / name)
        boxes = f"{synset}_0.JPEG\t0\t0\t1\t1\n"
        (root / "train" / synset / f"{synset}_boxes.txt").write_text(boxes)
    lines = []
    for number in range(n_val):
        synset = list(synsets)[number % 3]
        save(picture(number, 64, 64), root / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\t{synset}\t0\t32\t44\t62\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    (root / "wnids.txt").write_text("\n".join(synsets))
    named = {synset: name for synset, name in synsets.items() if name}
    words = "n00001740\tentity\n" + "".join(f"{s}\t{name}\n" for s, name in named.items())
    (root / "words.txt").write_text(words)
    return root


def imagenet(root: Path, per_class: int = 3) -> Path:
    for synset in ("n01443537", "n01440764"):
        for number in range(per_class):
            name = f"{synset}_{number}.JPEG"
            save(picture(number, 40, 30), root / "train" / synset / name)
        save(picture(9, 40, 30), root / "val" / synset / f"ILSVRC2012_val_{synset}.JPEG")
    return root


SPECIES = {7: ("Aves", "Zonotrichia albicollis"), 0: ("Fungi", "Amanita muscaria")}


def inaturalist_content(root: Path, part: str, n: int) -> dict[str, list[dict[str, object]]]:
    """What `train2017.json` holds, pictures written; annotations in another order than images."""
    content: dict[str, list[dict[str, object]]] = {
        "categories": [
            {"id": number, "supercategory": above, "name": name}
            for number, (above, name) in SPECIES.items()
        ],
        "images": [],
        "annotations": [],
    }
    for number in range(n):
        category = list(SPECIES)[number % 2]
        above, name = SPECIES[category]
        file_name = f"train_val_images/{above}/{name}/{part}{number}.jpg"
        save(picture(number, 50, 40), root / file_name)
        content["images"].append(
            {"id": 100 + number, "file_name": file_name, "license": 1, "rights_holder": "someone"}
        )
        content["annotations"].insert(
            0, {"id": number, "image_id": 100 + number, "category_id": category}
        )
    return content


def inaturalist(root: Path, n_train: int = 5, n_val: int = 2) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", n_train), ("val", n_val)):
        content = {"info": {"year": 2017}, **inaturalist_content(root, part, n)}
        (root / f"{part}2017.json").write_text(json.dumps(content))
    return root
