"""Following a stream of one's own: saves, resumes exactly, stops well, refuses well."""

import errno
import functools
import itertools
import json
import os
import resource
import signal

import numpy as np
import pytest
import torch

from evenstream import Learner, follow
from evenstream.checkpoint import has_checkpoint
from evenstream.errors import CheckpointError, EvenstreamError, InputError
from evenstream.interruption import Interrupted
from evenstream.live import following
from tests.helpers import live_kill_harness, warm
from tests.helpers.live_samples import Numbered, fresh, outcome, stream
from tests.helpers.small_runs import read_events
from tests.helpers.small_streams import DIM, feed, small


def test_following_is_learning_batch_by_batch(tmp_path):
    learner = fresh()
    seen = []
    metrics = follow(
        learner, stream(), tmp_path / "out", on_step=lambda r, tally: seen.append(tally.batches)
    )
    assert learner.fingerprint() == feed(fresh(), stream()).fingerprint()
    assert Learner.load(tmp_path / "out").fingerprint() == learner.fingerprint()
    assert seen == list(range(1, 25))
    assert (metrics["steps"], metrics["batches"], metrics["samples"]) == (24, 24, 96)
    assert sorted(metrics["labels"]) == ["class 0", "class 1", "class 2", "class 3"]
    place = metrics["streams"]["stream"]
    assert (place["batches"], place["samples"]) == (24, 96)
    assert json.loads((tmp_path / "out" / "metrics.json").read_text()) == metrics


def test_the_accuracy_is_that_of_predictions_before_learning(tmp_path):
    learner, right = fresh(), 0
    for x, labels in stream():
        result = learner.learn(x, labels)
        right += round(result.accuracy * len(labels))
    metrics = follow(fresh(), stream(), tmp_path / "out")
    assert metrics["prequential_accuracy"] == 100 * right / 96
    events = read_events(tmp_path / "out")
    assert [event["step"] for event in events] == list(range(1, 25))
    assert sum(round(4 * event["accuracy"]) for event in events) == right


def test_gathered_rows_are_scored_when_they_are_learned(tmp_path):
    learner = fresh(accumulate=6)
    metrics = follow(learner, stream(), tmp_path / "out", checkpoint_every=5)
    assert (metrics["batches"], metrics["steps"], metrics["samples"]) == (24, 12, 96)
    follow(fresh(accumulate=6), stream()[:7], tmp_path / "cut")
    follow(fresh(accumulate=6), stream(), tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "out")


def failing(batches, at):
    for number, batch in enumerate(batches):
        if number == at:
            raise ConnectionError("the sensor is gone")
        yield batch


@pytest.mark.parametrize("at", [0, 1, 13, 23])
def test_a_stream_that_raises_is_saved_and_gone_on_with_exactly(tmp_path, at):
    follow(fresh(), stream(), tmp_path / "whole", checkpoint_every=5)
    with pytest.raises(ConnectionError, match="the sensor is gone"):
        follow(fresh(), failing(stream(), at), tmp_path / "cut", checkpoint_every=5)
    assert (tmp_path / "cut").exists() == (at > 0)
    follow(fresh(), iter(stream()), tmp_path / "cut", checkpoint_every=5)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_killed_equals_uninterrupted(tmp_path):
    """SIGKILL between batches and at each moment of a save, by the harness."""
    ended = warm.run(live_kill_harness.main, tmp_path)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()
    assert b"killed: 6" in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_for_an_endless_stream_saves(tmp_path, number):
    def endless():
        yield from stream()[:9]
        os.kill(os.getpid(), number)
        while True:  # waits for ever
            signal.pause()

    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="stopped after 9 batches of stream, saved in"):
        follow(fresh(), endless(), tmp_path / "out")
    assert signal.getsignal(number) is before
    follow(fresh(), stream(), tmp_path / "out")
    follow(fresh(), stream(), tmp_path / "whole")
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


def test_a_signal_in_the_middle_of_a_step_lets_it_finish(tmp_path):
    class Signalled(Learner):
        def learn(self, x, labels):
            os.kill(os.getpid(), signal.SIGTERM)
            return super().learn(x, labels)

    learner = Signalled("er-las", memory=12, replay_batch=4, lr=0.05, dtype="float32")
    with pytest.raises(Interrupted, match="after 1 batch "):
        follow(learner, itertools.cycle(stream()), tmp_path / "out")
    assert Learner.load(tmp_path / "out").step == 1


