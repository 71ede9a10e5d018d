import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from evenstream.errors import DataError, EvenstreamError, InputError
from evenstream.report import load_runs, write_report
from evenstream.report.charts.style import DARK, LIGHT
from tests.helpers.report_samples import NEW, STATEMENT, make_metrics, write_comparison, write_run

VOID = {"meta", "link", "br", "wbr", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags nest, and collects text, attributes and ids."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.stack, self.words, self.elements, self.errors = [], [], [], []
        self.feed(source)
        self.close()
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if not self.stack or self.stack[-1] not in ("style", "script"):
            self.words.append(data)


def read(path):
    source = path.read_text(encoding="utf-8")
    page = Page(source)
    assert not page.errors and not page.stack
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids)), "ids must be unique"
    return source, page


def check_self_contained(source, page):
    assert "http://" not in source and "https://" not in source and "//cdn" not in source
    assert "@import" not in source and "<script" not in source
    ids = {a["id"] for _, a in page.elements if "id" in a}
    for tag, attributes in page.elements:
        assert tag not in {"script", "iframe", "object", "embed", "img", "image"}
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            if name in {"src", "href", "xlink:href"}:
                assert value == "data:," or value.removeprefix("#") in ids, value
            if name == "aria-labelledby":
                assert value in ids
    for target in re.findall(r"url\(([^)]*)\)", source):
        assert target.strip("\"'").removeprefix("#") in ids


def test_comparison_page(small_report):
    assert small_report.name == "report.html"
    source, page = read(small_report)
    check_self_contained(source, page)
    for heading in (
        "3 methods on c-digits",
        "Results",
        "Accuracy after each task",
        "Accuracy while learning",
        "Accuracy on every task",
        "Where the predictions go",
        "Recall of each class",
        "Accuracy against training time",
        "Further measures",
        "How it was run",
    ):
        assert heading in page.text
    assert "5 tasks, 10 classes" in page.text
    assert "1,437 samples in 145 steps" in page.text
    assert "cpu, 1 thread, float32" in page.text
    assert "evenstream 0.1.0, Python 3.11.7, torch 2.6.0+cpu" in page.text
    assert "0123456789ab" in page.text


def test_all_values_are_shown(small_report):
    _, page = read(small_report)
    runs = [run.metrics for run in load_runs(small_report.parent)]
    for method in ("finetune", "er", "er-las"):
        mine = [run for run in runs if run["method"] == method]
        for key in ("A_T", "F_T", "A_AUC", "A_T_cbl", "A_T_cbl_classes"):
            values = [run[key] for run in mine]
            assert f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}" in page.text
        for value in np.mean([run["class_recall"] for run in mine], axis=0):
            assert f"{value:.1f}" in page.text
        for row in np.array([run["accuracy_matrix"] for run in mine], dtype=float).mean(axis=0):
            for value in row[~np.isnan(row)]:
                assert f"{value:.1f}" in page.text
        for value in np.mean([run["average_accuracy"] for run in mine], axis=0):
            assert f"{value:.1f}" in page.text
        for value in np.mean([run["prediction_share"] for run in mine], axis=0):
            assert f"{100 * value:.1f}" in page.text
    a, b = (
        np.array([run["A_T"] for run in runs if run["method"] == name]) for name in ("er-las", "er")
    )
    assert f"er-las is more accurate than er, by {(a - b).mean():.1f} points" in page.text


def test_subset_of_the_online_accuracy_is_stated(small_report):
    _, page = read(small_report)
    assert page.text.count(f"measured {STATEMENT}.") == 1  # below the results
    assert page.text.count(f"during training {STATEMENT}.") == 1  # beside the curve
    assert "er-las minus er" in page.text and "While learning" in page.text


@pytest.mark.usefixtures("no_pictures")
def test_recency_bias_is_shown_in_points(single):
    _, page = read(write_report(single))
    assert "Recency bias" in page.text
    assert "4.5" in page.text  # 0.3 * (1 - 0.85) of all predictions
    assert "Forward transfer" not in page.text  # no run has it


def test_sections_appear_only_if_there_is_something_to_show(tmp_path):
    old = {key: v for key, v in make_metrics("er", 0).items() if key not in NEW}
    _, page = read(write_report(write_run(tmp_path / "old", old)))
    for heading in ("while learning", "Recall of each class", "Further", "AUC", "left out"):
        assert heading not in page.text
    directory = write_comparison(tmp_path / "c", {"er": 0.5}, (0, 1))
    write_run(directory / "runs" / "m9" / "seed-0", {**old, "method": "older"})
    _, page = read(write_report(directory))  # together with newer runs
    assert "Further measures" in page.text and "older" in page.text


