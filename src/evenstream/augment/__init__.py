"""Preprocessing and random augmentation of whole batches, in plain PyTorch.

A raw batch is usually uint8 pixels `(n, c, h, w)`, as stored in the replay memory. `Preprocess`
turns it into what a network sees: float32, in [0, 1], normalised per channel, channels last, and,
for training, randomly moved and recoloured.

How it works. Each geometric part ("crop", "flip", "resized-crop") moves rows and columns
separately, so a part is a map on row numbers and a map on column numbers, with parameters drawn
for every sample. The maps are chained backwards, from the pixels of the result to those of the
source, and the pixels are then fetched once for the whole batch: no loop over samples, and no
arithmetic on pixels except where "resized-crop" has to blend neighbours. Parts that change colours
("jitter", "gray", "randaugment") follow, on the fetched pixels.

Parameters are drawn on the CPU, one call for each parameter of a batch, and in the order of the
specification; the number of draws depends only on the batch size and the specification.
"""

from evenstream.augment.crop import Crop
from evenstream.augment.flip import Flip
from evenstream.augment.gray import Gray
from evenstream.augment.jitter import Jitter
from evenstream.augment.latents import Latents
from evenstream.augment.preprocess import Augmentation, Preprocess
from evenstream.augment.rand_augment import RandAugment
from evenstream.augment.resized_crop import ResizedCrop
from evenstream.augment.specification import PARTS, parse

__all__ = [
    "PARTS",
    "Augmentation",
    "Crop",
    "Flip",
    "Gray",
    "Jitter",
    "Latents",
    "Preprocess",
    "RandAugment",
    "ResizedCrop",
    "parse",
]
