"""The examples in docstrings are run."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import evenstream

WITH_EXAMPLES = [
    found.name
    for found in pkgutil.walk_packages(evenstream.__path__, "evenstream.")
    if (path := Path(evenstream.__path__[0], *found.name.split(".")[1:]))
    .with_suffix(".py")
    .exists()
    and re.search(r"^\s*>>> ", path.with_suffix(".py").read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"np": np, "torch": torch, **vars(evenstream)})
    assert found.attempted and not found.failed


def test_there_are_examples():
    assert "evenstream.learner.learner" in WITH_EXAMPLES
