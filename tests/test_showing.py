"""The line that tells how far something is, in notebooks, on terminals and elsewhere."""

import io
import sys
import types

import numpy as np
import pytest

from evenstream import Learner, follow, showing
from evenstream.run.announcing import NotebookLine, make_progress
from evenstream.run.runner import start_run
from evenstream.showing import Line
from tests.helpers.small_runs import save_table, small_config


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def cell(monkeypatch):
    """What a notebook's cell shows: a list of the texts of each line that was displayed."""
    shown = []

    class Handle:
        def __init__(self, texts):
            self.texts = texts

        def update(self, data, raw):
            assert raw
            self.texts.append(data["text/plain"])

    def display(data, raw, display_id):
        assert raw and display_id
        shown.append([data["text/plain"]])
        return Handle(shown[-1])

    kernel = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: kernel  # type: ignore[attr-defined]
    ipython.display = types.ModuleType("IPython.display")  # type: ignore[attr-defined]
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(showing, "IN_PLACE_SECONDS", 0)
    return shown


def batches(count=4):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(8, 3)), [0, 1] * 4) for _ in range(count)]


def test_a_notebook_has_one_line_that_changes(cell, capsys):
    with Line() as line:
        line.show("one")
        line.show("two")
    assert cell == [["one", "two"]]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_one_line_that_changes(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Line() as line:
        line.show("one")
        line.show("two\x1b[31m")  # too soon; shown at the end, and escaped
    assert terminal.getvalue() == "\r\x1b[2Kone\r\x1b[2Ktwo\\x1b[31m\n"


def test_elsewhere_there_is_a_line_now_and_then(monkeypatch, capsys):
    with Line() as line:
        line.show("one")
        monkeypatch.setattr(showing.time, "monotonic", lambda: 1e12)
        line.show("two")
        line.show("three")
    assert capsys.readouterr().err == "two\nthree\n"


def test_follow_shows_how_far_it_is(cell, tmp_path):
    told = []
    learner = Learner(memory=10)
    follow(learner, batches(), tmp_path, progress=True, on_step=lambda *step: told.append(step))
    (line,) = cell
    assert len(line) == len(told) == 4
    assert line[-1].startswith("step 4  32 rows  accuracy")


def test_follow_is_silent_unless_asked(cell, tmp_path, capfd):
    follow(Learner(memory=10), batches(), tmp_path)
    assert cell == [] and capfd.readouterr() == ("", "")


def test_a_run_in_a_notebook_shows_one_line(cell, tmp_path):
    progress = make_progress(console=None)
    assert isinstance(progress, NotebookLine)
    config = small_config(save_table(tmp_path / "table.npz"), "er")
    metrics = start_run(config, tmp_path / "run", progress)
    (line,) = cell
    assert line[0].startswith("er  seed 0: step 0/")
    assert f"after task 2: average accuracy {metrics['average_accuracy'][-1]:.1f} %" in line[-1]


def test_fit_shows_its_epochs(cell):
    from evenstream.sklearn import OnlineClassifier

    x, y = batches(1)[0]
    OnlineClassifier(verbose=True, epochs=3, random_state=0).fit(x, y)
    assert [text[:12] for text in cell[0]] == ["epoch 1 of 3", "epoch 2 of 3", "epoch 3 of 3"]
    OnlineClassifier(epochs=3, random_state=0).fit(x, y)
    assert len(cell) == 1
