"""What type checkers say of user code: all of `accepted.py` passes, each marked line is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src"
FILES = [HERE / "accepted.py", HERE / "refused.py"]


def mypy(tmp_path):
    """Those of `make lint` are checked already: with its cache this takes a few seconds."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", *map(str, FILES)]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = [line.split(":", 3) for line in said.stdout.splitlines()]
    errors = [line for line in lines if len(line) == 4 and line[2] == " error"]
    assert errors, said.stdout + said.stderr
    return {(Path(file).name, int(number)): text for file, number, _, text in errors}


def basedpyright(tmp_path):
    settings = tmp_path / "pyrightconfig.json"
    values = {"typeCheckingMode": "standard", "include": [*map(str, FILES)]}
    settings.write_text(json.dumps({**values, "extraPaths": [str(SOURCE)]}))
    command = ["-m", "basedpyright", "--outputjson", "-p", settings, "--pythonpath", sys.executable]
    said = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    errors = [
        found
        for found in json.loads(said.stdout)["generalDiagnostics"]
        if found["severity"] == "error"
    ]
    return {
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1): found["message"]
        for found in errors
    }


def marked(path):
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {(path.name, number) for number, line in lines if line.endswith("# error")}


@pytest.mark.parametrize("checker", [mypy, basedpyright])
def test_user_code_is_accepted_and_mistakes_are_refused(checker, tmp_path):
    refused = checker(tmp_path)
    expected = marked(FILES[1])
    assert {place: refused[place] for place in refused.keys() - expected} == {}
    assert expected - refused.keys() == set()
