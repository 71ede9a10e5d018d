"""Kinds of columns, told by their first cells."""

from typing import Any

import numpy as np
import pytest

from evenstream.errors import DataError, InputError
from evenstream.tabular import TableEncoder, Wishes, infer_columns
from evenstream.tabular.columns import column_from_state


def column(cells, *, comma=False, **wishes):
    """The column that cells make, or why there is none."""
    table = {"other": ["1", "2"], "it": cells}
    columns, left_out = infer_columns("t", table, Wishes(**wishes), comma=comma)
    return left_out["it"] if "it" in left_out else columns[1]


NUMBERS: dict[str, Any] = {
    "point": (["-1.5", " 2e3", "7"], False, [-1.5, 2000, 7]),
    "truth": (["true", "FALSE", "True"], False, [1, 0, 1]),
    "decimal comma": (["1.234,5", "7,25", "12"], True, [1234.5, 7.25, 12]),
    "decimal comma in quotes": (["2,5", "12,75", "3,1"], False, [2.5, 12.75, 3.1]),
    "thousands": (["1,234", "99", "1,000,000"], False, [1234, 99, 1e6]),
    "money": (["$1,200.50", "-$15.00", "$3"], False, [1200.5, -15, 3]),
    "euros": (["12,50 €", "3,00 €", "1.000,00 €"], True, [12.5, 3, 1000]),
    "per cent": (["45%", "7.5 %", "0%"], False, [45, 7.5, 0]),
    "values of JSON": ([1, 2.5, True], False, [1, 2.5, 1]),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_read_as_they_are_written(case):
    cells, comma, values = NUMBERS[case]
    found = column(cells, comma=comma)
    assert (found.kind, found.width) == ("number", 1)
    assert [found.read(cell) for cell in cells] == values


def test_missing_numbers_become_the_median_and_a_flag():
    found = column(["1", "", "NA", "?", "3", "10", None])
    x = found.encode([found.read(cell) for cell in ["5", "", "n/a"]])
    assert x.tolist() == [[5, 0], [3, 1], [3, 1]]


def test_a_number_missing_later_becomes_the_median():
    found = column(["1", "2", "9"])
    assert found.encode([found.read(""), found.read("4")]).tolist() == [[2], [4]]


def test_a_word_that_comes_again_and_again_among_numbers_stands_for_missing():
    found = column(["12"] * 50 + ["sold out"] * 10)
    assert (found.kind, found.width) == ("number", 2)
    assert np.isnan(found.read("Sold Out"))


def test_a_single_word_among_numbers_is_a_bad_cell():
    found = column(["12"] * 59 + ["1O"])
    with pytest.raises(ValueError, match="column 'it' is '1O', not a number"):
        found.read("1O")


DATES = {
    "iso": (["2024-01-31", "2024-02-28"], "2024-01-31", 1706659200, 5),
    "iso with time": (["2024-01-31T10:00", "2024-02-28 11:30"], "2024-01-31 10:00", 1706695200, 7),
    "zone": (["2024-01-31T10:00:00+02:00"] * 2, "2024-01-31T10:00:00+02:00", 1706695200, 7),
    "day first": (["31/1/2024", "28/2/2024"], "31/1/2024", 1706659200, 5),
    "month first": (["1/31/2024", "2/28/2024"], "1/31/2024", 1706659200, 5),
    "either": (["1/2/2024", "3/4/2024"], "1/2/2024", 1704153600, 5),
    "points": (["31.01.2024 14:05", "1.2.2024 9:00"], "31.01.2024 14:05", 1706709900, 7),
    "words": (["31 Jan 2024", "1 Feb 2024"], "31 Jan 2024", 1706659200, 5),
    "noon": (["1/31/2024 12:00 PM", "2/1/2024 1:30 AM"], "1/31/2024 12:00 PM", 1706702400, 7),
    "clock": (["14:30", "09:15:00"], "14:30", 52200, 2),
}


@pytest.mark.parametrize("case", DATES)
def test_dates_are_read_as_they_are_written(case):
    cells, cell, seconds, width = DATES[case]
    found = column(cells)
    assert (found.kind, found.read(cell), found.width) == ("date", seconds, width)
    with pytest.raises(ValueError, match="column 'it' is 'soon', not a date or time"):
        found.read("soon")


def test_missing_dates_are_flagged():
    found = column(["2024-01-31"] * 50 + ["never"] * 5 + [""])
    x = found.encode([found.read(cell) for cell in ["2024-01-31", "never", ""]])
    assert x[:, -1].tolist() == [0, 1, 1]
    assert not x[1:, :-1].any()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["red", "green", "blue"] * 3, "category"),
        (["A1", "12", "B7"], "category"),
        (["New York City", "Paris"] * 9, "category"),
        (["NA", "none"], "category"),
        ([f"{a} {b}" for a in "abcdefgh" for b in "ijklmnop"], "category"),
        ([f"the thing {n} is broken again" for n in range(9)], "text"),
        (["我今天去了商店買東西" + chr(0x4E00 + n) for n in range(9)], "text"),
        ([["a", "b"], {"k": 1}], "category"),
    ],
)
def test_categories_and_text(cells, kind):
    assert column(cells).kind == kind


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["in progress", "not started", "done"] * 30, 0),
        ([f"type {letter}" for letter in "abcde"] * 30, 0),
        ([f"{a} {b}" for a in "abcdefgh" for b in "ijklmnop"], 256),
        ([f"{a} {b} of it" for a in "abcdefgh" for b in "ijklmnop"] * 3, 256),
        (["new socks", "old socks", "a lamp"], 256),
        ([f"A{n % 50}" for n in range(200)], 0),
    ],
)
def test_many_categories_of_several_words_are_read_by_word_as_well(cells, words):
    found = column(cells)
    assert (found.kind, found.words, found.width) == ("category", words, found.inputs + words)
    assert column(cells, categorical=("it",)).words == 0


