"""The event log: rotation, half-written lines, and cutting it back."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.run.events import (
    EVALUATED,
    EventLog,
    EventTail,
    cut_back,
    event_files,
    last_step,
)
from tests.helpers.small_runs import read_events


def history(tasks):
    """The events of a run with this many steps in each task."""
    events, step = [], 0
    for task, steps in enumerate(tasks):
        for _ in range(steps):
            step += 1
            events.append({"step": step, "task": task, "loss": 1 / step})
        events.append({"step": step, "task": task, "event": EVALUATED, "accuracies": [step]})
    return events


def write(folder, events, rotate_bytes=10**9, flush_every=1):
    log = EventLog(folder, rotate_bytes)
    for number, event in enumerate(events):
        log.write(event)
        if number % flush_every == 0:
            log.flush(sync=number % 5 == 0)
    log.close()


RUNS = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(tasks=RUNS, rotate_bytes=st.integers(1, 400), flush_every=st.integers(1, 5))
def test_rotation_loses_nothing(tasks, rotate_bytes, flush_every, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    events = history(tasks)
    write(folder, events, rotate_bytes, flush_every)
    assert read_events(folder) == events
    files = event_files(folder)
    assert files[-1].name == "events.jsonl"
    assert [f.name for f in files[:-1]] == [f"events-{n:04d}.jsonl" for n in range(1, len(files))]
    for file in files[:-1]:
        assert file.stat().st_size >= rotate_bytes


@settings(max_examples=50)
@given(tasks=RUNS, rotate_bytes=st.integers(1, 400), data=st.data(), torn=st.binary(max_size=20))
def test_cut_back_leaves_what_came_before_the_checkpoint(
    tasks, rotate_bytes, data, torn, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("log")
    events = history(tasks)
    write(folder, events, rotate_bytes)
    kept = data.draw(st.integers(0, len(events)), label="events before the checkpoint")
    # What a checkpoint after so many events says: its step, and how many tasks were evaluated.
    step = events[kept - 1]["step"] if kept else 0
    done = sum(event.get("event") == EVALUATED for event in events[:kept])
    with (folder / "events.jsonl").open("ab") as file:
        file.write(torn.replace(b"\n", b""))
    cut_back(folder, step, done)
    assert read_events(folder) == events[:kept]
    # Cutting twice changes nothing, and the log goes on.
    cut_back(folder, step, done)
    write(folder, events[kept:], rotate_bytes)
    assert read_events(folder) == events


def test_cut_back_on_an_empty_folder(tmp_path):
    cut_back(tmp_path, 0, 0)
    with pytest.warns(UserWarning, match=r"5 of the steps up to 5 are missing \(1 to 5\)"):
        cut_back(tmp_path, 5, 1)
    assert read_events(tmp_path) == []


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_half_written_last_line(tmp_path, cut):
    events = history([4])
    write(tmp_path, events)
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    left = read_events(tmp_path)
    assert left == events[: len(left)]
    assert len(left) < len(events)
    cut_back(tmp_path, len(left), 0)
    write(tmp_path, events[len(left) :])
    assert read_events(tmp_path) == events


def test_line_without_its_end_is_not_whole(tmp_path):
    """It is valid JSON, but the next event would be glued to it."""
    (tmp_path / "events.jsonl").write_text('{"step": 1, "task": 0}\n{"step": 2, "task": 0}')
    cut_back(tmp_path, 1, 1)
    write(tmp_path, [{"step": 2, "task": 0}])
    assert [event["step"] for event in read_events(tmp_path)] == [1, 2]


BAD = {
    "text": "nonsense",
    "list": "[1]",
    "number": "7",
    "empty": "",
    "nothing": "\x00\x00\x00",
    "no step": '{"task": 0}',
    "step in words": '{"step": "two", "task": 0}',
    "step that is true": '{"step": true, "task": 0}',
    "half a step": '{"step": 1.5, "task": 0}',
    "task in words": '{"step": 2, "task": "first"}',
    "loss in words": '{"step": 2, "task": 0, "loss": "low"}',
    "list of accuracies": '{"step": 2, "task": 0, "accuracy": [1]}',
    "evaluation of nothing": '{"step": 2, "event": "evaluated"}',
    "evaluation in words": '{"step": 2, "task": 0, "event": "evaluated", "accuracies": ["good"]}',
    "one accuracy": '{"step": 2, "task": 0, "event": "evaluated", "accuracies": 3}',
    "deep": "[" * 20_000,
}


@pytest.mark.parametrize("kind", BAD)
def test_lines_that_are_no_events_cost_nothing_but_themselves(tmp_path, kind):
    events = history([3, 3])
    lines = [json.dumps(event) + "\n" for event in events]
    lines[1] = BAD[kind] + "\n"  # in place of step 2
    (tmp_path / "events.jsonl").write_text("".join(lines) + BAD[kind])
    tail, good = EventTail(tmp_path), [events[0], *events[2:]]
    assert (tail.read(), tail.damaged) == (good, 1)
    assert last_step(tmp_path) == 6
    with pytest.warns(UserWarning, match=r"1 of the steps up to 6 are missing \(2\)"):
        cut_back(tmp_path, 6, 2)
    write(tmp_path, [{"step": 7, "task": 2}])
    assert read_events(tmp_path) == [*good, {"step": 7, "task": 2}]


def test_missing_steps_are_counted_and_named(tmp_path):
    write(tmp_path, history([60]))
    path = tmp_path / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[3:10], "???\n", *lines[12:40], lines[41][:9]]))
    with pytest.warns(UserWarning) as told:
        cut_back(tmp_path, 50, 0)
    assert "15 of the steps up to 50 are missing (1 to 3, 11 to 12, 41 to 50)" in str(
        told[0].message
    )
    assert [event["step"] for event in read_events(tmp_path)] == [*range(4, 11), *range(13, 41)]


def test_a_damaged_file_among_full_ones(tmp_path):
    events = history([20])[:20]
    write(tmp_path, events, rotate_bytes=200)
    files = event_files(tmp_path)
    files[1].write_bytes(b"\xff" * 50)  # and no end of a line
    (tmp_path / "events-old.jsonl").write_text("not one of them")
    (tmp_path / "events-0001 (copy).jsonl").write_text("not one of them")
    tail = EventTail(tmp_path)
    found = tail.read()
    assert tail.damaged == 1 and len(found) < 20 and found == [e for e in events if e in found]
    write(tmp_path, [{"step": 22}], rotate_bytes=10**6)  # 21 is missing
    with pytest.warns(UserWarning, match=r"1 of the steps up to 22 are missing \(21\)"):
        cut_back(tmp_path, 22, 1)


def test_cut_back_never_empties_a_file_it_means_to_keep(tmp_path, monkeypatch):
    """A crash while it works must not lose events: files are shortened, not written anew."""
    write(tmp_path, history([10]))
    monkeypatch.setattr(Path, "write_text", None)
    monkeypatch.setattr(Path, "write_bytes", None)
    cut_back(tmp_path, 4, 0)
    assert len(read_events(tmp_path)) == 4


def test_rotation_never_overwrites(tmp_path):
    """A user may have removed the first files to save space."""
    write(tmp_path, history([9]), rotate_bytes=120)
    before = event_files(tmp_path)
    before[0].unlink()
    kept = [json.loads(line) for f in before[1:] for line in f.read_text().splitlines()]
    write(tmp_path, [{"step": 99, "task": 1, "note": "x" * 200}] * 3, rotate_bytes=120)
    assert read_events(tmp_path)[: len(kept)] == kept


@settings(max_examples=50)
@given(tasks=RUNS, rotate_bytes=st.integers(1, 400), looks=st.sets(st.integers(0, 20)))
def test_tail_reads_everything_once(tasks, rotate_bytes, looks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    tail, seen = EventTail(folder), []
    assert tail.read() == []
    events = history(tasks)
    log = EventLog(folder, rotate_bytes)
    for number, event in enumerate(events):
        log.write(event)
        if number in looks:
            log.flush()
            seen += tail.read()
            assert seen == events[: number + 1]
            assert last_step(folder) == event["step"]
    log.close()
    assert seen + tail.read() == events
    assert tail.read() == []


@pytest.mark.parametrize("rotate_bytes", [50, 10**9])
def test_tail_begins_again_when_the_log_was_cut_back(tmp_path, rotate_bytes):
    events = history([6])
    write(tmp_path, events, rotate_bytes)
    tail = EventTail(tmp_path)
    assert tail.read() == events
    cut_back(tmp_path, 3, 0)
    assert tail.read() == events[:3]
    write(tmp_path, events[3:], rotate_bytes)
    assert tail.read() == events[3:]


def test_tail_waits_for_the_rest_of_a_line(tmp_path):
    file = tmp_path / "events.jsonl"
    assert last_step(tmp_path) == 0
    file.write_text('{"step": 1}\n{"st')
    tail = EventTail(tmp_path)
    assert tail.read() == [{"step": 1}]
    assert last_step(tmp_path) == 1
    with file.open("a") as log:
        log.write('ep": 2}\n')
    assert tail.read() == [{"step": 2}]


def test_there_may_be_more_than_ten_thousand_files(tmp_path):
    for number in (9999, 10000):
        (tmp_path / f"events-{number}.jsonl").write_text(json.dumps({"step": number}) + "\n")
    log = EventLog(tmp_path, rotate_bytes=1, keep=2)
    log.write({"step": 10001})
    log.flush()
    log.close()
    names = [path.name for path in event_files(tmp_path)]
    assert names == ["events-10000.jsonl", "events-10001.jsonl", "events.jsonl"]
    assert [event["step"] for event in EventTail(tmp_path).read()] == [10000, 10001]
