"""The picture of a stream."""

import numpy as np
import pytest
from PIL import Image

from evenstream.data import from_arrays
from evenstream.report.charts.canvas import settings
from evenstream.report.charts.stream_picture import draw, save_stream_png
from evenstream.report.charts.style import LIGHT
from evenstream.streams import open_stream
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.profile import profile


def panels(stream):
    with settings():
        return draw(stream, profile(stream, 10), LIGHT).axes


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_is_written(tmp_path, dark):
    path = save_stream_png(open_stream("c-digits"), tmp_path / "new" / "s.png", dark=dark)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_shares_over_time_and_classes_per_task():
    over_time, classes = panels(open_stream("c-digits"))
    shares = over_time.get_images()[0].get_array()
    assert shares.shape == (10, 10)
    np.testing.assert_allclose(shares.sum(axis=0), 1)  # all classes of one bin
    assert shares[0, 0] > 0.3 and shares[9, 0] == 0
    assert shares[0, 9] == 0 and shares[9, 9] > 0.3
    assert [line.get_xdata()[0] for line in over_time.get_lines()] == [
        *np.cumsum([len(task.train) for task in open_stream("c-digits").tasks])[:-1]
    ]
    assert [bar.get_height() for bar in classes.patches] == [2] * 10  # in the task, and new


def test_boundaries_that_the_learner_is_not_told_are_named_so():
    found = [panels(open_stream(f"{p}-digits"))[0].get_title(loc="left") for p in "gc"]
    assert [title.partition(" (")[2] for title in found] == [
        "dashed: ends of tasks, which the learner is not told)",
        "dashed: ends of tasks)",
    ]


def test_domains_get_a_panel_of_their_own():
    *_, domains = panels(open_stream("d-digits"))
    assert (domains.get_images()[0].get_array() == 1).all()  # one rotation of each class a task
    assert len(domains.texts) == 4 * 10


def test_more_classes_than_rows_lose_nothing():
    n = 451
    data = from_arrays(np.zeros((2 * n, 3)), [f"$c_{i}" for i in range(n)] * 2, test_fraction=0.5)
    over_time, _ = panels(ClassIncremental(tasks=11).stream(data))
    shares = over_time.get_images()[0].get_array()
    assert shares.shape == (200, 10)
    np.testing.assert_allclose(shares.sum(axis=0), 1)


def test_an_empty_task_draws(tmp_path):
    stream = open_stream("c-digits")
    first = stream.tasks[0]
    save_stream_png(stream, tmp_path / "whole.png")
    stream.tasks[0] = type(first)(first.classes, first.train[:0], first.test)
    save_stream_png(stream, tmp_path / "s.png")
    with Image.open(tmp_path / "s.png") as empty, Image.open(tmp_path / "whole.png") as whole:
        assert empty.size == whole.size and empty.tobytes() != whole.tobytes()
