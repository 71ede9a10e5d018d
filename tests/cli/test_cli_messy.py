"""Tables with categories, dates, text and missing cells, from the shell."""

import contextlib
import csv
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from evenstream import Learner, follow
from evenstream.data.tables import Columns
from evenstream.errors import DataError
from evenstream.live import open_data
from evenstream.live.learner_folder import read_learner
from evenstream.live.open_data import Known, Reading, open_source
from examples import messy_table
from examples.messy_table import write_tickets
from tests.helpers.live_tables import metrics, read_csv, rows, same, write


@pytest.fixture
def tickets():
    write_tickets(Path("tickets.csv"), 120, seed=1)
    return Path("tickets.csv")


def as_json_lines(table, path):
    """The same rows with values of JSON; a missing one is null, or not there at all."""
    with Path(table).open(newline="") as file, Path(path).open("w") as out:
        for number, row in enumerate(csv.DictReader(file)):
            row["price"] = float(row["price"]) if row["price"] else None
            row["premium"] = row["premium"] == "true"
            if number % 2:
                row = {name: value for name, value in row.items() if value not in ("", None)}
            out.write(json.dumps(row) + "\n")
    return path


def test_the_example_learns(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    messy_table.main(240)
    said = capsys.readouterr()
    assert "learned 240 rows of tickets.csv" in said.out
    accuracy = float(said.err.split("accuracy ")[1].split(" %")[0])
    assert accuracy > 50  # of four kinds
    (answers,) = tmp_path.glob("desk-*/answers.csv")
    assert len(read_csv(answers.read_text())) == 60


def test_two_commands_and_no_flag(tickets, learn, run):
    status, out, err = learn("--from", tickets)
    assert (status, err) == (0, "")
    for name, kind in {"opened": "date", "country": "category", "text": "text"}.items():
        assert any(line.split()[:2] == [name, kind] for line in out.splitlines())
    write_tickets(Path("new.csv"), 40, seed=2)
    status, out, err = run("predict", "dir", "new.csv")
    assert status == 0 and len(read_csv(out)) == 40 and err.startswith("accuracy ")
    frame = pd.read_csv("new.csv", keep_default_na=False)  # NA is a country here
    frame = frame.drop(columns="label")
    labels = [row["label"] for row in read_csv(out)]
    assert Learner.load("dir").predict(frame[frame.columns[::-1]]).tolist() == labels


def test_stopped_and_gone_on_equals_uninterrupted(tickets):
    def learn_all(folder, **options):
        with contextlib.closing(open_source(str(tickets), Known(), Reading())) as source:
            source.batch = 10
            follow(
                Learner("er-las", "mlp-norm", batch=10, replay_batch=10), source, folder, **options
            )

    def stop(result, _):
        if result.step == 5:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        learn_all("part", on_step=stop)
    learn_all("part")
    learn_all("whole")
    assert metrics("part")["samples"] == 120
    assert same("part", "whole")


def test_json_lines_are_the_same_table(tickets, learn, run, monkeypatch):
    learn("--from", tickets)
    lines = as_json_lines(tickets, "tickets.jsonl")
    assert learn("--from", lines, directory="json")[0] == 0
    assert same("dir", "json")
    assert run("predict", "dir", lines)[1] == run("predict", "dir", tickets)[1]
    reading, writing = os.pipe()
    os.write(writing, Path(lines).read_bytes())
    os.close(writing)
    monkeypatch.setattr(open_data, "STDIN", reading)
    assert "learned 120 rows of standard input" in learn("--from", "-", directory="pipe")[1]
    assert same("dir", "pipe")


def test_a_file_of_json_lines_that_has_grown_is_gone_on_with(learn):
    x, labels = rows(80)
    lines = [
        json.dumps({"a": values[0], "b": values[1], "label": label}) + "\n"
        for values, label in zip(x.tolist(), labels, strict=True)
    ]
    Path("whole.jsonl").write_text("".join(lines))
    learn("--from", "whole.jsonl", directory="whole")
    Path("log.jsonl").write_text("".join(lines[:40]) + lines[40][:9])
    assert "learned 40 rows of log.jsonl" in learn("--from", "log.jsonl")[1]
    Path("log.jsonl").write_text("".join(lines))
    assert "learned 40 rows of log.jsonl" in learn("--from", "log.jsonl")[1]
    assert same("dir", "whole")
    assert "nothing new in log.jsonl" in learn("--from", "log.jsonl")[1]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 41: is not JSON"),
        ("[1, 2]", "line 41: is not an object"),
        ('{"a": [1], "b": 2, "label": "x"}', "line 41: column 'a' is '[1]', not a number; "),
        ('{"a": 1, "b": 2, "label": 0.5}', "line 41: the label is 0.5; labels must be"),
        ('{"a": 1, "b": 2}', "line 41: the label is missing; correct it, or leave such rows"),
        ('{"label": "x"}', "line 41: none of the columns a, b"),
    ],
)
def test_bad_json_lines_are_told(learn, line, why):
    good = "".join(json.dumps({"a": n, "b": n % 7, "label": "xy"[n % 2]}) + "\n" for n in range(40))
    Path("t.jsonl").write_text(f"{good}{line}\n")
    status, _, err = learn("--from", "t.jsonl")
    assert status == 2 and f"t.jsonl, {why}" in err and "--corrupt skip" in err
    assert ("--categorical" in err) == ("not a number" in err)
    status, out, _ = learn("--from", "t.jsonl", "--corrupt", "skip")
    assert status == 0 and "skipped" in out
    Path("more.jsonl").write_text('{"a": 1, "b": 2, "c": 3, "label": "x"}\n')
    assert "more.jsonl, line 1: unknown column c" in learn("--from", "more.jsonl")[2]


