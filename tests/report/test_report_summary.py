import io
import json

import pytest
from rich.console import Console

from evenstream.errors import InputError
from evenstream.report.comparison import summary as module
from evenstream.report.comparison.summary import pairs
from evenstream.report.comparison.tables import render_table
from evenstream.run.metrics_file import Metrics
from evenstream.statistics import Interval


def run(method, seed, accuracy, forgetting=10.0, seconds=3.0, status="finished"):
    return {
        "method": method,
        "seed": seed,
        "status": status,
        "A_T": accuracy,
        "F_T": forgetting,
        "train_seconds": seconds,
    }


RUNS = [
    run("er", 0, 60.0, 30.0),
    run("er", 1, 62.0, 32.0),
    run("er", 2, 64.0, 34.0),
    run("er-las", 0, 71.0, 19.0),
    run("er-las", 1, 72.0, 20.0),
    run("er-las", 2, 76.0, 24.0),
]


def summarise(runs, budget=None):
    return module.summarise(map(Metrics, runs), budget)


def written(runs):
    return {method: found.entries() for method, found in summarise(runs).items()}


def text(summary, width=80):
    console = Console(file=io.StringIO(), width=width)
    for table in render_table(summary):
        console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_no_difference_is_more_than_possible():
    far = summarise([run("er", 0, 1), run("er", 1, 60), run("er-las", 0, 99), run("er-las", 1, 70)])
    found = far["er-las"].minus["er"]["A_T"]
    assert (found.mean, found.low, found.high) == (54, -100, 100)


def test_means_deviations_and_values():
    summary = written(RUNS)
    er = summary["er"]
    assert list(er) == ["A_T", "F_T", "seeds", "train_seconds", "minus"]
    assert er["seeds"] == [0, 1, 2]
    assert er["A_T"] == {"mean": 62.0, "std": 2.0, "values": [60.0, 62.0, 64.0]}
    assert er["F_T"]["mean"] == 32.0
    assert er["train_seconds"] == {"mean": 3.0, "std": 0.0, "values": [3.0, 3.0, 3.0]}
    assert list(summary) == ["er", "er-las"], "nothing but methods at the top"


def test_paired_differences():
    summary = written(RUNS)
    assert summary["er"]["minus"] == {} and list(summary["er-las"]["minus"]) == ["er"]
    pair = summary["er-las"]["minus"]["er"]
    assert list(pair) == ["seeds", "A_T", "F_T"] and pair["seeds"] == [0, 1, 2]
    assert set(pair["A_T"]) == {"mean", "low", "high", "n", "std"}
    # Differences 11, 10, 12: mean 11, deviation 1, t(0.975, 2) = 4.302653.
    assert pair["A_T"]["mean"] == pytest.approx(11)
    assert pair["A_T"]["low"] == pytest.approx(11 - 2.484138, abs=1e-5)
    assert pair["A_T"]["high"] == pytest.approx(11 + 2.484138, abs=1e-5)
    assert pair["F_T"]["mean"] == pytest.approx(-11)


def test_further_measures_are_there_if_a_run_has_them():
    runs = [{**a, "A_AUC": a["A_T"] + 5, "ECE": 10.0, "BWT": None} for a in RUNS[:4]] + RUNS[4:]
    summary = written(runs)
    assert list(summary["er"]) == ["A_T", "F_T", "A_AUC", "ECE", "seeds", "train_seconds", "minus"]
    assert summary["er"]["A_AUC"] == {"mean": 67.0, "std": 2.0, "values": [65.0, 67.0, 69.0]}
    assert summary["er-las"]["A_AUC"]["values"] == [76.0, None, None]
    pair = summary["er-las"]["minus"]["er"]
    assert list(pair) == ["seeds", "A_T", "F_T", "A_AUC"]
    assert (pair["A_AUC"]["mean"], pair["A_AUC"]["n"]) == (11.0, 1)
    shown = text(summarise(runs))
    assert "67.0 ± 2.0" in shown and "A_AUC %" in shown
    assert "er-las" in shown and "…" not in shown  # it fits on 80 columns
    assert "A_AUC" not in text(summarise(RUNS))


