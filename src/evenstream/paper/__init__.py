"""The paper as data: its experiments, its printed numbers, and what it leaves open."""

from evenstream.paper.contents import (
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