@pytest.mark.parametrize(
    "damage",
    [
        {"online": {"accuracy": "x"}},
        {"online": {"accuracy": [1, None, "x", 3], "every": 2}},
        {"online": 3, "classes": 4, "class_recall": "x"},
        {"class_recall": [None] * 10},
        {"classes": ["a"]},
        {"skipped_train": {"count": "many"}, "skipped_test": [1]},
        {"ECE": "low", "A_AUC": float("nan")},
    ],
)
def test_damaged_measures_do_not_hide_the_rest(damage, tmp_path):
    directory = write_comparison(tmp_path / "c", {"er": 0.5}, (0,))
    write_run(directory / "runs" / "m1" / "seed-0", {**make_metrics("odd", 0), **damage})
    _, page = read(write_report(directory))
    assert "odd" in page.text and "not in the results" not in page.text


def test_many_classes_share_columns(tmp_path):
    directory = tmp_path / "run"
    write_run(directory, make_metrics("er", 0, n_tasks=5, classes_per_task=50))
    _, page = read(write_report(directory))
    assert "Each column is the mean of 3 neighbours." in page.text
    assert "Recall of each class, in %." not in page.text  # 250 rows are too many


@pytest.mark.usefixtures("no_pictures")
def test_samples_that_could_not_be_read_are_named(tmp_path):
    skipped = {"skipped_train": {"count": 23, "first": [f"<{i}>.jpg" for i in range(20)]}}
    write_run(tmp_path / "run", {**make_metrics("er", 4), **skipped})
    _, page = read(write_report(tmp_path / "run"))
    assert "Samples that could not be read were left out" in page.text
    assert "er, seed 4: 23 training samples" in page.text
    assert "<19>.jpg and 3 more" in page.text


@pytest.mark.usefixtures("no_pictures")
def test_differences_in_words(tmp_path):
    directory = write_comparison(tmp_path / "c", {"er": 0.5, "twin": 0.5, "worse": 0.3})
    for seed, shift in enumerate((-1.0, 0.4, 1.0)):
        path = directory / "runs" / "m1" / f"seed-{seed}" / "metrics.json"
        metrics = json.loads(path.read_text())
        metrics["A_T"] += shift
        path.write_text(json.dumps(metrics))
    _, page = read(write_report(directory))
    assert "No clear difference in accuracy between twin and er: +0.1 points" in page.text
    assert "worse is less accurate than er, by" in page.text
    interval = re.search(
        r"worse is less accurate than er, by ([\d.]+) points on average "
        r"\(95.% interval ([\d.]+) to ([\d.]+), 3 seeds\); worse forgets ([\d.]+) points more",
        page.text,
    )
    mean, low, high = (float(interval[i]) for i in (1, 2, 3))
    assert low < mean < high


@pytest.mark.usefixtures("no_pictures")
def test_one_seed_is_not_called_better(tmp_path):
    _, page = read(write_report(write_comparison(tmp_path / "c", {"er": 0.5, "las": 0.9}, [4])))
    assert "on the one seed they share, which cannot show how much of that is luck" in page.text
    assert "could be luck" in page.text
    assert "±" not in page.text


@pytest.mark.usefixtures("no_pictures")
def test_methods_without_a_shared_seed(tmp_path):
    directory = tmp_path / "c"
    write_run(directory / "runs" / "a" / "seed-0", make_metrics("a", 0))
    write_run(directory / "runs" / "b" / "seed-1", make_metrics("b", 1))
    _, page = read(write_report(directory))
    assert "run on other seeds" in page.text


def test_single_run(single, tmp_path):
    output = tmp_path / "new" / "page.html"
    assert write_report(single, output) == output
    source, page = read(output)
    check_self_contained(source, page)
    assert "er-las on c-digits" in page.text
    assert "ended with an average accuracy of" in page.text
    assert not (single / "report.html").exists()


@pytest.mark.usefixtures("no_pictures")
def test_output_may_be_a_directory(single, tmp_path):
    assert write_report(single, tmp_path) == tmp_path / "report.html"


@pytest.mark.usefixtures("no_pictures")
def test_output_below_a_file(single):
    with pytest.raises(EvenstreamError, match="cannot write"):
        write_report(single, single / "metrics.json" / "x.html")


