"""What a plain `pip install evenstream` can do, and what the rest asks you to install."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from evenstream.cli.main import main
from evenstream.data import data_root
from evenstream.extras import MissingExtra, require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ["matplotlib", "requests", "urllib3", "PIL", "pyarrow", "river", "onnx"]


def names(requirements):
    return [re.match(r"[\w.-]+", requirement)[0] for requirement in requirements]


def test_a_plain_install_has_at_most_eight_direct_dependencies():
    assert len(PROJECT["dependencies"]) <= 8
    everything = PROJECT["optional-dependencies"]["all"][0]
    brought = set(re.search(r"\[(.*)\]", everything)[1].split(","))
    assert brought == set(PROJECT["optional-dependencies"]) - {"all", "ray", "docs", "dev"}


def test_scipy_comes_with_scikit_learn():
    assert "scipy" in names(importlib.metadata.requires("scikit-learn"))


def test_every_dependency_is_explained():
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text(encoding="utf-8")
    for name in names(PROJECT["dependencies"]):
        assert f"| `{name}` |" in page
    for extra in set(PROJECT["optional-dependencies"]) - {"dev", "docs", "all"}:
        assert f"| `{extra}` |" in page


LEARN_AND_COMPARE = """
import sys
import numpy as np
sys.modules.update(dict.fromkeys(sys.argv[1:]))  # None: as if they were not installed
from evenstream import Learner
from evenstream.cli.main import main

x, y = np.random.default_rng(0).normal(size=(16, 4)), ["a", "b"] * 8
learner = Learner("er-las", memory=20)
for _ in range(5):
    learner.learn(x, y)
learner.save("saved")
assert Learner.load("saved").fingerprint() == learner.fingerprint()
sys.exit(main("compare er --stream c-digits --batch 200 --seeds 1 --jobs 1 --out out".split()))
"""


def test_data_is_kept_in_the_folder_for_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("EVENSTREAM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    platformdirs = pytest.importorskip("platformdirs")  # another package brings it
    if sys.platform == "linux":
        assert data_root() == platformdirs.user_cache_path("evenstream") == tmp_path / "evenstream"
        monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == platformdirs.user_cache_path("evenstream")


def test_the_library_learns_saves_and_compares_without_the_extras(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "EVENSTREAM_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", LEARN_AND_COMPARE, *EXTRAS],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "A_T" in done.stdout
    assert "evenstream[report]" in done.stderr and "evenstream report out" in done.stderr
    assert (tmp_path / "out" / "summary.json").exists()
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("streams c-digits", "report"),
        ("data get mnist", "data"),
        ("learn saved --from pictures", "data"),
        ("learn saved --from table.parquet", "parquet"),
    ],
)
def test_the_message_names_the_extra(command, extra, tmp_path, monkeypatch, capsys):
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENSTREAM_DATA", str(tmp_path / "data"))
    (tmp_path / "pictures" / "bolt").mkdir(parents=True)
    (tmp_path / "pictures" / "bolt" / "1.png").write_bytes(b"\x89PNG")
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    assert main(command.split()) == 2
    assert f"run pip install 'evenstream[{extra}]'" in " ".join(capsys.readouterr().err.split())


def test_what_is_installed_is_not_asked_for():
    require("numpy", "report", "Anything")
    with pytest.raises(MissingExtra, match=r"^Drawing needs no_such_package, .*evenstream\[x\]'$"):
        require("no_such_package", "x", "Drawing")