def test_only_shared_seeds_are_paired():
    runs = [run("a", 0, 50), run("a", 1, 60), run("b", 1, 65), run("b", 2, 99), run("c", 7, 1)]
    summary = summarise(runs)
    ((method, baseline, pair),) = pairs(summary)
    assert (method, baseline, pair.seeds) == ("b", "a", (1,))
    assert summary["c"].minus == {}
    assert pair["A_T"] == Interval(mean=5.0, low=None, high=None, n=1, std=None)


def test_order_of_seeds_does_not_matter():
    forward, backward = written(RUNS), written([*RUNS[:3], *RUNS[:2:-1]])
    expected, found = (s["er-las"]["minus"]["er"]["A_T"] for s in (forward, backward))
    assert found == pytest.approx(expected)


def test_every_later_method_is_compared_with_every_earlier_one():
    runs = [run(name, 0, 50) for name in "abcd"]
    found = [(method, baseline) for method, baseline, _ in pairs(summarise(runs))]
    assert found == [("b", "a"), ("c", "a"), ("c", "b"), ("d", "a"), ("d", "b"), ("d", "c")]


def test_unfinished_runs_do_not_count():
    runs = [*RUNS, run("er", 3, 1.0, status="running"), run("new", 0, None, status="failed")]
    assert written(runs) == written(RUNS)


def test_the_last_row_is_about_the_last_two_methods():
    runs = [run(name, 0, 50) for name in ("fine-tune", "er", "er-las")]
    shown = text(summarise(runs))
    places = [shown.index("minus fine-tune"), shown.index("minus er")]
    assert places == sorted(places) and shown.count("minus er") == 1


def test_undefined_forgetting():
    runs = [run("a", 0, 90, None), run("b", 0, 80, None)]
    summary = written(runs)
    assert summary["a"]["F_T"] == {"mean": None, "std": None, "values": [None]}
    assert summary["b"]["minus"]["a"]["F_T"] is None
    assert "–" in text(summarise(runs))


def test_a_seed_cannot_occur_twice():
    with pytest.raises(InputError, match="seed 0 of 'a'"):
        summarise([run("a", 0, 1), run("a", 0, 2)])


def test_summary_is_json():
    summary = written(RUNS)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_nothing_finished():
    summary = summarise([])
    assert summary == {}
    assert len(render_table(summary)) == 1


def test_tables_show_the_numbers():
    shown = text(summarise(RUNS))
    for part in ("er-las", "62.0 ± 2.0", "73.0 ± 2.6", "32.0 ± 2.0", "+11.0", "[+8.5, +13.5]"):
        assert part in shown
    assert "−11.0" in shown
    assert "more accurate" in shown
    assert "highe" in shown and "…" not in shown


def test_names_are_not_markup():
    shown = text(summarise([run("[red]x[/red]", 0, 1), run("er-las:[bold]", 0, 2)]))
    assert "[red]x[/red]" in shown and "er-las:[bold]" in shown


@pytest.mark.parametrize(
    ("shift", "words"), [(10, "more accurate"), (-10, "less accurate"), (0.1, "no clear")]
)
def test_verdict(shift, words):
    runs = [run("a", s, 50 + s) for s in range(3)]
    runs += [run("b", s, 50 + s + shift + 0.5 * (s - 1)) for s in range(3)]
    assert words in text(summarise(runs), width=120)


def test_negative_zero_is_zero():
    shown = text(summarise([run("a", 0, 50, -0.01), run("b", 0, 50.01, -0.01)]))
    assert "−0.0" not in shown and "+0.0" not in shown


def test_costs_and_a_budget():
    runs = [run("er", 0, 60) | {"relative_cost": 1.0}, run("mir", 0, 61) | {"relative_cost": 2.5}]
    summary = summarise([*runs, run("old", 0, 50)], budget=1.1)
    assert [found.over_budget for found in summary.values()] == [False, True, None]
    assert "2.50" in text(summary) and text(summary).count("over budget") == 1
    assert "Cost" not in text(summarise(RUNS))
    assert all("over_budget" not in entry for entry in written(runs).values())