@pytest.mark.usefixtures("no_pictures")
def test_nothing_is_left_behind(single):
    before = set(single.iterdir())
    write_report(single)
    write_report(single)
    assert set(single.iterdir()) - before == {single / "report.html"}


def test_same_runs_same_bytes(small_report, tmp_path):
    again = write_report(small_report.parent, tmp_path / "again.html")
    assert again.read_bytes() == small_report.read_bytes()


def test_the_last_pair_is_that_of_the_last_two_methods(small_report):
    _, page = read(small_report)
    pairs = ["er minus finetune", "er-las minus finetune", "er-las minus er+"]
    places = [page.text.index(pair) for pair in pairs]
    assert places == sorted(places)


@pytest.mark.usefixtures("no_pictures")
def test_unfinished_runs_are_named(comparison):
    runs = comparison / "runs"
    write_run(runs / "m1" / "seed-8", make_metrics("er", 8, status="running"))
    (runs / "m1" / "seed-9").mkdir()
    (runs / "m2" / "seed-9").mkdir()
    (runs / "m2" / "seed-9" / "metrics.json").write_text("{")
    (runs / "m2" / "seed-9" / "config.toml").write_text('method = "odd"')
    write_run(runs / "m2" / "seed-10", {**make_metrics("er-las", 10), "format": 2})
    write_run(runs / "m2" / "seed-11", {**make_metrics("er-las", 11), "A_T": None})
    broken = {**make_metrics("er-las", 12), "accuracy_matrix": [[1, 2], "x"]}
    write_run(runs / "m2" / "seed-12", broken)
    _, page = read(write_report(comparison))
    assert "6 runs not in the results" in page.text
    assert "er, seed 8: running, 2 of 5 tasks measured, average accuracy so far" in page.text
    assert "m1, seed 9: it has no metrics.json" in page.text
    assert "odd, seed 9: metrics.json cannot be read" in page.text
    assert "er-las, seed 10: metrics.json has format 2; this version reads 1" in page.text
    assert "er-las, seed 11: metrics.json says finished but has no usable A_T" in page.text
    assert "er-las, seed 12: metrics.json has no usable accuracy_matrix" in page.text
    assert "over 3 seeds" in page.text


@pytest.mark.usefixtures("no_pictures")
def test_only_unfinished_runs(tmp_path):
    directory = write_run(tmp_path / "run", make_metrics("er", 0, status="interrupted"))
    _, page = read(write_report(directory))
    assert "No run has finished yet" in page.text
    assert "er, seed 0: interrupted, 2 of 5 tasks measured" in page.text
    assert "1 run not in the results" in page.text


