"""Learn what people want from what they write; new intents may appear at any time.

    python examples/text_intents.py FILE.csv SAVE

FILE.csv has the columns text and label, in the order in which the texts arrived. Each text is
predicted before it is learned, as in production. The memory keeps 256 numbers for each text,
never the text itself. `--picture FILE.png` draws how often it was right along the way.

Needs `pip install 'evenstream[text]'`. Another encoder, such as one of sentence-transformers, is a
function from a list of texts to a matrix: `Learner(model=Frozen(model.encode))`.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from evenstream import Learner


def draw(rights: list[bool], new: dict[int, str], picture: Path) -> None:
    """The share of right answers among the last 50, with a line where an intent was new."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots()
    recent = [rights[max(0, end - 50) : end] for end in range(1, len(rights) + 1)]
    axes.plot([100 * sum(part) / len(part) for part in recent], color="#1d4ed8", lw=2)
    for number, (place, intent) in enumerate(new.items()):
        axes.axvline(place, color="#9a3412", lw=1, ls=":")
        height = 3 + 30 * (number % 2)
        axes.annotate(f" {intent}", (place, height), rotation=90, fontsize=8, color="#9a3412")
    axes.set(xlabel="texts read", ylabel="right among the last 50, %", ylim=(0, 102))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=150)


def main() -> None:
    """Predict and learn, some texts at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("save", type=Path)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    with args.file.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]

    learner = Learner.load(args.save) if args.save.exists() else Learner(model="wordllama")
    rights: list[bool] = []
    new: dict[int, str] = {}
    for first in range(0, len(rows), args.batch):
        now = slice(first, first + args.batch)
        guesses, before = learner.predict(texts[now]), set(learner.labels)
        for guess, label in zip(guesses, labels[now], strict=True):
            if label not in before | set(new.values()):
                new[len(rights)] = label
            rights.append(bool(guess == label))
        learner.learn(texts[now], labels[now])
    learner.save(args.save)
    print(learner)
    print(f"{sum(rights)} of {len(rows)} right before they were learned, {len(new)} new intents")
    for text in texts[-3:]:
        print(f"{learner.predict([text])[0]:20} {text}")
    if args.picture:
        draw(rights, new, args.picture)


if __name__ == "__main__":
    main()
