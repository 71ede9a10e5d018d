"""Images, generators and specifications for the tests of augmentation."""

import torch

SPECS = ["none", "crop", "flip", "crop2+flip", "resized-crop", "resized-crop0.3+flip"]
MEAN, STD = (0.1, 0.5, 0.7), (0.2, 0.25, 0.5)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int = 8, c: int = 3, h: int = 12, w: int = 12, seed: int = 7) -> torch.Tensor:
    return torch.randint(0, 256, (n, c, h, w), dtype=torch.uint8, generator=rng(seed))