def test_the_other_rows_are_answered(learn, run):
    x, labels = rows(40)
    learn("--from", write("good.csv", x, labels))
    answers = read_csv(run("predict", "dir", "good.csv")[1])
    lines = Path("good.csv").read_text().splitlines()
    lines[30] = lines[30].replace(",", ",red", 1)
    Path("bad.csv").write_text("\n".join(lines) + "\n")
    assert run("predict", "dir", "bad.csv")[0] == 2
    status, out, err = run("predict", "dir", "bad.csv", "--corrupt", "skip")
    assert status == 0 and read_csv(out) == answers[:29] + answers[30:]
    assert "rows left out as unusable: 1; the first: line 31: column 'b' is 'red" in err
    status, out, err = run("predict", "dir", "bad.csv", "--corrupt", "null")
    assert status == 0 and len(read_csv(out)) == 40
    assert set(read_csv(out)[29].values()) == {""}
    assert read_csv(out)[30:] == answers[30:] and read_csv(out)[:29] == answers[:29]


def test_the_other_images_are_answered(learn, run):
    for kind, shade in (("cat", 20), ("dog", 200)):
        Path("photos", kind).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (8, 8), (shade + number,) * 3).save(f"photos/{kind}/{number}.png")
    learn("--from", "photos", "--size", "8")
    Path("photos/cat/1.png").write_bytes(b"nothing")
    assert run("predict", "dir", "photos")[0] == 2
    out = run("predict", "dir", "photos", "--corrupt", "skip")[1]
    assert [row["file"] for row in read_csv(out)][:3] == ["cat/0.png", "cat/2.png", "dog/0.png"]
    _, out, err = run("predict", "dir", "photos", "--corrupt", "null")
    answers = {row["file"]: row["label"] for row in read_csv(out)}
    assert len(answers) == 6 and answers["cat/1.png"] == "" and answers["dog/2.png"]
    assert "rows left empty" in err and "1.png" in err


def test_flags_say_what_columns_are(tickets, learn):
    flags = ("--categorical", "premium", "--text", "agent", "--date", "opened=%d.%m.%Y %H:%M")
    assert learn("--from", tickets, *flags, "--ignore", "price")[0] == 0
    table = Learner.load("dir").table
    kinds = {column.name: column.kind for column in table.columns}
    assert (kinds["premium"], kinds["agent"], kinds["opened"]) == ("category", "text", "date")
    assert set(table.left_out) == {"ticket", "price"}
    write_tickets(Path("more.csv"), 40, seed=3)
    status, _, err = learn("--from", "more.csv", "--categorical", "premium")
    assert status == 2 and "for a new learner" in err
    assert learn("--from", "more.csv")[0] == 0
    status, _, err = learn("--from", tickets, "--text", "nothing", directory="other")
    assert status == 2 and "no column 'nothing' among its inputs" in err
    assert not Path("other").exists()