def test_a_second_signal_in_a_step_stops_at_once_and_saves_nothing_half_done(tmp_path):
    class Impatient(Learner):
        def learn(self, x, labels):
            result = super().learn(x, labels)
            if self.step == 5:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
            return result

    learner = Impatient("er-las", "mlp", memory=12, replay_batch=4, lr=0.05, dtype="float32")
    with pytest.raises(KeyboardInterrupt):
        follow(learner, stream(), tmp_path / "out", checkpoint_every=2)
    assert Learner.load(tmp_path / "out").step == 4
    follow(fresh(), stream(), tmp_path / "out")
    follow(fresh(), stream(), tmp_path / "whole")
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


def test_a_resumable_stream_finds_its_place_itself(tmp_path):
    follow(fresh(), stream(), tmp_path / "whole")
    with pytest.raises(ConnectionError):
        follow(fresh(), Numbered(stream(), fail_at=10), tmp_path / "out", checkpoint_every=4)
    again = Numbered(stream())
    metrics = follow(fresh(), again, tmp_path / "out")
    assert again.given == 14  # the ten learned ones were not read over
    assert metrics["streams"]["stream"]["state"] == {"next": 24}
    states = [outcome(tmp_path / name)["learner"] for name in ("out", "whole")]
    assert states[0] == states[1]


def spoiled(batches):
    """Two batches of the stream are bad, one of them the last."""
    batches = list(batches)
    batches[7] = (np.full_like(batches[7][0], np.nan), batches[7][1])
    batches[-1] = (batches[-1][0], batches[-1][1][:-1])
    return batches


def test_a_refused_batch_stops_and_leaves_everything_as_it_was(tmp_path):
    for _ in range(2):
        with pytest.raises(InputError, match="batch 8 of stream was refused: inputs contain NaN"):
            follow(fresh(), spoiled(stream()), tmp_path / "out")
        saved = Learner.load(tmp_path / "out")
        assert saved.fingerprint() == feed(fresh(), stream()[:7]).fingerprint()
    follow(fresh(), stream(), tmp_path / "out")  # the stream was mended
    follow(fresh(), stream(), tmp_path / "whole")
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


def test_refused_batches_can_be_skipped_and_are_counted(tmp_path):
    learner = fresh()
    metrics = follow(learner, spoiled(stream()), tmp_path / "out", refused="skip")
    good = [batch for number, batch in enumerate(stream()) if number not in (7, 23)]
    assert learner.fingerprint() == feed(fresh(), good).fingerprint()
    assert (metrics["refused_batches"], metrics["batches"], metrics["samples"]) == (2, 24, 88)
    reasons = {e["step"]: e["reason"] for e in read_events(tmp_path / "out") if "event" in e}
    assert list(reasons) == [8, 24]
    assert "NaN" in reasons[8] and "4 rows but 3 labels" in reasons[24]


@pytest.mark.parametrize("at", [7, 8, 9, 23])
def test_resuming_around_refused_batches_counts_them_once(tmp_path, at):
    follow(fresh(), spoiled(stream()), tmp_path / "whole", refused="skip")
    with pytest.raises(ConnectionError):
        follow(fresh(), failing(spoiled(stream()), at), tmp_path / "cut", refused="skip")
    follow(fresh(), spoiled(stream()), tmp_path / "cut", refused="skip")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


ROWS = np.ones((2, DIM), np.float32)
ODD = {
    "labels of several kinds": lambda: (ROWS, ["bolt", ("gear", 2)]),
    "labels that can be read once": lambda: (ROWS, (name for name in ["bolt", "nut"])),
    "bad labels that can be read once": lambda: (ROWS, iter([0.5, 1.5])),
    "an object as labels": lambda: (ROWS, object()),
    "ragged inputs": lambda: ([[1.0, 2.0], [3.0]], ["bolt", "nut"]),
    "a tensor with a gradient": lambda: (torch.ones(2, DIM, requires_grad=True), [1, 2]),
    "bfloat16": lambda: (torch.ones(2, DIM, dtype=torch.bfloat16), [1, 2]),
}


@pytest.mark.parametrize("kind", ODD)
def test_any_batch_may_be_the_last_before_a_resume(tmp_path, kind):
    first, last = stream()[:2]
    odd = [ODD[kind]() for _ in range(4)]  # made at once, so that each has an address of its own
    follow(fresh(), [first, odd[0], last], tmp_path / "whole", refused="skip")
    follow(fresh(), [first, odd[1]], tmp_path / "cut", refused="skip")
    follow(fresh(), [first, odd[2], last], tmp_path / "cut", refused="skip")
    cut, whole = outcome(tmp_path / "cut"), outcome(tmp_path / "whole")
    assert (cut["learner"], cut["tally"]) == (whole["learner"], whole["tally"])
    with pytest.raises(InputError, match="another batch 3 than the one that was learned"):
        follow(fresh(), [first, last, odd[3]], tmp_path / "cut", refused="skip")


