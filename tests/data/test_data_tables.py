"""CSV and Parquet tables: whole, row by row, in any order of columns, and what is refused."""

import contextlib
import csv
import io
import itertools
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.data.tables import Columns, CsvReader, in_batches, open_table, read_table
from evenstream.errors import DataError, InputError

TABLE = "a,b,label\n1,2,cat\n3.5,-4e2,dog\n5,6,cat\n7,8,dog\n"


@pytest.fixture
def table(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def rows_of(path, **choice):
    reader = open_table(path)
    try:
        columns = Columns.choose(reader.source, reader.names, **choice)
        return [(list(values), label) for values, label in reader.rows(columns)]
    finally:
        reader.close()


ROWS = [([1, 2], "cat"), ([3.5, -400], "dog"), ([5, 6], "cat"), ([7, 8], "dog")]


@pytest.mark.parametrize(
    "content",
    [
        TABLE,
        TABLE.replace(",", ";"),
        TABLE.replace(",", "\t"),
        TABLE.replace(",", ", "),
        TABLE.replace("\n", "\r\n"),
        TABLE.rstrip(),
        "\n" + TABLE.replace("\n", "\n\n"),
        b"\xef\xbb\xbf" + TABLE.encode(),
        TABLE.replace("cat", '"cat"').replace("a,", '"a",'),
        "label,b,ignored,a\n" + "cat,2,x,1\ndog,-400,y,3.5\ncat,6,,5\ndog,8,z,7\n",
    ],
    ids=[
        "plain",
        "semicolons",
        "tabs",
        "spaces",
        "crlf",
        "no-end",
        "blank-lines",
        "bom",
        "quotes",
        "order",
    ],
)
def test_ways_to_write_the_same_table(table, content):
    path = table(content)
    ignore = ("ignored",) if b"ignored" in path.read_bytes() else ()
    reader = open_table(path)
    columns = Columns(("a", "b"), "label", ignore)
    assert [(values, label) for values, label in reader.rows(columns)] == ROWS
    reader.close()


def test_read_table_makes_a_checked_data_set(table):
    dataset = read_table(table(TABLE), test_fraction=0.5, seed=1)
    assert (dataset.name, dataset.classes) == ("table", ["cat", "dog"])
    assert dataset.x_train.dtype == np.float32
    both = np.concatenate([dataset.x_train, dataset.x_test])
    assert sorted(both.tolist()) == sorted(values for values, _ in ROWS)
    assert sorted(dataset.y_test) == sorted(dataset.y_train) == [0, 1]


def test_labels_of_csv_are_text_even_if_they_look_like_numbers(table):
    path = table("a,y\n1,0\n2,1\n3,0\n4,1\n")
    assert [label for _, label in rows_of(path)] == ["0", "1", "0", "1"]
    assert read_table(path).classes == ["0", "1"]


def test_booleans_are_numbers(table):
    path = table("a,b,class\ntrue,1,x\nFALSE,2,x\n True ,3,x\n")
    assert [values for values, _ in rows_of(path)] == [[1, 1], [0, 2], [1, 3]]


def test_columns_called_by_numbers_are_a_header(table):
    assert rows_of(table("0,1,target\n5,6,x\n")) == [([5, 6], "x")]


@pytest.mark.parametrize("name", ["label", "Class", "TARGET", "y"])
def test_the_label_is_found_by_its_name(name):
    assert Columns.choose("t", ["a", name, "b"]) == Columns(("a", "b"), name)


def test_the_label_is_not_guessed():
    with pytest.raises(DataError, match=r"is not clear.*--label NAME.*columns are: a, b, kind"):
        Columns.choose("t", ["a", "b", "kind"])
    with pytest.raises(DataError, match="could be y or label"):
        Columns.choose("t", ["a", "y", "label"])
    assert Columns.choose("t", ["a", "y", "label"], "y", ["label"]) == Columns(
        ("a",), "y", ("label",)
    )
    assert Columns.choose("t", ["a", "b"], label_needed=False) == Columns(("a", "b"), None)


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        ({"label": "kind"}, DataError, "no column 'kind'; the columns are: a, b, label"),
        ({"ignore": ["c"]}, DataError, "no column 'c'"),
        ({"ignore": ["label"]}, InputError, "cannot be the label and be ignored"),
        ({"ignore": ["a", "b"]}, DataError, "no column besides the label"),
    ],
)
def test_columns_that_are_not_there(choice, error, message):
    with pytest.raises(error, match=message):
        Columns.choose("t", ["a", "b", "label"], **choice)


