"""`evenstream learn` and `predict` with an encoder of texts."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from evenstream import Learner
from evenstream.encoders import ENCODERS, EncoderInfo
from tests.helpers.live_tables import metrics, read_csv

WORDS = {"card": "my card is lost", "rate": "an odd rate was used", "login": "i forgot it all"}
ROWS = [
    {"id": n, "said": f"{WORDS[kind]} {'again ' * (n % 4)}", "label": kind}
    for n, kind in enumerate(list(WORDS) * 20)
]


class Letters(nn.Module):
    """How often each letter occurs."""

    def forward(self, texts):
        return torch.tensor([[float(text.count(chr(97 + n))) for n in range(26)] for text in texts])


@pytest.fixture(autouse=True)
def letters():
    with ENCODERS.temporary({"letters": EncoderInfo("counts letters", Letters)}):
        yield


def save(path, rows=ROWS):
    if path.endswith(".parquet"):
        pd.DataFrame(rows).to_parquet(path)
    elif path.endswith(".jsonl"):
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with Path(path).open("w", newline="") as file:
            out = csv.DictWriter(file, list(rows[0]))
            out.writeheader()
            out.writerows(rows)
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_texts_are_learned_as_in_python(learn, run, form):
    file = save(f"asked.{form}")
    status, out, err = learn("--from", file, "--network", "letters", "--text", "said")
    assert (status, err) == (0, "") and "texts: the column said; left out: id" in out
    learner = Learner(model="letters")
    batch = learner.options.batch
    for start in range(0, 60, batch):
        part = ROWS[start : start + batch]
        learner.learn([str(row["said"]).strip() for row in part], [row["label"] for row in part])
    assert Learner.load("dir").fingerprint() == learner.fingerprint()
    assert learn("--from", save(f"more.{form}", ROWS[:7]))[0] == 0  # without any option
    assert metrics()["samples"] == 67 and metrics()["streams"][f"more.{form}"]["samples"] == 7
    status, out, _ = run("predict", "dir", file, "--top", "1")
    assert status == 0 and [row["label"] for row in read_csv(out)][:3] == list(WORDS)


@pytest.mark.parametrize(
    ("names", "options", "found"),
    [
        (["said"], [], "said"),
        (["id", "said"], [], "said"),  # the only one that is neither a number nor a date
        (["text", "said"], [], "text"),
        (["text", "said"], ["--text", "said"], "said"),
        (["said", "other"], ["--ignore", "other"], "said"),
    ],
)
def test_which_column_holds_the_texts(learn, names, options, found):
    rows = [{**{n: r["id"] if n == "id" else r["said"] for n in names}, "y": r["label"]}
            for r in ROWS]  # fmt: skip
    status, out, _ = learn("--from", save("t.csv", rows), "--network", "letters", *options)
    assert status == 0 and f"texts: the column {found}" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "which column holds the texts could be said or other; name one with --text NAME"),
        (["--text", "sad"], "has no column 'sad' among its inputs"),
        (["--text", "said", "other"], "could be said or other"),
        (["--text", "said", "--date", "id"], "reads one column of texts"),
    ],
)
def test_columns_of_texts_that_are_not_clear(learn, options, message):
    rows = [{**row, "other": row["said"]} for row in ROWS]
    status, _, err = learn("--from", save("t.csv", rows), "--network", "letters", *options)
    assert status == 2 and message in err and not Path("dir").exists()


def test_a_learner_of_texts_that_was_made_in_python(learn, run):
    learner = Learner(model="letters")
    learner.learn([row["said"] for row in ROWS], [row["label"] for row in ROWS])
    learner.save("dir")
    status, out, _ = run("predict", "dir", save("t.csv"))
    assert status == 0 and [row["label"] for row in read_csv(out)][:3] == list(WORDS)
    status, out, _ = learn("--from", "t.csv", "--drift")
    assert status == 0 and metrics()["samples"] == 60
