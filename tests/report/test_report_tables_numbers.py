"""Tables of runs: what the numbers of a cell say, and with what they are compared."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.measures import metric_of
from evenstream.report.experiments import Background
from evenstream.report.experiments.background import distinct
from evenstream.report.experiments.layout import tables
from evenstream.report.experiments.shown_numbers import names_of, numbers
from evenstream.report.experiments.tidy_csv import outcome_csv
from evenstream.report.experiments.verdicts import compare
from evenstream.run.metrics_file import Metrics
from tests.helpers.table_samples import (
    CIFAR10,
    EXPERIMENT,
    config_of,
    details_of,
    fill,
    grids_of,
    make_experiment,
    measured,
    outcome_of,
    printing,
    stated,
    write_run,
)

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
        ([50.0, 50.5], replace(stated(10.0), judged=False), "A_T", "not judged"),
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
    metrics = Metrics({
        "prediction_share": [0.25, 0.75], "accuracy_matrix": [[90, None], [40, 80]],
        "average_accuracy": [90, 60], "A_T": 60,
    })  # fmt: skip
    assert numbers("prediction_share", metrics) == {"prediction_share_last": 75}
    assert numbers("accuracy_matrix", metrics) == {
        "accuracy_last_task": 80, "accuracy_other_tasks": 40
    }  # fmt: skip
    assert numbers("average_accuracy", metrics) == {"average_accuracy_mean": 75}
    assert numbers("A_T", metrics) == {"A_T": 60}
    for metric in metrics.entries:
        assert numbers(metric, metrics).keys() <= names_of([metric])


@pytest.mark.parametrize("value", [None, "x", [], [[]], [None], float("nan"), True, {}])
@pytest.mark.parametrize(
    "metric", ["A_T", "prediction_share", "accuracy_matrix", "average_accuracy"]
)
def test_numbers_that_are_not_there(metric, value):
    assert numbers(metric, Metrics({metric: value})) == {}


def test_numbers_are_shown_in_the_unit_of_their_metric(tmp_path):
    text = EXPERIMENT.replace('["A_T", "F_T"]', '["BWT", "recency_bias"]')
    experiment = make_experiment(tmp_path / "file", text)
    for seed, value in enumerate((0.1234, 0.1254)):
        config = config_of(experiment, seed, method="er", **CIFAR10)
        write_run(tmp_path / "runs" / str(seed), config, recency_bias=value, BWT=-value)
    printed = printing(recency_bias=[stated(25.0, 1.0, 2)], BWT=[stated(0.1, None)])
    (table,) = details_of(outcome_of(tmp_path / "runs", experiment, printed))
    transfer, bias = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (bias["ours"], transfer["ours"]) == ("12.4 ± 0.1", "−0.1 ± 0.0")
    assert transfer["difference"] == "−0.2"  # nothing to make an interval from
    assert re.fullmatch(r"−12\.6 \[−\d+\.\d, −\d+\.\d\]", bias["difference"])


def test_no_interval_goes_beyond_what_is_possible(tmp_path, experiment):
    runs = fill(tmp_path / "runs", experiment, {"er": [1, 60], "er-las": [99, 70]}, **CIFAR10)
    found = outcome_of(runs, experiment, printing(A_T=[stated(50.0)]))
    for each in found.measured:
        low, high = each.metric.bounds
        assert low <= each.interval.low <= each.interval.high <= high
        assert all(c.interval.low >= -100 and c.interval.high <= 100 for c in each.comparisons)
    ends = {each.cell["method"]: each.interval for each in measured(found).values()}
    assert (ends["er"].low, ends["er"].high, ends["er-las"].high) == (0, 100, 100)
    gain = next(gain.interval for gain in found.gains if gain.metric.name == "A_T")
    assert (gain.low, gain.high) == (-100, 100)


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


def test_cells_are_compared_with_the_baseline_seed_by_seed(tmp_path):
    text = EXPERIMENT.replace("memory = [100]", 'memory = [100]\ndtype = ["float32", "bfloat16"]')
    text = text.replace('rows = ["method"]', 'rows = ["method"]\nbaseline = { dtype = "float32" }')
    experiment = make_experiment(tmp_path / "file", text)
    for dtype, values in (("float32", [20, 22, 24]), ("bfloat16", [21, 25, 26])):
        for seed, value in enumerate(values):
            config = config_of(experiment, seed, method="er", dtype=dtype, **CIFAR10)
            write_run(tmp_path / "runs" / f"{dtype}{seed}", config, value, dtype=dtype)
    outcome = outcome_of(tmp_path / "runs", experiment)
    found = next(each for each in outcome.differences if each.metric.name == "A_T")
    assert (found.cell["dtype"], found.without["dtype"]) == ("bfloat16", "float32")
    assert found.seeds == (0, 1, 2) and found.means == (22, 24)
    assert found.interval.mean == 2 and found.words == "≈ no clear difference"
    (table,) = [table for table in tables(outcome) if table.title == "Compared with dtype float32"]
    assert table.columns[:4] == ("dtype", "metric", "dtype float32", "this")
    assert table.rows[0][:4] == ("bfloat16", "A_T", "22.0", "24.0")
    assert "A_T_minus_float32" in outcome_csv(outcome)


def test_methods_are_compared_with_a_baseline_on_the_same_device_only(tmp_path):
    text = EXPERIMENT.replace('rows = ["method"]', 'rows = ["method"]\nbaseline = {method="er"}')
    experiment = make_experiment(tmp_path / "file", text)
    for method, devices in (("er", ["cpu", "cuda"]), ("er-las", ["cpu", "cpu"])):
        for seed, device in enumerate(devices):
            config = config_of(experiment, seed, method=method, **CIFAR10)
            write_run(tmp_path / "runs" / f"{method}{seed}", config, device=device)
    differences = outcome_of(tmp_path / "runs", experiment).differences
    assert {(each.cell["method"], each.seeds) for each in differences} == {("er-las", (0,))}


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


@pytest.mark.parametrize(
    ("metric", "how"),
    [
        ("train_seconds", {"threads": 2}),
        ("A_AUC", {"eval_images": 20}),
        ("A_AUC", {"eval_every": 7}),
    ],
)
def test_only_numbers_that_were_measured_alike_are_averaged(tmp_path, experiment, metric, how):
    experiment = replace(experiment, metrics=("A_T", metric))
    config = config_of(experiment, method="er", **CIFAR10)
    for seed in range(3):
        different = how if seed == 0 else {}
        numbers = {"A_AUC": 10.0 * seed, "train_seconds": 10.0 * seed}
        seeded = replace(config, seed=seed, **different)
        write_run(tmp_path / "runs" / str(seed), seeded, threads=seeded.threads, **numbers)
    outcome = outcome_of(tmp_path / "runs", experiment)
    assert list(measured(outcome, "A_T")["full", "er", "c-cifar10"].values) == [0, 1, 2]
    assert dict(measured(outcome, metric)["full", "er", "c-cifar10"].values) == {1: 10, 2: 20}


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


def test_what_has_to_be_known_before_comparing_stands_above_the_results(tmp_path, experiment):
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    background = replace(printing(A_T=[stated(21.5)]), above="Mind the step at {}.".format)
    (grid,) = grids_of(outcome_of(runs, experiment, background))
    assert grid.caption.endswith("Mind the step at full.")


def test_costs_stand_in_the_list_and_those_over_the_budget_are_marked(tmp_path):
    experiment = make_experiment(tmp_path / "file", f'budget = "1.1x"\n{EXPERIMENT}')
    for method, cost in (("er", {"relative_cost": 1.0}), ("er-las", {"relative_cost": 2.0})):
        config = config_of(experiment, method=method, **CIFAR10)
        write_run(tmp_path / "runs" / method, config, **cost)
    outcome = outcome_of(tmp_path / "runs", experiment)
    (found,) = details_of(outcome)
    costs = {row[0]: row[found.columns.index("cost")] for row in found.rows}
    assert costs == {"er": "1.00×", "er-las": "2.00× over budget"}
    assert "relative_cost" in outcome_csv(outcome)