def test_columns_are_matched_by_name():
    columns = Columns(("a", "b"), "label", ("time",))
    assert columns.places("t", ["label", "b", "time", "a"]) == ([3, 1], 0)
    assert columns.places("t", ["b", "a"]) == ([1, 0], None)
    with pytest.raises(DataError, match=r"lacks the column b; .*made with a, b and the label"):
        columns.places("t", ["a", "label"])
    with pytest.raises(DataError, match="has the unknown columns c, d"):
        columns.places("t", ["a", "b", "c", "d"])


GOOD = "a,b,label\n" + "1,2,x\n" * 9
"""Rows that tell that the columns are numbers."""
BAD_FILES = {
    "empty": ("", "is empty"),
    "blank": ("\n \n", "is empty"),
    "no header": ("4,7,cat\n3,4,dog\n", "has no header: its first line is '4,7,cat'"),
    "no header, text first": ("5.1,3.5,cat\n", "has no header"),
    "only a header": ("a,b,label\n", "no rows below its header"),
    "twice": ("a,a,label\n1,2,x\n", "more than one column called 'a'"),
    "unnamed": (",a,label\n0,1,x\n", "column 1 has no name; .*row numbers"),
    "short": ("a,b,label\n1,2,x\n1,x\n", "line 3: 2 cells, but there are 3 columns"),
    "long": ("a,b,label\n1,2,x,9\n", "line 2: 4 cells"),
    "text": (f"{GOOD}1,red,x\n", "line 11: column 'b' is 'red', not a number"),
    "underscore": (f"{GOOD}1,1_000,x\n", "line 11: column 'b' is '1_000', not a number"),
    "other digits": (f"{GOOD}1,٣,x\n", "line 11: column 'b' is '٣', not a number"),
    "wide digits": (f"{GOOD}１２,2,x\n", "line 11: column 'a' is '１２', not a number"),
    "long text": (f"{GOOD}{'z' * 9000},2,x\n", "column 'a' is 'z{60}', not a number"),
    "comma": (f"{GOOD}1,5;3,x\n", "column 'b' is '5;3', not a number"),
    "infinite": ("a,b,label\n1,inf,x\n", "column 'b' is inf, too large"),
    "huge": ("a,b,label\n1,1e39,x\n", r"column 'b' is 1e\+39, too large for 32-bit"),
    "long label": (f"a,label\n1,{'x' * 300}\n", "line 2: the label is .* with 300 characters"),
    "no label": ("a,b,label\n1,2,\n", "line 2: the label is missing"),
    "quotes": ('a,b,label\n1,"2"3,x\n', "line 2: ',' expected after '\"'"),
    "open quote": (
        'a,b,label\n1,2,"x\n3,4,y\n',
        "line 2: a quotation mark opens a cell that is not closed",
    ),
    "not text": (b"a,b,label\n1,2,\xe9t\xe9\n", "line 2: is not UTF-8"),
    "utf-16": ("a,b,label\n".encode("utf-16"), "line 1: is not UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_say_what_is_wrong_and_where(table, case):
    content, message = BAD_FILES[case]
    with pytest.raises(DataError, match=f"table.csv.*{message}"):
        read_table(table(content))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*absent.csv: No such file"):
        read_table(tmp_path / "absent.csv")


def test_bad_rows_can_be_skipped_and_are_counted(table):
    reader = open_table(table('a,label\n1,x\nred,x\n2\n3,\n4,"y"z\n5,y\n'))
    reader.skip_bad = True
    columns = Columns.choose("t", reader.names)
    assert list(reader.rows(columns)) == [([1], "x"), ([5], "y")]
    assert reader.skipped == 4
    reader.close()


def test_a_label_that_cannot_be_converted_is_a_bad_row(table):
    reader = open_table(table("a,label\n1,7\n2,x\n"))
    reader.as_label = int
    rows = reader.rows(Columns.choose("t", reader.names))
    assert next(rows) == ([1], 7)
    with pytest.raises(DataError, match="line 3: invalid literal"):
        next(rows)
    reader.close()


def test_rows_are_given_before_the_next_line_exists():
    given_out = []

    def lines():
        for line in (b"a,label\n", b"1,x\n", b"2,y\n"):
            given_out.append(line)
            yield line

    reader = CsvReader(lines(), "pipe")
    assert len(given_out) == 1
    rows = reader.rows(Columns.choose("pipe", reader.names))
    assert next(rows) == ([1], "x")
    assert len(given_out) == 2


def test_a_quotation_mark_left_open_costs_its_line_and_little_time():
    lines = [b"a,label\n", *[b'1,x","\n'] * 20_000, b"2,y\n"]
    reader = CsvReader(lines, "t")
    reader.skip_bad = True
    began = time.process_time()
    assert list(reader.rows(Columns(("a",), "label"))) == [([2], "y")]
    assert reader.skipped == 20_000
    assert time.process_time() - began < 10  # a minute and more if each line reads all that follow


def test_a_quotation_mark_left_open_does_not_wait_for_ever():
    endless = itertools.chain([b"a,label\n", b"1,x\n"], itertools.repeat(b'2,y","\n'))
    rows = CsvReader(endless, "pipe").rows(Columns(("a",), "label"))
    assert next(rows) == ([1], "x")
    with pytest.raises(DataError, match="line 3: a quotation mark opens a cell that is not closed"):
        next(rows)


def test_a_row_may_run_over_many_lines():
    note = 'all ""is"" well,\n' * 5000
    lines = f'a,note,label\n1,"{note}",x\n2,,y\n'.encode().splitlines(keepends=True)
    rows = CsvReader(lines, "t").rows(Columns(("a",), "label", ("note",)))
    assert list(rows) == [([1], "x"), ([2], "y")]


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(
    lambda word: word.strip() == word
)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(numbers, numbers, words), min_size=1, max_size=12),
    st.integers(0, 12),
    st.booleans(),
)
def test_a_file_left_at_any_row_is_gone_on_with_there(tmp_path_factory, content, left_at, go_on):
    text = io.StringIO()
    csv.writer(text).writerows([("a", "b", "label"), *content])
    path = tmp_path_factory.mktemp("left") / "table.csv"
    path.write_bytes(text.getvalue().encode())
    expected = [([float(a), float(b)], label) for a, b, label in content]
    assert rows_of(path) == expected
    first = open_table(path)
    columns = Columns.choose("t", first.names)
    rows = first.rows(columns)
    before = [next(rows) for _ in content[:left_at]]
    place = first.place()
    first.close()
    second = open_table(path)
    assert second.recognises(place)
    if go_on:
        second.go_to(place)
        assert before + list(second.rows(columns)) == expected
    else:  # looking does not move it
        assert list(second.rows(columns)) == expected
    assert second.place()["bytes"] == path.stat().st_size
    second.close()


