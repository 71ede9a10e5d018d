"""The code in README.md and docs runs as it stands, or says why it is not run."""

import csv
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from evenstream import Learner, follow
from evenstream.cli.main import main
from evenstream.composition import compose
from evenstream.data import list_datasets
from evenstream.live.open_data import Known, Reading, open_source
from evenstream.run.runner import start_run
from tests.helpers import documents
from tests.helpers.small_runs import small_config

ROOT = documents.ROOT
PAGES = documents.pages()
WITH_TESTS_OF_THEIR_OWN = {
    "README.md": "here",
    "docs/how-to/composing.md": "here",
    "docs/how-to/data.md": "here",
    "docs/how-to/export.md": "here",
    "docs/how-to/extending.md": "here",
    "docs/how-to/frozen.md": "here",
    "docs/how-to/river.md": "here",
    "docs/how-to/sklearn.md": "here",
    "docs/reference/streams.md": "here and tests/live/test_live_documents.py",
    "docs/tutorials/add-a-method.md": "here",
    "docs/tutorials/own-table.md": "here",
}


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def blocks(page):
    return [block.code for block in documents.blocks(page) if block.run]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page):
    for block in documents.blocks(page):
        assert block.run or block.excused, f"{page}: say above it whether it is run:\n{block.code}"
        assert not block.run or block.language in ("python", "sh")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(any(b.commands()) for b in documents.blocks(page))]
)
def test_the_command_line_takes_every_command_that_is_shown(page, capsys):
    for block in documents.blocks(page):
        for words in block.commands():
            taken = documents.understood(words)
            assert taken, f"{page}: {' '.join(words)}\n{capsys.readouterr()}"


def test_a_command_that_is_wrong_would_be_found(capsys):
    assert documents.understood(["compare", "er", "--stream", "c-digits"])
    assert not documents.understood(["compare", "er", "--streams", "c-digits"])
    assert not documents.understood(["paper", "sing", "mnist"])


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page not in WITH_TESTS_OF_THEIR_OWN]
)
def test_blocks_of_a_page_run_one_after_the_other(page, in_folder, capsys):
    run_blocks(page, capsys)


def run_blocks(page, capsys):
    names = {"__name__": "page"}
    for block in documents.blocks(page):
        if not block.run:
            continue
        if block.language == "python":
            exec(compile(block.code, page, "exec"), names)
            continue
        commands = list(block.commands())
        assert len(commands) == len(block.code.strip().splitlines())
        for words in commands:
            assert main(words) == 0, capsys.readouterr().err


def test_the_table_of_the_tutorial_is_predicted_well(in_folder, capsys):
    run_blocks("docs/tutorials/own-table.md", capsys)
    with (
        Path("predictions.csv").open() as predicted,
        Path("wednesday.csv").open() as true,
    ):
        pairs = zip(csv.DictReader(predicted), csv.DictReader(true), strict=True)
        right = [guess["label"] == row["state"] for guess, row in pairs]
    assert len(right) == 1000 and np.mean(right) > 0.85


