"""Text to objects and back, for every method that is written down anywhere in this repository."""

import re
from pathlib import Path

import pytest

from evenstream.composition import ALIASES, compose, settings_of
from evenstream.errors import EvenstreamError
from evenstream.methods import METHODS
from evenstream.paper import experiments
from evenstream.text import MethodText

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
needs_results = pytest.mark.skipif(not RESULTS.is_dir(), reason="not in source distributions")


def in_tests():
    for path in (ROOT / "tests").rglob("*.py"):
        yield from re.findall(r'"([a-z0-9+-]+(?:[:@][^"\s]+)?)"', path.read_text())


def in_documents():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text()
        yield from re.findall(r"[a-z0-9+-]+(?:-las|:[a-z_]+=\S+?|@[a-z]+)+(?=[`\"\s])", text)


def in_results():
    for path in RESULTS.glob("*.runs.jsonl"):
        yield from re.findall(r'"method":"([^"]+)"', path.read_text())


def in_experiments():
    for experiment in experiments().values():
        for cell in experiment.cells():
            yield experiment.configs(cell, seeds=1)[0].method


@pytest.mark.parametrize(
    ("written", "least"),
    [
        (in_tests, 150),
        (in_documents, 20),
        pytest.param(in_results, 50, marks=needs_results),
        (in_experiments, 50),
    ],
)
def test_text_to_objects_to_text(written, least):
    forms = {}
    for text in set(written()):
        name = MethodText.read(text).plain_name
        if name in METHODS or name in ALIASES:
            try:
                forms[text] = compose(text)
            except EvenstreamError:
                assert written in (in_tests, in_documents), text  # an example of a mistake
    for found in forms.values():
        again = compose(found.text)
        assert again.text == found.text
        assert parts(again) == parts(found)
    assert len(forms) >= least


def parts(composition):
    every = [*composition.parts, composition.head, composition.criterion]
    prior = getattr(composition.criterion, "prior", None)
    plain = (
        {} if prior is None else {k: v for k, v in vars(prior).items() if type(v) in (int, float)}
    )
    return [(type(part), settings_of(part)) for part in every], type(prior), plain
