"""Corrections of a learner that lives in a folder: its saves, its log, and the command line."""

import json
import threading

import numpy as np
import pandas as pd
import pytest

from evenstream import Learner, follow
from evenstream.checkpoint import read_checkpoint
from evenstream.cli.main import main
from evenstream.errors import EvenstreamError, InputError
from tests.helpers import live_kill_harness, warm
from tests.helpers.live_samples import fresh, outcome, stream
from tests.helpers.small_runs import read_events
from tests.helpers.small_streams import DIM


def with_ids():
    return [(x, labels, [f"{n}-{row}" for row in range(4)])
            for n, (x, labels) in enumerate(stream())]  # fmt: skip


def saves(folder):
    return sorted(path.name for path in folder.glob("checkpoint-*.json"))


def holds(folder, row):
    return any(row.tobytes() in path.read_bytes() for path in folder.glob("*.safetensors"))


def stored_id(folder):
    """An id that a sample in the newest save has, and the sample."""
    learner = Learner.load(folder)
    for x, _, ids in with_ids():
        for row, each in zip(x, ids, strict=True):
            if learner.forget(ids=[each]).samples:
                return each, row
    raise AssertionError


def test_killed_while_labels_come_late_change_and_go(tmp_path):
    """SIGKILL at random moments, bit for bit; the campaign's kind `labels` does it all day."""
    ended = warm.run(live_kill_harness.late_labels, tmp_path)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()


def test_saves_are_rewritten_and_the_place_in_the_stream_stays(tmp_path):
    follow(fresh(), with_ids()[:12], tmp_path, checkpoint_every=5)
    name, row = stored_id(tmp_path)
    assert len(saves(tmp_path)) == 2 and holds(tmp_path, row)
    learner = Learner.load(tmp_path)
    assert learner.forget(ids=[name], saves=True).samples == 1
    assert len(saves(tmp_path)) == 1 and not holds(tmp_path, row)
    metrics = follow(fresh(), with_ids(), tmp_path)
    assert metrics["batches"] == 24 and metrics["corrections"] == 1


def test_a_followed_learner_is_loaded_corrected_and_saved(tmp_path, monkeypatch):
    """The place in the stream is saved beside it, however the folder is called."""
    follow(fresh(), stream()[:9], tmp_path / "plant")
    monkeypatch.chdir(tmp_path)
    learner = Learner.load("plant")
    learner.rename("class 0", "zero")
    learner.save(tmp_path / "plant")
    assert follow(fresh(), stream(), tmp_path / "plant")["batches"] == 24
    learner.save("elsewhere")
    assert "live" not in read_checkpoint(tmp_path / "elsewhere")


def test_without_saves_the_one_before_still_holds_it(tmp_path):
    learner = fresh()
    x, labels, ids = with_ids()[0]
    learner.learn(x, labels, ids=ids)
    learner.save(tmp_path)
    learner.forget(ids=ids[:1])
    learner.save(tmp_path)
    assert holds(tmp_path, x[0])
    learner.forget(ids=ids[1:2], saves=tmp_path)
    assert not holds(tmp_path, x[0]) and not holds(tmp_path, x[1]) and holds(tmp_path, x[2])


def test_a_learner_without_saves_says_so_before_it_forgets(tmp_path):
    learner = fresh()
    learner.learn(*stream()[0])
    before = learner.fingerprint()
    for where, message in ((True, "neither saved nor loaded"), (tmp_path, "there are no saves")):
        with pytest.raises(InputError, match=message):
            learner.forget(label=learner.labels[0], saves=where)
        assert learner.fingerprint() == before


def test_corrections_meanwhile_are_in_the_log_and_in_the_next_save(tmp_path):
    learner, done = fresh(), []

    def on_step(result, tally):
        if tally.batches == 7:
            done.append(learner.forget(ids=["6-0", "6-1", "6-2", "6-3"], saves=True))
            assert len(saves(tmp_path)) == 2
        if tally.batches == 8:
            assert len(saves(tmp_path)) == 1
            learner.rename("class 0", "zero")

    follow(learner, with_ids(), tmp_path, checkpoint_every=3, on_step=on_step)
    events = [event for event in read_events(tmp_path) if "edit" in event]
    assert [(e["step"], e["edit"], e["event"]) for e in events] == [
        (7, 1, "forget"),
        (8, 2, "rename"),
    ]
    assert events[0]["samples"] == done[0].samples
    assert "6-0" not in (tmp_path / "events.jsonl").read_text()
    assert read_checkpoint(tmp_path)["progress"]["edits"] == 2


