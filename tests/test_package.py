"""The package as it is installed."""

import ast
import configparser
import importlib
import importlib.metadata
import logging
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import evenstream
from evenstream import errors, networks
from evenstream.core.heads import Head
from evenstream.policies.priors import PriorEstimator
from evenstream.policies.retrieval import Retrieval
from evenstream.policies.rules import InferenceRule
from evenstream.policies.storing import Storing
from evenstream.policies.teachers import Teacher
from tests.helpers import warm
from tools.set_address import with_absolute_links, with_urls

ROOT = Path(__file__).parent.parent


def test_version_is_stated_in_one_place():
    assert importlib.metadata.version("evenstream") == evenstream.__version__
    assert evenstream.__version__ not in (ROOT / "pyproject.toml").read_text()


def test_public_names_resolve():
    for name in evenstream.__all__:
        assert getattr(evenstream, name).__name__.split(".")[-1] == name
    for module in (evenstream, networks):
        assert set(dir(module)) >= set(module.__all__)
        with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
            _ = module.Nothing


@pytest.mark.parametrize(
    "name",
    [
        *("methods", "rules", "heads", "priors", "retrieval", "storing", "streams", "networks"),
        *("encoders", "teachers"),
    ],
)
def test_an_editor_completes_what_a_learner_is_composed_of(name):
    module = getattr(evenstream, name)
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, each) for each in module.__all__)


def test_every_policy_is_exported_from_where_it_is():
    exported = {
        getattr(module, name)
        for module in (
            *(evenstream.methods, evenstream.rules, evenstream.retrieval, evenstream.storing),
            *(evenstream.teachers, evenstream.priors, evenstream.heads),
        )
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    }
    bases = (Retrieval, Storing, InferenceRule, Teacher, PriorEstimator, Head)
    found = {each for base in bases for each in subclasses(base)}
    ours = {each for each in found if each.__module__.startswith("evenstream.")}
    assert {each for each in ours - exported if not each.__name__.startswith("_")} == set()


def subclasses(base):
    return {base}.union(*map(subclasses, base.__subclasses__()))


def test_a_module_is_found_without_being_imported_before():
    ended = warm.run(_find_modules, ["augment", "data", "teachers"])
    assert ended.returncode == 0, ended.stderr.decode()


def _find_modules(names):
    for name in names:
        for module in [each for each in sys.modules if each.partition(".")[0] == "evenstream"]:
            del sys.modules[module]
        assert getattr(importlib.import_module("evenstream"), name).__all__


@pytest.mark.parametrize(
    "name", [n for n in networks.__all__ if n[0].isupper() and n != "NETWORKS"]
)
def test_networks_are_exported(name):
    assert getattr(networks, name).__name__ == name


def test_listing_and_help_do_not_import_torch():
    code = (
        "import sys, evenstream.cli.main, evenstream.networks, evenstream.streams.catalogue\n"
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_warning_has_a_category_of_the_family():
    calls = [
        (file.name, node)
        for file in Path(evenstream.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
    ]
    assert len(calls) > 5
    for name, call in calls:
        category = getattr(errors, ast.unparse(call.args[1])) if len(call.args) > 1 else None
        assert category and issubclass(category, evenstream.EvenstreamWarning), name
        assert category is not evenstream.EvenstreamWarning, name


def test_the_log_is_quiet_unless_asked(caplog, capfd):
    learner = evenstream.Learner(memory=10)
    learner.learn([[0.0, 1.0]] * 4, ["a", "b"] * 2)
    assert capfd.readouterr() == ("", "")
    handlers = logging.getLogger("evenstream").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)
    with caplog.at_level("INFO", "evenstream"):
        learner.learn([[0.0, 1.0]] * 4, ["a", "c"] * 2)
    (record,) = caplog.records
    assert record.name.startswith("evenstream.") and "1 new classes, 3 in all" in record.message


@pytest.mark.slow
def test_wheel_installs_and_imports_without_the_repo(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True)
    wheel = next(tmp_path.glob("evenstream-*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert {"evenstream/py.typed", "evenstream/report/page.css"} <= set(names)
    paper = ("notes.toml", "descriptions.toml", "experiments/ablation.toml", "printed/ablation.csv")
    assert {f"evenstream/paper/{name}" for name in paper} <= set(names)
    target = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True)
    code = f"import evenstream; assert evenstream.__file__.startswith({str(target)!r})"
    environment = {"PYTHONPATH": str(target)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment)


@pytest.mark.slow
def test_source_distribution_has_no_results(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    tools = tmp_path / "tools"
    subprocess.run([*pip, "install", "--target", str(tools), "hatchling>=1.24"], check=True)
    code = "import sys, hatchling.build as build; build.build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONPATH": str(tools)})
    with tarfile.open(next(tmp_path.glob("evenstream-*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"src/evenstream/__init__.py", "docs/appendix/results.md"} <= set(names)
    assert not [name for name in names if name.startswith("docs/results/")]


def test_the_type_checker_looks_for_names_in_tests():
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).with_name("mypy.ini"))
    off = set(settings["mypy"]["disable_error_code"].split(", "))
    assert not off & {"attr-defined", "name-defined", "call-arg", "import-not-found"}


def test_a_release_names_the_repository_that_it_comes_from():
    address = "https://example.org/someone/evenstream"
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "urls" not in tomllib.loads(pyproject)["project"]  # nothing is public yet
    urls = tomllib.loads(with_urls(pyproject, address, "v1"))["project"]["urls"]
    assert urls["Changelog"] == f"{address}/blob/v1/CHANGELOG.md"
    readme = with_absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), address, "v1")
    assert f"]({address}/raw/v1/docs/images/demo.png)" in readme
    assert f"]({address}/blob/v1/docs/choose.md)" in readme
    assert not re.findall(r"\]\((?!https?:|#)", readme)
    with pytest.raises(ValueError, match="lacks the line"):
        with_urls("", address, "v1")