def test_runs_read_tables_as_learn_does(tickets, learn, run):
    learn("--from", tickets, "--categorical", "premium", "country", "--ignore", "agent")
    stream = f"c-{tickets}:categorical=premium+country,ignore=agent"
    status, out, _ = run("run", "er-las", "--stream", stream, "--tasks", "2", "--out", "run")
    assert status == 0 and "premium  category" in out
    learned, made = Learner.load("dir"), read_learner(Path("run"))[0]
    assert made.table == learned.table
    status, out, _ = run("predict", "run", tickets)
    assert status == 0 and len(read_csv(out)) == 120


def test_the_shell_goes_on_with_a_learner_of_frames(tickets, learn, run):
    frame = pd.read_csv(tickets, keep_default_na=False)
    learner = Learner("er-las", "mlp-norm")
    learner.learn(frame.drop(columns="label"), frame.label)
    learner.save("dir")
    write_tickets(Path("more.csv"), 40, seed=3)
    more = pd.read_csv("more.csv", keep_default_na=False)
    assert "unknown column extra" in learn("--from", _with(more, extra=1))[2]
    shuffled = _with(more[more.columns[::-1]], extra=1)
    assert learn("--from", shuffled, "--ignore", "extra")[0] == 0
    assert metrics()["samples"] == 40
    status, out, _ = run("predict", "dir", "more.csv")
    assert status == 0 and len(read_csv(out)) == 40


def _with(frame, **columns):
    frame.assign(**columns).to_csv("extra.csv", index=False)
    return "extra.csv"


def test_superclasses_from_a_column(run):
    draw = np.random.default_rng(0)
    fine = {"cat": "animal", "dog": "animal", "oak": "plant", "elm": "plant"}
    with Path("t.csv").open("w") as file:
        file.write("a,b,kingdom,label\n")
        for name in [*fine] * 15:
            file.write(f"{draw.normal():.3f},{len(name)},{fine[name]},{name}\n")
    assert "has no superclasses" in run("streams", "s-t.csv")[2]
    for prefix in ("s", "m"):
        words = ("run", "er-las", "--stream", f"{prefix}-t.csv:superclass=kingdom", "--out", prefix)
        assert run(*words)[0] == 0
        learner, _ = read_learner(Path(prefix))
        assert sorted(learner.labels) == ["animal", "plant"]
        assert learner.input_kind.shape == (2,)
    Path("t.csv").write_text("a,up,label\n1,x,cat\n2,y,cat\n3,x,dog\n4,y,dog\n" * 3)
    assert "belongs to more than one superclass" in run("streams", "s-t.csv:superclass=up")[2]


def test_superclasses_from_folders(run):
    for name in ("animal/cat", "animal/other", "plant/oak", "plant/other"):
        Path("photos", name).mkdir(parents=True)
        for number in range(5):
            image = Image.new("RGB", (8, 8), (40 * number, len(name), 9))
            image.save(f"photos/{name}/{number}.png")
    status, out, err = run("streams", "s-./photos:size=8")
    assert status == 0, err
    assert "animal" in out and "plant" in out
    assert "animal/cat" in run("streams", "c-./photos:size=8,superclass=folder")[1]
    assert "superclass=folder, not kind" in run("streams", "s-./photos:superclass=kind")[2]


def test_columns_of_older_saves_must_be_numbers_in_every_row():
    Path("t.csv").write_text("a,b,label\n1,2,x\n,3,y\n")
    known = Known(Columns(("a", "b"), "label"))
    source = open_source("t.csv", known, Reading())
    with pytest.raises(DataError, match="line 3: column 'a' is missing"):
        list(source)
    source.close()


def test_a_missing_number_later_does_not_stop(learn):
    x, labels = rows(1100)
    write("t.csv", x, labels)
    with Path("t.csv").open("a") as file:
        file.write("1,,3,4,5,kind 0\n")
    status, out, _ = learn("--from", "t.csv", "--batch", "100")
    assert status == 0 and "learned 1,101 rows" in out