def test_a_stream_that_cannot_say_where_it_is_has_nothing_learned_of_that_batch(tmp_path):
    lost = Numbered(stream())
    state, lost.state = lost.state, lambda: state() if lost.next < 3 else 1 / 0
    with pytest.raises(ZeroDivisionError):
        follow(fresh(), lost, tmp_path / "out")
    assert Learner.load(tmp_path / "out").step == 2


def test_several_streams_by_name(tmp_path):
    first, second = stream()[:10], stream()[10:]
    for _ in range(2):  # the script is run twice
        learner = fresh()
        follow(learner, first, tmp_path / "out", name="monday")
        metrics = follow(learner, second, tmp_path / "out", name="tuesday")
        assert learner.fingerprint() == feed(fresh(), stream()).fingerprint()
        assert [p["batches"] for p in metrics["streams"].values()] == [10, 14]


def test_a_slow_stream_is_saved_without_waiting_for_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "SAVE_SECONDS", -1.0)
    steps = []

    def watched():
        for batch in stream()[:4]:
            yield batch
            steps.append(Learner.load(tmp_path / "out").step)

    follow(fresh(), watched(), tmp_path / "out")
    assert steps == [1, 2, 3, 4]


def test_a_saved_learner_can_be_followed_with(tmp_path):
    feed(fresh(), stream()[:5]).save(tmp_path / "out")
    follow(Learner.load(tmp_path / "out"), stream()[5:], tmp_path / "out")
    expected = feed(fresh(), stream()).fingerprint()
    assert Learner.load(tmp_path / "out").fingerprint() == expected


@pytest.mark.parametrize("item", [3, "ab", ([[1.0]],), ([[1.0]], ["x"], [1], 1)])
def test_a_stream_must_give_pairs(tmp_path, item):
    with pytest.raises(InputError, match="must yield pairs of inputs and labels"):
        follow(fresh(), [item], tmp_path / "out", refused="skip")
    assert not (tmp_path / "out").exists()


def test_another_stream_of_the_same_name_is_noticed(tmp_path):
    follow(fresh(), stream(), tmp_path / "out")
    with pytest.raises(InputError, match="ended after 3 batches, but 24 of it were learned"):
        follow(fresh(), stream()[:3], tmp_path / "out")
    with pytest.raises(InputError, match="another batch 24 than the one that was learned"):
        follow(fresh(), [*stream()[:23], stream()[0], stream()[23]], tmp_path / "out")


def test_nothing_to_learn_leaves_nothing(tmp_path):
    metrics = follow(fresh(), [], tmp_path / "deep" / "out")
    assert metrics["samples"] == 0 and metrics["prequential_accuracy"] is None
    assert not (tmp_path / "deep").exists()


