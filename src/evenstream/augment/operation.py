"""What the parts of an augmentation have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from torch import Generator, Tensor

from evenstream.augment.view import View


class Operation(ABC):
    """One random change of images; its fields are its options."""

    meaning: ClassVar[str]
    """A description for users: what it does and how its options are written."""

    @classmethod
    @abstractmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Create the part from the text after its name, as in NAME0.2@224.

        Args:
            number: The number right after the name.
            at: The text after "@".

        Raises:
            ValueError: It has no such options; the message lists those it has.
        """

    @abstractmethod
    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(k, n)` numbers, k for each of n images; height and width are the input's."""


class GeometricPart(Operation):
    """A part that moves pixels, rows and columns separately."""

    @abstractmethod
    def trace(self, view: View, drawn: Tensor, height: int, width: int) -> None:
        """Map the view from the part's output, of this size, to its input."""


class ColourPart(Operation):
    """A part that changes the colours of pixels, after all of them have been moved."""

    @abstractmethod
    def recolour(self, pixels: Tensor, drawn: Tensor) -> Tensor:
        """Change images `(n, h, w, c)` with values in 0..1 and one or three channels.

        The result may share the input's memory.
        """
