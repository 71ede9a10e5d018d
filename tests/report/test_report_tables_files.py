"""Tables of runs: what is written, and where."""

import csv
import io
import json
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import EvenstreamError
from evenstream.report.experiments import (
    Contents,
    Failure,
    collect_outcome,
    find_runs,
    write_tables,
)
from evenstream.report.experiments.latex import escape as tex
from evenstream.report.experiments.latex import outcome_tex
from evenstream.report.experiments.layout import printed_table, tables
from evenstream.report.experiments.markdown import escape as markdown
from evenstream.report.experiments.markdown import outcome_text
from evenstream.report.experiments.page import page
from evenstream.report.experiments.report_folder import MARK, write_folder
from evenstream.report.experiments.tidy_csv import outcome_csv
from evenstream.report.experiments.wording import scale_words
from tests.helpers.table_samples import (
    CIFAR10,
    EXPERIMENT,
    config_of,
    details_of,
    fill,
    grids_of,
    make_experiment,
    outcome_of,
    printing,
    stated,
    write_run,
)

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


def test_an_inferred_protocol_is_called_so(tmp_path):
    text = EXPERIMENT.replace("seeds = 2", 'seeds = 2\nsource = "Table 2"\ninferred = true', 1)
    text = text.replace("[scale.smoke]", "[scale.smoke]\ninferred = false")
    text = text.replace('method = ["er", "er-las"]', 'method = ["er"]', 1)
    more = 'grid = { method = ["er", "mro"], stream = ["c-cifar10"] }'
    text = text.replace('grid = { stream = ["c-cifar10"] }', more)
    experiment = make_experiment(tmp_path / "file", text)
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    outcome = outcome_of(runs, experiment, printing(A_T=[stated(1, source="Table 2")]))
    assert [scale_words(outcome, scale) for scale in experiment.scale_names] == [
        "full: inferred protocol",
        "cpu: inferred protocol; network slim-resnet18; method also mro",
        "smoke: network mlp; stream c-digits; memory 50",
    ]
    contents = Contents("T", "L", [outcome])
    assert "An experiment (Table 2, inferred protocol)\n" in outcome_text(outcome)
    assert ">In the paper: Table 2, inferred protocol<" in page(contents)
    assert contents.overview()[0].title == "An experiment (Table 2, inferred protocol)"


def test_the_overview_counts_numbers_of_the_own_table_and_of_others_apart(tmp_path):
    text = EXPERIMENT.replace("seeds = 2", 'seeds = 2\nsource = "Table 2"', 1)
    experiment = make_experiment(tmp_path / "file", text)
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    known = printing(A_T=[stated(1, source="Table 2"), stated(90, source="Table 1")])
    (row,) = Contents("T", "L", [outcome_of(runs, experiment, known)]).overview()
    assert row.verdicts == "▲ 1 better; beside numbers of other tables: ▼ 1 worse"


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
    assert "All cells here: c-cifar10, memory 100." in full.caption
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
    every = list(csv.DictReader(io.StringIO(outcome_csv(outcome))))
    lines = [line for line in every if line["verdict"] != "not run"]
    printed = [line for line in every if line not in lines]
    assert {(line["stream"], line["mean"], line["seeds"]) for line in printed} == {
        ("c-cifar100", "", "0")
    }
    assert {line["printed_mean"] for line in printed if line["metric"] == "A_T"} == {"21.5; 45.4"}
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
    measured = [line for line in csv.DictReader(io.StringIO(found)) if line["seeds"] == "2"]
    lines = {line["metric"]: line for line in measured}
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
    assert text.count(r"\begin{minipage}") == text.count(r"\end{minipage}") == 3
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 5
    assert text.count("$") % 2 == 0
    assert text.count("Student's t") == 1
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
        (grid,) = re.findall(r"\\begin\{center\}.*?\\end\{center\}", found, re.S)
        memories = [rows[0].count("memory") for _, rows in latex_tables(grid)]
        assert memories == ([3, 3, 3] if printed != twice else [2, 2, 2, 2, 1])
        for line in grid.splitlines():
            if line.endswith(r" \\"):
                shown = re.sub(r"\$\\[a-z]+\$", "x", line.removesuffix(r" \\"))
                assert len(shown) <= 95
        shares = re.findall(r"p\{([\d.]+)\\linewidth\}", found)
        assert shares and sum(map(float, shares)) < 1.5  # of the gains and of the list
        assert found.count(r"\endhead") == 2 and "time a run" not in found


