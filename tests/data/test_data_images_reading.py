"""Reading ahead: order, bounds, errors at their place, and threads that end."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.data import reading
from evenstream.data.image_files import ImageFiles
from evenstream.data.reading import read_in_order
from evenstream.errors import DataError
from tests.helpers.generated_images import picture, read_rows, save

N = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    for number in range(N):
        save(picture(number, 8, 8), root / f"{number}.png")
    for number in (5, 17):
        (root / f"{number}.png").write_text("no picture")
    return root


class SlowFiles(ImageFiles):
    """Takes a different time for each file, and counts what it was asked for."""

    def __init__(self, root, on_corrupt="stop"):
        super().__init__(root, [f"{number}.png" for number in range(N)], 8, on_corrupt)
        self.asked = []

    def load(self, row):
        self.asked.append(row)
        time.sleep((row * 7 % 5) / 1000)
        return super().load(row)


def groups(*rows):
    return [np.array(group, dtype=np.int64) for group in rows]


def decoding_threads():
    return [t for t in threading.enumerate() if t.name.startswith("evenstream-decode")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not decoding_threads()


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.sampled_from([n for n in range(N) if n not in (5, 17)]), max_size=6)),
    st.integers(1, 12),
)
def test_same_as_reading_one_by_one(folder, wanted, ahead):
    files = ImageFiles(folder, [f"{number}.png" for number in range(N)], 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BYTES_AHEAD", ahead * 3 * 8 * 8)
        found = list(read_in_order(files, groups(*wanted)))
    assert [read.rows.tolist() for read in found] == wanted
    for read in found:
        np.testing.assert_array_equal(read.x, read_rows(files, read.rows).x)


def test_order_is_kept_whatever_the_timing(folder):
    files = SlowFiles(folder, "skip")
    order = np.random.default_rng(0).permutation(N)
    found = list(read_in_order(files, np.split(order, 6)))
    expected = [read_rows(files, rows) for rows in np.split(order, 6)]
    for read, one in zip(found, expected, strict=True):
        assert read.rows.tolist() == one.rows.tolist() and read.skipped == one.skipped
        np.testing.assert_array_equal(read.x, one.x)
    assert sum(len(read.skipped) for read in found) == 2


def test_arrays_are_read_as_they_are():
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    found = list(read_in_order(x, groups([4, 1], [0])))
    assert [read.rows.tolist() for read in found] == [[4, 1], [0]]
    np.testing.assert_array_equal(found[0].x, x[[4, 1]])
    assert all(read.skipped == () for read in found)


def test_a_corrupt_file_stops_at_its_own_group(folder):
    found = read_in_order(SlowFiles(folder), groups([0, 1], [2, 3], [4, 5], [6]))
    assert next(found).rows.tolist() == [0, 1]
    assert next(found).rows.tolist() == [2, 3]
    with pytest.raises(DataError, match=r"5\.png: not an image.*--corrupt skip"):
        next(found)
    assert not decoding_threads()


def test_an_unexpected_error_in_a_thread_surfaces_at_its_own_group(folder):
    class Failing(SlowFiles):
        def load(self, row):
            if row == 3:
                raise MemoryError("for a test")
            return super().load(row)

    found = read_in_order(Failing(folder), groups([0, 1], [2, 3]))
    assert next(found).rows.tolist() == [0, 1]
    with pytest.raises(MemoryError, match="for a test"):
        next(found)


def test_decoding_is_ahead_of_the_reader_but_bounded(folder, monkeypatch):
    ahead = reading._MOST_THREADS + 1
    monkeypatch.setattr(reading, "BYTES_AHEAD", ahead * 3 * 8 * 8)
    files = SlowFiles(folder, "skip")
    found = read_in_order(files, [np.array([row]) for row in range(N)])
    next(found)
    deadline = time.monotonic() + 5
    while len(files.asked) < ahead and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.02)
    assert len(files.asked) == ahead
    found.close()  # type: ignore[attr-defined]


def test_nothing_is_wanted_before_it_is_needed(folder, monkeypatch):
    monkeypatch.setattr(reading, "BYTES_AHEAD", 0)
    asked = []

    def wanted():
        for row in range(N):
            asked.append(row)
            yield np.array([row])

    found = read_in_order(SlowFiles(folder, "skip"), wanted())
    assert asked == []
    next(found)
    assert len(asked) <= reading._MOST_THREADS + 1
    found.close()  # type: ignore[attr-defined]


def test_closing_ends_the_threads_and_drops_what_waits(folder):
    files = SlowFiles(folder, "skip")
    found = read_in_order(files, [np.arange(2), np.arange(2, N)])
    next(found)
    assert decoding_threads()
    found.close()  # type: ignore[attr-defined]
    assert not decoding_threads()
    assert len(files.asked) < N


def test_a_consumer_that_fails_ends_the_threads(folder):
    def consume():
        for read in read_in_order(SlowFiles(folder, "skip"), groups([0, 1], [2, 3], range(6, 12))):
            assert decoding_threads()
            raise RuntimeError(f"at {read.rows}")

    with pytest.raises(RuntimeError, match="at"):
        consume()
    assert not decoding_threads()


def test_an_error_in_what_is_wanted_surfaces(folder):
    def wanted():
        yield np.array([0])
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(read_in_order(SlowFiles(folder), wanted()))
