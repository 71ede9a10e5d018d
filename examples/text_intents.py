"""Learn what people want from what they write, with new intents at any time.

    python examples/text_intents.py FILE.csv SAVE

FILE.csv has the columns text and label, in the order in which they came. Each text is predicted
before it is learned, as in use. The memory keeps 256 numbers of a text, and no text.

Needs `pip install 'evenstream[text]'`. Another encoder, such as one of sentence-transformers, is a
function from a list of texts to a matrix: `Learner(model=Frozen(model.encode))`.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from evenstream import Learner


def main() -> None:
    """Predict and learn, some texts at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("save", type=Path)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    with args.file.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]

    if args.save.exists():
        learner = Learner.load(args.save)
    else:
        learner = Learner(model="wordllama", optimizer="adam", lr=0.01)
    right = known = 0
    for first in range(0, len(rows), args.batch):
        now = slice(first, first + args.batch)
        guesses, before = learner.predict(texts[now]), set(learner.labels)
        for guess, label in zip(guesses, labels[now], strict=True):
            known += label in before
            right += guess == label
        learner.learn(texts[now], labels[now])
    learner.save(args.save)
    print(learner)
    print(
        f"{right} of {len(rows)} right before they were learned; {known} had an intent seen before"
    )
    for text in texts[-3:]:
        print(f"{learner.predict([text])[0]:20} {text}")


if __name__ == "__main__":
    main()
