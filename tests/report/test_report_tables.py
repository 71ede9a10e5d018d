"""Tables of runs: which run belongs where, what is said about it, and what is written."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import DataError, EvenstreamError
from evenstream.report.tables import (
    Background,
    Contents,
    Stated,
    collect_outcome,
    find_runs,
    write_tables,
)
from evenstream.report.tables.background import distinct
from evenstream.report.tables.csv_file import outcome_csv
from evenstream.report.tables.folder import MARK, write_folder
from evenstream.report.tables.latex import escape as tex
from evenstream.report.tables.latex import outcome_tex
from evenstream.report.tables.layout import printed_table, tables
from evenstream.report.tables.markdown import escape as markdown
from evenstream.report.tables.markdown import outcome_text
from evenstream.report.tables.metrics import metric_of, names_of, numbers
from evenstream.report.tables.page import page
from evenstream.report.tables.verdicts import compare
from evenstream.report.tables.wording import scale_words
from table_samples import EXPERIMENT, config_of, fill, make_experiment, write_run

CIFAR10 = {"stream": "c-cifar10"}


@pytest.fixture
def experiment(tmp_path):
    return make_experiment(tmp_path / "file")


def stated(mean, std=1.0, decimals=1, source="tab:one", runs=10):
    return Stated(mean, std, runs, decimals, source)


def printing(**numbers):
    """A background that prints the same numbers for every cell but those of `smoke`."""
    return Background(
        lambda cell, scale: {} if scale == "smoke" else numbers, "the paper", ("A note.",), "do it"
    )


def outcome_of(folder, experiment, background=None):
    return collect_outcome(experiment, find_runs([folder]).runs, background)


def measured(outcome, metric="A_T"):
    return {
        (each.scale, each.cell["method"], each.cell["stream"]): each
        for each in outcome.measured
        if each.metric.name == metric
    }


# ---- finding runs --------------------------------------------------------------------------------


def test_runs_are_found_wherever_they_are_and_counted_once(tmp_path, experiment):
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(tmp_path / "runs" / "a" / "b" / "seed-0", config)
    write_run(tmp_path / "runs" / "copy", replace(config, checkpoint_every=7))
    write_run(tmp_path / "more" / "x", replace(config, seed=3))
    write_run(tmp_path / "runs" / "checkpoint" / "inside", replace(config, seed=4))
    search = find_runs([tmp_path / "runs", tmp_path / "more", tmp_path / "more"])
    assert [run.config.seed for run in search.runs] == [0, 3]
    assert (search.copies, search.problems) == (1, [])


def test_a_copy_with_another_result_is_told(tmp_path, experiment):
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(tmp_path / "runs" / "a", config, 50)
    write_run(tmp_path / "runs" / "b", config, 51)
    search = find_runs([tmp_path / "runs"])
    assert [run.run.metrics["A_T"] for run in search.runs] == [50]
    (problem,) = search.problems
    assert "another result (A_T 51.00, not 50.00)" in problem


def test_what_is_no_run_is_told_and_not_fatal(tmp_path, experiment):
    root = tmp_path / "runs"
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(root / "good", config)
    write_run(root / "half", replace(config, seed=1), status="running")
    (root / "begun").mkdir()
    replace(config, seed=2).write(root / "begun")
    (root / "foreign").mkdir()
    (root / "foreign" / "config.toml").write_text("title = 'a web site'")
    (root / "broken").mkdir()
    (root / "broken" / "config.toml").write_text("[[[")
    (root / "metrics").mkdir()
    (root / "metrics" / "metrics.json").write_text("{}")
    write_run(root / "cut", replace(config, seed=5))
    (root / "cut" / "metrics.json").write_text('{"format": 1, "stat')
    write_run(root / "mixed", replace(config, seed=6), seed=7)
    write_run(root / "empty", replace(config, seed=8), A_T=None)
    search = find_runs([root])
    assert [run.run.directory.name for run in search.runs] == ["good"]
    assert search.unfinished == 2
    said = {line.partition(":")[0].rpartition("/")[2]: line for line in search.problems}
    assert said.keys() == {"foreign", "broken", "metrics", "cut", "mixed", "empty"}
    assert all("\n" not in line for line in search.problems)
    assert "is not of the run in" in said["mixed"]


def test_folders_must_be_there(tmp_path):
    with pytest.raises(DataError, match="nowhere is not a folder"):
        find_runs([tmp_path / "nowhere"])


def test_old_runs_lack_settings_that_came_later(tmp_path, experiment):
    config = config_of(experiment, method="er", **CIFAR10)
    folder = write_run(tmp_path / "runs" / "old", config)
    text = (folder / "config.toml").read_text()
    later = ("epochs", "batch_schedule", "eval_every", "eval_images", "eval_future", "corrupt")
    kept = [line for line in text.splitlines() if line.split(" ")[0] not in later]
    assert len(kept) < len(text.splitlines())
    (folder / "config.toml").write_text("\n".join(kept))
    assert len(outcome_of(tmp_path / "runs", experiment).runs) == 1


# ---- cells ---------------------------------------------------------------------------------------


def test_a_run_belongs_to_the_cells_whose_settings_it_has(tmp_path, experiment):
    runs = tmp_path / "runs"
    write_run(runs / "1", config_of(experiment, 0, method="er", **CIFAR10), 10)
    write_run(runs / "2", config_of(experiment, 7, method="er", **CIFAR10), 20)  # a seed beyond
    write_run(runs / "3", config_of(experiment, 0, "cpu", method="er"), 30)
    write_run(runs / "4", config_of(experiment, 0, "smoke", method="er-las"), 40)
    other = replace(config_of(experiment, method="er", **CIFAR10), lr=0.5)
    write_run(runs / "5", other, 50)
    found = outcome_of(runs, experiment)
    assert list(found.cells) == ["full", "cpu", "smoke"]
    assert {place: dict(each.values) for place, each in measured(found).items()} == {
        ("full", "er", "c-cifar10"): {0: 10, 7: 20},
        ("cpu", "er", "c-cifar10"): {0: 30},
        ("smoke", "er-las", "c-digits"): {0: 40},
    }
    assert len(found.runs) == 4


def test_how_a_run_was_written_does_not_matter(tmp_path, experiment):
    config = config_of(experiment, method="er-las", **CIFAR10)
    other = replace(config, method="er-las:window=1,tau=1.0", stream="c-cifar10:fraction=1", seed=1)
    write_run(tmp_path / "runs" / "a", config)
    write_run(tmp_path / "runs" / "b", other)
    (each,) = measured(outcome_of(tmp_path / "runs", experiment)).values()
    assert list(each.values) == [0, 1]


def test_precision_and_evaluations_are_how_and_not_what(tmp_path, experiment):
    runs = tmp_path / "runs"
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(runs / "a", replace(config, dtype="float32", threads=2, eval_every=5), 10)
    write_run(runs / "b", replace(config, seed=1, dtype="bfloat16"), 20)
    write_run(runs / "c", replace(config, seed=1), 30)  # exactly the cell's: it counts
    (each,) = measured(outcome_of(runs, experiment)).values()
    assert dict(each.values) == {0: 10, 1: 30}


def test_a_cell_that_says_how_takes_no_other(tmp_path):
    text = EXPERIMENT.replace("memory = [100]", 'memory = [100]\ndtype = ["auto", "float32"]')
    experiment = make_experiment(tmp_path / "file", text)
    for dtype in ("float32", "bfloat16"):
        config = config_of(experiment, method="er", dtype="auto", **CIFAR10)
        write_run(tmp_path / "runs" / dtype, replace(config, dtype=dtype))
    found = outcome_of(tmp_path / "runs", experiment).cells["full"]
    kinds = {cell["dtype"]: [run.config.dtype for run in seeds.values()]
             for cell, seeds in found.items()}  # fmt: skip
    assert kinds == {"auto": ["bfloat16"], "float32": ["float32"]}


def test_a_cell_that_says_one_thing_about_how_leaves_the_others_open(tmp_path):
    settings = 'network = "resnet18"\neval_every = 5\neval_images = 0'
    text = EXPERIMENT.replace('network = "resnet18"', settings)
    experiment = make_experiment(tmp_path / "file", text)
    config = config_of(experiment, method="er", **CIFAR10)
    differently = [{"dtype": "float32"}, {"threads": 2}, {"device": "cuda"}, {"eval_every": 7}]
    for seed, how in enumerate(differently):
        write_run(tmp_path / "runs" / str(seed), replace(config, seed=seed, **how), 10 * seed)
    (each,) = measured(outcome_of(tmp_path / "runs", experiment)).values()
    assert dict(each.values) == {0: 0, 1: 10, 2: 20}  # not the one with another rhythm


def test_of_two_cells_the_one_that_says_more_about_how_gets_a_run(tmp_path):
    text = EXPERIMENT.replace("memory = [100]", "memory = [100]\neval_every = [0, 5]")
    experiment = make_experiment(tmp_path / "file", text)
    config = config_of(experiment, method="er", eval_every=5, **CIFAR10)
    write_run(tmp_path / "runs" / "a", replace(config, dtype="float32"))
    write_run(tmp_path / "runs" / "b", replace(config, dtype="float32", eval_every=7))
    found = outcome_of(tmp_path / "runs", experiment).cells["full"]
    assert {cell["eval_every"]: [run.config.eval_every for run in seeds.values()]
            for cell, seeds in found.items()} == {0: [7], 5: [5]}  # fmt: skip


def test_a_scale_that_changes_nothing_is_the_experiments_own(tmp_path):
    text = EXPERIMENT.replace('settings = { network = "slim-resnet18" }\n', "")
    experiment = make_experiment(tmp_path / "file", text)
    fill(tmp_path / "runs", experiment, {"er": [10, 20]}, **CIFAR10)
    assert list(outcome_of(tmp_path / "runs", experiment).cells) == ["full"]


# ---- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "printed", "metric", "verdict"),
    [
        ([50.0, 50.5, 49.5], stated(40.0), "A_T", "better"),
        ([50.0, 50.5, 49.5], stated(60.0), "A_T", "worse"),
        ([50.0, 50.5, 49.5], stated(40.0), "F_T", "worse"),
        ([50.0, 50.5, 49.5], stated(60.0), "F_T", "better"),
        ([50.0, 50.5, 49.5], stated(40.0), "prediction_share_last", "differs"),
        ([50.0, 50.5, 49.5], stated(50.2), "A_T", "no clear difference"),
        ([30.0, 70.0], stated(40.0), "A_T", "no clear difference"),
        ([50.0], stated(10.0), "A_T", "one seed"),
        ([50.0, 50.5], stated(10.0, None), "A_T", "not compared"),
        ([50.0, 50.5], stated(10.0), "train_seconds", "not compared"),
        ([50.0, 50.5], replace(stated(10.0), same_data=False), "A_T", "not compared"),
    ],
)
def test_verdicts(values, printed, metric, verdict):
    assert compare(values, printed, metric_of(metric)).verdict == verdict


def test_equal_numbers_within_the_rounding_of_the_print_are_no_difference():
    same = compare([19.84, 19.84], stated(19.8, 0.0), metric_of("A_T"))
    assert same.verdict == "no clear difference"
    assert compare([19.86, 19.86], stated(19.8, 0.0), metric_of("A_T")).verdict == "better"


@given(
    values=st.lists(st.floats(0, 100), min_size=2, max_size=6),
    mean=st.floats(0, 100),
    std=st.floats(0, 20),
)
def test_a_verdict_says_what_its_interval_says(values, mean, std):
    one = compare(values, stated(mean, std), metric_of("A_T"))
    other = compare(values, stated(mean, std), metric_of("F_T"))
    assert one.interval.low <= one.difference <= one.interval.high
    assert (one.verdict == "no clear difference") == (one.interval.low <= 0 <= one.interval.high)
    opposite = {"better": "worse", "worse": "better"}
    assert other.verdict == opposite.get(one.verdict, one.verdict)


def test_numbers_in_print_that_agree_are_one():
    same = distinct([stated(4.7, 0.0, 1, "a"), stated(4.66, 0.01, 2, "b"), stated(9.3, 1, 1, "c")])
    assert [(each.mean, each.source) for each in same] == [(4.66, "b, a"), (9.3, "c")]
    both = distinct([stated(9.3, 0.7, source="a"), stated(10.7, 0.4, source="b")])
    assert [each.mean for each in both] == [9.3, 10.7]
    assert len(distinct([stated(9.3, 0.7, source="a"), stated(9.3, 0.4, source="b")])) == 2


# ---- numbers -------------------------------------------------------------------------------------


def test_numbers_out_of_lists():
    metrics = {
        "prediction_share": [0.25, 0.75], "accuracy_matrix": [[90, None], [40, 80]],
        "average_accuracy": [90, 60], "A_T": 60,
    }  # fmt: skip
    assert numbers("prediction_share", metrics) == {"prediction_share_last": 75}
    assert numbers("accuracy_matrix", metrics) == {
        "accuracy_last_task": 80, "accuracy_other_tasks": 40
    }  # fmt: skip
    assert numbers("average_accuracy", metrics) == {"average_accuracy_mean": 75}
    assert numbers("A_T", metrics) == {"A_T": 60}
    for metric in metrics:
        assert numbers(metric, metrics).keys() <= names_of([metric])


@pytest.mark.parametrize("value", [None, "x", [], [[]], [None], float("nan"), True, {}])
@pytest.mark.parametrize(
    "metric", ["A_T", "prediction_share", "accuracy_matrix", "average_accuracy"]
)
def test_numbers_that_are_not_there(metric, value):
    assert numbers(metric, {metric: value}) == {}


def test_numbers_have_as_many_digits_as_their_metric(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["BWT", "recency_bias"]')
    experiment = make_experiment(tmp_path / "file", text)
    for seed, value in enumerate((0.1234, 0.1254)):
        config = config_of(experiment, seed, method="er", **CIFAR10)
        write_run(tmp_path / "runs" / str(seed), config, recency_bias=value, BWT=-value)
    printed = printing(recency_bias=[stated(0.25, 0.01, 2)], BWT=[stated(0.1, None)])
    (table,) = details_of(outcome_of(tmp_path / "runs", experiment, printed))
    transfer, bias = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (bias["ours"], transfer["ours"]) == ("0.124 ± 0.001", "−0.1 ± 0.0")
    assert transfer["difference"] == "−0.2"  # nothing to make an interval from
    assert re.fullmatch(r"−0\.126 \[−0\.\d{3}, −0\.\d{3}\]", bias["difference"])


def test_gains_are_paired_by_seed(tmp_path, experiment):
    runs = fill(
        tmp_path / "runs", experiment, {"er": [10, 30, 50], "er-las": [15, 36, 54]}, **CIFAR10
    )
    write_run(runs / "alone", config_of(experiment, 9, method="er-las", **CIFAR10), 75)
    found = outcome_of(runs, experiment, printing(A_T_gain=[stated(7.2, None)]))
    (accuracy, forgetting) = found.gains
    assert (accuracy.metric.name, forgetting.metric.name) == ("A_T", "F_T")
    assert accuracy.seeds == (0, 1, 2)
    assert accuracy.means == pytest.approx((30, 35))
    assert accuracy.interval.mean == pytest.approx(5)
    assert accuracy.interval.low == pytest.approx(5 - 4.302653 / 3**0.5, abs=1e-4)
    assert accuracy.words == forgetting.words == "▲ LAS better"
    assert [each.mean for each in accuracy.stated] == [7.2]
    assert forgetting.stated == ()


def test_gains_are_paired_in_the_same_precision_and_device_only(tmp_path, experiment):
    computed = [{}, {"dtype": "bfloat16"}, {"device": "cuda"}]
    for seed, how in enumerate(computed):
        er, las = (config_of(experiment, seed, method=m, **CIFAR10) for m in ("er", "er-las"))
        write_run(tmp_path / "runs" / f"er{seed}", replace(er, **how), 20, **how)
        write_run(tmp_path / "runs" / f"las{seed}", las, 30)
    for gain in outcome_of(tmp_path / "runs", experiment).gains:
        assert (gain.seeds, len(gain.runs)) == ((0,), 2)


def test_where_no_gain_is_printed_it_is_the_difference_of_one_tables_means(tmp_path, experiment):
    fill(tmp_path / "runs", experiment, {"er": [10], "er-las": [15]}, **CIFAR10)

    def printed(cell, scale):
        las = cell["method"] == "er-las"
        return {"A_T": [stated(27.0 if las else 19.8, source="a"),
                        stated(26.0 if las else 19.4, source="b")]}  # fmt: skip

    found = outcome_of(tmp_path / "runs", experiment, Background(printed, "the paper"))
    gain = next(each for each in found.gains if each.metric.name == "A_T")
    assert [(each.mean, each.source) for each in gain.stated] == [(7.2, "a"), (6.6, "b")]
    assert gain.words == "· one seed"


def test_times_are_compared_on_the_same_machine_only(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["train_seconds"]')
    experiment = make_experiment(tmp_path / "file", text)
    runs = tmp_path / "runs"
    for seed, (er, las) in enumerate([(90.0, 100.0), (30.0, 60.0)]):
        for method, seconds in (("er", er), ("er-las", las)):
            config = config_of(experiment, seed, method=method, **CIFAR10)
            folder = write_run(runs / f"{method}{seed}", config, train_seconds=seconds)
            if (method, seed) == ("er", 1):
                (folder / "env.json").write_text(json.dumps({"cpu": "A faster one"}))
    found = measured(outcome_of(runs, experiment), "train_seconds_ratio")
    assert dict(found["full", "er", "c-cifar10"].values) == {0: pytest.approx(0.9)}
    assert dict(found["full", "er-las", "c-cifar10"].values) == {0: 1, 1: 1}


def test_times_are_compared_with_as_many_threads_only(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["train_seconds"]')
    experiment = make_experiment(tmp_path / "file", text)
    for seed, threads in enumerate((1, 2)):
        er, las = (config_of(experiment, seed, method=m, **CIFAR10) for m in ("er", "er-las"))
        write_run(tmp_path / "runs" / f"er{seed}", replace(er, threads=threads), threads=threads)
        write_run(tmp_path / "runs" / f"las{seed}", las, train_seconds=200.0)
    outcome = outcome_of(tmp_path / "runs", experiment)
    found = measured(outcome, "train_seconds_ratio")
    assert dict(found["full", "er", "c-cifar10"].values) == {0: 0.5}
    machines = {run.config.threads: run.machine for run in outcome.runs}
    assert machines[2] == "A Processor, 2 cores, 2 threads, float32"


def test_a_run_that_was_resumed_elsewhere(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["train_seconds"]')
    experiment = make_experiment(tmp_path / "file", text)
    first = {"cpu": "Old", "cores": 2, "commit": "a1b2"}
    sessions = [
        [],
        [{"step": 5}],  # the same again
        [{"step": 5, "commit": "c3d4"}],
        [{"step": 5, "cpu": "New", "cores": 8, "commit": None, "evenstream": "2"}, {"step": 9}],
        "damaged",
        [None, {"step": 1, "cpu": "New"}],
    ]
    for seed, resumed in enumerate(sessions):
        for method in ("er", "er-las"):
            config = config_of(experiment, seed, method=method, **CIFAR10)
            folder = write_run(tmp_path / "runs" / f"{method}{seed}", config)
            (folder / "env.json").write_text(json.dumps({**first, "resumed": resumed}))
    outcome = outcome_of(tmp_path / "runs", experiment)
    runs = {run.config.seed: run for run in outcome.runs}
    old, new = "Old, 2 cores, 1 thread, float32", "New, 8 cores, 1 thread, float32"
    assert [runs[seed].commit for seed in range(5)] == [
        "a1b2", "a1b2", "a1b2 -> c3d4", "a1b2 -> version 2 -> a1b2", "a1b2"
    ]  # fmt: skip
    assert [runs[seed].machine for seed in range(5)] == [
        old, old, old, f"{old} -> {new} -> {old}", old
    ]  # fmt: skip
    ratios = measured(outcome, "train_seconds_ratio")["full", "er", "c-cifar10"]
    assert list(ratios.values) == [0, 1, 2, 4]  # no time of a run that changed its machine


# ---- words and files -----------------------------------------------------------------------------


def test_scales_in_words(experiment):
    outcome = collect_outcome(experiment, [])
    assert scale_words(outcome, "full") == "full: as in the file"
    assert scale_words(outcome, "cpu") == "cpu: network slim-resnet18"
    assert scale_words(outcome, "smoke") == "smoke: network mlp; stream c-digits; memory 50"


def test_scales_in_words_say_which_cells_are_different(tmp_path):
    rules = """
