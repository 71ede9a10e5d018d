"""A line of the table: a target and what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.timing import Ratio


@dataclass(frozen=True)
class Line:
    """A ratio beside the target set for it.

    Attributes:
        goal: Number of the target in docs/appendix/performance.md.
        what: A over B, in words.
        ratio: The measurement.
        at_most, at_least: The target; neither for lines that are only stated.
        unmeasurable: Why the target cannot be reached on this machine, whatever the code does.
        note: What else to know.
    """

    goal: int
    what: str
    ratio: Ratio
    at_most: float | None = None
    at_least: float | None = None
    unmeasurable: str = ""
    note: str = ""

    @property
    def target(self) -> str:
        """The target, to be printed."""
        if self.at_most is not None:
            return f"<= {self.at_most:g}"
        return f">= {self.at_least:g}" if self.at_least is not None else "stated"

    @property
    def verdict(self) -> str:
        """Whether the median meets the target."""
        if self.at_most is None and self.at_least is None:
            return "-"
        low, high = self.at_least or 0.0, self.at_most or float("inf")
        if low <= self.ratio.median <= high:
            return "met"
        return f"not here: {self.unmeasurable}" if self.unmeasurable else "MISSED"

    def __str__(self) -> str:
        r = self.ratio
        measured = f"{r.median:7.3f}  [{r.low:.3f}, {r.high:.3f}]"
        times = f"{r.a_ms:9.2f} / {r.b_ms:9.2f} ms, {r.pairs} pairs"
        start = f"{self.goal}  {self.what:58} {self.target:8} {measured:26} {self.verdict:8}"
        return f"{start} {times}" + (f"  {self.note}" if self.note else "")

    def as_json(self) -> dict[str, Any]:
        """The line as it is stored in the file of results."""
        return asdict(self) | {"target": self.target, "verdict": self.verdict}
