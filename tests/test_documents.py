"""The code in README.md, CONTRIBUTING.md and docs (composing, extending) runs as it stands."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from evenstream import Learner, follow
from evenstream.composition import compose
from evenstream.data import list_datasets
from evenstream.live.opening import Known, Reading, open_source
from evenstream.run.runner import start_run
from small_runs import small_config

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"<!-- a test runs this block -->\n```python\n(.*?)```", re.DOTALL)


def blocks(document):
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


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
    module = run_as_module(blocks("docs/composing.md")[0], tmp_path, "composing")
    learner = module.learner
    assert learner.text == "mir-las:subsample=64,tau=2.0,window=5,head=cosine@ema"
    assert [group["lr"] for group in learner.optimizer.param_groups] < [1e-3, 1e-2]
    assert "MIR" in capsys.readouterr().out or "mir" in repr(learner)
    learner.save(tmp_path / "saved")
    given = {"model": type(module.net)(*module.net), "optimizer": module.optimizer}
    assert Learner.load(tmp_path / "saved", **given).fingerprint() == learner.fingerprint()


def test_what_the_page_on_plugins_registers_works(tmp_path):
    run_as_module(blocks("docs/extending.md")[0], tmp_path, "extending")
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


@pytest.fixture
def dark_replay(tmp_path):
    source = blocks("CONTRIBUTING.md")[0]
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