def test_files_that_are_named_in_the_source_exist():
    named = set()
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".py", ".toml"):
            named |= set(re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8")))
    assert len(named) > 5
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_help_and_errors_name_no_file_that_a_wheel_lacks():
    for path in (ROOT / "src" / "evenstream" / "cli").rglob("*.py"):
        assert not re.findall(r"docs/[\w/.-]+", path.read_text(encoding="utf-8")), path


def run_as_module(source, folder, name):
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def test_readme_learner_example_learns_and_saves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = blocks("README.md")[0]
    assert len(source.strip().splitlines()) <= 13
    module = run_as_module(source, tmp_path, "readme_learner")
    assert sorted(module.learner.labels) == ["bolt", "cog", "gear", "nut"]
    again = Learner.load(tmp_path / "parts")
    assert again.fingerprint() == module.learner.fingerprint()
    assert "bolt" in capsys.readouterr().out


def test_readme_loop_example_counts_labels(tmp_path):
    module = run_as_module(blocks("README.md")[1], tmp_path, "readme_loop")
    counts = module.criterion.prior.weights()
    assert counts.tolist() == np.bincount(module.stream[-1][1], minlength=3).tolist()


def test_the_composed_learner_is_the_one_of_the_text(tmp_path, capsys):
    module = run_as_module(blocks("docs/how-to/composing.md")[0], tmp_path, "composing")
    learner = module.learner
    assert learner.text == "mir-las:subsample=64,tau=2.0,window=5,head=cosine@ema"
    assert [group["lr"] for group in learner.optimizer.param_groups] < [1e-3, 1e-2]
    assert "MIR" in capsys.readouterr().out or "mir" in repr(learner)
    learner.save(tmp_path / "saved")
    given = {"model": type(module.net)(*module.net), "optimizer": module.optimizer}
    assert Learner.load(tmp_path / "saved", **given).fingerprint() == learner.fingerprint()


def test_the_page_on_export_predicts_without_the_learner(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module = run_as_module(blocks("docs/how-to/export.md")[0], tmp_path, "exporting")
    assert module.labels == module.learner.labels
    found, expected = module.probabilities, module.learner.predict_proba(module.new)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert str(module.learner.predict(module.new[:1])[0]) in capsys.readouterr().out


def test_the_page_on_export_turns_rows_of_a_table_into_probabilities(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = run_as_module(blocks("docs/how-to/export.md")[1], tmp_path, "encoding")
    expected = module.learner.predict_proba(module.rows)
    np.testing.assert_allclose(module.probabilities, expected, rtol=0, atol=1e-5)
    assert module.probabilities.argmax() == module.learner.labels.index("jam")


def test_data_frames_block_runs(tmp_path, capsys):
    module = run_as_module(blocks("docs/how-to/data.md")[0], tmp_path, "frames")
    assert {column.name: column.kind for column in module.learner.table.columns} == {
        "colour": "category", "bought": "date", "zip": "category"
    }  # fmt: skip
    assert "hashed to" in capsys.readouterr().out


def test_the_page_on_frozen_networks(tmp_path):
    module = run_as_module(blocks("docs/how-to/frozen.md")[0], tmp_path, "freezing")
    features = module.backbone.eval()(module.images)
    assert torch.allclose(module.head_only.memory.field("x"), features)
    assert module.with_layers.network.head.weight.shape == (2, 100)
    assert module.part.memory.field("x").shape == (8, 16, 10, 10)
    assert module.views.memory.field("x").shape == (8, 3, features.shape[1])
    assert module.texts.memory.field("x").tolist()[:2] == [[1, 1, 0, 1, 0], [0, 0, 1, 0, 0]]


@pytest.mark.filterwarnings("ignore::evenstream.errors.NotLearning")  # 200 rows of six classes
def test_what_the_page_on_plugins_registers_works(tmp_path):
    run_as_module(blocks("docs/how-to/extending.md")[0], tmp_path, "extending")
    (row,) = [row for row in list_datasets() if row.name == "points"]
    assert (row.description, row.licence) == ("600 points around six centres.", "CC0")
    config = small_config("back-points", "er-las", network="narrow", lr=0.1)
    metrics = start_run(config, tmp_path / "run")
    assert metrics["tasks"][0] == ["3", "4", "5"]
    assert metrics["worst_task"] == min(metrics["accuracy_matrix"][-1])
    source = open_source("points://3", Known(), Reading())
    learner = Learner("er-las", "narrow")
    follow(learner, source.stream, tmp_path / "plant")
    assert learner.step == 3


def test_streams_in_python(tmp_path):
    module = run_as_module(blocks("docs/reference/streams.md")[0], tmp_path, "streams_in_python")
    assert len(module.stream.tasks) > 1 and len(module.batch.labels)
    stream = run_as_module(blocks("docs/reference/streams.md")[1], tmp_path, "a_scenario").stream
    assert [task.classes for task in stream.tasks] == [(c,) for c in range(10)]
    assert sum(len(task.train) for task in stream.tasks) == len(stream.dataset.y_train)


@pytest.fixture
def dark_replay(tmp_path):
    source = blocks("docs/tutorials/add-a-method.md")[0]
    assert len(source.splitlines()) < 60
    return run_as_module(source, tmp_path, "contributed")


def toy_stream(seed=0, steps=40):
    rng = np.random.default_rng(seed)
    for classes in ([0, 1], [2, 3]):
        for _ in range(steps):
            labels = rng.choice(classes, 8)
            x = rng.normal(size=(8, 6)).astype(np.float32)
            x[np.arange(8), labels] += 3
            yield x, labels.tolist()


@pytest.mark.parametrize("method", ["my-der:alpha=0.3", "my-der-las"])
def test_contributed_method_learns_and_resumes_exactly(dark_replay, tmp_path, method):
    whole, cut = Learner(method, memory=30, lr=0.1), Learner(method, memory=30, lr=0.1)
    for number, (x, labels) in enumerate(toy_stream()):
        whole.learn(x, labels)
        cut.learn(x, labels)
        if number == 50:
            cut.save(tmp_path / "cut")
            cut = Learner.load(tmp_path / "cut")
    assert cut.fingerprint() == whole.fingerprint()
    assert "logits" in whole.memory.fields
    x, labels = next(toy_stream(seed=1))
    assert whole.learn(x, labels).loss is not None
    assert compose(method).text == method


def test_contributed_method_pulls_towards_the_stored_logits(dark_replay):
    pulled, free = (Learner(f"my-der:alpha={a}", memory=30, lr=0.1) for a in (5.0, 0.0))
    for x, labels in toy_stream():
        pulled.learn(x, labels)
        free.learn(x, labels)

    def distance(learner):
        rows = learner.memory.rows(torch.arange(len(learner.memory)))
        logits = learner.network(learner.preprocess.plain(rows["x"])).detach()
        return float((logits[:, : rows["logits"].shape[1]] - rows["logits"]).square().mean())

    assert distance(pulled) < distance(free)


def anchors(page):
    """The anchors that GitHub makes of headings."""
    for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [page for page in PAGES if "/" not in page])
def test_links_of_the_repositorys_own_pages_lead_somewhere(page):
    """The site's own links are checked when it is built."""
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if not path.startswith("http"):
            target = ROOT / path if path else ROOT / page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", ["docs/how-to/sklearn.md", "docs/how-to/river.md"])
def test_the_adapters_pages_run_and_learn(document, tmp_path, capsys):
    for number, source in enumerate(blocks(document)):
        run_as_module(source, tmp_path, f"adapter_{number}")
        accuracy = re.search(r"(\d\.\d+)$|(\d+\.\d+)%", capsys.readouterr().out.strip())
        value = float(accuracy[1]) if accuracy[1] else float(accuracy[2]) / 100
        assert value > 0.6


@pytest.mark.parametrize("name", ["sklearn_new_classes", "river_features_come_and_go"])
def test_an_example_of_the_adapters_runs_and_learns(name, tmp_path, capsys):
    run_as_module((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"), tmp_path, name)
    found = re.findall(r"accuracy.* (\d\.\d+)", capsys.readouterr().out)
    assert float(found[-1]) > 0.8
