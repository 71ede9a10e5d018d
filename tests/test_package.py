"""The package as it is installed."""

import importlib.metadata
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import evenstream

ROOT = Path(__file__).parent.parent


def test_version_is_stated_in_one_place():
    assert importlib.metadata.version("evenstream") == evenstream.__version__
    assert evenstream.__version__ not in (ROOT / "pyproject.toml").read_text()


def test_public_names_resolve():
    for name in evenstream.__all__:
        assert getattr(evenstream, name).__name__.split(".")[-1] == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = evenstream.Nothing


def test_listing_and_help_do_not_import_torch():
    code = (
        "import sys, evenstream.cli.main, evenstream.networks, evenstream.streams.catalogue\n"
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


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
    assert {"src/evenstream/__init__.py", "docs/results.md"} <= set(names)
    assert not [name for name in names if name.startswith("docs/results/")]