PIECES = ["1", "x", '"', '""', ",", "\n", "1,x\n", '1,"x\ny"\n', '1,x","\n', "\x00", "\udcff"]


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=3, max_size=25), left_at=st.integers(0, 5))
def test_a_damaged_file_is_gone_on_with_like_any_other(tmp_path_factory, pieces, left_at):
    path = tmp_path_factory.mktemp("left") / "table.csv"
    path.write_bytes(("a,label\n1,x\n" + "".join(pieces)).encode(errors="surrogateescape"))
    columns, found = Columns(("a",), "label"), []
    with contextlib.closing(open_table(path)) as reader:
        reader.skip_bad = True
        for row in reader.rows(columns):
            found.append((row, reader.place()))
        skipped = reader.skipped
    *_, (_, place) = found[: left_at + 1]
    rest = found[left_at + 1 :]
    if path.read_bytes()[place["bytes"] - 1 :][:1] != b"\n":
        return  # in the middle of a line, which is refused
    with contextlib.closing(open_table(path)) as reader:
        reader.skip_bad = True
        reader.go_to(place)
        assert [(row, reader.place()) for row in reader.rows(columns)] == rest
        assert reader.skipped <= skipped


def test_a_csv_file_is_known_by_how_it_begins(table):
    path = table(TABLE)
    reader = open_table(path)
    rows = reader.rows(Columns.choose("t", reader.names))
    next(rows), next(rows)
    place = reader.place()
    reader.close()
    for content, same in (
        (TABLE + "9,9,cat\n", True),
        (TABLE.replace("7,8", "7,9"), True),  # after the place
        (TABLE.replace("1,2", "1,3"), False),
        (TABLE[:20], False),
    ):
        other = open_table(table(content, "other.csv"))
        assert other.recognises(place) is same
        other.close()


def test_half_a_last_line_waits_for_the_rest(table):
    lines = TABLE.splitlines(keepends=True)
    reader = open_table(table("".join(lines[:2]) + "3.5,-4e2,d"))  # of dog
    reader.may_grow = True
    columns = Columns.choose("t", reader.names)
    assert [label for _, label in reader.rows(columns)] == ["cat"]
    place = reader.place()
    assert reader.unfinished and place["bytes"] == len("".join(lines[:2]))
    reader.close()
    grown = open_table(table(TABLE))
    grown.may_grow = True
    assert grown.recognises(place)
    grown.go_to(place)
    assert [label for _, label in grown.rows(columns)] == ["dog", "cat", "dog"]
    assert not grown.unfinished
    grown.close()


