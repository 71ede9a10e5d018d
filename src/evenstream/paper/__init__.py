"""The paper as data: its experiments, the numbers that it prints, what it leaves open."""

from evenstream.paper.catalogue import (
    Description,
    Printed,
    descriptions,
    experiments,
    notes,
    printed,
    printed_beside,
)

__all__ = [
    "Description",
    "Printed",
    "descriptions",
    "experiments",
    "notes",
    "printed",
    "printed_beside",
]
