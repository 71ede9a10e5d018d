"""Attacks on the promises of docs/concepts/reliability.md: `make campaign`.

`python -m campaign --help` has the options.

Each file in kinds/ makes one kind of attempt, which its seed decides. This needs Linux.
"""
