"""What the benchmarks compute from times; the times themselves are nobody's test."""

import pytest

from benchmarks import timing
from benchmarks.line import Line
from benchmarks.timing import FEWEST_PAIRS, Patience, Ratio, take_turns


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when a call of the test takes its time."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def taking(clock, duration, notes, name):
    def call():
        clock[0] += duration
        notes.append(name)

    return call


def test_who_is_first_changes_from_round_to_round(clock):
    notes: list[str] = []
    calls = [taking(clock, seconds, notes, name) for name, seconds in (("a", 3), ("b", 1))]
    times = take_turns(*calls, patience=Patience(pairs=3, seconds=100), warm_up=1)
    assert "".join(notes) == "ab" + "ab" + "ba" + "ab"
    assert times == ([3, 3, 3], [1, 1, 1])  # the warm-up is not measured


def test_no_more_rounds_when_the_time_is_over_but_never_too_few(clock):
    calls = [taking(clock, seconds, [], "") for seconds in (2, 1, 1)]
    assert len(take_turns(*calls, patience=Patience(100, seconds=40), warm_up=0)[0]) == 11
    assert len(take_turns(*calls, patience=Patience(100, seconds=0))[0]) == FEWEST_PAIRS


def test_a_ratio_is_the_median_of_pairs_not_of_times():
    ratio = Ratio.of([1.0, 8.0, 6.0], [1.0, 2.0, 3.0])
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 1.5, 3.0)
    assert (ratio.pairs, ratio.a_ms, ratio.b_ms) == (3, 6000, 2000)
    assert ratio.per(10).median == 0.2


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        ({"at_most": 1.15}, "met"),
        ({"at_most": 1.05}, "MISSED"),
        ({"at_least": 1.1}, "met"),
        ({"at_least": 3.0}, "MISSED"),
        ({"at_least": 3.0, "unmeasurable": "no fast bfloat16"}, "not here: no fast bfloat16"),
        ({}, "-"),
    ],
)
def test_a_line_has_a_verdict(target, verdict):
    line = Line(2, "step / bare", Ratio.once(1.1, 1.0), **target)
    assert line.verdict == line.as_json()["verdict"] == verdict
    assert verdict in str(line) and "1.100" in str(line)
