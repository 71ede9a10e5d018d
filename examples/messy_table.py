"""A table with categories, dates, text and missing cells, from the first row to predictions.

The table is made here: tickets of a help desk, whose kinds change from month to month.

    python examples/messy_table.py [ROWS]

Nothing is specified about the columns. These are the same commands in the shell:

    evenstream learn desk --from tickets.csv
    evenstream predict desk new.csv --out answers.csv
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from evenstream.cli.main import main as evenstream

WORDS = {
    "billing": ("invoice", "charged twice", "refund", "payment failed", "wrong amount"),
    "delivery": ("parcel", "late again", "wrong address", "driver", "never arrived"),
    "login": ("password", "locked out", "reset link", "two factor", "account"),
    "hardware": ("screen", "battery", "does not start", "fan is loud", "cable"),
}
ANYTHING = ("please help", "since yesterday", "this is urgent", "thank you", "as I said before")
COUNTRIES = ("DE", "FR", "US", "BR", "JP", "IN", "NA")


def write_tickets(path: Path, rows: int, seed: int) -> None:
    """Tickets in order of arrival; new kinds appear over time."""
    draw, begin = random.Random(seed), datetime(2026, 1, 5, 8)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["ticket", "opened", "country", "agent", "price", "premium", "text", "label"])
        for row in range(rows):
            kinds = list(WORDS)[: 2 + 3 * row // rows]
            kind = draw.choice(kinds)
            opened = begin + timedelta(hours=2 * row + 9 * (kind == "login"))
            phrases = [draw.choice(WORDS[kind]), draw.choice(ANYTHING), draw.choice(ANYTHING)]
            price = draw.lognormvariate(5 if kind == "hardware" else 3, 0.5)
            out.writerow(
                [
                    f"T-{seed}{row:05}",
                    opened.strftime("%d.%m.%Y %H:%M"),
                    draw.choice(COUNTRIES),
                    draw.choice(["", f"agent {draw.randrange(40)}"]),
                    "" if draw.random() < 0.2 else f"{price:.2f}",
                    draw.choice(["true", "false"]),
                    "" if draw.random() < 0.05 else ", ".join(draw.sample(phrases, 3)),
                    kind,
                ]
            )


def main(rows: int = 3000) -> None:
    """Make two tables in a new folder, learn from one and predict the other."""
    folder = Path(tempfile.mkdtemp(prefix="desk-"))
    tickets, new, desk = folder / "tickets.csv", folder / "new.csv", folder / "desk"
    write_tickets(tickets, rows, seed=1)
    write_tickets(new, rows // 4, seed=2)
    evenstream(["learn", str(desk), "--from", str(tickets)])
    evenstream(["predict", str(desk), str(new), "--out", str(folder / "answers.csv")])
    print(f"the answers are in {folder / 'answers.csv'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