[[scale.cpu.when]]
match = { method = "er" }
set = { lr = 0.1 }
[[scale.cpu.when]]
match = { method = ["er-las"], memory = [100], stream = ["c-cifar10", "c-cifar100"] }
set = { lr = 0.2, batch = 5 }
"""
    outcome = collect_outcome(make_experiment(tmp_path / "file", EXPERIMENT + rules), [])
    cells = "er-las, memory 100, c-cifar10 or c-cifar100"
    assert scale_words(outcome, "cpu") == (
        f"cpu: network slim-resnet18; lr 0.1 for er; lr 0.2 for {cells}; batch 5 for {cells}"
    )


def test_what_a_users_experiment_reproduces(tmp_path):
    text = EXPERIMENT.replace("seeds = 2", 'seeds = 2\nsource = "Table 2"', 1)
    experiment = make_experiment(tmp_path / "file", text)
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    own = page(Contents("T", "L", [outcome_of(runs, experiment)]))
    assert ">Reproduces: Table 2<" in own
    assert "full: as in the file" in own and "full protocol" not in own
    known = page(Contents("T", "L", [outcome_of(runs, experiment, printing(A_T=[stated(1)]))]))
    assert ">In the paper: Table 2<" in known and "full: full protocol" in known


@pytest.fixture
def contents(tmp_path, experiment):
    """Runs at all scales, printed numbers that contradict each other."""
    runs = tmp_path / "runs"
    fill(runs, experiment, {"er": [20, 21, 22], "er-las": [50, 51, 52]}, **CIFAR10)
    for seed in (0, 1):
        write_run(runs / f"cpu{seed}", config_of(experiment, seed, "cpu", method="er"), 30 + seed)
    write_run(runs / "smoke", config_of(experiment, 0, "smoke", method="er"), 70)
    twice = [stated(21.5, source="tab:one"), stated(45.4, source="tab:two")]
    outcome = outcome_of(runs, experiment, printing(A_T=twice, A_T_gain=[stated(9.9, None)]))
    return Contents("Title", "Lead.", [outcome])


def test_every_table_says_its_scale(contents):
    (outcome,) = contents.outcomes
    found = tables(outcome)
    assert [(table.title, table.scale.partition(":")[0]) for table in found] == [
        ("Results", "full"), ("Gain of LAS", "full"), ("Every cell", "full"), ("Results", "cpu"),
        ("Every cell", "cpu"), ("Results", "smoke"), ("Every cell", "smoke"),
    ]  # fmt: skip
    for text in (outcome_text(outcome), outcome_tex(outcome), page(contents)):
        assert text.count("cpu: network slim-resnet18") >= 1
        assert text.count("smoke: network mlp; stream c-digits; memory 50") >= 1


def details_of(outcome):
    """The lists of all cells, one for each scale."""
    return [table for table in tables(outcome) if table.kind == "detail"]


def grids_of(outcome):
    return [table for table in tables(outcome) if table.kind == "grid"]


def test_results_have_the_form_of_the_experiments_table(tmp_path):
    text = EXPERIMENT.replace("memory = [100]", "memory = [100, 200, 300]")
    experiment = make_experiment(tmp_path / "file", text.replace(', "F_T"', ""))
    fill(tmp_path / "runs", experiment, {"er": [20, 21]}, memory=100, **CIFAR10)
    fill(tmp_path / "runs", experiment, {"er-las": [60, 62]}, memory=200, stream="c-cifar100")
    other = config_of(experiment, method="er", memory=200, stream="c-cifar100")
    write_run(tmp_path / "runs" / "one", other, 33)
    (table,) = grids_of(outcome_of(tmp_path / "runs", experiment, printing(A_T=[stated(21.0)])))
    assert table.columns == ("method", "c-cifar10, memory 100", "c-cifar100, memory 200")
    assert table.rows == (
        ("er", "20.5 ± 0.7 / 21.0 ± 1.0 ≈", "33.0 / 21.0 ± 1.0"),
        ("er-las", "– / 21.0 ± 1.0", "61.0 ± 1.4 / 21.0 ± 1.0 ▲"),
    )
    assert table.caption == (
        "Each cell: ours / the paper, where it prints a number. A_T: final average accuracy "
        "(%, higher is better). 1 to 2 seeds each."
    )
    (alone,) = grids_of(outcome_of(tmp_path / "runs", experiment))
    assert alone.rows == (("er", "20.5 ± 0.7", "33.0"), ("er-las", "–", "61.0 ± 1.4"))
    assert "ours" not in alone.caption


def test_several_metrics_stand_beside_each_other(contents):
    (outcome,) = contents.outcomes
    full, cpu, _ = grids_of(outcome)
    assert full.columns == ("method", "A_T", "F_T")
    assert full.rows[0] == ("er", "21.0 ± 1.0 / 21.5 ± 1.0 or 45.4 ± 1.0 ≈▼", "79.0 ± 1.0")
    assert "All cells: c-cifar10, memory 100." in full.caption
    assert cpu.rows[0][1].endswith(" ▲▼")


def test_both_numbers_in_print_are_shown(contents):
    (outcome,) = contents.outcomes
    table = details_of(outcome)[0]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["method"] == "er" and row["metric"] == "A_T" and row["ours"] == "21.0 ± 1.0"
    assert row["the paper"] == "21.5 ± 1.0 (tab:one) or 45.4 ± 1.0 (tab:two)"
    assert row["verdict"] == "≈ no clear difference or ▼ worse"
    assert table.marks[0] == ""  # no colour for what is not agreed on
    forgetting = dict(zip(table.columns, table.rows[1], strict=True))
    assert (forgetting["the paper"], forgetting["verdict"]) == ("–", "– not printed")
    assert "3 seeds each." in table.caption and "Machine: A Processor, 2 cores" in table.caption


def test_verdicts_at_smaller_scales_carry_their_label(contents):
    (outcome,) = contents.outcomes
    _, cpu, smoke = details_of(outcome)
    assert cpu.rows[0][cpu.columns.index("verdict")] == "▲ better or ▼ worse (at cpu)"
    assert not {"verdict", "difference", "the paper"} & set(smoke.columns)
    assert "The paper prints nothing for these cells." in smoke.caption
    assert set(smoke.marks) == {""}


def test_the_csv_is_tidy(contents):
    (outcome,) = contents.outcomes
    lines = list(csv.DictReader(io.StringIO(outcome_csv(outcome))))
    keys = [tuple(line[key] for key in ("method", "stream", "scale", "metric")) for line in lines]
    assert len(set(keys)) == len(keys) == 10
    (er,) = [line for line in lines if line["metric"] == "A_T" and line["method"] == "er"
             and line["scale"] == "full"]  # fmt: skip
    assert (float(er["mean"]), float(er["std"]), er["seeds"]) == (21, 1, "3")
    assert (er["printed_mean"], er["printed_std"]) == ("21.5; 45.4", "1.0; 1.0")
    assert er["verdict"] == "no clear difference; worse"
    assert (er["wall_seconds"], er["commit"]) == ("120.0", "abc1234")
    assert er["machine"] == "A Processor, 2 cores, 1 thread, float32"
    assert len(er["runs"].split()) == 3
    (gain,) = [line for line in lines if line["metric"] == "A_T_gain"]
    assert float(gain["mean"]) == pytest.approx(30)
    assert (gain["printed_mean"], float(gain["difference"])) == ("9.9", pytest.approx(20.1))
    assert {line["scale_in_words"] for line in lines if line["scale"] == "cpu"} == {
        "cpu: network slim-resnet18"
    }


def test_what_is_missing_in_the_csv_keeps_its_place(tmp_path, experiment):
    fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    numbers = {
        "A_T": [stated(1.5, None, source="a"), stated(45.4, 2.0, source="b")],
        "F_T": [stated(1.5, None, source="a"), stated(2.5, None, source="b")],
    }
    found = outcome_csv(outcome_of(tmp_path / "runs", experiment, printing(**numbers)))
    lines = {line["metric"]: line for line in csv.DictReader(io.StringIO(found))}
    one, other = lines["A_T"], lines["F_T"]
    assert (one["printed_mean"], one["printed_std"]) == ("1.5; 45.4", "; 2.0")
    assert one["difference_low"].startswith("; -")
    assert (other["printed_mean"], other["printed_std"]) == ("1.5; 2.5", "")


def balanced(text):
    depth = 0
    for sign in re.sub(r"\\[\\{}]", "", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    return depth == 0


def test_the_latex_is_well_formed(contents):
    (outcome,) = contents.outcomes
    text = outcome_tex(outcome)
    assert text.isascii() and balanced(text)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 4
    assert text.count("$") % 2 == 0
    assert text.count("Welch's t") == 1
    for columns, rows in latex_tables(text):
        assert len(rows) > 1
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}


def latex_tables(text):
    """How many columns each table declares, and its lines."""
    pattern = r"\\begin\{(tabular|longtable)\}\{([^\n]*)\}\n(.*?)\\end\{\1\}"
    for kind, head, body in re.findall(pattern, text, re.S):
        rules = ["toprule", "midrule", "bottomrule"]
        found = re.findall(r"\\(toprule|midrule|bottomrule)", body)
        assert found == (rules if kind == "tabular" else [*rules[:2], *rules])
        plain = re.sub(r">\{.*?\}p\{.*?\}", "l", head)
        assert set(plain) <= {"l", "r"}
        yield len(plain), [line for line in body.splitlines() if line.endswith(r" \\")]


def test_the_latex_fits_a_page(tmp_path):
    text = EXPERIMENT.replace("memory = [100]", "memory = [100, 200, 300]")
    text = text.replace('c-cifar100"]', 'c-cifar100", "c-tinyimagenet"]')
    experiment = make_experiment(tmp_path / "file", text.replace(', "F_T"', ""))
    for number, cell in enumerate(experiment.cells()):
        for config in experiment.configs(cell):
            write_run(tmp_path / "runs" / f"{number}-{config.seed}", config, 20 + config.seed)
    twice = [stated(21.5, source="tab:class cl forget"), stated(45.4, source="tab:ablation")]
    for printed in ([stated(21.0)], twice):
        found = outcome_tex(outcome_of(tmp_path / "runs", experiment, printing(A_T=printed)))
        (grid,) = re.findall(r"\\begin\{table\}.*?\\end\{table\}", found, re.S)
        memories = [rows[0].count("memory") for _, rows in latex_tables(grid)]
        assert memories == ([3, 3, 3] if printed != twice else [2, 2, 2, 2, 1])
        for line in grid.splitlines():
            if line.endswith(r" \\"):
                shown = re.sub(r"\$\\[a-z]+\$", "x", line.removesuffix(r" \\"))
                assert len(shown) <= 95
        shares = re.findall(r"p\{([\d.]+)\\linewidth\}", found)
        assert shares and sum(map(float, shares)) < 1.5  # of the gains and of the list
        assert found.count(r"\endhead") == 2 and "time a run" not in found


def test_quotation_marks_are_of_any_font():
    assert tex('a "b"') == "a ''b''"  # \textquotedbl is an error in the usual encoding


@given(st.text())
def test_any_text_is_safe_in_latex(text):
    found = tex(text)
    assert found.isascii() and balanced(found) and "\n" not in found
    plain = re.sub(r"\\([{}$&#%_]|[a-zA-Z]+(\{\})?)|\$\\[a-z]+\$|\$-\$", "", found)
    assert not set("$&#%_^~{}\\") & set(plain)


@given(st.text())
def test_any_text_stays_in_its_cell_in_markdown(text):
    found = markdown(text)
    assert "\n" not in found
    assert not re.search(r"(?<!\\)(\\\\)*[|<`]", re.sub(r"\\.", "", found))


def test_what_was_not_run_is_shown_as_it_is_printed(contents):
    (outcome,) = contents.outcomes
    table = printed_table(outcome)
    assert table.title == "Printed by the paper, not run yet"
    assert {row[table.columns.index("method")] for row in table.rows} == {"er", "er-las"}
    assert "c-cifar100" in table.caption and "c-cifar10," not in table.caption
    nothing = Contents("T", "L", [collect_outcome(outcome.experiment, [], outcome.background)])
    text = page(nothing)
    assert "Not run yet" in text and "do it" in text and "21.5 ± 1.0 (tab:one)" in text
    assert "A note." in text


# ---- the page ------------------------------------------------------------------------------------


def test_the_page_is_whole_and_loads_nothing(contents):
    text = page(contents)
    assert not re.search(r"<script|@import|url\((?!#)|https?://|src=", text)
    assert "default-src 'none'" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for name in re.findall(r'href="#([^"]+)"', text):
        assert name in ids
    assert "▲ better or ▼ worse: the interval leaves out zero" in text
    assert 'class="scale-label smaller">cpu: network slim-resnet18' in text
    assert text.count('<table class="tables grid">') == 3  # at once; the lists after a click
    assert text.count('<table class="tables detail">') == text.count("<details>") - 1 == 3
    assert '<th scope="row" class="left">er-las</th>' in text


def test_users_texts_are_escaped(tmp_path):
    text = EXPERIMENT.replace("An experiment", "<script>alert(1)</script> & | $x$ _y_")
    experiment = make_experiment(tmp_path / "file", text)
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    for folder in runs.iterdir():
        (folder / "env.json").write_text(json.dumps({"cpu": "<b>fast</b>", "commit": "</table>"}))
    evil = tmp_path / "runs" / "<i>odd"
    evil.mkdir()
    (evil / "metrics.json").write_text("{}")
    search = find_runs([runs])
    outcome = collect_outcome(experiment, search.runs, printing(A_T=[stated(1, source="<u>")]))
    out = write_tables(Contents("<h1>", "<p>", [outcome], search), tmp_path / "report")
    html = out.read_text()
    for bad in ("<script", "<b>", "<u>", "<i>", "</table>,", "<h1><h1"):
        assert bad not in html
    assert "&lt;script&gt;alert(1)" in html and "&lt;i&gt;odd" in html
    latex = (tmp_path / "report" / "own.tex").read_text()
    assert r"\textless{}script\textgreater{}" in latex and r"\$x\$ \_y\_" in latex
    assert r"\<script\>" in (tmp_path / "report" / "own.md").read_text()


SENSITIVITY = """
name = "own"
title = "An experiment"
seeds = 1
metrics = ["A_T", "F_T", "train_seconds", "prediction_share", "accuracy_matrix"]
rows = ["method:tau"]
[settings]
network = "mlp"
[grid]
method = ["er-las"]
stream = ["c-digits"]
"method:tau" = [0.5, 1.0]
"method:window" = [1, 5]
"""


def test_figures_follow_from_what_is_reported(tmp_path):
    experiment = make_experiment(tmp_path / "file", SENSITIVITY)
    runs = tmp_path / "runs"
    for number, cell in enumerate(experiment.cells()):
        write_run(runs / str(number), experiment.configs(cell)[0], 40 + number)
    text = page(Contents("T", "L", [outcome_of(runs, experiment)]))
    titles = re.findall(r'<h3 id="figure-[^"]+">([^<]+)', text)
    assert titles[0] == "Sensitivity"
    assert "best at tau 1.0, window l 5" in text
    assert any(title.startswith("Accuracy against training time") for title in titles)
    assert any(title.startswith("Where predictions go") for title in titles)
    assert any(title.startswith("Accuracy on each task") for title in titles)
    assert text.count("At scale full: as in the file.") == len(titles)


def test_methods_with_other_tasks_have_a_figure_of_their_own(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["prediction_share", "accuracy_matrix"]')
    text += '[[when]]\nmatch = { method = "er-las" }\nset = { tasks = 2 }\n'
    experiment = make_experiment(tmp_path / "file", text)
    two = {"tasks": [["a"], ["b"]], "accuracy_matrix": [[90, None], [80, 90]],
           "prediction_share": [0.4, 0.6], "true_share": [0.5, 0.5]}  # fmt: skip
    for method, further in (("er", {}), ("er-las", two)):
        config = config_of(experiment, method=method, **CIFAR10)
        write_run(tmp_path / "runs" / method, config, **further)
    html = page(Contents("T", "L", [outcome_of(tmp_path / "runs", experiment)]))
    assert re.findall(r'<h3 id="figure-[^"]+">([^<]+)', html) == [
        f"{title}: c-cifar10, memory 100, {tasks} tasks"
        for title in ("Where predictions go", "Accuracy on each task")
        for tasks in (3, 2)
    ]


def test_no_line_joins_different_streams(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["A_T", "train_seconds"]')
    experiment = make_experiment(tmp_path / "file", text.replace("[100]", "[100, 200]"))
    for number, cell in enumerate(experiment.cells()):
        config = experiment.configs(cell)[0]
        write_run(tmp_path / "runs" / str(number), config, 10 + number, train_seconds=number + 1.0)
    html = page(Contents("T", "L", [outcome_of(tmp_path / "runs", experiment)]))
    assert re.findall(r'<h3 id="figure-[^"]+">([^<]+)', html) == [
        "Accuracy against training time: c-cifar10", "Accuracy against training time: c-cifar100"
    ]  # fmt: skip
    labels = dict.fromkeys(re.findall(r'aria-label="(Points: [^"]*)"', html))
    assert [label.count("seconds") for label in labels] == [4, 4]  # two methods, two memories
    assert html.count("At each point: memory.") == 2


def test_bars_of_times(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["train_seconds"]')
    experiment = make_experiment(tmp_path / "file", text)
    runs = fill(tmp_path / "runs", experiment, {"er": [1], "er-las": [2]}, **CIFAR10)
    background = printing(
        train_seconds=[stated(77.4, None)], train_seconds_ratio=[stated(0.94, None, 2)]
    )
    html = page(Contents("T", "L", [outcome_of(runs, experiment, background)]))
    assert "Training time: c-cifar10, memory 100<" in html
    assert "100.0 s, 1.00 × (the paper: 0.94 ×)" in html


# ---- the folder ----------------------------------------------------------------------------------


def test_a_report_replaces_the_one_before_and_nothing_else(tmp_path, contents):
    out = tmp_path / "report"
    assert write_tables(contents, out) == out / "index.html"
    assert {file.name for file in out.iterdir()} == {
        "index.html", "index.md", "own.md", "own.csv", "own.tex", MARK
    }  # fmt: skip
    before = (out / "index.html").read_bytes()
    write_tables(contents, out)
    assert (out / "index.html").read_bytes() == before  # the same runs, the same bytes
    (out / "mine.txt").write_text("keep")
    (outcome,) = contents.outcomes
    nothing = collect_outcome(outcome.experiment, [], outcome.background)
    write_tables(Contents("T", "L", [nothing]), out)
    assert {file.name for file in out.iterdir()} == {"index.html", "index.md", "mine.txt", MARK}


def test_foreign_folders_are_left_alone(tmp_path):
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "index.html").write_text("mine")
    for mark in (None, "{}", "[1]", '{"made by": "another tool", "files": ["index.html"]}', "{"):
        if mark is not None:
            (out / MARK).write_text(mark)
        with pytest.raises(EvenstreamError, match="holds no report of this command"):
            write_folder(out, {"index.html": "ours"})
        assert (out / "index.html").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(EvenstreamError, match="is a file"):
        write_folder(tmp_path / "file", {"index.html": "ours"})


@pytest.mark.parametrize("name", ["../a.md", "/tmp/a.md", "a/b.md", "..", "a", "A.md", "a.md\n"])
def test_no_file_lies_outside_the_folder(tmp_path, name):
    with pytest.raises(EvenstreamError, match="no name for a file"):
        write_folder(tmp_path / "report", {name: "text"})
    assert not (tmp_path / "report").exists()


def test_a_report_that_was_tampered_with_removes_nothing_outside(tmp_path):
    out = tmp_path / "report"
    write_folder(out, {"a.md": "text"})
    outside = tmp_path / "precious.md"
    outside.write_text("keep")
    mark = json.loads((out / MARK).read_text())
    (out / MARK).write_text(json.dumps({**mark, "files": ["../precious.md", str(outside), "a.md"]}))
    write_folder(out, {"b.md": "text"})
    assert outside.read_text() == "keep"
    assert not (out / "a.md").exists()
