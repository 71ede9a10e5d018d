"""Text of data and paths that a terminal, or a spreadsheet, would take for a command."""

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenstream import Learner
from evenstream.cli.main import main
from evenstream.printable import printable
from tests.helpers import warm
from tests.helpers.live_tables import read_csv, rows, write
from tests.helpers.small_runs import save_table

ODD = ["\x1b[31mred", "[red]bold[/red]", "\x07bell\x9b2J", ":smile: \u202egnp.exe"]


def odd_table(path):
    save_table(path)
    arrays = dict(np.load(path))
    for name in ("y_train", "y_test"):
        arrays[name] = np.array([ODD[int(label.split()[1])] for label in arrays[name]])
    np.savez(path, **arrays)
    return path


def is_plain(text):
    return not set(text) & set("\x1b\x07\x9b\u202e\r")


def test_printable():
    assert printable("a\tb\nc é 漢 – \u200d") == "a\tb\nc é 漢 – \u200d"
    assert printable("\x1b[31m\r\x00\x7f\x9b\u2028\u202e\udcff") == (
        "\\x1b[31m\\r\\x00\\x7f\\x9b\\u2028\\u202e\\udcff"
    )


def test_every_command_prints_labels_and_paths_as_text(run, one_process):
    folder = Path("\x1b[2J[red]odd$_$")
    folder.mkdir()
    odd_table(folder / "t.npz")
    stream = ["--stream", folder / "t.npz", "--tasks", "2"]
    said = {
        "streams": run("streams", folder / "t.npz", "--picture", folder / "p.png"),
        "run": run("run", "er", *stream, "--out", folder / "run"),
        "resume": run("resume", folder / "run"),
        "report": run("report", folder / "run"),
        "compare": run("compare", "er", *stream, "--seeds", "1", "--out", folder / "both"),
        "learn": run("learn", folder / "live", "--from", folder / "t.npz"),
        "refused": run("run", "er", *stream, "--out", folder / "run"),
        "absent": run("predict", folder / "live", folder / "absent.csv"),
        "too many": run("report", folder / "run", folder),
    }
    for name, (status, out, err) in said.items():
        assert status == (2 if name in ("refused", "absent", "too many") else 0), (name, err)
        assert is_plain(out + err), name
        assert "\\x1b[2J[red]odd$_$" in out + err, name
    shown = said["streams"][1]
    for label in ("\\x1b[31mred", "[red]bold[/red]", ":smile: \\u202egnp.exe"):
        assert label in shown
    assert "\x1b" in (folder / "p.csv").read_text(), "files have the true text"
    assert ODD[0] in Learner.load(folder / "live").labels


def test_warnings_are_text(run):
    Path("images").mkdir()
    for label in ("a", "b"):
        (Path("images") / label).mkdir()
        for number in range(6):
            Image.new("RGB", (8, 8), (number * 9, 0, 90)).save(f"images/{label}/{number}.png")
    Path("images/a/\x1b[31m.png").write_bytes(b"not an image")
    with pytest.warns(UserWarning, match="cannot be read") as warned:
        run("run", "er", "--stream", "images:size=8", "--corrupt", "skip", "--out", "out")
    from evenstream.run.announcing import format_warning

    lines = [format_warning(warning.message) for warning in warned]
    assert any("\\x1b[31m.png" in line for line in lines) and all(map(is_plain, lines))


def on_a_terminal(*words):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    process = warm.start(main, list(words), files=(os.devnull, theirs, theirs))
    os.close(theirs)
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    process.join()
    assert process.exitcode == 0, seen
    return seen.decode()


def test_predictions_on_a_terminal_are_escaped_and_in_files_true(run):
    odd_table("t.npz")
    run("learn", "dir", "--from", "t.npz", "--lr", "0.5")
    np.savez("new.npz", x=np.load("t.npz")["x_test"])
    _, piped, _ = run("predict", "dir", "new.npz")
    assert "\x1b[31mred" in piped
    run("predict", "dir", "new.npz", "--out", "p.csv")
    assert Path("p.csv").read_bytes().decode() == piped
    shown = on_a_terminal("predict", "dir", "new.npz").replace("\r\n", "\n")
    assert shown == printable(piped)


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)"]


def test_formulas_can_be_quoted_for_a_spreadsheet(run):
    x, labels = rows(80, classes=4)
    names = dict(zip(sorted(set(labels)), FORMULAS, strict=True))
    write("t.csv", x, [names[label] for label in labels])
    run("learn", "dir", "--from", "t.csv")
    plain = read_csv(run("predict", "dir", "t.csv")[1])
    safe = read_csv(run("predict", "dir", "t.csv", "--spreadsheet-safe")[1])
    assert {row["label"] for row in plain} <= set(FORMULAS)
    assert [row["label"] for row in safe] == [f"'{row['label']}" for row in plain]
    both = run("predict", "dir", "t.csv", "--spreadsheet-safe", "--top", "2")[1]
    cells = [cell for row in list(csv.reader(io.StringIO(both)))[1:] for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_numbers_are_no_formulas(run):
    x, y = rows(60)[0], np.arange(60) % 2 - 1  # labels -1 and 0
    np.savez("t.npz", x=x, y=y)
    run("learn", "dir", "--from", "t.npz")
    plain, safe = (run("predict", "dir", "t.npz", *w)[1] for w in ([], ["--spreadsheet-safe"]))
    assert plain == safe


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
def test_names_that_are_no_text(run):
    """A folder of images whose names are not UTF-8, from learning to a report."""
    for index, label in enumerate(("cafe", "the")):
        (Path("images") / label).mkdir(parents=True)
        for number in range(6):
            image = Image.new("RGB", (8, 8), (90 * index, number, 0))
            image.save(f"images/{label}/{number}\udce9.png")
    where = Path("images").rename(os.fsdecode(b"im\xe0ges"))
    options = ["--stream", f"{where}:size=8", "--tasks", "2"]
    for words in (
        ["run", "er", *options, "--out", "run"],
        ["resume", "run"],
        ["report", "run"],
        ["streams", f"{where}:size=8"],
        ["learn", "dir", "--from", where, "--size", "8"],
        ["predict", "dir", where, "--out", "p.csv"],
    ):
        status, out, err = run(*words)
        assert status == 0, (words, err)
        (out + err).encode()
    assert b"cafe/0\xe9.png" in Path("p.csv").read_bytes()
    ended = warm.evenstream("predict", "dir", str(where))
    assert ended.stdout == Path("p.csv").read_bytes()
    (where / "cafe").rename(where / "caf\udce9")  # now a label is no text
    for words in (["run", "er", *options], ["learn", "new", "--from", where, "--size", "8"]):
        status, _, err = run(*words)
        assert status == 2 and "rename the folder" in err and is_plain(err)
        err.encode()


@pytest.mark.parametrize("where", ["&-", "/dev/full"])
def test_an_output_that_takes_nothing(where):
    command = f"{sys.executable} -m evenstream --version >{where}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    told = "" if where == "&-" else "error: [Errno 28] No space left on device\n"
    assert (ended.returncode, ended.stderr) == (2 if told else 0, told)


def test_a_terminal_without_our_signs():
    command = [sys.executable, "-m", "evenstream", "streams"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, capture_output=True, env=env)
    assert (ended.returncode, ended.stderr) == (0, b"") and b"c-digits" in ended.stdout
