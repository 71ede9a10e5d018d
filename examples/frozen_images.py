"""Learn classes of images as they arrive, on features of a frozen pretrained network.

    python examples/frozen_images.py FOLDER SAVE

FOLDER has a folder of images for each class. The classes arrive one after the other; each image
goes through the network once, and the memory keeps its 1,280 features. Run it again with new
folders, and the learner saved in SAVE carries on with them. `--picture FILE.png` draws how well
every class is recognised after each new one.

Needs `pip install 'evenstream[images]'`. Without a program: `evenstream learn SAVE --from FOLDER
--network efficientnet-lite0`, which shuffles the images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evenstream import Learner

KINDS = {".png", ".jpg", ".jpeg", ".webp", ".bmp"}


def read(files: list[Path], side: int) -> NDArray[np.uint8]:
    """Images of one size, channels first."""
    images = [Image.open(file).convert("RGB").resize((side, side)) for file in files]
    return np.stack([np.asarray(image).transpose(2, 0, 1) for image in images])


def draw(history: list[dict[str, float]], picture: Path) -> None:
    """A row for each class, a column for each moment: the share recognised."""
    from matplotlib.figure import Figure

    classes = list(history[-1])
    figure = Figure(figsize=(7, 1.2 + 0.4 * len(classes)), layout="constrained")
    axes = figure.subplots()
    shares = [[100 * then.get(name, np.nan) for then in history] for name in classes]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=220, aspect="auto")
    for row, values in enumerate(shares):
        for column, value in enumerate(values):
            if value == value:
                axes.annotate(f"{value:.0f}", (column, row), ha="center", va="center", fontsize=9)
    axes.set(
        yticks=range(len(classes)), yticklabels=classes, xticks=range(len(classes)),
        xlabel="after the class with this number was learned",
        xticklabels=range(1, len(classes) + 1), title="Held-out images recognised, %",
    )  # fmt: skip
    figure.savefig(picture, dpi=150)


def main() -> None:
    """Learn class by class, hold every fifth image out, and say how many of those are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("save", type=Path)
    parser.add_argument("--side", type=int, default=128, help="pixels each way")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()

    learner = Learner.load(args.save) if args.save.exists() else Learner(model="efficientnet-lite0")
    held_out: dict[str, list[Path]] = {}

    def recognised() -> dict[str, float]:
        return {
            label: float(np.mean(learner.predict(read(files, args.side)) == label))
            for label, files in held_out.items()
        }

    history = []
    for folder in sorted(path for path in args.folder.iterdir() if path.is_dir()):
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in KINDS)
        held_out[folder.name] = files[::5]
        seen = [file for file in files if file not in held_out[folder.name]]
        for first in range(0, len(seen), args.batch):
            batch = seen[first : first + args.batch]
            learner.learn(read(batch, args.side), [folder.name] * len(batch))
        if args.picture:
            history.append(recognised())
    learner.save(args.save)
    print(learner)

    shares = history[-1] if history else recognised()
    for label, share in shares.items():
        print(f"{label:20} {share:6.1%} of {len(held_out[label])} images held out")
    print(f"{'mean of classes':20} {np.mean(list(shares.values())):6.1%}")
    if args.picture:
        draw(history, args.picture)


if __name__ == "__main__":
    main()
