"""The example of a stream of one's own runs as it stands, and goes on when files are added."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from evenstream import Learner

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "streams.md"
BLOCK = re.compile(r"<!-- a test runs this block -->\n```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sensors").mkdir()
    *_, source = BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
    Path("example.py").write_text(source, encoding="utf-8")
    assert len([line for line in source.splitlines() if line.strip()]) < 20


def hour(number, states, rows=25):
    draw = np.random.default_rng(number)
    lines = ["time,temperature,pressure,state"]
    for _ in range(rows):
        state = draw.choice(states)
        lines.append(f"{number},{len(state) * 100 + draw.normal()},{draw.normal(1e5)},{state}")
    Path(f"sensors/{number:02}.csv").write_text("\n".join(lines))


def test_the_example_goes_on_with_new_files(example, capsys):
    hour(1, ["ok", "leak"])
    hour(2, ["ok", "leak"])
    runpy.run_path("example.py")
    assert capsys.readouterr().out.startswith("50 samples, ")
    hour(3, ["ok", "broken"])
    metrics = runpy.run_path("example.py")["metrics"]
    assert (metrics["samples"], metrics["batches"]) == (75, 9)
    assert sorted(metrics["labels"]) == ["broken", "leak", "ok"]
    whole = runpy.run_path("example.py")
    learner = Learner("er-las", "mlp-norm", lr=0.1)
    for x, labels in whole["readings"]("sensors"):
        learner.learn(x, labels)
    assert Learner.load("plant").fingerprint() == learner.fingerprint()