def test_folders_that_are_refused(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-mother.txt").write_text("dear")
    with pytest.raises(EvenstreamError, match="not empty and holds no learner"):
        follow(fresh(), stream(), tmp_path / "letters")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text("")
    with pytest.raises(EvenstreamError, match="holds a run, which is never modified"):
        follow(fresh(), stream(), tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(EvenstreamError, match="cannot write to"):
        follow(fresh(), stream(), tmp_path / "file")
    assert not has_checkpoint(tmp_path / "letters") and not has_checkpoint(tmp_path / "run")


def test_a_folder_with_another_learner_is_refused(tmp_path):
    follow(fresh(), stream()[:4], tmp_path / "out")
    for other in (fresh(lr=0.01), small("er", memory=12), fresh(model="convnet")):
        with pytest.raises(InputError, match="made with other options"):
            follow(other, stream(), tmp_path / "out")
    gone_on = Learner.load(tmp_path / "out")
    gone_on.learn(*stream()[4])
    with pytest.raises(InputError, match=r"another state of this learner \(step 4, not 5\)"):
        follow(gone_on, stream(), tmp_path / "out")


def test_options_are_checked(tmp_path):
    with pytest.raises(InputError, match="checkpoint_every"):
        follow(fresh(), stream(), tmp_path / "out", checkpoint_every=0)
    with pytest.raises(InputError, match="stop or skip"):
        follow(fresh(), stream(), tmp_path / "out", refused="ignore")
    with pytest.raises(InputError, match="needs task boundaries; live streams have none"):
        follow(small("er-las:prior=macro"), stream(), tmp_path / "out", refused="skip")
    assert not (tmp_path / "out").exists()


def test_a_stream_without_data_for_now_is_saved_meanwhile(tmp_path, monkeypatch):
    def waiting(saved):
        yield from itertools.chain(stream()[:7], [None, None])
        saved.append(has_checkpoint(tmp_path / "out"))
        yield from itertools.chain([None], stream()[7:], [None])

    follow(fresh(), stream(), tmp_path / "whole")
    saved: list[bool] = []
    follow(fresh(), waiting(saved), tmp_path / "patient", checkpoint_every=100)
    monkeypatch.setattr(following, "SAVE_SECONDS", 0.0)
    follow(fresh(), waiting(saved), tmp_path / "out", checkpoint_every=100)
    assert saved == [False, True]
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")
    with pytest.raises(ConnectionError):
        follow(fresh(), failing(waiting([]), 12), tmp_path / "cut")
    follow(fresh(), waiting([]), tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_an_error_of_the_network_saves_what_was_learned(tmp_path):
    class Breaks(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 20:
                raise RuntimeError("out of memory")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="out of memory"):
        follow(small("er-las", Breaks(DIM, 6)), stream(), tmp_path / "out", checkpoint_every=100)
    saved = Learner.load(tmp_path / "out", Breaks(DIM, 6))
    assert saved.step > 5


def test_a_place_that_cannot_be_saved_is_refused_before_anything_is_learned(tmp_path):
    class Counted(Numbered):
        def state(self):
            return {"next": np.int64(self.next)}

    with pytest.raises(InputError, match=r"must return plain values that JSON knows: .*int64"):
        follow(fresh(), Counted(stream()), tmp_path / "out")
    assert not (tmp_path / "out").exists()


STATES = {
    "tuple": lambda n: {"next": n, "range": (0, n)},
    "keys that are numbers": lambda n: {"next": n, "offsets": {0: n}},
    "not a number": lambda n: {"next": n, "mean": float("nan")},
    "infinite": lambda n: {"next": n, "most": float("inf")},
    "bytes": lambda n: {"next": n, "rest": b""},
    "deep": lambda n: functools.reduce(lambda inner, _: [inner], range(20_000), n),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_place_that_would_come_back_changed_is_refused_at_the_first_batch(tmp_path, kind):
    odd = Numbered(stream())
    odd.state = lambda: STATES[kind](odd.next)
    with pytest.raises(InputError, match=r"stream: state\(\) must return plain values"):
        follow(fresh(), odd, tmp_path / "out", refused="skip")
    assert odd.given == 1 and not (tmp_path / "out").exists()


def test_a_place_is_noted_when_a_batch_is_learned_not_when_it_is_saved(tmp_path):
    """A stream may return what it works with itself, and change it when it is asked for more."""

    class Shared(Numbered):
        def __init__(self, batches, fail_at=None):
            super().__init__(batches, fail_at)
            self.place = {"next": 0}

        def __iter__(self):
            for batch in super().__iter__():
                self.place["next"] = self.next
                yield batch
                self.place["next"] += 1  # looks for the next one

        def state(self):
            return self.place

    with pytest.raises(ConnectionError):
        follow(fresh(), Shared(stream(), fail_at=10), tmp_path / "out")
    follow(fresh(), Shared(stream()), tmp_path / "out")
    assert Learner.load(tmp_path / "out").fingerprint() == feed(fresh(), stream()).fingerprint()


@pytest.mark.parametrize("name", ["__tensor__", "~__tensor__", "", "a/b", "\x1b[31m", "[red]"])
def test_any_text_is_a_name(tmp_path, name):
    class Marked(Numbered):
        def state(self):
            return {"__tensor__": {"__tensor__": self.next}, name: "__tensor__"}

        def load_state(self, state):
            assert state[name] == "__tensor__"
            self.next = state["__tensor__"]["__tensor__"]

    for batches in (Numbered, Marked) if name != "__tensor__" else (Numbered,):
        out = tmp_path / batches.__name__
        follow(fresh(), batches(stream()[:9]), out, name=name)
        metrics = follow(fresh(), batches(stream()), out, name=name)
        assert metrics["streams"][name]["batches"] == 24
        assert Learner.load(out).fingerprint() == feed(fresh(), stream()).fingerprint()


@pytest.mark.parametrize("name", [3, None, ("a", "b"), b"bytes"])
def test_a_name_is_text(tmp_path, name):
    with pytest.raises(InputError, match="name must be text"):
        follow(fresh(), stream(), tmp_path / "out", name=name)
    assert not (tmp_path / "out").exists()


def no_room(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def fails_at(number, real, error):
    """The function, but the n-th call fails."""
    calls = itertools.count(1)
    return lambda *args, **options: error() if next(calls) == number else real(*args, **options)


def cannot_save():
    raise CheckpointError("cannot write a checkpoint: No space left on device")


class Counting:
    """A stream that notes how many batches were taken from it, and can raise after the last."""

    def __init__(self, batches, end=None):
        self.batches, self.end, self.taken = batches, end, 0

    def __iter__(self):
        for batch in self.batches:
            self.taken += 1
            yield batch
        if self.end is not None:
            raise self.end


FULL = {
    # what fails, at which call, after how many batches, and how many of them were saved
    "first save": (following, "write_checkpoint", 1, 5, 0),
    "later save": (following, "write_checkpoint", 3, 15, 10),
    "last save": (following, "write_checkpoint", 5, 24, 20),
    "event": (following.EventLog, "write", 8, 8, 5),
    "events at a save": (following.EventLog, "flush", 2, 10, 5),
    "metrics": (following, "write_metrics", 2, 10, 10),
}


@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_is_told_at_once_and_costs_no_row(tmp_path, monkeypatch, what):
    where, name, number, taken, saved = FULL[what]
    follow(fresh(), stream(), tmp_path / "whole", checkpoint_every=5)
    counted, tries = Counting(stream()), []
    error = cannot_save if name == "write_checkpoint" else no_room
    failing_one = fails_at(number, getattr(where, name), error)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, lambda *a, **o: tries.append(1) or failing_one(*a, **o))
        told = rf"No space.*free some space.*{f'after batch {saved} of stream' if saved else ''}"
        with pytest.raises(CheckpointError, match=told):
            follow(fresh(), counted, tmp_path / "out", checkpoint_every=5)
    assert counted.taken == taken
    if name == "write_checkpoint":
        assert len(tries) == number, "a save that failed is not tried again"
    follow(fresh(), stream(), tmp_path / "out", checkpoint_every=5)
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("end", [KeyboardInterrupt(), ConnectionError("gone"), SystemExit(3)])
@pytest.mark.parametrize("full", [False, True])
def test_what_was_learned_is_saved_however_a_stream_ends(tmp_path, monkeypatch, end, full):
    follow(fresh(), stream(), tmp_path / "whole")
    with monkeypatch.context() as patch:
        if full:
            patch.setattr(following, "write_checkpoint", lambda *_, **__: cannot_save())
        stopped = Interrupted if isinstance(end, KeyboardInterrupt) else type(end)
        with pytest.raises(CheckpointError if full else stopped):
            follow(fresh(), Counting(stream()[:7], end), tmp_path / "out")
    assert has_checkpoint(tmp_path / "out") is not full
    follow(fresh(), stream(), tmp_path / "out")
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


def test_a_file_that_cannot_grow_is_told(tmp_path):
    """A real system call fails, again when the log is closed."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def filling():
        yield from stream()[:7]
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        yield from stream()[7:]

    try:
        with pytest.raises(CheckpointError, match=r"cannot write to .*out: .*free some space"):
            follow(fresh(), filling(), tmp_path / "out", checkpoint_every=5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    follow(fresh(), stream(), tmp_path / "out", checkpoint_every=5)
    follow(fresh(), stream(), tmp_path / "whole", checkpoint_every=5)
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


def test_a_damaged_log_keeps_its_good_lines(tmp_path):
    follow(fresh(), stream()[:9], tmp_path / "out")
    log = tmp_path / "out" / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*lines[:2], "{}\n", *lines[3:]]))
    with pytest.warns(UserWarning, match=r"1 of the steps up to 9 are missing \(3\)"):
        follow(fresh(), stream(), tmp_path / "out")
    steps = [event["step"] for event in read_events(tmp_path / "out")]
    assert steps == [1, 2, *range(4, 25)]


def test_the_log_of_an_endless_stream_does_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "KEPT_LOGS", 2)
    monkeypatch.setattr(following.EventLog.__init__, "__defaults__", (300, None))
    follow(fresh(), stream(), tmp_path / "out", checkpoint_every=1)
    files = sorted(path.name for path in (tmp_path / "out").glob("events-*"))
    assert len(files) == 2 and "events-0001.jsonl" not in files
    assert [event["step"] for event in read_events(tmp_path / "out")][-1] == 24


def test_a_learner_that_chose_its_network_goes_on_with_it(tmp_path):
    follow(Learner(), stream()[:3], tmp_path)
    again = Learner()
    follow(again, stream(), tmp_path)
    assert again.model == "normalised-mlp" and again.lr == 0.003
    with pytest.raises(InputError, match="other options"):
        follow(Learner(lr=0.5), stream(), tmp_path)