def test_no_runs(tmp_path):
    with pytest.raises(EvenstreamError, match="holds no runs"):
        write_report(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(EvenstreamError, match="holds no runs"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(DataError, match="not a directory"):
        write_report(tmp_path / "nowhere")


@pytest.mark.usefixtures("no_pictures")
def test_runs_that_cannot_be_compared(tmp_path):
    directory = tmp_path / "c"
    write_run(directory / "runs" / "a" / "seed-0", make_metrics("a", 0))
    write_run(directory / "runs" / "b" / "seed-0", make_metrics("b", 0, stream="other"))
    with pytest.raises(InputError, match=r"different streams \(c-digits, other\)"):
        write_report(directory)
    write_run(directory / "runs" / "b" / "seed-1", make_metrics("a", 0))
    with pytest.raises(EvenstreamError):
        write_report(directory)


@pytest.mark.usefixtures("no_pictures")
def test_same_seed_twice(tmp_path):
    for folder in ("x", "y"):
        write_run(tmp_path / "runs" / folder / "seed-0", make_metrics("a", 0))
    with pytest.raises(InputError, match="occurs more than once"):
        write_report(tmp_path)


def test_names_are_escaped(tmp_path):
    evil = "<script>alert(\"1\")</script>&amp;'x'"
    directory = tmp_path / "c"
    for k, method in enumerate((evil, "$\\frac{1$ %d {x}")):
        for seed in (0, 1):
            metrics = make_metrics(method, seed, stream="<b>s</b>", skill=0.2 + 0.5 * k)
            metrics["tasks"] = [[f"<i>{c}" for c in task] for task in metrics["tasks"]]
            metrics["device"] = '"><img src=x>'
            env = {"cpu": "<u>cpu", "commit": "<a>", "<key>": "</td><script>"}
            run = write_run(directory / "runs" / str(k) / f"seed-{seed}", metrics, env)
            (run / "config.toml").write_text("# </pre><script>")
    write_run(directory / "runs" / "2" / "seed-0", {**make_metrics(evil, 9), "status": "<hr>"})
    source, page = read(write_report(directory))
    check_self_contained(source, page)
    assert "<script" not in source and "<img" not in source and "<u>" not in source
    assert evil in page.text
    labels = [a["aria-label"] for t, a in page.elements if t == "svg" and "aria-label" in a]
    assert any(evil in label for label in labels)


def test_charts_and_tables_are_labelled(small_report):
    source, page = read(small_report)
    charts = [a for t, a in page.elements if t == "svg" and "plot" in a.get("class", "")]
    assert len(charts) == 17  # four charts and three strips in two sizes, and three heat maps
    for attributes in charts:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 30
    assert source.count("<figcaption>") == source.count("<figure") == 6
    assert source.count("<table") == source.count("<caption>")
    for other in (a for t, a in page.elements if t == "svg" and "plot" not in a.get("class", "")):
        assert other["aria-hidden"] == "true"
    assert 'lang="en"' in source and 'name="viewport"' in source


def test_colours_follow_the_page(small_report):
    source, _ = read(small_report)
    drawn = re.findall(r"(?:fill|stroke): ([^;\"]+)", source[source.index("<body") :])
    assert drawn
    assert {c for c in drawn if not c.startswith("var(--")} <= {"none"}
    assert "#fe01" not in source
    for name in LIGHT:
        assert f"--{name}: {LIGHT[name]};" in source
        assert f"--{name}: {DARK[name]};" in source
    # One method, one colour: the legend of each chart agrees with the table.
    for k, name in enumerate(("finetune", "er", "er-las")):
        colours = re.findall(
            rf'fill:var\(--m(\d)\)"/></svg>(?:<span>)?{name}</span>', source.replace("<wbr>", "")
        )
        assert len(colours) >= 5 and set(colours) == {str(k)}


def test_methods_come_in_the_order_of_the_summary(tmp_path):
    directory = write_comparison(tmp_path / "c", {"zeta": 0.2, "alpha": 0.4})
    (directory / "runs" / "m0").rename(directory / "runs" / "z")
    assert load_runs(directory)[0].method == "zeta"
    (directory / "summary.json").unlink()
    assert load_runs(directory)[0].method == "alpha"


def test_seeds_are_sorted_as_numbers(tmp_path):
    directory = write_comparison(tmp_path / "c", {"a": 0.2}, seeds=(10, 9, 2))
    assert [run.seed for run in load_runs(directory)] == [2, 9, 10]


def test_one_task(tmp_path):
    _, page = read(write_report(write_comparison(tmp_path / "c", {"a": 0.5, "b": 0.6}, n_tasks=1)))
    assert "1 task, 2 classes" in page.text


def test_optional_parts_may_be_missing(tmp_path):
    metrics = make_metrics("er", 0)
    for key in ("prediction_share", "true_share", "train_seconds_after_task", "train_seconds"):
        del metrics[key]
    for key in ("average_accuracy", "F_T", "samples", "device", "threads", "dtype"):
        del metrics[key]
    directory = write_run(tmp_path / "run", metrics, env={})
    (directory / "config.toml").unlink()
    _, page = read(write_report(directory))
    assert "Where the predictions go" not in page.text
    assert "training time" not in page.text
    assert f"{metrics['A_T']:.1f}" in page.text


@pytest.mark.usefixtures("no_pictures")
def test_differing_machines_are_shown(comparison):
    path = comparison / "runs" / "m0" / "seed-0" / "env.json"
    path.write_text(json.dumps({"cpu": "Other CPU"}))
    _, page = read(write_report(comparison))
    assert "Other CPU / Intel" in page.text


def test_many_methods(large_report):
    source, page = read(large_report)
    check_self_contained(source, page)
    assert len(source) < 3_000_000
    for run in load_runs(large_report.parent):
        assert run.method in page.text


def test_many_tasks(tmp_path):
    metrics = make_metrics("er", 0, n_tasks=90, classes_per_task=1)
    source, page = read(write_report(write_run(tmp_path / "run", metrics)))
    check_self_contained(source, page)
    assert len(source) < 3_000_000
