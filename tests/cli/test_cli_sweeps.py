"""`evenstream sweep` and `evenstream paper`, as a user types them."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evenstream.paper import descriptions, experiments
from evenstream.run.workers import attempt
from evenstream.sweep.backends import local
from tests.helpers.sweep_samples import write_experiment
from tests.helpers.table_samples import fill


@pytest.fixture(autouse=True)
def no_processes(monkeypatch):
    """Sweeps make their runs in this process; tests/sweep has those with real workers."""

    def work_off(jobs, work, n_workers, stop):
        while jobs:
            job = jobs.popleft()
            yield job, attempt(work, job, stop)

    monkeypatch.setattr(local, "work_off", work_off)


def test_sweep(run, table, tmp_path):
    file = write_experiment(tmp_path, table)
    status, out, err = run("sweep", file, "--scale", "quick", "--out", tmp_path / "store")
    assert (status, err) == (0, "")
    assert "0 of 2 runs" in out
    assert "A_T: A small experiment (at the scale 'quick')" in out
    assert "F_T: A small experiment" in out
    assert "accuracy_matrix" not in out
    assert out.endswith(f"runs: {tmp_path}/store/small_quick.csv\n")
    # Once more: nothing is left to do.
    status, out, _ = run("sweep", file, "--scale", "quick", "--out", tmp_path / "store")
    assert status == 0
    assert out.startswith("2 of 2 runs\n")
    assert "A_T: A small experiment" in out


def test_failures(run, table, tmp_path):
    extra = '[[when]]\nmatch = { method = "er" }\nset = { lr = 1e30 }'
    file = write_experiment(tmp_path, table, extra=extra)
    options = ["--scale", "quick", "--retries", "0", "--out", "s"]
    status, out, err = run("sweep", file, *options)
    assert status == 1
    assert "error: 1 of 2 runs failed, each with an error.json in its folder" in err
    assert "1 failed" in out
    report = tmp_path / "s/reports/small/small.md"
    assert report.read_text().count("the loss is nan") == 1
    assert run("sweep", file, *options, "--cells", "method=er-las")[0] == 0  # a smaller one
    assert report.read_text().count("the loss is nan") == 1
    (record,) = (tmp_path / "s").glob("runs/*/error.json")
    assert json.loads(record.read_text())["attempts"] == 1


def test_a_stopped_sweep_reports_on_what_is_finished(run, table, tmp_path, monkeypatch):
    """So that the report of an earlier sweep is not taken for that of this one."""
    file = write_experiment(tmp_path, table)
    options = ["--scale", "quick", "--out", "s"]
    assert run("sweep", file, *options, "--cells", "method=er")[0] == 0
    report = tmp_path / "s/reports/small/small.md"
    assert "er-las" not in report.read_text()

    def stop_after_one(jobs, work, n_workers, stop):
        job = jobs.popleft()
        yield job, attempt(work, job, stop)

    monkeypatch.setattr(local, "work_off", stop_after_one)
    status, out, err = run("sweep", file, *options, "--seeds", "2")
    assert status == 130 and "the same command continues from here" in err
    assert "report: " in out and "er-las" in report.read_text()
    file.write_text(file.read_text().replace("[6, 12]", "[7]").replace("[6]", "[7]"))
    monkeypatch.setattr(local, "work_off", lambda *_: (each for each in ()))
    status, out, _ = run("sweep", file, "--out", "s")
    assert status == 130 and "er-las" not in report.read_text()


def test_settings_from_the_command_line(run, table, tmp_path, monkeypatch):
    """Runs of another precision or from given weights fill the same cells, and are told apart."""
    from evenstream import paper
    from evenstream.run.config import RunConfig
    from evenstream.sweep.experiment_file import read_experiment

    file = write_experiment(tmp_path, table, name="own")
    file.write_text(file.read_text().replace('dtype = "float32"\n', 'weights = "?"\n'))
    monkeypatch.setattr(paper, "experiments", lambda: {"own": read_experiment(file)})
    few = ["--cells", "memory=6", "method=er", "--seeds", "1"]
    status, _, err = run("paper", "run", "own", *few)
    assert status == 2 and "name the file with --weights" in err
    status, _, err = run("paper", "run", "own", *few, "--weights", "no.pth")
    assert status == 2 and "the weights cannot be read" in err
    assert not (tmp_path / "out").exists()
    assert run("paper", "run", "own", *few, "--weights", "none", "--dtype", "bfloat16")[0] == 0
    (folder,) = (tmp_path / "out/store/runs").iterdir()
    found = RunConfig.read(folder)
    assert (found.dtype, found.weights, found.device) == ("bfloat16", None, "cpu")
    assert listed(run("paper", "list")[1])["own"][0] == "0/8"  # from scratch, and the cells are not
    found = replace(found, weights="base.pth", weights_sha256="12345678abcd")
    found.write(folder)
    assert listed(run("paper", "list")[1])["own"][0] == "1/8"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scale", "tiny"], "unknown scale of small 'tiny'; known: full, quick"),
        (["--cells", "memory=7"], "unknown memory '7'"),
        (["--cells", "er"], "--cells takes KEY=VALUE"),
        (["--seeds", "0"], "--seeds must be 1 or more, got 0"),
        (["--jobs", "-1"], "--jobs must be 0 (one for each core) or more, got -1"),
        (["--retries", "-1"], "--retries must be 0 or more, got -1"),
        (["--address", "here:1"], "--address is for --backend ray"),
        (["--track", "wandb"], "unknown tracker 'wandb'; known: mlflow, tensorboard"),
        (["--out", "file"], "cannot write to"),
        (["--out", "file/store"], "choose another --out"),
    ],
)
def test_bad_options(run, table, tmp_path, words, message):
    (tmp_path / "file").write_text("mine")
    status, _, err = run("sweep", write_experiment(tmp_path, table), *words)
    assert status == 2
    assert message in err
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "file").read_text() == "mine"


def test_ray_that_is_not_installed(run, table, tmp_path, monkeypatch):
    words = ["sweep", write_experiment(tmp_path, table), "--backend", "ray"]
    monkeypatch.delitem(sys.modules, "evenstream.sweep.backends.ray_backend", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    status, _, err = run(*words)
    assert status == 2 and "run pip install 'evenstream[ray]'" in err
    assert not (tmp_path / "out").exists()


def test_missing_data_is_told_once_and_before_anything_is_made(run, tmp_path):
    status, out, err = run("sweep", write_experiment(tmp_path, "c-mnist"))
    assert (status, out) == (2, "")
    assert err.startswith("error: mnist is not in the data folder") and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_bad_files(run, table, tmp_path):
    assert run("sweep", "no.toml")[2].startswith("error: no.toml cannot be read as TOML")
    file = write_experiment(tmp_path, table, methods=("er", "el-las"))
    status, _, err = run("sweep", file)
    assert status == 2
    assert "el-las" in err
    assert not (tmp_path / "out" / "store" / "runs").exists()


@pytest.mark.parametrize("words", [[], ["--jobs", "2"]])
def test_one_run_at_a_time_where_the_file_says_so(run, table, tmp_path, monkeypatch, words):
    asked, work_off = [], local.work_off
    monkeypatch.setattr(local, "work_off", lambda *job: asked.append(job[2]) or work_off(*job))
    file = write_experiment(tmp_path, table)
    file.write_text("jobs = 1\n" + file.read_text())
    status, out, _ = run("sweep", file, "--seeds", "1", *words)
    assert (status, asked) == (0, [1])
    assert "1 run at a time" in " ".join(out.split())
    assert experiments()["training-time"].jobs == 1


def test_paper_run_of_an_unknown_name(run):
    status, _, err = run("paper", "run", "minst")
    assert (status, err) == (2, "error: unknown experiment 'minst'; did you mean mnist?\n")
    status, _, err = run("paper", "run", "data-sets")
    assert status == 2
    assert "needs no runs: `evenstream paper report data-sets` shows it" in err


def listed(out):
    """The lines of `paper list` that begin an entry, by its name: its runs, cost and title."""
    rows = [re.split("  +", line.strip()) for line in out.splitlines()]
    return {row[0] if len(row) < 5 else row[1]: row[-3:] for row in rows if len(row) > 2}


def test_paper_list(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    status, out, err = run("paper", "list", "--scale", "smoke")
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100 and len(out.splitlines()) < 60
    assert listed(out)["mnist"] == ["0/9", "–", "C-MNIST: final average accuracy"]
    found = re.findall(r"^ ?((?:Table|Figure|Section) \d+) ", out, re.MULTILINE)
    assert found[:3] == ["Table 1", "Table 2", "Table 3"] and found[16:18] == [
        "Table 17",
        "Figure 1",
    ]
    assert "data-sets" in out and "tab:" not in out
    assert "for the scale smoke; --scale takes paper, cpu, smoke" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["table", "2"], {"long-sequences"}),
        (["Table 2"], {"long-sequences"}),
        (["figure 4"], {"subclasses"}),
        (["batch"], {"batch-sizes", "batch-schedules"}),
        (["--stream", "c-mnist"], {"mnist", "rehearsal-free"}),
        (["--stream", "s-cifar100"], {"distillation-gains", "subclasses"}),
        (["--method", "scr"], {"contrastive"}),
        (["--method", "lwf-las", "table"], {"distillation-gains", "offline"}),
    ],
)
def test_paper_list_can_be_filtered(run, monkeypatch, words, names):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = run("paper", "list", *words)
    known = {*experiments(), *descriptions()}
    assert status == 0 and {word for word in out.split() if word in known} >= names
    assert len(re.findall(r"^ ?(?:Table|Figure|Section) \d+ ", out, re.MULTILINE)) == len(names)


def test_paper_list_of_what_is_not_there(run):
    status, out, err = run("paper", "list", "--method", "der")
    assert (status, out) == (2, "") and "unknown method of the paper 'der'" in err
    status, out, err = run("paper", "list", "table", "99")
    assert (status, out) == (2, "") and "no table or figure" in err


def test_paper_list_of_a_scale_that_there_is_not(run):
    status, out, err = run("paper", "list", "--scale", "smok")
    assert (status, out, err) == (2, "", "error: unknown scale 'smok'; did you mean smoke?\n")


def test_paper_list_knows_what_was_run(run, table, tmp_path, monkeypatch):
    from evenstream import paper
    from evenstream.sweep.experiment_file import read_experiment

    experiment = read_experiment(write_experiment(tmp_path, table, name="own"))
    monkeypatch.setattr(paper, "experiments", lambda: {"own": experiment})
    assert run("paper", "run", "own", "--cells", "memory=6", "--seeds", "1")[0] == 0
    _, out, _ = run("paper", "list")
    made, cost, _ = listed(out)["own"]
    assert made == "2/8"
    assert cost.endswith(" s")  # the rest is like what was run, so its cost is known
    _, out, _ = run("paper", "list", "--out", "elsewhere")
    assert listed(out)["own"][:2] == ["0/8", "–"]
    _, out, _ = run("paper", "list", "--out", "elsewhere", "--measure")
    made, cost, _ = listed(out)["own"]
    assert made == "0/8" and cost.endswith(" s")
    other = read_experiment(write_experiment(tmp_path, table, name="other"))
    both = {"own": experiment, "other": replace(other, scales={})}
    monkeypatch.setattr(paper, "experiments", lambda: both)
    _, out, _ = run("paper", "list", "--scale", "quick")
    assert "own" in listed(out) and "other" not in listed(out)


def test_paper_list_says_what_it_cannot_measure(run, tmp_path, monkeypatch):
    from evenstream import paper
    from evenstream.sweep.experiment_file import read_experiment

    experiment = read_experiment(write_experiment(tmp_path, "c-mnist", name="own"))
    monkeypatch.setattr(paper, "experiments", lambda: {"own": experiment})
    status, out, err = run("paper", "list", "--measure")
    assert status == 0
    assert err.startswith("not measured: c-mnist: ") and err.count("\n") == 1
    assert listed(out)["own"][1] == "–" and "unknown times, use --measure" not in out


def test_paper_list_measures_what_it_can(run, table, tmp_path, monkeypatch):
    from evenstream import paper
    from evenstream.sweep.experiment_file import read_experiment

    experiment = read_experiment(write_experiment(tmp_path, table, name="own"))
    grid = {**experiment.grid, "stream": ("c-mnist", str(table))}
    both = replace(experiment, grid=grid, scales={})
    monkeypatch.setattr(paper, "experiments", lambda: {"own": both})
    assert "To estimate unknown times, use --measure." in " ".join(run("paper", "list")[1].split())
    _, out, err = run("paper", "list", "--measure")
    assert listed(out)["own"][1].startswith("over ")
    assert err.startswith("not measured: c-mnist: ") and err.count("\n") == 1


def test_paper_list_counts_runs_of_other_folders(run, table, tmp_path, monkeypatch):
    from evenstream import paper
    from evenstream.sweep.experiment_file import read_experiment

    experiment = read_experiment(write_experiment(tmp_path, table, name="own"))
    monkeypatch.setattr(paper, "experiments", lambda: {"own": experiment})
    chosen = ("--cells", "memory=6", "--seeds", "1", "--out", "elsewhere")
    assert run("paper", "run", "own", *chosen)[0] == 0
    assert listed(run("paper", "list")[1])["own"][0] == "0/8"
    assert listed(run("paper", "list", "--runs", "elsewhere")[1])["own"][0] == "2/8"


def test_the_file_in_the_documentation_is_right(tmp_path):
    from evenstream.sweep.experiment import check_options
    from evenstream.sweep.experiment_file import read_experiment
    from evenstream.sweep.plan import make_plan

    text = (Path(__file__).parents[2] / "docs" / "how-to" / "sweeps.md").read_text(encoding="utf-8")
    file = tmp_path / "tau.toml"
    file.write_text(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1])
    experiment = read_experiment(file)
    check_options(make_plan(experiment).runs())
    assert len(experiment.cells()) == 11


# ---- reports -------------------------------------------------------------------------------------


def test_a_sweep_ends_with_its_report(run, table, tmp_path):
    file = write_experiment(tmp_path, table)
    status, out, _ = run("sweep", file, "--scale", "quick", "--out", "s")
    assert status == 0
    folder = tmp_path / "s" / "reports" / "small"
    assert f"report: {folder}/index.html" in out
    names = {path.name for path in folder.iterdir()}
    assert {"small.md", "small.csv", "small.tex", "index.md", "index.html"} < names
    text = (folder / "small.md").read_text()
    assert "quick: fewer seeds" in text or "full: as in the file" in text
    assert "## Gain of LAS" in text and "paper" not in text and "verdict" not in text


def test_a_report_that_cannot_be_written_does_not_spoil_a_sweep(run, table, tmp_path):
    folder = tmp_path / "s" / "reports" / "small"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("keep")
    file = write_experiment(tmp_path, table)
    status, out, err = run("sweep", file, "--scale", "quick", "--out", "s")
    assert status == 0
    assert "small_quick.csv" in out and "report:" not in out
    assert err.startswith("no report: ") and err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


@pytest.fixture
def results(tmp_path):
    """Two seeds of ER and ER-LAS with the paper's protocol on C-MNIST, made by nobody."""
    from evenstream.paper import experiments

    experiment = experiments()["mnist"]
    values = {"er": [60, 61], "er-las": [99.0, 99.1]}
    return fill(tmp_path / "results", experiment, values, stream="c-mnist", memory=500)


