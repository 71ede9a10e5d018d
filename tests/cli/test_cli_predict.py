"""`evenstream predict`, as from the shell."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenstream import Learner
from tests.helpers import warm
from tests.helpers.live_tables import read_csv, rows, write


@pytest.fixture
def learned(learn):
    learn("--from", write("t.csv", *rows(100)))
    return Learner.load("dir")


def test_predictions_never_replace_the_data(learned, run):
    table = Path(write("new.csv", *rows(20)))
    before = table.read_bytes()
    status, _, err = run("predict", "dir", table, "--out", table)
    assert status == 2 and "would overwrite the data" in err
    assert table.read_bytes() == before


def test_predictions_are_the_learners(learned, run):
    x, labels = rows(300, seed=2)
    status, out, err = run("predict", "dir", write("new.csv", x, labels))
    found = read_csv(out)
    assert status == 0
    assert [row["label"] for row in found] == learned.predict(x).tolist()
    chances = np.array([[float(row[f"p({name})"]) for name in learned.labels] for row in found])
    np.testing.assert_allclose(chances, learned.predict_proba(x), rtol=1e-4, atol=1e-6)
    assert [float(row["probability"]) for row in found] == chances.max(1).tolist()
    right = np.mean([a == b for a, b in zip(learned.predict(x), labels, strict=True)])
    assert err == f"accuracy {100 * right:.1f} % of 300 labelled rows\n"


def test_labels_are_not_needed_and_columns_go_by_name(learned, run):
    x, labels = rows(9, seed=2)
    full = run("predict", "dir", write("full.csv", x, labels))[1]
    lines = Path("full.csv").read_text().splitlines()
    cells = [line.split(",")[:5] for line in lines]
    Path("bare.csv").write_text("\n".join(",".join(reversed(row)) for row in cells))
    assert run("predict", "dir", "bare.csv") == (0, full, "")
    Path("half.csv").write_text("\n".join([*lines[:5], *(",".join(c) + "," for c in cells[5:])]))
    status, out, err = run("predict", "dir", "half.csv")
    assert (status, out) == (0, full) and "of 4 labelled rows" in err


def test_top_and_out(learned, run):
    x, labels = rows(5, seed=2)
    write("new.csv", x, labels)
    assert run("predict", "dir", "new.csv", "--top", "2", "--out", "p.csv")[1] == ""
    found = read_csv(Path("p.csv").read_text())
    assert list(found[0]) == ["label", "probability", "label2", "probability2"]
    chances = learned.predict_proba(x)
    order = np.argsort(-chances, 1)
    assert [row["label2"] for row in found] == [learned.labels[i] for i in order[:, 1]]
    assert float(found[0]["probability2"]) == pytest.approx(chances[0, order[0, 1]], rel=1e-4)
    many = run("predict", "dir", "new.csv", "--top", "99")[1]
    assert len(read_csv(many)[0]) == 6


def test_a_link_is_followed_and_a_pipe_written_into(learned, run):
    write("new.csv", *rows(9, seed=2))
    expected = run("predict", "dir", "new.csv")[1]
    Path("link").symlink_to("target.csv")
    assert run("predict", "dir", "new.csv", "--out", "link")[0] == 0
    assert Path("link").is_symlink() and Path("target.csv").read_text() == expected
    os.mkfifo("pipe")
    heard = []
    reader = threading.Thread(target=lambda: heard.append(Path("pipe").read_text()))
    reader.start()
    assert run("predict", "dir", "new.csv", "--out", "pipe")[0] == 0
    reader.join(10)
    assert heard == [expected] and Path("pipe").is_fifo()
    Path("data").symlink_to("new.csv")
    status, _, err = run("predict", "dir", "new.csv", "--out", "data")
    assert status == 2 and "would overwrite the data" in err


@pytest.mark.parametrize(
    "out", ["", "/", "dir", "loop", "dir/metrics.json/x", "absent/p.csv", "n" * 300]
)
def test_places_that_cannot_be_written_to(learned, run, out):
    Path("loop").symlink_to("loop")
    before = sorted(Path().rglob("*"))
    status, _, err = run("predict", "dir", "t.csv", "--out", out)
    assert status == 2 and err.startswith(f"error: cannot write {out or '.'}: ")
    assert err.count("\n") == 1 and sorted(Path().rglob("*")) == before


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is none here")
def test_a_full_device(learned, run):
    status, _, err = run("predict", "dir", "t.csv", "--out", "/dev/full")
    assert status == 2 and "cannot write /dev/full: No space" in err
    assert Path("/dev/full").is_char_device()
    with Path("/dev/full").open("w") as full:
        ended = warm.evenstream("predict", "dir", "t.csv", stdout=full.fileno())
    assert ended.returncode == 2 and b"No space left" in ended.stderr
    assert b"Traceback" not in ended.stderr and b"Exception" not in ended.stderr


def test_a_failed_prediction_leaves_the_old_file(learned, run):
    Path("p.csv").write_text("old")
    x, labels = rows(5, seed=2)
    text = Path(write("new.csv", x, labels)).read_text().replace("kind", ",kind", 1)
    Path("new.csv").write_text(text)
    assert run("predict", "dir", "new.csv", "--out", "p.csv")[0] == 2
    assert Path("p.csv").read_text() == "old"
    assert not list(Path().glob("*.tmp"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere t.csv", "nowhere does not exist; `evenstream learn DIR"),
        ("dir absent.csv", "there is no file or folder"),
        ("dir few.csv", "lacks the columns b, c, d, e"),
        ("dir more.csv", "unknown column f"),
        ("dir t.csv --top 0", "top must be 1 or more"),
        ("dir t.csv --label a", "the learner's label is the column label, not a"),
        ("dir wide.npz", "inputs have shape (7,) each"),
        ("dir one.png", "holds images, but the learner's inputs have the shape (5,)"),
        ("dir t.csv --out nowhere/p.csv", "nowhere"),
    ],
)
def test_wrong_input_to_predict(learned, run, words, message):
    Path("few.csv").write_text("a\n1\n")
    Path("more.csv").write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
    np.savez("wide.npz", x=np.zeros((2, 7)))
    Image.new("RGB", (4, 4)).save("one.png")
    status, _, err = run("predict", *words.split())
    assert status == 2
    assert err.startswith("error: ") and message in err