def test_another_thread_corrects_while_the_stream_waits(tmp_path, monkeypatch):
    learner = fresh()

    def waits():
        yield from stream()[:4]
        thread = threading.Thread(target=learner.remove_class, args=("class 1",))
        thread.start()
        thread.join()
        yield None
        assert any(event.get("event") == "remove_class" for event in read_events_now())

    def read_events_now():
        monkeypatch.undo()
        return read_events(tmp_path)

    monkeypatch.setattr("evenstream.live.following.SAVE_SECONDS", -1.0)
    follow(learner, waits(), tmp_path)
    assert "class 1" not in Learner.load(tmp_path).labels


def test_the_command_line_corrects_a_saved_learner(tmp_path, capsys):
    folder = tmp_path / "plant"
    follow(fresh(), with_ids(), folder, checkpoint_every=5)
    name, row = stored_id(folder)
    assert main(["correct", "rename", str(folder), "class 0", "zero"]) == 0
    assert capsys.readouterr().out == f"renamed class 0 to zero; saved in {folder}\n"
    assert main(["correct", "relabel", str(folder), "odd", "--ids", name, "nobody"]) == 0
    assert "1 sample;" in capsys.readouterr().out
    assert set(Learner.load(folder).labels) == {"zero", "class 1", "class 2", "class 3", "odd"}
    (tmp_path / "ids.txt").write_text(f"{name}\n")
    arguments = ["correct", "forget", str(folder), "--ids-file", str(tmp_path / "ids.txt")]
    assert main(arguments) == 0
    assert "still contains them" in capsys.readouterr().out
    assert main([*arguments, "--saves"]) == 1  # the sample is gone, and now its save as well
    told = capsys.readouterr().err
    assert "none of the ids was found (1)" in told and "earlier saves are removed" in told
    assert not holds(folder, row) and len(saves(folder)) == 1
    assert main(["correct", "merge", str(folder), "odd", "zero"]) == 0
    assert main(["correct", "remove-class", str(folder), "class 1"]) == 0
    assert main(["correct", "forget", str(folder), "--label", "zero"]) == 0
    learner = Learner.load(folder)
    assert set(learner.labels) == {"zero", "class 2", "class 3"}
    events = [event for event in read_events(folder) if "edit" in event]
    assert [event["edit"] for event in events] == list(range(1, 8))
    assert name not in (folder / "events.jsonl").read_text()
    written = json.loads((folder / "metrics.json").read_text())
    assert written["labels"] == learner.labels and written["corrections"] == 7
    metrics = follow(fresh(), with_ids(), folder)
    assert metrics["batches"] == 24 and metrics == written


def test_metrics_follow_corrections_in_a_program(tmp_path):
    follow(fresh(), with_ids(), tmp_path)

    def written():
        return json.loads((tmp_path / "metrics.json").read_text())

    before, learner = written(), Learner.load(tmp_path)
    learner.rename("class 0", "zero")
    assert written() == before
    learner.save(tmp_path)
    now = before | {"labels": learner.labels, "corrections": 1}
    assert written() == now and "zero" in written()["labels"]
    learner.forget(label="class 1", saves=True)
    assert written() == now | {"corrections": 2}
    assert follow(fresh(), with_ids(), tmp_path) == written()
    learner.save(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere" / "metrics.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rename", "class 9", "x"], "class 9 is no class; known: class"),
        (["forget"], "say what to forget"),
        (["forget", "--ids", "1", "--label", "class 0"], "say what to forget"),
        (["relabel", "x"], "say which samples"),
        (["merge", "class 0", "class 0"], "itself"),
    ],
)
def test_what_the_command_line_refuses_changes_nothing(tmp_path, capsys, words, message):
    follow(fresh(), stream()[:6], tmp_path)
    before = outcome(tmp_path)
    assert main(["correct", words[0], str(tmp_path), *words[1:]]) == 2
    assert message in capsys.readouterr().err
    assert outcome(tmp_path) == before


def test_folders_that_are_busy_or_hold_no_learner_are_refused(tmp_path, capsys):
    assert main(["correct", "rename", str(tmp_path / "none"), "a", "b"]) == 2
    assert "none does not exist" in capsys.readouterr().err
    folder = tmp_path / "busy"

    def busy():
        yield from stream()[:4]
        with pytest.raises(EvenstreamError, match="another process is working"):
            from evenstream.live.correcting import correct

            correct(folder, lambda learner: learner.rename("class 0", "zero"))
        yield from stream()[4:6]

    follow(fresh(), busy(), folder, checkpoint_every=2)


def test_an_event_whose_save_was_never_made_is_cut_off(tmp_path):
    follow(fresh(), stream()[:6], tmp_path)
    with (tmp_path / "events.jsonl").open("a") as log:
        log.write(json.dumps({"step": 6, "edit": 1, "event": "forget"}) + "\n")
    follow(fresh(), stream(), tmp_path)
    assert not [event for event in read_events(tmp_path) if "edit" in event]