def test_the_latex_sums_up_what_it_has_no_columns_for(tmp_path, experiment):
    for seed, seconds in enumerate((60.0, 900.0)):
        config = config_of(experiment, method="er" if seed else "er-las", **CIFAR10)
        folder = tmp_path / "runs" / str(seed)
        write_run(folder, config, 20, train_seconds=seconds, eval_seconds=0.0)
        env = {"cpu": f"Processor {seed}", "cores": 2, "commit": "abc1234"}
        (folder / "env.json").write_text(json.dumps(env))
    outcome = outcome_of(tmp_path / "runs", experiment)
    caption = re.findall(r"\\caption\{(.*Every cell.*)\}", outcome_tex(outcome))[0]
    assert "Time a run: 60 s to 15 min." in caption
    assert caption.count("Processor 0") == caption.count("Processor 1") == 1
    assert caption.count("Commit: abc1234.") == 1
    assert "Time a run" not in outcome_text(outcome).replace("| time a run |", "")


def test_the_rule_stands_only_where_something_is_compared(tmp_path, experiment):
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    rule = "The difference is our mean minus the printed one."
    assert rule in outcome_text(outcome_of(runs, experiment, printing(A_T=[stated(21.0)])))
    assert rule not in outcome_text(outcome_of(runs, experiment, printing(F_T_other=[stated(1)])))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_sets_it_without_errors_and_within_the_page(tmp_path, contents):
    (outcome,) = contents.outcomes
    packages = r"\usepackage{array,booktabs,longtable}"
    text = rf"\documentclass{{article}}{packages}\begin{{document}}" + outcome_tex(outcome)
    (tmp_path / "page.tex").write_text(text + r"\end{document}")
    command = ["pdflatex", "-halt-on-error", "-interaction=batchmode", "page.tex"]
    for _ in range(3):  # until the widths of long tables are known
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    log = (tmp_path / "page.log").read_text(encoding="latin-1")
    assert not re.findall(r"Overfull .*", log)


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
    assert "Not run yet" in text and "do it" in text
    either = '<span class="nowrap">21.5 ± 1.0</span> (tab:one) or <span class="nowrap">45.4'
    assert either in text  # a cell with two numbers may break between them, not inside
    assert "A note." in text


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
    write_tables(Contents("T", "L", [nothing]), out)  # what is printed is a table all the same
    assert {"own.md", "own.csv", "own.tex"} < {file.name for file in out.iterdir()}
    write_tables(Contents("T", "L", []), out)
    assert {file.name for file in out.iterdir()} == {"index.html", "index.md", "mine.txt", MARK}


def test_failed_runs_have_a_table_in_every_file(tmp_path, experiment):
    runs = fill(tmp_path / "runs", experiment, {"er": [20, 21]}, **CIFAR10)
    other = next(cell for cell in experiment.cells() if cell["method"] == "er-las")
    failures = [Failure("full", other, 1, "no <luck>", 2)]
    found = find_runs([runs]).runs
    out = tmp_path / "report"
    outcome = collect_outcome(experiment, found, None, failures)
    write_tables(Contents("T", "L", [outcome]), out)
    assert "| full | 1 | 2 | no \\<luck\\> |" in (out / "own.md").read_text()
    assert "no \\textless{}luck" in (out / "own.tex").read_text()
    assert "no &lt;luck&gt;" in (out / "index.html").read_text()
    (line,) = [
        line for line in csv.DictReader((out / "own.csv").read_text().splitlines()) if line["error"]
    ]
    assert (line["method"], line["seeds"], line["error"]) == ("er-las", "0", "seed 1: no <luck>")
    nothing = collect_outcome(experiment, [], None, failures)
    assert "Failed runs" in page(Contents("T", "L", [nothing]))


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
    with pytest.raises(EvenstreamError, match="cannot be the name of a report"):
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
