"""What imports what; the layers themselves are in pyproject.toml, and `make lint` holds them."""

import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

from tests.helpers import warm


def test_no_modules_import_each_other_in_a_circle():
    """The contracts of import-linter do not see a package and its own modules."""
    graph = grimp.build_graph("evenstream", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert "evenstream.core.memory" in imports["evenstream.core.state"]
    TopologicalSorter(imports).prepare()  # raises CycleError


def test_the_documented_layers_are_those_that_are_held():
    root = Path(__file__).parent.parent
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [line.replace(" | ", "   ") for line in contracts["contracts"][0]["layers"]]
    assert "\n".join(layers[1:]) in (root / "docs/concepts/architecture.md").read_text()


NOT_BROUGHT = {
    "from evenstream import LogitAdjustedSoftmax": (
        "composition data learner live methods metrics networks report run streams sweep"
    ),
    "from evenstream.methods import MIR": "data learner live report run streams sweep",
    "from evenstream import Learner": "data live report run streams sweep",
    "from evenstream import streams": "learner live report run sweep",
    "from evenstream import follow": "report run.preparation run.runner sweep",
}


def _list_what_comes_with(lines):
    for line in lines:
        for name in [name for name in sys.modules if name.partition(".")[0] == "evenstream"]:
            del sys.modules[name]
        exec(line, {})
        print(*(name for name in sys.modules if name.startswith("evenstream.")))


def test_an_import_does_not_bring_the_layers_above():
    listed = warm.run(_list_what_comes_with, list(NOT_BROUGHT)).stdout.decode().splitlines()
    for (line, names), found in zip(NOT_BROUGHT.items(), listed, strict=True):
        above = [f"evenstream.{name}." for name in names.split()]
        assert not [n for n in found.split() if f"{n}.".startswith(tuple(above))], line
        assert found
