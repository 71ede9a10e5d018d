"""Frames of pandas, polars and Arrow in a learner."""

import datetime
import io
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from evenstream import Learner, TableEncoder, follow
from evenstream.data import load_dataset
from evenstream.errors import DataWarning, InputError

pytestmark = pytest.mark.filterwarnings("ignore:the kinds of columns are detected")

N = 40
KINDS = ["cat", "dog"] * (N // 2)


def messy():
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": np.where(draw.random(N) < 0.2, np.nan, np.arange(N) / 4),
            "colour": draw.choice(["red", "green", None], N),
            "when": pd.date_range("2024-01-01", periods=N, freq="7h"),
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(n) for n in range(N)],
            "good": draw.choice([True, False], N),
            "note": [f"number {n} is a thing that {kind}s do" for n, kind in enumerate(KINDS)],
            "count": draw.integers(0, 5, N),
        }
    )


def others(frame):
    text = io.StringIO(frame.to_csv(index=False))
    table = pa.Table.from_pandas(frame)
    return {
        "polars": pl.from_pandas(frame),
        "arrow": table,
        "batch": table.to_batches()[0],
        "from CSV": pd.read_csv(text),
        "reordered": frame[frame.columns[::-1]],
        "nullable": frame.convert_dtypes(),
        "categorical": frame.assign(colour=frame.colour.astype("category")),
    }


def learner(**options):
    return Learner("er-las", "mlp-norm", memory=20, **options)


def test_the_same_rows_are_the_same_inputs_in_any_library():
    frame = messy()
    encoder = TableEncoder.infer(frame)
    x = encoder.encode_frame(frame)
    for name, other in others(frame).items():
        assert np.array_equal(encoder.encode_frame(other), x), name
        assert TableEncoder.infer(other).width == encoder.width, name


def test_a_learner_takes_frames_and_keeps_how(tmp_path):
    frame, one = messy(), learner()
    one.learn(frame[:30], pd.Series(KINDS[:30]))
    chances = one.predict_proba(frame[30:])
    one.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved")
    assert loaded.fingerprint() == one.fingerprint()
    for name, other in others(frame).items():
        assert np.array_equal(loaded.predict_proba(other[30:]), chances), name
    loaded.learn(others(frame)["arrow"], pa.array(KINDS))
    one.learn(frame, KINDS)
    assert loaded.fingerprint() == one.fingerprint()


def test_unknown_and_missing_columns_are_refused_by_name():
    frame, one = messy(), learner()
    one.learn(frame, KINDS)
    before = one.fingerprint()
    with pytest.raises(InputError, match="lacks the columns size, good; the learner knows size,"):
        one.predict(frame.drop(columns=["size", "good"]))
    with pytest.raises(InputError, match="has the unknown column extra"):
        one.learn(pl.from_pandas(frame).with_columns(extra=1), KINDS)
    with pytest.raises(InputError, match=r"row 3 of the table .* column 'when' is 'soon'"):
        bad = frame.assign(when=frame.when.astype(object))
        bad.loc[3, "when"] = "soon"
        one.learn(bad, KINDS)
    assert one.fingerprint() == before


def test_a_refused_first_frame_leaves_no_trace():
    one = learner()
    with pytest.raises(InputError):
        one.learn(messy(), KINDS[:-1])
    assert one.table is None
    one.learn(np.ones((2, 3)), ["a", "b"])


def test_frames_of_numbers_are_arrays_bit_for_bit():
    x = np.random.default_rng(1).normal(size=(N, 3)) * [1, 1e4, 1e-4]
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    by_frame, by_array = learner(), learner()
    for part in (slice(20), slice(20, N)):
        by_frame.learn(frame[["c", "a", "b"]][part] if part.start else frame[part], KINDS[part])
        by_array.learn(x[part], KINDS[part])
    assert by_frame.fingerprint() == by_array.fingerprint()
    assert np.array_equal(by_frame.predict_proba(x), by_array.predict_proba(x))
    bytes_ = pd.DataFrame(np.arange(12, dtype=np.uint8).reshape(4, 3))
    one = learner()
    one.learn(bytes_, ["a", "b"] * 2)
    assert one.input_kind.dtype == "uint8"


def test_the_user_can_say_what_columns_are():
    frame, one = messy(), learner()
    one.table = TableEncoder.infer(frame, categorical=["count"], ignore=["note"])
    one.learn(frame, KINDS)
    assert {column.name: column.kind for column in one.table.columns}["count"] == "category"
    one.predict(frame.drop(columns="note"))
    with pytest.raises(InputError, match="set table before that"):
        one.table = TableEncoder.infer(frame)


def test_what_a_frame_calls_categories_are_categories():
    codes = pd.DataFrame({"code": pd.Categorical([1, 2, 1, 3]), "size": [1.0, 2.0, 3.0, 4.0]})
    (code, size) = TableEncoder.infer(codes).columns
    assert (code.kind, size.kind) == ("category", "number")
    (code, size) = TableEncoder.infer(pl.from_pandas(codes), text=["code"]).columns
    assert code.kind == "text"


