"""Watching for drift: noticed soon, seldom wrongly, and the same after a restart."""

import json
import sys
import warnings

import numpy as np
import pytest
import torch

from evenstream import (
    DriftWarning,
    EvenstreamError,
    EvenstreamWarning,
    Learner,
    drift,
    follow,
)
from evenstream.cli.main import main
from evenstream.core.drift import Drifting
from evenstream.errors import CheckpointError
from tests.helpers.small_streams import small

pytest.importorskip("river")
CHANGE = 60


def stream(steps, changed=None, seed=0, batch=8):
    """Two classes of five columns; from step `changed` on the labels are swapped."""
    draw = np.random.default_rng(seed)
    for step in range(steps):
        y = draw.integers(0, 2, batch)
        x = draw.normal(size=(batch, 5)) + 2.5 * y[:, None]
        swapped = changed is not None and step >= changed
        yield x.astype(np.float32), (1 - y if swapped else y).tolist()


def watched(**options):
    return small("er-las", "mlp-norm", memory=50, drift=drift.Adwin(**options))


def learned(learner, batches):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenstreamWarning)
        return [change for x, y in batches for change in learner.learn(x, y).drift]


def test_an_abrupt_change_is_noticed_soon_told_and_counted(caplog):
    heard = []
    learner, told = watched(on_drift=heard.append), []
    caplog.set_level("INFO", logger="evenstream.learner.learner")
    for number, (x, y) in enumerate(stream(CHANGE + 40, CHANGE), 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = learner.learn(x, y)
        own = [str(each.message) for each in caught if each.category is DriftWarning]
        assert len(own) == len(result.drift) and learner.step == number
        told += result.drift
    assert heard == told and told[0].step > CHANGE
    first = next(change for change in told if change.signal == "accuracy")
    assert CHANGE < first.step <= CHANGE + 30 and first.after < first.before - 0.2
    assert "accuracy on new rows fell from" in str(first) and str(first) in caplog.text
    assert learner.drifting.found["accuracy"] == sum(c.signal == "accuracy" for c in told)
    assert "watched by ADWIN" in repr(learner)


def test_a_change_of_inputs_alone_is_noticed():
    watch, found = Drifting(), []
    watch.begin(drift.Adwin(accuracy=False, loss=False))
    for step, (x, _) in enumerate(stream(400), 1):
        x[:, 2] += 5 * (step > 200)
        found += watch.look(step, 0.5, 0.5, torch.from_numpy(x))
    assert [change.signal for change in found] == ["inputs"]  # then they are what is usual
    assert 200 < found[0].step <= 230 and found[0].after > 3 * found[0].before
    assert "further from the mean of the first rows" in str(found[0])


def test_a_stream_that_stays_as_it_is_gives_few_false_alarms():
    draw = np.random.default_rng(0)
    alarms = 0
    for _ in range(4):
        watch = Drifting()
        watch.begin(drift.Adwin())
        for step in range(1, 501):
            right, loss = draw.binomial(8, 0.8) / 8, draw.gamma(4, 0.1)
            rows = torch.from_numpy(draw.normal(size=(8, 5)))
            alarms += len(watch.look(step, right, loss, rows))
    assert alarms <= 2  # in 6,000 values


def test_learning_better_is_no_drift():
    found = learned(watched(inputs=False), stream(100))
    assert not found


def test_watching_changes_nothing_that_is_learned_and_saves_without_it_are_as_before():
    plain, other = small("er-las", "mlp-norm", memory=50), watched()
    for learner in (plain, other):
        learned(learner, stream(30))
    assert "drift" not in plain.state() and "drift" in other.state()
    other.drift = None
    assert other.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize("cut", [30, CHANGE + 12])
def test_saved_and_resumed_it_notices_the_same(cut, tmp_path):
    batches = list(stream(CHANGE + 40, CHANGE))
    whole, first = watched(clock=2), watched(clock=2)
    expected = learned(whole, batches)
    found = learned(first, batches[:cut])
    first.save(tmp_path)
    again = Learner.load(tmp_path)
    assert again.drift.settings() == first.drift.settings()
    found += learned(again, batches[cut:])
    assert found == expected and again.fingerprint() == whole.fingerprint()


def test_a_refused_step_leaves_the_windows_as_they_were(monkeypatch):
    gathering = small("er-las", "mlp-norm", accumulate=20, drift=drift.Adwin())
    gathering.start_task()
    learned(gathering, stream(33))
    before = gathering.fingerprint()
    monkeypatch.setattr(gathering, "finish_task", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gathering.end_task()
    assert gathering.fingerprint() == before


def test_follow_logs_changes_and_goes_on_exactly(tmp_path):
    batches = list(stream(CHANGE + 40, CHANGE))
    for folder, parts in (("whole", [len(batches)]), ("cut", [CHANGE + 7, len(batches)])):
        for end in parts:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvenstreamWarning)
                metrics = follow(watched(), batches[:end], tmp_path / folder)
    lines = [(tmp_path / f / "events.jsonl").read_text().splitlines() for f in ("whole", "cut")]
    logged = [
        [(event["step"], event["drift"]) for event in map(json.loads, each) if "drift" in event]
        for each in lines
    ]
    assert logged[0] == logged[1] and logged[0]
    counts = [change["signal"] for _, changes in logged[0] for change in changes]
    assert metrics["drift"] == {name: counts.count(name) for name in ("accuracy", "loss", "inputs")}
    with pytest.raises(CheckpointError, match="leave drift= out"):
        follow(watched(delta=0.1), batches, tmp_path / "cut")


def test_the_command_line_watches_from_now_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, changed in (("calm", None), ("wild", 40)):
        rows = [
            ",".join([*(f"{value:.4f}" for value in row), "xy"[label]])
            for x, y in stream(100, changed, seed=len(name), batch=10)
            for row, label in zip(x, y, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,d,e,label", *rows]) + "\n")
    assert main(["learn", "plant", "--from", "calm.csv", "--method", "er-las"]) == 0
    assert Learner.load("plant").drift is None
    with pytest.warns(DriftWarning, match="accuracy on new rows fell"):
        assert main(["learn", "plant", "--from", "wild.csv", "--drift"]) == 0
    assert Learner.load("plant").drifting.found["accuracy"] >= 1
    capsys.readouterr()


def test_settings_are_checked_and_river_is_only_needed_for_it(monkeypatch):
    for wrong in ({"delta": 2.0}, {"clock": 0}, {"on_drift": 3}):
        with pytest.raises(EvenstreamError):
            drift.Adwin(**wrong)
    with pytest.raises(EvenstreamError, match="nothing to watch"):
        drift.Adwin(accuracy=False, loss=False, inputs=False)
    with pytest.raises(EvenstreamError, match="Adwin"):
        Learner(drift="adwin")
    assert not small().drifting.windows
    monkeypatch.setitem(sys.modules, "river.drift", None)
    with pytest.raises(EvenstreamError, match=r"evenstream\[river\]"):
        drift.Adwin()


def test_windows_of_another_river_begin_anew_and_damaged_ones_are_refused():
    learner = watched()
    learned(learner, stream(30))
    state = learner.state()
    other = {**state, "drift": {**state["drift"], "river": "0.1"}}
    assert Learner.from_state(other).drifting.windows["loss"].width == 0
    assert Learner.from_state(state).drifting.windows["loss"].width == 30
    windows = {
        name: {"content": torch.zeros(3), "cut": False} for name in state["drift"]["windows"]
    }
    bad = {**state, "drift": {**state["drift"], "windows": windows}}
    with pytest.raises(CheckpointError, match="drift"):
        Learner.from_state(bad)
