"""The report on the paper: committed runs are found, printed numbers stand beside them."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from evenstream.errors import DataError, UnknownName
from evenstream.paper import experiments
from evenstream.paper.contents import all_notes
from evenstream.paper.report import background, collect
from evenstream.report.experiments import write_tables
from tests.helpers.table_samples import write_run

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENSTREAM_DATA", str(tmp_path / "no-data"))


def cell(name, scale=None, **keys):
    found = [
        cell
        for cell in experiments()[name].cells(scale)
        if all(cell[key] == value for key, value in keys.items())
    ]
    assert len(found) == 1
    return found[0]


def means(name, cell_, scale, metric):
    return [each.mean for each in background(experiments()[name]).stated(cell_, scale)[metric]]


def test_both_of_two_printed_numbers_the_tables_own_first():
    er = {"method": "er", "stream": "c-cifar100", "memory": 2000}
    assert means("class-incremental-forgetting", cell("class-incremental-forgetting", **er),
                 "paper", "F_T") == [23.2, 29.1]  # fmt: skip
    ablated = cell("ablation", method="er-las:tau=0")
    assert means("ablation", ablated, "paper", "F_T") == [29.1, 23.2]


def test_the_number_of_runs_in_print_is_data(monkeypatch):
    er = cell("ablation", method="er-las")
    (found, _) = background(experiments()["ablation"]).stated(er, "paper")["F_T"]
    assert (found.runs, found.std) == (10, 0.4)
    monkeypatch.setitem(all_notes(), "runs", 3)
    (found, _) = background(experiments()["ablation"]).stated(er, "paper")["F_T"]
    assert found.runs == 3
    assert "means and deviations of 3 runs" in collect(["data-sets"], []).lead


def test_an_option_at_its_default_is_the_printed_cell():
    usual = {"method:tau": 1.0, "method:window": 1}
    assert set(means("sensitivity", cell("sensitivity", **usual), "paper", "A_T")) == {27.0}
    other = background(experiments()["sensitivity"])
    assert "A_T" not in other.stated(cell("sensitivity", **(usual | {"method:tau": 2.0})), "paper")


@pytest.mark.parametrize("name", sorted(experiments()))
def test_nothing_is_printed_about_other_cells(name):
    experiment = experiments()[name]
    known = background(experiment)
    own = set(experiment.cells())
    for scale in ("cpu", "smoke"):
        for each in experiment.cells(scale):
            if scale == "smoke" or each not in own:
                assert known.stated(each, scale) == {}


LESS_DATA = {
    "batch-schedules", "batch-sizes", "contrastive", "offline", "sensitivity", "single-samples",
    "training-time",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(experiments()))
def test_less_data_or_epochs_are_not_the_papers(name):
    experiment = experiments()[name]
    known = background(experiment)
    for scale in ("paper", "cpu"):
        for each in experiment.cells(scale):
            for numbers in known.stated(each, scale).values():
                same = scale == "paper" or name not in LESS_DATA
                assert {stated.same_data for stated in numbers} == {same}


def test_there_is_no_verdict_on_other_data(tmp_path):
    found = {}
    for name in ("batch-sizes", "class-incremental"):
        where = cell(name, "cpu", method="er", stream="c-cifar10", memory=1000,
                     **({"batch": 32} if name == "batch-sizes" else {}))  # fmt: skip
        for seed, config in enumerate(experiments()[name].configs(where, "cpu", seeds=2)):
            write_run(tmp_path / "runs" / f"{name}{seed}", config, 90 + seed)
        (outcome,) = collect([name], [tmp_path / "runs"]).with_runs
        (each,) = [each for each in outcome.measured if each.cell == where]
        found[name] = {(comparison.verdict, len(each.values)) for comparison in each.comparisons}
    assert found == {"batch-sizes": {("not compared", 2)}, "class-incremental": {("better", 2)}}


def test_committed_runs_are_found_and_beside_the_paper(tmp_path):
    contents = collect(["rehearsal-free", "replay-gains", "inaturalist-classes"], [RESULTS])
    found = {outcome.experiment.name: outcome for outcome in contents.with_runs}
    assert contents.search.problems == []
    gains = found["replay-gains"]
    er, las = (
        next(each for each in gains.measured if each.scale == "cpu" and each.cell == where)
        for where in (
            cell("replay-gains", "cpu", method=method, memory=500) for method in ("er", "er-las")
        )
    )
    assert [each.mean for each in er.stated] == [12.9]
    assert [each.mean for each in las.stated] == [20.1]
    assert {0, 1, 2} <= set(er.values) & set(las.values)
    (gain,) = [g for g in gains.gains if g.cell == las.cell and g.scale == "cpu"]
    assert [each.mean for each in gain.stated] == [7.2]
    measured = found["rehearsal-free"].measured
    free = {each.cell["method"]: each for each in measured if each.scale == "general"}
    assert free.keys() >= {"lwf", "ewc", "labels-trick", "las"}
    assert len(free["lwf"].values) >= 5
    (described,) = contents.further
    assert "which is missing" in described.text
    text = write_tables(contents, tmp_path / "report").read_text()
    assert "cpu: network slim-resnet18" in text
    assert "Classes in each task of C-iNaturalist" in text


def test_data_sets_are_beside_the_printed_ones(tmp_path, monkeypatch):
    from evenstream.data import Dataset

    def load(name):
        if name != "cifar10":
            raise DataError("not here")
        x = np.zeros((12, 3, 32, 32), np.uint8)
        return Dataset(name, x, np.arange(12) % 10, x, np.arange(12) % 10, list(range(10)))

    monkeypatch.setattr("evenstream.data.load_dataset", load)
    (entry,) = collect(["data-sets"], []).further
    found = {row[0]: row[-1] for row in entry.table.rows}
    assert found["cifar10"] == "train 12, test 12"
    assert found["imagenet"] == "not there"
    out = write_tables(collect(["data-sets"], []), tmp_path / "report").parent
    assert (out / "data-sets.csv").read_text().splitlines()[1].startswith("cifar10,3x32x32,50000,")
    for kind in ("md", "tex"):
        assert "train 12, test 12" in (out / f"data-sets.{kind}").read_text()


def test_names_must_be_known():
    with pytest.raises(UnknownName, match="unknown experiment 'minst'; did you mean mnist"):
        collect(["minst"], [])


def test_without_runs_everything_is_listed(tmp_path):
    contents = collect([], [])
    assert [outcome.experiment.name for outcome in contents.without_runs] == list(experiments())
    assert {entry.name for entry in contents.further} == {
        "data-sets", "inaturalist-classes", "subclasses"
    }  # fmt: skip
    text = write_tables(contents, tmp_path / "report").read_text()
    for name in experiments():
        assert f"evenstream paper run {name}" in text.replace("<wbr>", "")
    assert "1281167" in text


# ---- the summary ---------------------------------------------------------------------------------


def summary_of(folder):
    found = collect([], [folder]).summary
    return {
        row[1].partition(",")[0] or row[0]: dict(zip(found.columns, row, strict=True))
        for row in found.rows
    }


def test_the_summary_counts_what_a_table_prints_and_why_numbers_are_open(tmp_path):
    experiment = experiments()["mnist"]
    accuracies = {"er": [87.0, 87.2], "er-ace": [50, 51], "er-las": [99, 99.1], "mro": [90]}
    accuracies["ss-il"] = [88, 89]  # not judged
    for method, values in accuracies.items():
        runs = experiment.configs(cell("mnist", method=method, memory=500))
        for run, accuracy in zip(runs, values, strict=False):
            write_run(tmp_path / "runs" / f"{method}-{run.seed}", run, accuracy)
    rows = summary_of(tmp_path / "runs")
    mnist = rows["mnist"]
    assert rows["class-incremental"]["experiment"] == "class-incremental"
    counts = ["27", "5", "1", "1", "1"]
    assert list(mnist.values())[:7] == ["Table 9", "mnist, inferred protocol", *counts]
    chosen = "1 not judged (a setting of ours was chosen on it)"
    assert mnist["open, and why"] == f"22 not run; 1 with one seed; {chosen}"
    assert mnist["ours − printed"].startswith("A_T −39.9 to +7.")
    assert rows["all"]["run"] == "5"
    assert [row["paper"] for row in rows.values()][:17] == [f"Table {n}" for n in range(1, 18)]


def test_the_summary_tells_smaller_scales_apart(tmp_path):
    experiment = experiments()["class-incremental"]
    where = cell("class-incremental", "cpu", method="er", stream="c-cifar10", memory=500)
    for run in experiment.configs(where, "cpu", seeds=2):
        write_run(tmp_path / "runs" / str(run.seed), run, 10 + run.seed)
    row = summary_of(tmp_path / "runs")["class-incremental"]
    assert (row["printed"], row["run"], row["▼ worse"]) == ("81", "0", "0")
    assert row["open, and why"] == "81 not run; at scale cpu 1 of 60 cells run: ▼ 1"


def test_the_documented_summary_is_that_of_the_stored_runs(tmp_path):
    if not RESULTS.is_dir():
        pytest.skip("source distributions have no results")
    path = Path(__file__).parents[2] / "tools" / "summarise_results.py"
    tool = importlib.util.module_from_spec(
        spec := importlib.util.spec_from_file_location("x", path)
    )
    spec.loader.exec_module(tool)
    text = (RESULTS.parent / "appendix" / "results.md").read_text(encoding="utf-8")
    assert text.startswith("# Results\n\n") and text.index(tool.BEGIN) < text.index("\n## ")
    assert tool.with_summary(text, RESULTS) == text, "run tools/summarise_results.py"


def test_nothing_is_claimed_from_one_seed():
    """In the table of outcomes, and at least that whoever writes about a single run says so."""
    text = (RESULTS.parent / "appendix" / "results.md").read_text(encoding="utf-8")
    table = text.partition("## In short")[2].partition("\n## ")[0]
    alone = [line for line in table.splitlines() if re.search(r"\b1 seed\b", line)]
    assert len(alone) >= 5
    for line in alone:
        *_, outcome, _ = line.split("|")
        assert re.search("one seed|no verdict", outcome, re.IGNORECASE), line
        assert not re.search("as printed|in line|in front|ahead", outcome, re.IGNORECASE), line
    sections = [part for part in text.split("\n## ") if "one seed" in part.partition("\n")[0]]
    assert len(sections) >= 5
    for section in sections:
        assert re.search("one seed: no verdict", section, re.IGNORECASE), section[:60]
