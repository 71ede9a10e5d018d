"""Help that teaches."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from evenstream import __version__
from evenstream.cli.settings import Settings
from evenstream.cli.sweep_commands import SweepOptions
from evenstream.networks import _OURS
from evenstream.run.config import RunConfig
from evenstream.text import field_docs, metavar
from tests.helpers import warm

FLAGS = ["--" + field.name.replace("_", "-") for field in dataclasses.fields(Settings)]
SWEEP = ["--" + field.name for field in dataclasses.fields(SweepOptions)]
COMMANDS = {
    "run": ["METHOD", "--track", "--out", *FLAGS],
    "compare": ["METHOD", "--seeds", "--jobs", "--track", "--out", *FLAGS],
    "resume": ["DIR", "--jobs", "--track"],
    "report": ["DIR", "--out"],
    "sweep": ["FILE.toml", *SWEEP],
    "paper": ["list", "run"],
    "paper list": ["WORD", "--stream", "--method", "--scale", "--measure", "--out", "--runs"],
    "paper run": ["NAME", *SWEEP],
    "learn": ["DIR", "--from", "--start", "--label", "--ids", "--method", "--again"],
    "predict": ["DIR", "FILE", "--out", "--top"],
    "correct": ["relabel", "forget", "rename", "merge", "remove-class"],
    "correct relabel": ["DIR", "LABEL", "--ids", "--ids-file"],
    "correct forget": ["DIR", "--ids", "--ids-file", "--label", "--saves"],
    "correct rename": ["DIR", "OLD", "NEW"],
    "correct merge": ["DIR", "OLD", "INTO"],
    "correct remove-class": ["DIR", "LABEL", "--saves"],
    "export": ["DIR", "FILE"],
    "pretrain": ["--stream", "--out", "--epochs"],
    "methods": ["NAME"],
    "streams": ["NAME", "--picture"],
    "doctor": [],
    "data": ["list", "get", "verify", "import"],
    "data list": [],
    "data get": ["NAME"],
    "data verify": ["NAME"],
    "data import": ["NAME", "DIR"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run, command):
    status, out, err = run(*command.split(), "--help")
    assert (status, err) == (0, "")
    assert f"Example: evenstream {command.split()[0]}" in out
    for word in COMMANDS[command]:
        assert word in out, f"{word} is not explained"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_overview(run, words):
    status, out, _ = run(*words)
    assert status == 0
    assert "Start here:  evenstream compare er er-las --stream c-digits" in out
    for command in {name.split()[0] for name in COMMANDS}:
        assert f"• {command} " in out


def test_data_alone_shows_its_help(run):
    status, out, _ = run("data")
    assert status == 0
    assert "evenstream data get mnist" in out


def test_required_arguments_are_marked(run):
    for command in ("run", "compare"):
        _, out, _ = run(command, "--help")
        assert "(required)" in out
        assert "(default: )" not in out


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(run, flag):
    assert run(flag) == (0, f"evenstream {__version__}\n", "")


def test_help_is_quick():
    """The module can be run, and says its help without PyTorch."""
    code = (
        "import sys\n"
        "from evenstream.cli.main import main\n"
        "status = main(['streams'])\n"
        "sys.exit(status or 'torch' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert ended.returncode == 0, ended.stderr
    assert "c-digits" in ended.stdout


@pytest.mark.parametrize("command", [["run", "--help"], ["--version"], ["methods"]])
def test_a_reader_that_has_seen_enough_is_no_error(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = warm.evenstream(*command, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(float | None, "FLOAT"), (int, "INT"), (Literal["a", "b"], "{a,b}"), (bool, "{True,False}")],
)
def test_help_says_what_an_option_takes(kind, expected):
    assert metavar(kind) == expected


def test_the_help_of_network_names_them_all():
    said = field_docs(RunConfig)["network"]
    assert all(name in said for name in (*_OURS, "efficientnet-lite0"))
