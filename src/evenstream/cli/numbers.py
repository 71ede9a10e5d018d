"""Numbers on the command line: plain decimal ones, not Python literals."""

from __future__ import annotations

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from evenstream.numerals import read_number

NUMBERS = ConstructorRegistry()
"""Rejects 1_000 and digits of other scripts, which the parser itself would accept."""


@NUMBERS.primitive_rule
def _number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[float] | None:
    kind: type[float] = info.type
    if kind is not int and kind is not float:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=lambda words: read_number(words[0], kind),
        is_instance=lambda value: type(value) in (int, kind),
        str_from_instance=lambda value: [str(value)],
    )
