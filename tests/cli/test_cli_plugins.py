"""What a researcher's own file registers, in every command and in worker processes."""

import json
from pathlib import Path

import pytest

from evenstream.plugins import import_plugins
from tests.helpers import small_runs

PLUGIN = Path(small_runs.__file__).parent / "own_plugin.py"
EXPERIMENT = """
seeds = 1
metrics = ["A_T", "worst_task"]
[settings]
network = "narrow"
memory = 20
[grid]
method = ["own-er-las:head=halved", "er@first"]
stream = ["rev-blobs"]
"""
FLAGS = ("--stream", "rev-blobs", "--network", "narrow", "--out", "out")


@pytest.fixture(autouse=True)
def plugin(monkeypatch):
    """The environment names the plugin, and nothing else does."""
    monkeypatch.setenv("EVENSTREAM_PLUGINS", str(PLUGIN))
    import_plugins(again=True)  # an earlier test has forgotten what it brings


def test_sweeps_and_their_workers(run):
    Path("mine.toml").write_text(EXPERIMENT)
    status, _, err = run("sweep", "mine.toml", "--out", "store", "--jobs", "2")
    assert status == 0, err
    files = list(Path("store").rglob("metrics.json"))
    assert len(files) == 2
    for found in map(json.loads, map(Path.read_text, files)):
        assert found["worst_task"] == min(found["accuracy_matrix"][-1])
        assert found["tasks"] == [["2", "3"], ["0", "1"]]
    pages = [page.read_text() for page in Path("store/reports").rglob("*.html")]
    assert any("worst &lt;task&gt;" in page for page in pages)
    assert not any("<task>" in page for page in pages)


def test_comparisons_show_an_own_metric(run, one_process):
    status, out, err = run("compare", "er", "own-er", *FLAGS, "--seeds", "1")
    assert status == 0, err
    assert "worst_task" in out
    page = Path("out/report.html").read_text()
    assert "Worst &lt;task&gt;" in page
    assert "<task>" not in page


def test_runs(run):
    assert run("run", "own-er-las", *FLAGS)[0] == 0
    assert "worst_task" in json.loads(Path("out/metrics.json").read_text())


def test_learning_and_predicting_from_an_address(run):
    address = "blobs://4?batches=6"
    assert run("learn", "plant", "--from", address, "--network", "narrow")[0] == 0
    status, out, err = run("predict", "plant", address)
    assert status == 0
    assert len(out.splitlines()) == 1 + 60
    assert "of 60 labelled rows" in err
    status, _, err = run("learn", "other", "--from", "blub://4")
    assert status == 2
    assert "'blub'; did you mean blobs?" in err
    assert not Path("other").exists()


@pytest.mark.parametrize(
    ("words", "names"), [("data list", ["blobs", "Four blobs."]), ("streams", ["rev-"])]
)
def test_lists(run, words, names):
    status, out, _ = run(*words.split())
    assert status == 0
    assert all(name in out for name in names)


def test_a_plugin_that_fails_is_an_error_of_the_command(run, monkeypatch):
    Path("plug.py").write_text("1 / 0")
    monkeypatch.setenv("EVENSTREAM_PLUGINS", "plug.py")
    status, _, err = run("methods")
    assert status == 2
    assert "plug.py, named by EVENSTREAM_PLUGINS, fails on import" in err
    assert "Traceback" not in err
