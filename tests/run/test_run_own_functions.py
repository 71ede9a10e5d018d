"""An optimiser and an augmentation that runs know by where they are defined."""

import sys

import pytest

from evenstream.errors import CheckpointError, InputError
from evenstream.interruption import Interrupted
from evenstream.learner.learner import Learner
from evenstream.run.preparation import make_learner
from evenstream.run.runner import resume_run, start_run
from evenstream.run.sameness import run_key
from tests.helpers.small_runs import StopAfter, outcome, small_config

MODULE = """
import torch

def two_rates(groups):
    parts = [{"params": group, "lr": 0.1 / (1 + i)} for i, group in enumerate(groups.values())]
    return torch.optim.SGD([part for part in parts if part["params"]], momentum=0.9)

def noise(rows):
    return rows + 0.1 * torch.randn_like(rows)

number = 3
"""
NAMED = {"optimizer": "own_functions_here:two_rates", "augment": "own_functions_here:noise"}


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "own_functions_here.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_functions_here", None)


def test_a_run_with_functions_resumes_exactly(table, tmp_path):
    config = small_config(table, **NAMED)
    start_run(config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "cut", stop=StopAfter(7))
    resume_run(tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    start_run(small_config(table), tmp_path / "plain")
    assert outcome(tmp_path / "plain") != outcome(tmp_path / "whole")
    assert run_key(config) != run_key(small_config(table))


@pytest.mark.parametrize("what", ["optimizer", "augment"])
@pytest.mark.parametrize(
    "text", ["nowhere_at_all:f", "own_functions_here:f", "own_functions_here:"]
)
def test_what_cannot_be_imported_is_named_before_anything_is_written(what, text, table, tmp_path):
    with pytest.raises(InputError, match=f"{what} '{text}' cannot be imported.*PYTHONPATH"):
        start_run(small_config(table, **{what: text}), tmp_path / "run")
    with pytest.raises(InputError, match="is not a function"):
        start_run(small_config(table, **{what: "own_functions_here:number"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_save_never_imports_by_itself(table):
    saved = make_learner(small_config(table, **NAMED)).to_bytes()
    sys.modules.pop("own_functions_here")
    with pytest.raises(CheckpointError, match="pass it again"):
        Learner.from_bytes(saved)
    assert "own_functions_here" not in sys.modules
