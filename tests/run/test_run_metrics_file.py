import pytest

from evenstream.run.metrics_file import Metrics, Online

WHOLE = {
    "format": 1, "status": "finished", "method": "er", "stream": "c-digits", "seed": 3,
    "tasks": [["0", 1], ["2"]], "accuracy_matrix": [[90, None], [70, 80]], "A_T": 75.0, "F_T": 20.0,
    "steps": 10, "train_seconds": 1, "eval_seconds": 0.5, "samples_per_second": None,
    "dtype": "float32", "online": {"every": 5, "accuracy": [1.0, None], "statement": "on all"},
}  # fmt: skip


def test_entries_have_their_types():
    found = Metrics(WHOLE)
    assert (found.method, found.stream, found.seed, found.finished) == ("er", "c-digits", 3, True)
    assert found.tasks == [["0", "1"], ["2"]] and found.tasks_done == 2
    assert found.online == Online(5, [1.0, None], "on all")
    assert (found.number("train_seconds"), found.whole("steps"), found.seconds) == (1.0, 10, 1.5)
    assert found["dtype"] == found.text("dtype") == "float32"
    assert found.complete and found.problem is None


def test_what_is_missing_or_damaged_is_none_or_empty():
    assert Metrics().seconds is None and not Metrics().finished and Metrics().tasks_done == 0
    for value in (None, "x", True, float("nan"), {}, [{}]):
        found = Metrics(dict.fromkeys([*WHOLE, "classes", "skipped_train"], value))
        assert found.number("A_T") is None and found.whole("steps") is None
        assert found.seed is None and found.online == Online()
        assert found.skipped("train") == (0, []) and found.tasks_done == 0
        assert isinstance(found.method, str) and isinstance(found.classes, list)
        assert not found.complete


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("format", 2, "format 2; this version reads 1"),
        ("stream", 5, "no usable stream"),
        ("seed", "0", "no usable seed"),
        ("A_T", None, "no usable A_T"),
        ("A_T", float("inf"), "A_T is not a finite number"),
        ("accuracy_matrix", [[1, 2], "x"], "no usable accuracy_matrix"),
        ("accuracy_matrix", [[90]], "does not cover all tasks"),
    ],
)
def test_a_problem_names_the_entry(entry, value, words):
    assert words in str(Metrics({**WHOLE, entry: value}).problem)
    assert (Metrics({**WHOLE, entry: value, "status": "unfinished"}).problem is None) == (
        entry != "format"
    )