def test_frames_are_followed_and_gone_on_with(tmp_path):
    frame = messy()

    def stream(length=4):
        for start in range(0, 10 * length, 10):
            yield frame[start : start + 10], KINDS[start : start + 10]

    follow(learner(), stream(2), tmp_path / "part")
    follow(learner(), stream(), tmp_path / "part")
    follow(learner(), stream(), tmp_path / "whole")
    one, two = (Learner.load(tmp_path / name) for name in ("part", "whole"))
    assert one.step == 4 and one.fingerprint() == two.fingerprint()


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    with pytest.raises(InputError, match="more than one column called 'a'"):
        learner().learn(frame, ["x", "y"])


def test_none_of_the_libraries_is_imported_unless_needed():
    code = (
        "import sys, evenstream.tabular as t; t.is_frame([1]); "
        "print({'pandas', 'polars', 'pyarrow', 'narwhals', 'sklearn'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip() == "set()", ended.stderr


@pytest.mark.parametrize("state", ["{}", {}, None])
def test_an_encoder_is_read_from_its_state_only(state):
    with pytest.raises(InputError, match=r"json\.loads"):
        TableEncoder.from_state(state)


def test_advice_for_frames_is_for_python():
    learner = Learner("er", seed=0)
    learner.learn(pd.DataFrame({"a": np.arange(N) / 4}), KINDS)
    with pytest.raises(InputError, match=r"not a number; .*TableEncoder.infer") as told:
        learner.predict(pd.DataFrame({"a": ["many"]}))
    assert "--" not in str(told.value)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((N, 3)),
        np.zeros(3),
        messy()["size"],
        {"size": 1.0, "colour": "red"},
        [{"size": 1.0, "colour": "red"}] * N,
        [[1.0, "red"]] * N,
        ["red"] * N,
    ],
    ids=["matrix", "row", "column", "dict", "dicts", "lists", "texts"],
)
def test_a_learner_of_frames_asks_for_a_frame(x):
    learner = Learner("er", seed=0)
    learner.learn(messy(), KINDS)
    for call in (learner.predict, learner.ask, lambda x: learner.learn(x, KINDS)):
        with pytest.raises(InputError, match="pass a frame with the columns size, colour") as told:
            call(x)
        assert "encoder" not in str(told.value)


@pytest.mark.parametrize(
    "x",
    [
        messy(),
        messy()[["colour"]],
        {"size": 1.0, "count": 2.0},
        [{"size": 1.0, "count": 2.0}] * N,
        [[1.0, "red"]] * N,
        np.zeros(2),
    ],
    ids=["frame", "of the same width", "dict", "dicts", "lists", "row"],
)
def test_a_learner_of_arrays_asks_for_an_array(x):
    learner = Learner("er", seed=0)
    learner.learn(np.zeros((N, TableEncoder.infer(messy()[["colour"]]).width)), KINDS)
    for call in (learner.predict, learner.ask, lambda x: learner.learn(x, KINDS)):
        with pytest.raises(InputError, match=r"learned from arrays of shape \(") as told:
            call(x)
        assert "frame" not in str(told.value)


# ---- what a few rows cannot tell ---------------------------------------------------------------


@pytest.mark.filterwarnings("default:the kinds of columns are detected")
def test_kinds_detected_from_a_few_rows_are_warned_of_once():
    frame, one = messy(), learner()
    with pytest.warns(DataWarning, match=r"detected from 5 rows only \(colour category, .*infer"):
        one.learn(frame[:5], KINDS[:5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.learn(frame[5:], KINDS[5:])
        learner().learn(frame[["count", "good"]][:5], KINDS[:5])  # nothing but numbers
        learner().learn(pd.concat([frame, frame]), KINDS * 2)
        said = learner()
        said.table = TableEncoder.infer(frame[:5])
        said.learn(frame[:5], KINDS[:5])


def test_content_of_a_column_that_was_empty_at_first_is_told_once():
    frame, one = messy().assign(late=[None] * 20 + ["words"] * 20), learner()
    one.learn(frame[:20], KINDS[:20])
    with pytest.warns(DataWarning, match="column 'late' was empty .* it now has 'words'") as told:
        one.learn(frame[18:], KINDS[18:])
        one.predict(frame)
        one.predict(frame[:20])
    assert len(told) == 1


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_content_that_comes_late_in_a_file_is_told_once(suffix, tmp_path):
    rows = 1100
    late = ["words" if n > 1050 else None for n in range(rows)]
    frame = pd.DataFrame({"a": range(rows), "late": late, "label": ["x", "y"] * (rows // 2)})
    path = tmp_path / f"t.{suffix}"
    write = {
        "csv": lambda: frame.to_csv(path, index=False),
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        "parquet": lambda: frame.to_parquet(path),
    }
    write[suffix]()
    with pytest.warns(DataWarning, match="column 'late' was empty") as told:
        assert load_dataset(path).x_train.shape[1] == 1
    assert len(told) == 1
