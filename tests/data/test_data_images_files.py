"""Image files as an array: what NumPy would give, corrupt files, and nothing from outside."""

import tracemalloc

import numpy as np
import pytest

from evenstream.data import Dataset
from evenstream.data.image_files import ImageFiles
from evenstream.errors import DataError, InputError
from tests.helpers.generated_images import picture, read_rows, save, truncated_jpeg


@pytest.fixture
def files(tmp_path):
    names = [f"class {number % 2}/bild-ä{number}.png" for number in range(7)]
    for number, name in enumerate(names):
        save(picture(number, 8, 8), tmp_path / "root" / name)
    return ImageFiles(tmp_path / "root", names, 8)


@pytest.fixture
def with_corrupt(tmp_path):
    """Files of which the second and the last cannot be read."""

    def make(on_corrupt):
        names = [f"{number}.jpg" for number in range(5)]
        for number in (0, 2, 3):
            save(picture(number, 8, 8), tmp_path / "root" / names[number])
        truncated_jpeg(tmp_path / "root" / "1.jpg")
        return ImageFiles(tmp_path / "root", names, 8, on_corrupt)

    return make


def array_of(n):
    return np.stack([np.asarray(picture(number, 8, 8)).transpose(2, 0, 1) for number in range(n)])


def test_looks_like_an_array(files):
    array = array_of(7)
    assert (len(files), files.shape, files.dtype, files.ndim) == (7, array.shape, np.uint8, 4)


@pytest.mark.parametrize(
    "rows",
    [
        3,
        -1,
        slice(1, None, 2),
        [4, 0, 4],
        [],
        np.array([[1, 2], [3, 4]]),
        np.arange(7) % 3 == 0,
    ],
    ids=str,
)
def test_rows_are_chosen_as_by_numpy(files, rows):
    assert files[rows].dtype == np.uint8
    np.testing.assert_array_equal(files[rows], array_of(7)[rows])


def test_a_row_that_is_not_there(files):
    with pytest.raises(IndexError):
        files[7]


def test_take_and_path(files, tmp_path):
    taken = files.take(np.array([5, 0]))
    assert taken.path(0) == tmp_path / "root" / "class 1" / "bild-ä5.png"
    np.testing.assert_array_equal(taken[:], array_of(7)[[5, 0]])
    assert len(files) == 7


def test_read_gives_the_rows_in_the_order_asked_for(files):
    read = read_rows(files, np.array([6, 2, 2]))
    assert read.rows.tolist() == [6, 2, 2] and read.skipped == ()
    np.testing.assert_array_equal(read.x, array_of(7)[[6, 2, 2]])


def test_a_corrupt_file_stops_with_path_reason_and_what_to_do(with_corrupt, tmp_path):
    files = with_corrupt("stop")
    with pytest.raises(DataError, match=r"root/1\.jpg: .*truncated.*--corrupt skip"):
        read_rows(files, np.arange(5))
    with pytest.raises(DataError, match=r"root/4\.jpg: there is no such file"):
        read_rows(files, np.array([0, 4]))
    assert len(read_rows(files, np.array([0, 2, 3])).x) == 3


def test_a_corrupt_file_is_skipped_and_reported(with_corrupt, tmp_path):
    files = with_corrupt("skip")
    read = read_rows(files, np.array([3, 1, 4, 0]))
    assert read.rows.tolist() == [3, 0]
    np.testing.assert_array_equal(read.x, files[[3, 0]])
    first, second = read.skipped
    assert first.startswith(f"{tmp_path}/root/1.jpg: ") and "truncated" in first
    assert second == f"{tmp_path}/root/4.jpg: there is no such file"


def test_a_group_of_nothing_but_corrupt_files(with_corrupt):
    read = read_rows(with_corrupt("skip"), np.array([1, 4]))
    assert read.rows.shape == (0,) and read.x.shape == (0, 3, 8, 8) and len(read.skipped) == 2


def test_indexing_never_skips(with_corrupt):
    with pytest.raises(DataError, match=r"1\.jpg"):
        with_corrupt("skip")[:]


@pytest.mark.parametrize(
    "name", ["../a.png", "a/../../a.png", "/etc/passwd", "", "a/..", "a\0.png"]
)
def test_names_that_leave_the_root_are_refused(tmp_path, name):
    with pytest.raises(DataError, match="not the name of a file inside"):
        ImageFiles(tmp_path, ["good.png", name], 8)


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be the name"):
        ImageFiles(tmp_path, ["a\ud800.png"], 8)


def test_links_out_of_the_root_are_not_opened(tmp_path):
    save(picture(1, 8, 8), tmp_path / "outside" / "a.png")
    save(picture(1, 8, 8), tmp_path / "root" / "real.png")
    (tmp_path / "root" / "out.png").symlink_to(tmp_path / "outside" / "a.png")
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "in.png").symlink_to("real.png")
    files = ImageFiles(tmp_path / "root", ["out.png", "folder/a.png", "in.png"], 8, "skip")
    read = read_rows(files, np.arange(3))
    assert read.rows.tolist() == [2]
    assert all("leads out of" in reason for reason in read.skipped)


def test_the_root_itself_may_be_a_link(tmp_path):
    save(picture(1, 8, 8), tmp_path / "real" / "a.png")
    (tmp_path / "link").symlink_to("real")
    assert len(ImageFiles(tmp_path / "link", ["a.png"], 8)[:]) == 1


@pytest.mark.parametrize(
    ("size", "on_corrupt", "complaint"),
    [(0, "stop", "1 to 4096"), (9999, "stop", "1 to 4096"), (8, "ignore", "'skip'")],
)
def test_options_that_make_no_sense(tmp_path, size, on_corrupt, complaint):
    with pytest.raises(InputError, match=complaint):
        ImageFiles(tmp_path, ["a.png"], size, on_corrupt)


def test_names_take_their_bytes_and_little_more(tmp_path):
    names = (
        f"train/n{number % 1000:08}/n00000000_{number}.JPEG" for number in range(10_000, 30_000)
    )
    tracemalloc.start()
    try:
        files = ImageFiles(tmp_path, names, 256)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert files.path(19_999).name == "n00000000_29999.JPEG"
    assert kept < 1.05 * 36 * 20_000  # so the 1.28 million of ImageNet take 46 MB
    assert peak < 3 * kept


def test_a_data_set_does_not_open_its_files(tmp_path):
    missing = ImageFiles(tmp_path, ["a.png", "b.png"], 8)
    y = np.array([0, 1])
    lazy = Dataset("lazy", missing, y, missing, y, classes=["a", "b"])
    assert lazy.is_image and lazy.input_shape == (3, 8, 8)
    array = np.zeros((2, 3, 8, 8), dtype=np.uint8)
    Dataset("both", array, y, missing, y, classes=["a", "b"])


def test_a_data_set_checks_what_it_can(tmp_path):
    files, y = ImageFiles(tmp_path, ["a.png"], 8), np.array([0])
    larger, none = ImageFiles(tmp_path, ["a.png"], 9), ImageFiles(tmp_path, [], 8)
    for x_test, y_test, complaint in (
        (larger, y, "must agree"),
        (none, y[:0], "x_test is empty"),
        (files, np.array([0, 0]), "2 entries for 1 samples"),
        (files, np.array([1]), "1 classes"),
    ):
        with pytest.raises(DataError, match=complaint):
            Dataset("lazy", files, y, x_test, y_test, classes=["a"])
