"""Attacks on the promises of docs/reliability.md: `make campaign`, or `python -m campaign --help`.

Each file in kinds/ makes one kind of attempt, which its seed decides. This needs Linux.
"""
