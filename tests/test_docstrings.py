"""The examples in docstrings are run."""

import doctest
import importlib
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import evenstream

HOME = Path(evenstream.__path__[0])
WITH_EXAMPLES = [
    ".".join(["evenstream", *file.relative_to(HOME).with_suffix("").parts])
    for file in sorted(HOME.rglob("*.py"))
    if re.search(r"^\s*>>> ", file.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"np": np, "torch": torch, **vars(evenstream)})
    assert found.attempted and not found.failed


def test_there_are_examples():
    assert "evenstream.learner.learner" in WITH_EXAMPLES


@pytest.mark.parametrize("call", [evenstream.Learner.learn, evenstream.Learner.predict])
@pytest.mark.parametrize("form", ["array", "tensor", "images", "frame", "texts"])
def test_help_says_what_inputs_may_be(call, form):
    assert form in pydoc.render_doc(call)
