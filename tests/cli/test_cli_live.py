"""`evenstream learn`, as from the shell, and what `predict` shares with it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from evenstream import Frozen, Learner
from evenstream.live import open_data
from evenstream.live.tally import Tally
from evenstream.run.runner import start_run
from tests.helpers.live_tables import NAMES, metrics, read_csv, rows, same, write
from tests.helpers.small_runs import save_images, save_table, small_config
from tests.helpers.small_streams import blobs


@pytest.mark.parametrize(
    ("command", "words"),
    [("learn", ["DIR", "--from", "--start", "--again", "auto"]), ("predict", ["FILE", "--top"])],
)
def test_help_teaches(run, command, words):
    status, out, err = run(command, "--help")
    assert (status, err) == (0, "")
    assert f"Example: evenstream {command} plant" in out
    assert all(word in out for word in words)


# ---- learning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "kept"), [(3, [3, 4]), ("3", ["3", "4"])])
def test_the_first_label_of_a_new_learner_decides_the_kind(learn, first, kept):
    labels = [first, "3", 3, "4", 4] * 4
    lines = [json.dumps({"a": n / 4, "label": label}) for n, label in enumerate(labels)]
    Path("table.jsonl").write_text("\n".join([*lines, ""]))
    assert learn("--from", "table.jsonl")[0] == 0
    assert Learner.load("dir").labels == kept


def test_a_new_learner_learns_a_table_in_its_order(learn):
    x, labels = rows()
    status, out, err = learn("--from", write("monday.csv", x, labels))
    assert (status, err) == (0, "")
    assert "learned 60 rows of monday.csv; accuracy " in out  # a slow machine says more before
    assert "; 3 classes\nsaved in dir; `evenstream predict dir FILE`" in out
    by_hand = Learner()
    for start in range(0, 60, 10):
        by_hand.learn(x[start : start + 10], labels[start : start + 10])
    assert Learner.load("dir").fingerprint() == by_hand.fingerprint()
    place = metrics()["streams"]["monday.csv"]
    assert (place["batches"], place["samples"]) == (6, 60)
    assert place["state"]["columns"] == {"features": NAMES, "label": "label", "ignored": []}


def test_a_saved_learner_goes_on_with_new_classes_and_other_order_of_columns(learn):
    learn("--from", write("monday.csv", *rows()))
    x, labels = rows(seed=1, classes=5)
    shuffled = ["e", "label", "c", "d", "a", "b"]
    status, out, _ = learn("--from", write("tuesday.csv", x, labels, order=shuffled))
    assert status == 0 and "learned 60 rows of tuesday.csv" in out and "5 classes" in out
    learn("--from", "monday.csv", directory="other")
    learn("--from", write("plain.csv", x, labels), directory="other")
    assert same("dir", "other")


def test_the_same_file_is_not_learned_twice_unless_asked(learn):
    learn("--from", write("monday.csv", *rows()))
    before = Learner.load("dir").fingerprint()
    Path("monday.csv").rename("renamed.csv")
    status, out, _ = learn("--from", "renamed.csv")
    assert status == 0
    assert out.startswith("nothing new in monday.csv: its 60 rows were learned before (--again")
    assert Learner.load("dir").fingerprint() == before
    _, out, _ = learn("--from", "renamed.csv", "--again")
    assert "learned 60 rows of renamed.csv" in out
    _, out, _ = learn("--from", "renamed.csv", "--again")
    assert "learned 60 rows of renamed.csv (2)" in out
    assert metrics()["samples"] == 180


def test_a_file_that_has_grown_is_gone_on_with(learn):
    x, labels = rows(80)
    write("log.csv", x, labels)
    learn("--from", "log.csv", directory="whole")
    write("log.csv", x[:40], labels[:40])
    learn("--from", "log.csv")
    write("log.csv", x, labels)
    _, out, _ = learn("--from", "log.csv")
    assert "learned 40 rows of log.csv" in out
    assert same("dir", "whole")


def test_a_line_that_is_not_written_to_its_end_waits(learn):
    whole = Path(write("whole.csv", *rows(20))).read_bytes()
    half = whole[: whole.rindex(b"kind") + 3]  # "kin" would be a class
    Path("log.csv").write_bytes(half)
    waits = "its last line has no newline yet and will be read next time"
    for new in ("learned 19 rows of log.csv", "nothing new in log.csv: its 19 rows"):
        status, out, _ = learn("--from", "log.csv")
        assert status == 0 and new in out and waits in out
    Path("log.csv").write_bytes(whole)
    status, out, _ = learn("--from", "log.csv")
    assert status == 0 and "learned 1 row of log.csv" in out and waits not in out
    assert sorted(metrics()["labels"]) == ["kind 0", "kind 1", "kind 2"]


def test_a_bad_row_stops_there_and_the_mended_file_goes_on(learn):
    x, labels = rows()
    write("good.csv", x, labels)
    lines = Path("good.csv").read_text().splitlines()
    lines[36] = lines[36].replace(",", ",red", 1)
    Path("bad.csv").write_text("\n".join(lines) + "\n")
    for _ in range(2):
        status, _, err = learn("--from", "bad.csv")
        assert status == 2
        assert "bad.csv, line 37: column 'b' is 'red" in err
        assert metrics()["samples"] == 30
    Path("bad.csv").write_bytes(Path("good.csv").read_bytes())
    assert learn("--from", "bad.csv")[1].startswith("learned 30 rows of bad.csv")
    learn("--from", "good.csv", directory="whole")
    assert same("dir", "whole")


def test_bad_rows_can_be_skipped(learn):
    x, labels = rows()
    write("bad.csv", x, labels)
    with Path("bad.csv").open("a") as file:
        file.write("1,2,3\n1,2,3,4,5;6,kind 0\n")
    status, out, _ = learn("--from", "bad.csv", "--corrupt", "skip")
    assert status == 0 and "learned 60 rows of bad.csv, 2 rows skipped" in out
    write("good.csv", x, labels)
    learn("--from", "good.csv", directory="good")
    assert same("dir", "good")


def test_columns_can_be_ignored_and_stay_so(learn, run):
    x, labels = rows()
    with_time = np.c_[x, np.arange(60)]
    write("t.csv", with_time, labels, [*NAMES, "time"])
    learn("--from", "t.csv", "--ignore", "time")
    write("plain.csv", x, labels)
    learn("--from", "plain.csv", directory="plain")
    assert same("dir", "plain")
    assert run("predict", "dir", "t.csv")[1] == run("predict", "dir", "plain.csv")[1]
    more = write("more.csv", np.c_[x, x[:, :1]], labels, [*NAMES, "extra"])
    assert "unknown column extra" in learn("--from", more)[2]
    assert learn("--from", more, "--ignore", "extra")[0] == 0
    assert (
        "knows the column a, so it cannot be ignored"
        in learn("--from", more, "--ignore", "extra", "a")[2]
    )


def test_parquet_npz_and_their_labels_become_the_learners_kind(learn):
    x, y = blobs(30)
    table = {name: x[:, i] for i, name in enumerate(NAMES)}
    pq.write_table(pa.table({**table, "label": y}), "t.parquet")
    assert learn("--from", "t.parquet")[0] == 0
    assert {type(label) for label in Learner.load("dir").labels} == {int}
    learn("--from", write("t.csv", x, y))
    np.savez("t.npz", x=x, y=np.array(y).astype(str))
    learn("--from", "t.npz")
    assert sorted(Learner.load("dir").labels) == [0, 1, 2]
    assert metrics()["samples"] == 90
    for odd in ("cat", "1_0", "٣"):
        bad = write("bad.csv", x, [odd] * 30)
        said = learn("--from", bad)[2]
        assert f"line 2: label '{odd}' is not of type int, as the learner's labels are" in said


def test_a_folder_of_images_is_shuffled_and_corrupt_ones_are_skipped(learn, run):
    draw = np.random.default_rng(0)
    for kind, base in (("cat", 20), ("dog", 160)):
        Path("photos", kind).mkdir(parents=True)
        for number in range(24):
            pixels = base + draw.integers(0, 60, (10, 12, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(f"photos/{kind}/{number}.png")
    Path("photos/cat/bad.png").write_bytes(b"nothing")
    new = ("--size", "8", "--memory", "50", "--batch", "8", "--lr", "0.1")
    assert "bad.png" in learn("--from", "photos", *new)[2]
    status, _, _ = learn("--from", "photos", "--corrupt", "skip", *new)
    assert status == 0
    learner = Learner.load("dir")
    assert (learner.model, learner.input_kind.shape) == ("convnet", (3, 8, 8))
    assert (metrics()["samples"], metrics()["streams"]["photos"]["state"]["skipped"]) == (48, 1)
    assert {metrics()["labels"][0], metrics()["labels"][1]} == {"cat", "dog"}
    assert any(event["loss"] for event in map(json.loads, events()[:1]))  # two classes at once
    Path("photos/cat/bad.png").unlink()
    status, out, err = run("predict", "dir", "photos", "--top", "1")
    assert status == 0 and err.startswith("accuracy ")
    assert {row["file"] for row in read_csv(out)} >= {"cat/0.png", "dog/23.png"}
    status, out, err = run("predict", "dir", "photos/dog/3.png")
    assert (status, err) == (0, "")
    assert read_csv(out)[0]["file"] == "3.png"
    run("predict", "dir", "photos/dog", "--out", "flat.csv")
    assert [row["file"] for row in read_csv(Path("flat.csv").read_text())][:2] == ["0.png", "1.png"]


def test_grey_learners_see_images_in_grey(learn, run):
    save_images(Path("grey.npz"))
    learn("--from", "grey.npz")
    pixels = np.load("grey.npz")["x_train"][5, 0]
    Image.fromarray(pixels).save("five.png")
    np.savez("five.npz", x=pixels[None])
    one, two = (read_csv(run("predict", "dir", f"five.{kind}")[1])[0] for kind in ("png", "npz"))
    one.pop("file")
    assert one == two


def test_options_of_a_new_learner(learn):
    learn(
        "--from", write("t.csv", *rows()), "--method", "er", "--network", "mlp", "--memory", "7",
        "--lr", "0.01", "--batch", "5", "--replay-batch", "3", "--seed", "4",
    )  # fmt: skip
    learner = Learner.load("dir")
    options = learner.options
    assert (learner.text, learner.model) == ("er", "mlp")
    assert (options.memory, options.lr, options.batch) == (7, 0.01, 5)
    assert (options.replay_batch, options.seed, learner.step) == (3, 4, 12)
    for flag, value in {"--method": "er-las", "--network": "mlp-norm", "--memory": "8"}.items():
        status, _, err = learn("--from", "t.csv", flag, value)
        assert status == 2 and f"the saved learner has {flag} " in err
    assert learn("--from", "t.csv", "--batch", "5", "--method", "er")[0] == 0


def test_a_run_is_left_alone_and_can_be_started_from(learn, run):
    start_run(small_config(save_table(Path("t.npz")), network="mlp"), Path("run"))
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    x, labels = rows(20)
    x = x / abs(x).max()  # as the run's plain mlp needs it
    write("t.csv", x, [label.replace("kind 2", "kind 9") for label in labels])
    status, _, err = learn("--from", "t.csv", directory="run")
    assert status == 2 and "evenstream learn NEW --start run --from ..." in err
    status, out, _ = learn("--from", "t.csv", "--start", "run")
    assert status == 0 and "learned 20 rows" in out
    learner = Learner.load("dir")
    assert sorted(learner.labels) == ["kind 0", "kind 1", "kind 2", "kind 3", "kind 9"]
    assert learner.step == 20 + 5
    assert run("predict", "run", "t.csv")[0] == 0
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before
    assert "leave --start out" in learn("--from", "t.csv", "--start", "run")[2]


def test_a_learner_saved_in_python_goes_on_in_place(learn):
    x, labels = rows()
    learner = Learner("er", "mlp-norm", batch=20)
    learner.learn(x[:20], labels[:20])
    learner.save("dir")
    assert learn("--from", write("t.csv", x[20:], labels[20:]))[0] == 0
    learner.learn(x[20:40], labels[20:40])
    learner.learn(x[40:], labels[40:])
    assert Learner.load("dir").fingerprint() == learner.fingerprint()


WRONG = {
    "absent.csv": "there is no file or folder absent.csv",
    "t.txt": "cannot be read; expected a table",
    "empty.csv": "is empty",
    "header.csv": "has no rows to learn from",
    "unclear.csv": "which column is the label",
    "flat": "has no folders of classes",
    "one.png": "is one image",
    "t.csv --label kind": "no column 'kind'",
    "t.csv --method er-lass": "unknown method 'er-lass'",
    "t.csv --network convnet": "convnet",
    "t.csv --memory -1": "memory must be",
    "t.csv --checkpoint-every 0": "checkpoint_every must be 1 or more",
    "t.csv --threads 0": "threads must be 1 or more",
    "photos --size 0": "size of images must be 1 to 4096",
    "t.csv --start nowhere": "nowhere does not exist",
    "t.csv --method er-las:prior=macro": "needs task boundaries",
    "cut.npz": "not a readable .npz file",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_leaves_nothing_behind(learn, words):
    write("t.csv", *rows(8))
    for name, text in {
        "t.txt": "", "empty.csv": "", "header.csv": "a,label\n", "unclear.csv": "a,b\n1,2\n",
        "cut.npz": "no zip",
    }.items():  # fmt: skip
        Path(name).write_text(text)
    Path("flat").mkdir()
    Path("photos/cat").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save("photos/cat/a.png")
    Image.new("RGB", (4, 4)).save("flat/a.png")
    Image.new("RGB", (4, 4)).save("one.png")
    status, out, err = learn("--from", *words.split())
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and WRONG[words] in err
    assert not Path("dir").exists()


# ---- the pipe, Ctrl-C and kill -9 ----------------------------------------------------------------


def wait_for(condition, seconds=120):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def events(folder="dir"):
    return (Path(folder) / "events.jsonl").read_text().splitlines()


def test_a_slow_pipe_is_learned_and_ctrl_c_saves(learn, monkeypatch):
    """Seven rows come, then nothing: they are learned; the signal ends the wait, and saves."""
    x, labels = rows(27)
    lines = Path(write("t.csv", x, labels)).read_bytes().splitlines(keepends=True)
    reading, writing = os.pipe()
    os.write(writing, b"".join(lines[:8]))
    monkeypatch.setattr(open_data, "STDIN", reading)

    def interrupt():
        wait_for(lambda: Path("dir/metrics.json").exists())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    flags = ("--patience", "0.3", "--checkpoint-every", "1")
    status, _, err = learn("--from", "-", *flags)
    thread.join()
    os.close(writing)
    assert status == 130
    assert err.startswith("stopped after 1 batch of standard input, saved in dir; run it again")
    assert metrics()["samples"] == 7

    reading, writing = os.pipe()
    os.write(writing, b"".join([lines[0], *lines[8:]]))
    os.close(writing)
    monkeypatch.setattr(open_data, "STDIN", reading)
    assert "learned 20 rows of standard input" in learn("--from", "-")[1]
    by_hand = Learner()
    for part in (slice(7), slice(7, 17), slice(17, 27)):
        by_hand.learn(x[part], labels[part])
    assert Learner.load("dir").fingerprint() == by_hand.fingerprint()


@pytest.mark.slow
def test_a_pipe_of_the_shell():
    x, labels = rows(6)
    command = [sys.executable, "-m", "evenstream.cli.main", "learn", "dir", "--from", "-"]
    content = Path(write("t.csv", x, labels)).read_bytes()
    ended = subprocess.run(command, input=content, capture_output=True)
    assert b"learned 6 rows of standard input" in ended.stdout, ended.stderr


@pytest.mark.slow
def test_killed_and_run_again_equals_uninterrupted(learn):
    """As tests/live does at length for `follow`."""
    write("t.csv", *rows(6000))
    command = [sys.executable, "-m", "evenstream.cli.main", "learn", "dir", "--from", "t.csv"]
    process = subprocess.Popen([*command, "--checkpoint-every", "5"], stdout=subprocess.DEVNULL)
    wait_for(lambda: Path("dir/metrics.json").exists())
    process.kill()
    process.wait()
    assert 0 < metrics()["samples"] < 6000
    assert learn("--from", "t.csv")[0] == 0
    learn("--from", "t.csv", directory="whole")
    assert same("dir", "whole")
    assert events("dir") == events("whole")


def test_a_learner_of_texts_reads_them_as_they_are():
    def lengths(texts):
        return [[len(text), text.count("e")] for text in texts]

    learner = Learner("er", Frozen(lengths), seed=0)
    learner.learn(["one", "two"], ["a", "b"])
    known = open_data.Known.of(learner, Tally())
    Path("t.csv").write_text("text\nsome words\n")
    with closing(
        open_data.open_source("t.csv", known, open_data.Reading(label_needed=False))
    ) as data:
        (batch,) = data
    assert batch == (["some words"], [None])
