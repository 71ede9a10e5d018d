"""What a run says: a bar on a terminal, plain lines elsewhere."""

import io

import pytest
from rich.console import Console

from evenstream.core.step import StepResult
from evenstream.interruption import Interrupted, stop_on_signal
from evenstream.run import announcing as progress_module
from evenstream.run.announcing import LiveBar, PlainLines, Silent, make_progress
from evenstream.run.runner import resume_run, start_run
from tests.helpers.small_runs import StopAfter, save_table, small_config


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)


def test_form_follows_the_output():
    assert isinstance(make_progress(console(True)), LiveBar)
    assert isinstance(make_progress(console(False)), PlainLines)


def test_plain_lines(tmp_path):
    screen = console(False)
    table = save_table(tmp_path / "table.npz")
    found = start_run(small_config(table), tmp_path / "run", make_progress(screen))
    lines = screen.file.getvalue().splitlines()
    assert lines == [
        "er-las  seed 0: from step 0 of 20",
        f"er-las  seed 0: after task 1: average accuracy {found['average_accuracy'][0]:.1f} %",
        f"er-las  seed 0: after task 2: average accuracy {found['A_T']:.1f} %",
    ]
    assert "\x1b" not in screen.file.getvalue()


def test_plain_lines_now_and_then(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    screen = console(False)
    lines = make_progress(screen)
    lines.start("er", 3, 100, 40)
    for step in range(41, 61):
        now += 1.0
        lines.step(StepResult(step, 0.5, 0.25, rows=20), 10)
    lines.evaluated(0, None)
    assert screen.file.getvalue().splitlines() == [
        "er  seed 3: from step 40 of 100",
        "er  seed 3: step 51/100  loss 0.500  10 samples/s  49 s left",
        "er  seed 3: after task 1: average accuracy unknown",
    ]


def test_bar(tmp_path):
    screen = console(True)
    table = save_table(tmp_path / "table.npz")
    config = small_config(table, eval_every=5)
    found = start_run(config, tmp_path / "run", make_progress(screen))
    text = screen.file.getvalue()
    for part in ("er-las  seed 0", "20/20", "loss ", "samples/s", "after task 2: average accuracy"):
        assert part in text
    assert f"online accuracy {found['online']['accuracy'][-1]:.1f} %" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") > 0  # the cursor is back


def test_the_total_knows_of_rows_that_are_held_out(tmp_path):
    """BiC holds one of the second task's 40 rows out: 3 batches of 13 and not 4, in two epochs."""
    table, screens = save_table(tmp_path / "table.npz"), [console(True), console(False)]
    config = small_config(table, "bic", batch=13, epochs=2)
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "run", make_progress(screens[0]), StopAfter(2 * 4 + 3 + 1))
    assert "12/14" in screens[0].file.getvalue()
    assert resume_run(tmp_path / "run", make_progress(screens[1]))["steps"] == 14
    assert "from step 12 of 14" in screens[1].file.getvalue()


def test_steps_without_a_loss_keep_the_last_one():
    lines = PlainLines(console(False))
    lines.start("er", 0, 10, 0)
    lines.step(StepResult(1, None, None, rows=0), 2)
    assert "loss" not in lines.status()
    lines.step(StepResult(1, 0.5, None, rows=2), 2)
    lines.step(StepResult(2, None, None, rows=0), 2)
    assert "loss 0.500" in lines.status()
    Silent().step(StepResult(1, None, None, rows=0), 1)


def test_signals_ask_once_and_insist_twice():
    import signal

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop_on_signal() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