@pytest.mark.parametrize(
    ("rest", "more"), [("", []), ("\n", []), ("\r\n5,6,cat\n", ["cat"]), ("og\n5,6,cat\n", None)]
)
def test_a_place_in_the_middle_of_a_line_is_refused(table, rest, more):
    before = "a,b,label\n1,2,cat\n3.5,-4e2,d"
    reader = open_table(table(before))
    columns = Columns.choose("t", reader.names)
    assert [label for _, label in reader.rows(columns)] == ["cat", "d"]  # the whole of it, as asked
    place = reader.place()
    reader.close()
    grown = open_table(table(before + rest))
    assert grown.recognises(place)
    if more is None:
        with pytest.raises(DataError, match=r"table.csv, line 3: it was read before all .*--again"):
            grown.go_to(place)
    else:
        grown.go_to(place)
        assert [label for _, label in grown.rows(columns)] == more
    grown.close()


# ---- Parquet ------------------------------------------------------------------------------------


def parquet(tmp_path, columns, **options):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


NUMBERS = {"a": [1, 2, 3, 4], "b": pa.array([True, False, True, True]), "c": [0.5, 1.5, 2.5, 3.5]}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["x", "y", "x", "y"], ["x", "y", "x", "y"]),
        ([3, 4, 3, 4], [3, 4, 3, 4]),
        ([True, False, True, False], [True, False, True, False]),
        (pa.array(["x", "y", "x", "y"]).dictionary_encode(), ["x", "y", "x", "y"]),
        (pa.array(["3", "4", "3", "4"], pa.large_string()), ["3", "4", "3", "4"]),
    ],
    ids=["text", "int", "bool", "categories", "large-text"],
)
def test_the_type_of_a_parquet_column_decides(tmp_path, labels, expected):
    path = parquet(tmp_path, {**NUMBERS, "label": labels}, row_group_size=3)
    found = rows_of(path)
    assert [label for _, label in found] == expected
    assert [type(label) for _, label in found] == [type(label) for label in expected]
    assert [values for values, _ in found] == [[1, 1, 0.5], [2, 0, 1.5], [3, 1, 2.5], [4, 1, 3.5]]
    assert read_table(path).classes == sorted(set(expected))


def test_parquet_decimals_and_nulls(tmp_path):
    columns = {"a": pa.array([Decimal("1.25"), None]), "label": ["x", "x"]}
    path = parquet(tmp_path, columns)
    reader = open_table(path)
    rows = reader.rows(Columns.choose("t", reader.names))
    assert next(rows)[0].tolist() == [1.25]
    with pytest.raises(DataError, match="row 2: column 'a' is missing"):
        next(rows)
    reader.close()


def test_parquet_can_be_left_and_gone_on_with(tmp_path):
    path = parquet(
        tmp_path, {"a": np.arange(9000.0), "label": np.arange(9000) % 3}, row_group_size=700
    )
    first = open_table(path)
    columns = Columns.choose("t", first.names)
    batches = in_batches(first.rows(columns), 1000)
    seen = [next(batches) for _ in range(5)]
    place = first.place()
    first.close()
    second = open_table(path)
    assert place["row"] == 5000
    assert second.recognises(place)
    assert not second.recognises({**place, "sha256": "0"})
    second.go_to(place)
    seen += in_batches(second.rows(columns), 1000)
    second.close()
    assert np.concatenate([x for x, _ in seen])[:, 0].tolist() == list(range(9000))
    assert [label for _, labels in seen for label in labels] == [n % 3 for n in range(9000)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0], "label": [0.5]}, "label column 'label' holds double"),
        ({"a": [float("inf")], "label": ["x"]}, "row 1: column 'a' is missing or not finite"),
        ({"a": [1e300], "label": ["x"]}, "row 1: column 'a' is missing or not finite"),
        ({"a": [1.0], "label": pa.array([None], pa.string())}, "row 1: the label is missing"),
        ({"a": pa.array([], pa.int64()), "label": pa.array([], pa.string())}, "no rows"),
        ({"a": ["1"] * 9 + ["1_0"], "label": ["x"] * 10}, "row 10: column 'a' is '1_0', not a n"),
        ({"a": [1.0], "label": pa.array([b"\xff"]).view(pa.string())}, "is damaged: .*utf-8"),
        ({"a": [1.0], "label": ["x" * 300]}, "row 1: the label is 'x{30}'... with 300 characters"),
    ],
)
def test_bad_parquet_columns(tmp_path, columns, message):
    with pytest.raises(DataError, match=message):
        read_table(parquet(tmp_path, columns))


def test_damaged_parquet(tmp_path):
    path = parquet(tmp_path, {**NUMBERS, "label": ["x"] * 4})
    content = path.read_bytes()
    for damaged in (b"", b"PAR1 nothing", content[:-20]):
        Path(path).write_bytes(damaged)
        with pytest.raises(DataError, match=r"table.parquet is not a readable Parquet file"):
            read_table(path)


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    path = parquet(tmp_path, {**NUMBERS, "label": ["x"] * 4})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'evenstream\[parquet\]'"):
        read_table(path)
