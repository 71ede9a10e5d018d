"""Drawings of the main methods: where rows come from, what they go through, what is learned.

Boxes stand on a grid of four columns and three rows, and arrows join them. The SVG is put into the
page itself and takes its colours from the page, so it is right in light and dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Literal

WIDTH, HEIGHT = 140, 46
COLUMN, ROW, EDGE = 178, 72, 6
LINE = 15

Kind = Literal["data", "memory", "part", "loss"]


@dataclass(frozen=True)
class Box:
    """A box in a column and a row, which may be halves; each line of its text is short."""

    column: float
    row: float
    text: str
    kind: Kind = "part"

    @property
    def left(self) -> float:
        """Its left edge."""
        return EDGE + self.column * COLUMN

    @property
    def top(self) -> float:
        """Its upper edge."""
        return EDGE + self.row * ROW


@dataclass(frozen=True)
class Arrow:
    """From one box to another; dashed for what only is stored or chosen."""

    start: str
    end: str
    text: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Drawing:
    """Boxes by name, the arrows between them, and the same in words."""

    words: str
    boxes: dict[str, Box]
    arrows: tuple[Arrow, ...]


INCOMING = Box(0, 0, "incoming rows", "data")
MEMORY = Box(0, 2, "memory", "memory")

DRAWINGS = {
    "auto": Drawing(
        "A network learns from incoming and replayed rows with LAS. If the inputs are flat, two "
        "closed forms learn the incoming rows alongside it. All are asked about rows that they "
        "have not learned, and whoever was right most often, class by class, predicts.",
        {
            "memory": Box(0, 0, "memory", "memory"),
            "in": Box(0, 1, "incoming rows", "data"),
            "net": Box(1, 0, "network,\ntrained with LAS"),
            "slda": Box(1, 1, "slda: class means,\none covariance"),
            "ranpac": Box(1, 2, "ranpac: regression\non random features"),
            "right": Box(2, 1, "who was right,\nclass by class?"),
            "best": Box(3, 1, "the best\none predicts", "loss"),
        },
        (
            Arrow("in", "memory", "some are kept", dashed=True),
            Arrow("memory", "net"),
            Arrow("in", "net"),
            Arrow("in", "slda"),
            Arrow("in", "ranpac"),
            Arrow("net", "right", dashed=True),
            Arrow("slda", "right", dashed=True),
            Arrow("ranpac", "right", dashed=True),
            Arrow("right", "best"),
        ),
    ),
    "er": Drawing(
        "Incoming rows and rows drawn from the memory form one batch, which trains the network; "
        "the memory keeps a uniform sample of everything that has arrived.",
        {
            "in": INCOMING,
            "memory": MEMORY,
            "batch": Box(1, 1, "one batch,\nnew and replayed"),
            "net": Box(2, 1, "network"),
            "loss": Box(3, 1, "cross-entropy,\nor LAS", "loss"),
        },
        (
            Arrow("in", "batch"),
            Arrow("memory", "batch"),
            Arrow("batch", "net"),
            Arrow("net", "loss"),
            Arrow("in", "memory", "some are kept", dashed=True),
        ),
    ),
    "der++": Drawing(
        "The memory keeps rows together with the logits they had. Incoming rows are scored by "
        "their labels, one draw from the memory by its distance to the stored logits, and a second "
        "draw by its labels.",
        {
            "in": INCOMING,
            "memory": Box(0, 2, "memory: rows with\ntheir logits", "memory"),
            "net": Box(1.5, 1, "network"),
            "new": Box(3, 0, "incoming rows:\ncross-entropy", "loss"),
            "old": Box(3, 1, "first draw: distance\nto stored logits", "loss"),
            "label": Box(3, 2, "second draw:\ncross-entropy", "loss"),
        },
        (
            Arrow("in", "net"),
            Arrow("memory", "net", "two draws"),
            Arrow("net", "new"),
            Arrow("net", "old"),
            Arrow("net", "label"),
            Arrow("in", "memory", "some are kept", dashed=True),
        ),
    ),
    "mro": Drawing(
        "Incoming rows only go into the memory; the network is trained on what is drawn from it.",
        {
            "in": Box(0, 0.5, "incoming rows", "data"),
            "memory": Box(1, 0.5, "memory", "memory"),
            "net": Box(2, 0.5, "network"),
            "loss": Box(3, 0.5, "cross-entropy,\nor LAS", "loss"),
        },
        (
            Arrow("in", "memory", dashed=True),
            Arrow("memory", "net"),
            Arrow("net", "loss"),
        ),
    ),
    "er-ace": Drawing(
        "Incoming rows compete only with the classes of their own batch, replayed rows with all "
        "classes; the two losses are added.",
        {
            "in": INCOMING,
            "memory": MEMORY,
            "net": Box(1, 1, "network"),
            "new": Box(2, 0, "softmax over the\nbatch's classes"),
            "old": Box(2, 2, "softmax over\nall classes seen"),
            "loss": Box(3, 1, "sum of both\nlosses", "loss"),
        },
        (
            Arrow("in", "net"),
            Arrow("memory", "net"),
            Arrow("net", "new", "incoming"),
            Arrow("net", "old", "replayed"),
            Arrow("new", "loss"),
            Arrow("old", "loss"),
            Arrow("in", "memory", "some are kept", dashed=True),
        ),
    ),
    "ss-il": Drawing(
        "Classes that are in the batch and classes that are not have a softmax each, so neither "
        "group pushes the other down; an earlier copy of the network keeps the absent classes.",
        {
            "in": INCOMING,
            "memory": MEMORY,
            "net": Box(1, 1, "network"),
            "new": Box(2, 0, "softmax over\npresent classes"),
            "old": Box(2, 2, "softmax over\nabsent classes"),
            "loss": Box(3, 1, "sum of both\nlosses", "loss"),
            "teacher": Box(3, 2, "teacher: the net\nsome steps ago"),
        },
        (
            Arrow("in", "net"),
            Arrow("memory", "net"),
            Arrow("net", "new"),
            Arrow("net", "old"),
            Arrow("new", "loss"),
            Arrow("old", "loss"),
            Arrow("teacher", "old", dashed=True),
            Arrow("in", "memory", "some are kept", dashed=True),
        ),
    ),
    "mir": Drawing(
        "A trial step on the incoming rows shows which stored rows it would hurt most; the real "
        "step trains on the incoming rows and on those.",
        {
            "in": INCOMING,
            "memory": MEMORY,
            "trial": Box(1, 0, "trial step on\nincoming rows"),
            "pick": Box(2, 1, "stored rows whose\nloss rises most"),
            "loss": Box(3, 1, "real step on these\nand incoming rows", "loss"),
        },
        (
            Arrow("in", "trial"),
            Arrow("trial", "pick", dashed=True),
            Arrow("memory", "pick", "candidates"),
            Arrow("pick", "loss"),
            Arrow("in", "memory", "some are kept", dashed=True),
        ),
    ),
    "clib": Drawing(
        "Incoming rows go into the memory, which keeps as many rows of each class. The network is "
        "trained on draws from it. How much a row has lowered the loss is its importance, and the "
        "least important row of the largest class makes room.",
        {
            "in": Box(0, 0, "incoming rows", "data"),
            "memory": Box(1, 0, "memory, equal\nshares of classes", "memory"),
            "net": Box(2, 0, "network"),
            "loss": Box(3, 0, "cross-entropy,\nor LAS", "loss"),
            "worth": Box(1, 1.3, "importance: how\nmuch a row helped"),
        },
        (
            Arrow("in", "memory", dashed=True),
            Arrow("memory", "net"),
            Arrow("net", "loss"),
            Arrow("loss", "worth", dashed=True),
            Arrow("worth", "memory", "who leaves", dashed=True),
        ),
    ),
    "ranpac": Drawing(
        "Features of a frozen network are multiplied by a random matrix, and negative results "
        "become 0. Sums over all rows of these random features, and of their products with each "
        "other, are enough to solve a ridge regression to the classes. There is no memory and no "
        "gradient.",
        {
            "in": Box(0, 0, "incoming rows", "data"),
            "net": Box(1, 0, "frozen network,\nor your features"),
            "random": Box(2, 0, "random features,\nnegative ones 0"),
            "class": Box(3, 0, "running sum\nfor each class"),
            "pairs": Box(2, 1, "running sum of\ntheir products"),
            "loss": Box(3, 1, "ridge regression\nto the classes", "loss"),
        },
        (
            Arrow("in", "net"),
            Arrow("net", "random"),
            Arrow("random", "class"),
            Arrow("random", "pairs"),
            Arrow("class", "loss"),
            Arrow("pairs", "loss"),
        ),
    ),
    "slda": Drawing(
        "Features of a frozen network update a running mean for each class and one covariance "
        "shared by all; a row belongs to the nearest mean as that covariance measures distance. "
        "There is no memory and no gradient.",
        {
            "in": Box(0, 1, "incoming rows", "data"),
            "net": Box(1, 1, "frozen network,\nor your features"),
            "mean": Box(2, 0, "running mean\nof each class"),
            "cov": Box(2, 2, "one running\ncovariance"),
            "loss": Box(3, 1, "nearest mean in\nthat measure", "loss"),
        },
        (
            Arrow("in", "net"),
            Arrow("net", "mean"),
            Arrow("net", "cov"),
            Arrow("mean", "loss"),
            Arrow("cov", "loss"),
        ),
    ),
}


def drawing_of(name: str) -> str:
    """The drawing of a method as HTML for its page; empty if it has none."""
    drawing = DRAWINGS.get(name)
    if drawing is None:
        return ""
    height = 2 * EDGE + HEIGHT + ROW * max(box.row for box in drawing.boxes.values())
    parts = [_arrow(drawing.boxes, arrow) for arrow in drawing.arrows]
    parts += [_box(box) for box in drawing.boxes.values()]
    label = escape(drawing.words)
    width = 2 * EDGE + WIDTH + 3 * COLUMN
    head = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    head += 'orient="auto"><path d="M0 0 8 4 0 8z"/></marker>'
    svg = (
        f'<svg viewBox="0 0 {width} {height:g}" role="img" aria-label="{label}">'
        f"<defs>{head}</defs>{''.join(parts)}</svg>"
    )
    return f'<div class="drawing method-drawing" tabindex="0" markdown="0">{svg}</div>\n\n*{label}*'


def _box(box: Box) -> str:
    lines = box.text.split("\n")
    middle = box.top + HEIGHT / 2 - LINE * (len(lines) - 1) / 2
    texts = "".join(
        f'<text x="{box.left + WIDTH / 2:g}" y="{middle + LINE * number:g}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    shape = f'<rect x="{box.left:g}" y="{box.top:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    return f'<g class="{box.kind}">{shape}{texts}</g>'


def _arrow(boxes: dict[str, Box], arrow: Arrow) -> str:
    (x1, y1), (x2, y2) = _ends(boxes[arrow.start], boxes[arrow.end])
    style = ' class="dashed"' if arrow.dashed else ""
    line = f'<path{style} d="M{x1:g} {y1:g} {x2:g} {y2:g}" marker-end="url(#tip)"/>'
    if not arrow.text:
        return line
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return f'{line}<text class="label" x="{x:g}" y="{y:g}">{escape(arrow.text)}</text>'


def _ends(start: Box, end: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where an arrow leaves one box and meets the other."""
    if start.column == end.column:
        x, down = start.left + WIDTH / 2, start.row < end.row
        return (x, start.top + HEIGHT * down), (x, end.top + HEIGHT * (not down))
    right = start.column < end.column
    first = (start.left + WIDTH * right, start.top + HEIGHT / 2)
    return first, (end.left + WIDTH * (not right), end.top + HEIGHT / 2)
