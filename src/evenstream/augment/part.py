"""What the parts of an augmentation have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from torch import Generator, Tensor

from evenstream.augment.view import View


class Part(ABC):
    """One random change of images; its fields are its options."""

    meaning: ClassVar[str]
    """What it does and how its options are written, for people."""

    @classmethod
    @abstractmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Make the part of what is written behind its name, as in NAME0.2@224.

        Args:
            number: The number right behind the name.
            at: What stands behind "@".

        Raises:
            ValueError: It takes no such options; the message says which ones it takes.
        """

    @abstractmethod
    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(k, n)` numbers, k for each of n images; height and width are the input's."""


class GeometricPart(Part):
    """A part that moves pixels, rows and columns separately."""

    @abstractmethod
    def trace(self, view: View, drawn: Tensor, height: int, width: int) -> None:
        """Carry the view from the result of the part, of this size, to its input."""


class ColourPart(Part):
    """A part that changes the colours of pixels, after all of them are in their places."""

    @abstractmethod
    def recolour(self, pixels: Tensor, drawn: Tensor) -> Tensor:
        """Change images `(n, h, w, c)` with values in 0..1 and one or three channels.

        The result may be in the memory of the input.
        """