def test_paper_report(run, results, tmp_path):
    status, out, err = run("paper", "report", "mnist", "ablation", "--runs", results, "--out", "r")
    assert (status, err) == (0, "")
    assert out == (
        "mnist: 2/27 cells (paper), 4 runs; ▼ 1 worse; ▲ 1 better\n"
        "no runs: ablation\n"
        "report: r/index.html\n"
    )
    names = {path.name for path in Path("r").iterdir()}
    files = {f"{name}.{kind}" for name in ("mnist", "ablation") for kind in ("md", "csv", "tex")}
    assert names == files | {"index.md", "index.html", "report.json"}
    page = Path("r/index.html").read_text()
    assert "87.0 ± 0.2" in page and "▼ worse" in page and "▲ better" in page
    assert "evenstream paper run ablation" in page
    twice = "10.7 ± 0.4 (Table 6) or 9.3 ± 0.7 (Table 16)"
    assert twice in re.sub("</?span[^>]*>", "", page)
    # Again, now with something in the folder that is no run.
    (results / "odd").mkdir()
    (results / "odd" / "config.toml").write_text("method = 'er'")
    status, out, err = run("paper", "report", "mnist", "--runs", results, "--out", "r")
    assert status == 0
    assert err.startswith("left out: ") and err.count("\n") == 1 and "odd" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["minst"], "unknown experiment 'minst'; did you mean mnist?"),
        (["mnist", "--runs", "nowhere"], "nowhere is not a folder"),
        (["mnist", "--store", "nowhere"], "nowhere is not a folder"),
        (["mnist", "--out", "full"], "full is not empty and holds no report of this command"),
    ],
)
def test_bad_reports(run, tmp_path, words, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.md").write_text("mine")
    status, _, err = run("paper", "report", *words)
    assert status == 2
    assert message in err
    assert not (tmp_path / "out").exists()
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.md"]
