"""Tables of runs: the page and its figures."""

import json
import re

from evenstream.report.experiments import (
    Contents,
    collect_outcome,
    find_runs,
    write_tables,
)
from evenstream.report.experiments.page import page
from tests.helpers.table_samples import (
    CIFAR10,
    EXPERIMENT,
    config_of,
    fill,
    make_experiment,
    outcome_of,
    printing,
    stated,
    write_run,
)

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