def test_phrases_that_recur_are_alike_where_they_share_a_word():
    draw = np.random.default_rng(0)
    phrases = [f"{a} w{b} w{c}" for a in ("good", "bad") for b in range(20) for c in range(9)]
    encoder = TableEncoder(
        *infer_columns("t", {"note": [phrases[n] for n in draw.integers(0, 360, 1000)]})
    )
    x = encoder.encode([[f"{a} w{n} q{n}" for a in ("good", "bad") for n in range(20)]])
    alike = x[:, -256:] @ x[:, -256:].T
    same = np.equal.outer(np.arange(40) < 20, np.arange(40) < 20)
    assert encoder.columns[0].kind == "category"
    assert alike[same].mean() > alike[~same].mean() + 0.2


def test_a_category_of_an_earlier_save_is_as_it_was():
    state = {"kind": "category", "name": "it", "inputs": 8, "seed": 3, "numbers": False}
    assert column_from_state(state).state() == state
    made = column([f"{a} {b}" for a in "abcdefgh" for b in "ijklmnop"])
    assert column_from_state(made.state()) == made


def test_columns_that_tell_nothing_are_left_out():
    for cells in ([f"id-{n}" for n in range(60)], [f"order {n}" for n in range(60)]):
        assert column(cells).startswith("different in every row")
    assert column(["", None, "NA"]) == "empty in the first rows"
    with pytest.raises(DataError, match=r"no column to learn from \(a: empty"):
        infer_columns("t", {"a": ["", ""]})


def test_the_user_knows_better():
    digits = ["01234", "99999", "01234"]
    assert column(digits).kind == "number"
    assert column(digits, categorical=("it",)).kind == "category"
    assert column(["a", "b"], text=("it",)).kind == "text"
    assert column(["1/2/2024"] * 3, date=("it=%d/%m/%Y",)).read("1/2/2024") == 1706745600
    stamps = column(["1706659200", "1706659260.5"], date=("it",))
    assert stamps.read("1706659200") == 1706659200
    assert stamps.read(1706659200000) == 1706659200
    with pytest.raises(DataError, match="column 'it' is not known to be dates; it has 'a'"):
        column(["a", "b"], date=("it",))
    with pytest.raises(DataError, match="column 'it' is not written as %Y; it has 'a'"):
        column(["a", "b"], date=("it=%Y",))
    with pytest.raises(DataError, match="t has no column 'that' among its inputs: other, it"):
        column(["a", "b"], text=("that",))
    with pytest.raises(InputError, match="'it' is given more than one kind"):
        column(["a", "b"], text=("it",), date=("it=%Y",))


def test_numbers_as_categories_are_the_same_however_they_are_stored():
    found = column(["7", "12"], categorical=("it",))
    assert len({found.read(cell) for cell in ("7", "7.0", 7, 7.0, np.float64(7), "07")}) == 1


def test_a_summary_has_a_line_for_each_column():
    table = {"a": ["1", ""], "b": ["red", "blue"], "c": ["", ""]}
    said = TableEncoder(*infer_columns("t", table)).summary().splitlines()
    assert len(said) == 4
    kinds = ["number", "category", "left out"]
    assert all(kind in line for kind, line in zip(kinds, said[1:], strict=True))
