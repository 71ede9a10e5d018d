"""Messages in the order of their dates, each of which is predicted before its group is revealed.

    python examples/posts_by_date.py FOLDER

FOLDER has a folder for each group with a file for each message, headers first, as 20 Newsgroups
has. The subject and the body are read; the other headers would give the group away. Needs
`pip install 'evenstream[text]'`.
"""

from __future__ import annotations

import email
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from evenstream import Learner

BATCH, REPORT = 10, 1000


def posts(folder: Path) -> Iterator[tuple[datetime, str, str]]:
    """Date, group and text of each message that has a date."""
    for file in folder.glob("*/*"):
        message = email.message_from_string(file.read_text(encoding="latin-1"))
        try:
            date = parsedate_to_datetime(message["Date"] or "")
        except ValueError:
            continue
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        yield date, file.parent.name, f"{message['Subject'] or ''}\n{message.get_payload()}"


def main(folder: str) -> None:
    """Predict, then learn, ten messages at a time."""
    in_order = sorted(posts(Path(folder)))
    learner, right = Learner(model="wordllama"), 0
    for first in range(0, len(in_order), BATCH):
        now = in_order[first : first + BATCH]
        texts, groups = [text for *_, text in now], [group for _, group, _ in now]
        if first:
            right += sum(learner.predict(texts) == groups)
        learner.learn(texts, groups)
        done = first + len(now)
        if done % REPORT == 0 or done == len(in_order):
            share = right / max(done - BATCH, 1)
            print(f"{now[-1][0]:%Y-%m-%d}  {done:6} messages  {share:.1%} right before learning")
    print(learner)


if __name__ == "__main__":
    main(sys.argv[1])