def test_numbers_are_labels_if_all_others_are(tmp_path):
    learner = fresh()
    learner.learn(np.zeros((4, DIM), np.float32), [1, 2, 1, 2])
    learner.save(tmp_path)
    assert main(["correct", "rename", str(tmp_path), "2", "7"]) == 0
    assert Learner.load(tmp_path).labels == [1, 7]


ROWS = [(0.1, 2.0, "ok", 17), (0.2, 1.0, "bad", 18), (0.3, 2.5, "ok", 17), (0.9, 0.5, "bad", 19)]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_column_of_ids(tmp_path, capsys, form):
    frame = pd.DataFrame(ROWS * 5, columns=["size", "weight", "label", "customer"])
    table = tmp_path / f"rows.{form}"
    if form == "csv":
        frame.to_csv(table, index=False)
    elif form == "jsonl":
        frame.to_json(table, orient="records", lines=True)
    else:
        frame.to_parquet(table)
    plant = str(tmp_path / "plant")
    words = ["learn", plant, "--from", str(table), "--method", "er-las", "--batch", "5"]
    assert main([*words, "--ids", "customer"]) == 0
    learner = Learner.load(plant)
    assert learner.input_kind.shape == (2,)
    assert main(["correct", "forget", plant, "--ids", "17", "--saves"]) == 0
    assert "10 samples" in capsys.readouterr().out
    assert len(Learner.load(plant).memory) == 10
    assert main(["predict", plant, str(table)]) == 0


def test_the_column_of_ids_is_remembered(tmp_path, capsys):
    frame = pd.DataFrame(ROWS * 5, columns=["size", "weight", "label", "customer"])
    plant, tables = str(tmp_path / "plant"), [tmp_path / f"{n}.csv" for n in range(4)]
    for n, table in enumerate(tables):
        frame.assign(customer=frame["customer"] + 10 * n, weight=frame["weight"] + n).to_csv(
            table, index=False
        )
    first = ["--method", "er-las", "--batch", "5", "--ids", "customer"]
    assert main(["learn", plant, "--from", str(tables[0]), *first]) == 0
    for table in tables[1:3]:
        assert main(["learn", plant, "--from", str(table)]) == 0
    other = str(tmp_path / "other")
    assert main(["learn", other, "--start", plant, "--from", str(tables[3])]) == 0
    for folder, name in ((plant, "27"), (plant, "37"), (other, "47")):
        assert main(["correct", "forget", folder, "--ids", name, name]) == 0
        assert "10 samples" in capsys.readouterr().out
    frame.drop(columns="customer").to_csv(tables[0], index=False)
    assert main(["learn", plant, "--from", str(tables[0]), "--again"]) == 2
    assert "no column 'customer' to take ids from" in capsys.readouterr().err
    assert main(["predict", plant, str(tables[0])]) == 0


def test_ids_cannot_be_added_from_an_input(tmp_path, capsys):
    frame = pd.DataFrame(ROWS * 5, columns=["size", "weight", "label", "customer"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    plant = str(tmp_path / "plant")
    words = ["learn", plant, "--from", str(tmp_path / "rows.csv")]
    assert main([*words, "--method", "er-las"]) == 0
    assert main([*words, "--again", "--ids", "customer"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "ids cannot be added now: the column customer is one of the learner's inputs" in told
    assert "start a new learner, in another folder, with --ids customer" in told


@pytest.mark.parametrize("words", [["forget"], ["relabel", "odd"]])
@pytest.mark.parametrize("ids", [True, False])
def test_ids_of_nothing_fail_loudly(tmp_path, capsys, words, ids):
    follow(fresh(), with_ids() if ids else stream(), tmp_path)
    assert main(["correct", words[0], str(tmp_path), *words[1:], "--ids", "no", "none"]) == 1
    out, told = capsys.readouterr()
    assert "none of the ids was found (2)" in told and not out
    assert ("this learner keeps no ids: learn --ids COLUMN" in told) is not ids


def test_ids_that_cannot_be_had(tmp_path, capsys):
    plant = str(tmp_path / "plant")
    (tmp_path / "rows.csv").write_text("a,b,label,id\n1,2,x,7\n2,1,y,\n")
    words = ["learn", plant, "--from", str(tmp_path / "rows.csv"), "--ids"]
    assert main([*words, "nothing"]) == 2
    assert "no column 'nothing'" in capsys.readouterr().err
    assert main([*words, "id"]) == 2
    assert "line 3: the id is missing (column id)" in capsys.readouterr().err
    np.savez(tmp_path / "rows.npz", x=np.zeros((4, 2)), y=np.arange(4))
    assert main(["learn", plant, "--from", str(tmp_path / "rows.npz"), "--ids", "id"]) == 2
    assert "ids are a column of a table" in capsys.readouterr().err
