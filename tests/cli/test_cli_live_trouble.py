"""`evenstream learn` and `predict` when rows, files, pipes or whole passes go wrong."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenstream import Learner
from evenstream.checkpoint import has_checkpoint
from evenstream.cli.main import main
from evenstream.live import following
from evenstream.run.folder import CHECKPOINTS
from evenstream.run.runner import start_run
from tests.helpers import warm
from tests.helpers.damage import alter_newest
from tests.helpers.live_tables import metrics, read_csv, rows, same, write
from tests.helpers.small_runs import small_config

BAD = {
    "quote": b'"1,2,3,4,5,kind 1\n',
    "quote inside": b'1,2,3,4,5,"kind 1\n',
    "not UTF-8": "1,2,3,4,5,caf\xe9\n".encode("latin-1"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_costs_no_other_line(learn, bad):
    x, labels = rows()
    write("good.csv", x, labels)
    lines = Path("good.csv").read_bytes().splitlines(keepends=True)
    Path("bad.csv").write_bytes(b"".join([*lines[:21], BAD[bad], *lines[21:]]))
    status, _, err = learn("--from", "bad.csv")
    assert status == 2 and "bad.csv, line 22: " in err
    status, out, _ = learn("--from", "bad.csv", "--corrupt", "skip")
    assert status == 0 and "learned 40 rows of bad.csv, 1 row skipped" in out
    learn("--from", "good.csv", directory="other")
    assert same("dir", "other")


def test_a_cell_may_have_several_lines(learn):
    x, labels = rows(20)
    write("table.csv", x, [f"{label}\nof two lines" for label in labels])
    status, out, _ = learn("--from", "table.csv")
    assert status == 0 and "learned 20 rows" in out
    assert all(label.endswith("\nof two lines") for label in Learner.load("dir").labels)


def test_bad_rows_alone_are_told(learn):
    write("table.csv", *rows())
    learn("--from", "table.csv")
    with Path("table.csv").open("a") as file:
        file.write("1,2,3,4,five,kind 1\n" * 3)
    status, out, _ = learn("--from", "table.csv", "--corrupt", "skip")
    assert status == 0
    assert "nothing new in table.csv but rows that were skipped (3); its other 60 rows" in out
    assert metrics()["streams"]["table.csv"]["state"]["skipped"] == 3
    _, out, _ = learn("--from", "table.csv", "--corrupt", "skip")
    assert out.startswith("nothing new in table.csv: its 60 rows were learned before")
    Path("bad.csv").write_text("a,b,c,d,e,label\n" + "1,2,3,4,kind 1\n" * 2)
    for directory in ("dir", "new"):
        status, _, err = learn("--from", "bad.csv", "--corrupt", "skip", directory=directory)
        assert status == 2
        assert "nothing was learned from bad.csv: all of its 2 rows are bad" in err
    assert not has_checkpoint(Path("new"))


def test_learning_again_goes_on_where_it_was_stopped(learn):
    x, labels = rows()
    write("table.csv", x, labels)
    for directory in ("dir", "whole"):
        learn("--from", "table.csv", directory=directory)
    learn("--from", "table.csv", "--again", directory="whole")
    stopped_at(3, learn, "--from", "table.csv", "--again")
    assert not metrics()["streams"]["table.csv (2)"]["ended"]
    status, out, _ = learn("--from", "table.csv", "--again")
    assert status == 0 and "learned 30 rows of table.csv (2)" in out
    assert same("dir", "whole")
    learn("--from", "table.csv", "--again")
    assert list(metrics()["streams"]) == ["table.csv", "table.csv (2)", "table.csv (3)"]


def stopped_at(batches, learn, *words):
    """Learn until a signal comes in the middle of some batch."""
    own, made = Learner.learn, []

    def counted(self, *args, **options):
        made.append(own(self, *args, **options))
        if len(made) == batches:
            os.kill(os.getpid(), signal.SIGTERM)
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "learn", counted)
        assert learn(*words)[0] == 130


def test_the_checkpoints_of_a_run_are_left_alone(learn, table):
    start_run(small_config(table), Path("run"))
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    write("other.csv", *rows())
    status, _, err = learn("--from", "other.csv", directory=f"run/{CHECKPOINTS}")
    assert status == 2 and "holds a run, which is never modified" in err
    assert before == {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}


def test_names_of_files_need_not_be_text(learn):
    draw = np.random.default_rng(0)
    for folder in (Path("images/cat"), Path("images/dog")):
        folder.mkdir(parents=True)
        for name in (b"1.png", b"\xe9.png"):
            pixels = draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / os.fsdecode(name))
    status, out, _ = learn("--from", "images", "--size", "8")
    assert status == 0 and "learned 4 rows" in out


def saves_often():
    following.SAVE_SECONDS = 0.1
    return main(["learn", "dir", "--from", "-", "--patience", "0.5"])


def test_rows_of_a_pipe_are_saved_while_it_is_silent(learn):
    write("table.csv", *rows())
    reading, writing = os.pipe()
    process = warm.start(saves_often, files=(reading, os.devnull, os.devnull))
    os.write(writing, Path("table.csv").read_bytes())
    for _ in range(600):
        if Path("dir/metrics.json").exists() and metrics()["samples"] == 60:
            break
        time.sleep(0.1)
    process.kill()
    process.join()
    os.close(writing)
    os.close(reading)
    assert metrics()["samples"] == 60


def test_a_wrong_save_is_told_or_passed_over(learn, run):
    write("table.csv", *rows())
    learn("--from", "table.csv")
    alter_newest(Path("dir"), lambda state: state.pop("criterion"))
    for words in (("predict", "dir", "table.csv"), ("learn", "dir", "--from", "table.csv")):
        status, _, err = run(*words)
        assert status == 2 and "its entry 'criterion' cannot be used: it lacks" in err
    learn("--from", "table.csv", directory="two")
    write("more.csv", *rows(20, seed=1))
    learn("--from", "more.csv", directory="two")
    alter_newest(Path("two"), lambda state: state["live"].update(streams=3))
    with pytest.warns(UserWarning, match="'live'.* continuing from the checkpoint before it"):
        status, out, _ = learn("--from", "more.csv", directory="two")
    assert status == 0 and "learned 20 rows" in out


def test_a_label_that_is_not_known_is_none(learn, run):
    x, _ = rows(20)
    np.savez("numbers.npz", x=x, y=np.arange(20) % 2)
    learn("--from", "numbers.npz")
    write("table.csv", x[:4], ["0", "?", "1", "unknown"])
    status, out, err = run("predict", "dir", "table.csv")
    assert status == 0 and len(read_csv(out)) == 4
    assert err.endswith("% of 2 labelled rows\n")
