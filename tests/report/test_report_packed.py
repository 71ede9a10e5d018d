"""Packed runs: the same report as from folders, the same folders again, and damaged files."""

import json
from dataclasses import replace

import pytest

from evenstream.errors import DataError
from evenstream.report.experiments import Contents, collect_outcome, find_runs, write_tables
from evenstream.report.packed import PackedRun, read_packed, write_packed
from tests.helpers.table_samples import CIFAR10, config_of, fill, printing, stated, write_run


@pytest.fixture
def study(tmp_path, experiment):
    """Folders of runs, one of them in two places and one without a cell."""
    folder = fill(
        tmp_path / "study", experiment, {"er": [20.1, 21], "er-las": [50, 1 / 3]}, **CIFAR10
    )
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(folder / "more" / "copy", config, 20.1)
    write_run(folder / "more" / "other", replace(config, lr=0.5), resumed=[{"step": 3}])
    (folder / "more" / "other" / "env.json").unlink()
    return folder


def pack(folder, file):
    places = sorted(path.parent for path in folder.rglob("metrics.json"))
    names = [place.relative_to(folder).as_posix() for place in places]
    runs = [PackedRun.of_folder(place, name) for place, name in zip(places, names, strict=True)]
    write_packed(file, reversed(runs))
    return file


def report(place, experiment, out):
    search = find_runs([place])
    outcome = collect_outcome(experiment, search.runs, printing(A_T=[stated(21.5)]))
    unplaced = [run for run in search.runs if run not in outcome.runs]
    write_tables(Contents("Title", "Lead.", [outcome], search, unplaced), out)
    texts = {file.name: file.read_text(encoding="utf-8") for file in out.iterdir()}
    return {name: text.replace(str(place), "PLACE") for name, text in texts.items()}


def test_the_report_from_a_packed_file_is_that_from_the_folders(tmp_path, experiment, study):
    file = pack(study, tmp_path / "study.runs.jsonl")
    folders = report(study, experiment, tmp_path / "a")
    assert "25.2" in folders["own.md"] and "PLACE/more/other" in folders["index.html"]
    assert report(file, experiment, tmp_path / "b") == folders


def test_packed_files_are_found_in_folders_and_count_as_copies(tmp_path, experiment, study):
    pack(study, tmp_path / "study.runs.jsonl")
    search = find_runs([tmp_path, tmp_path / "study.runs.jsonl"])
    assert (len(search.runs), search.copies, search.problems) == (5, 7, [])


def test_unpacked_runs_are_the_files_that_were_packed(tmp_path, experiment, study):
    for file in study.rglob("*.json"):  # as a run writes them
        file.write_text(json.dumps(json.loads(file.read_text()), indent=1))
    for run in read_packed(pack(study, tmp_path / "study.runs.jsonl")):
        run.unpack(tmp_path / "again")
    before, after = (
        {file.relative_to(root): file.read_bytes() for file in root.rglob("*") if file.is_file()}
        for root in (study, tmp_path / "again")
    )
    assert before == after


def line(**parts):
    return json.dumps({"name": "a", "config": {}, "metrics": {}, **parts}).encode()


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"{", b"[]", b"\xff", b"1", b"[" * 100_000, line()[:-9],
        line(name=None), line(name=""), line(name="."), line(name="../out"), line(name="/etc"),
        line(config=[]), line(metrics="x"), line(env=3), line(events=[]), line(name="er-0"),
        line(config={"device": None}), line(config={"a": [{"b": None}]}), line(name="\ud800"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_told_with_its_number_and_costs_no_other(tmp_path, study, bad):
    file = pack(study, tmp_path / "study.runs.jsonl")
    good = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*good[:2], bad, *good[2:]]) + b"\n")
    search = find_runs([file])
    assert len(search.runs) == 5
    (problem,) = search.problems
    assert problem.startswith(f"{file}, line 3: ") and "\n" not in problem
    with pytest.raises(DataError, match="line 3"):
        list(read_packed(file))


def test_a_packed_run_that_cannot_be_shown_is_told(tmp_path, study):
    file = pack(study, tmp_path / "study.runs.jsonl")
    first, *others = read_packed(file)
    changes = [
        {"config": {"title": "a web site"}},
        {"metrics": {**first.metrics, "seed": 7}},
        {"metrics": {**first.metrics, "A_T": None}},
    ]
    runs = [replace(first, name=f"bad-{n}", **change) for n, change in enumerate(changes)]
    write_packed(file, [*others, *runs])
    search = find_runs([file])
    assert len(search.problems) == 3
    assert all(f"{file}/bad-{n}: " in text for n, text in enumerate(search.problems))
