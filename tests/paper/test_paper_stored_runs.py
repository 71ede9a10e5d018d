"""No stored run changes its meaning: its key, the defaults it relies on, what its method computes.

A run's key leaves out what has its default, so a default that moves would give an old run a new
meaning. `stored_runs.json` was written by the code of commit 2b0a96e; `python
tests/paper/test_paper_stored_runs.py` adds runs, methods and options that are new since, and
changes nothing that is there.
"""

import dataclasses
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from evenstream.composition import LogitAdjustment, compose
from evenstream.core.heads import Cosine
from evenstream.methods import METHODS
from evenstream.policies.rules import RULES
from evenstream.report.packed import PACKED, read_packed, write_packed
from evenstream.run.config import RunConfig
from evenstream.run.sameness import run_key
from evenstream.testing import Backbone, feed, make_learner, toy_stream
from tests.helpers.stages import Stages

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FILE = Path(__file__).with_name("stored_runs.json")
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="source distributions have no results")
KNOWN = json.loads(FILE.read_text(encoding="utf-8"))


def stored():
    """The settings of every stored run, by its study and name."""
    return {
        f"{file.name.removesuffix(PACKED)}/{run.name}": RunConfig.from_values(file, run.config)
        for file in sorted(RESULTS.glob(f"*{PACKED}"))
        for run in read_packed(file)
    }


def defaults():
    """What everything that has options does if it is told nothing."""
    owners = {**METHODS, **{f"@{name}": rule for name, rule in RULES.items()}}
    owners |= {"-las": LogitAdjustment}
    head = compose("er").head
    heads = {f"head_{field.name}": field.default for field in dataclasses.fields(Cosine)}
    return {"head": {"head": head.name, **heads}} | {
        name: {field.name: field.default for field in dataclasses.fields(cls)}
        for name, cls in owners.items()
        if cls.__module__.startswith("evenstream.")
    }


STEPS = {
    "ss-il": 110,  # its teacher is renewed after 100
    "clib": 12,  # beyond that, ties between stored rows are broken by rounding
}
RATES = {"ewc": 0.01}  # at the usual one its penalty used to grow from step to step


def curve(method):
    """Losses and probabilities of a tiny learner."""
    options = {"lr": RATES[method]} if method in RATES else {}
    backbone = Stages if "head=exits" in method else Backbone
    learner, losses = make_learner(method, model=backbone(dropout=0.0), **options), []
    learn = learner.learn
    learner.learn = lambda x, labels: losses.append(learn(x, labels).loss)
    stream = toy_stream(STEPS.get(learner.method.name, 24), classes=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feed(learner, stream)
    seen = np.concatenate([x for x, _ in stream[::5]])
    probabilities = learner.predict_proba(seen).mean(0).tolist()
    return [-1.0 if loss is None else loss for loss in losses[::4]] + probabilities


RUNS = stored()
METHODS_STORED = sorted({config.method for config in RUNS.values()})
SPECS = list({re.sub(r"=[\d.]+", "=", method): method for method in METHODS_STORED}.values())
"""One for each method and set of options: other numbers are the same code."""


def test_results_are_few_files_as_the_tool_writes_them(tmp_path):
    assert len(list(RESULTS.rglob("*"))) <= 40
    for file in RESULTS.glob(f"*{PACKED}"):
        write_packed(tmp_path / "again", read_packed(file))
        assert file.read_bytes() == (tmp_path / "again").read_bytes()


def test_no_stored_run_has_another_key():
    keys = {folder: run_key(config) for folder, config in RUNS.items()}
    known = {folder: KNOWN["keys"].get(folder, Path(folder).name) for folder in keys}
    assert keys == known
    assert KNOWN["keys"].keys() <= keys.keys()


def test_no_default_that_a_key_leaves_out_has_moved():
    now = defaults()
    for name, known in KNOWN["defaults"].items():
        found = {option: now[name].get(option, "gone") for option in known}
        assert found == known, name


@pytest.mark.parametrize("method", SPECS)
def test_the_method_of_a_stored_run_computes_the_same(method):
    assert method in KNOWN["curves"], "new: run this file"
    # Kernels round differently from one processor to the next; another reading is far beyond.
    np.testing.assert_allclose(curve(method), KNOWN["curves"][method], rtol=5e-3, atol=5e-4)


def _write():
    keys = {folder: run_key(config) for folder, config in RUNS.items()}
    found = {
        "keys": {folder: key for folder, key in keys.items() if key != Path(folder).name},
        "defaults": defaults(),
        "curves": {spec: [round(value, 6) for value in curve(spec)] for spec in SPECS},
    }
    found["keys"] |= KNOWN["keys"]
    found["curves"] |= KNOWN["curves"]
    for name, options in found["defaults"].items():
        options |= KNOWN["defaults"].get(name, {})
    lines = [
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found[part].items()))
        + "\n}"
        for part in found
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    _write()
