"""Rows from a pipe: lines as they come, batches that do not wait for ever."""

import math
import os
import threading
import time

import pytest

from evenstream.live import pipe
from evenstream.live.pipe import read_lines, timed_batches


@pytest.mark.parametrize(
    "content", [b"", b"a\n", b"a\nb", b"\n\na\r\nbb\n", b"x" * 200_000 + b"\ny\n"]
)
def test_lines_are_what_python_makes_of_them(content):
    reading, writing = os.pipe()

    def feed():
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(content)

    thread = threading.Thread(target=feed)
    thread.start()
    lines = list(read_lines(reading))
    thread.join()
    os.close(reading)
    assert lines == content.splitlines(keepends=True)


def test_a_line_is_given_as_soon_as_it_is_whole():
    reading, writing = os.pipe()
    lines = read_lines(reading)
    os.write(writing, b"one\ntw")
    assert next(lines) == b"one\n"
    os.write(writing, b"o\n")
    assert next(lines) == b"two\n"
    os.close(writing)
    assert list(lines) == []
    os.close(reading)


@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (6, 3), (7, 3), (5, 100)])
def test_a_fast_producer_fills_batches(count, size):
    batches = list(timed_batches(iter(range(count)), size, patience=60))
    assert batches == [list(range(i, min(i + size, count))) for i in range(0, count, size)]


def test_a_slow_producer_does_not_hold_rows_back():
    go_on = threading.Event()

    def slow():
        yield from "ab"
        assert go_on.wait(30)
        yield from "cdef"

    batches = timed_batches(slow(), 4, patience=0.05)
    began = time.monotonic()
    assert next(batches) == ["a", "b"]
    assert time.monotonic() - began < 20
    go_on.set()
    assert [row for batch in batches for row in batch] == list("cdef")


def test_an_error_of_the_producer_arrives_after_the_rows_before_it():
    def broken():
        yield from range(5)
        raise OSError("the cable is out")

    batches = timed_batches(broken(), 2, patience=60)
    assert [next(batches) for _ in range(3)] == [[0, 1], [2, 3], [4]]
    with pytest.raises(OSError, match="the cable is out"):
        next(batches)


def test_a_fast_producer_is_not_read_far_ahead():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield len(taken)

    batches = timed_batches(endless(), 10, patience=60)
    next(batches)
    time.sleep(0.1)
    assert len(taken) <= 10 + 1024 + 2


def test_rows_may_wait_for_ever_and_silence_is_told(monkeypatch):
    monkeypatch.setattr(pipe, "TICK_SECONDS", 0.05)

    def slow():
        time.sleep(0.3)
        yield 1
        time.sleep(0.3)
        yield 2

    batches = list(timed_batches(slow(), 2, patience=math.inf))
    assert batches[-1] == [1, 2]
    assert len(batches) > 1 and not any(batches[:-1])
