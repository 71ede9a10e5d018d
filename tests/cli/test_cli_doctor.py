"""`evenstream doctor`, and the log of commands."""

import logging
import os
import subprocess
import sys

import numpy
import pytest
import torch

from evenstream import __version__
from evenstream.cli import doctor_command


def facts(out):
    """{section: {name: value}}"""
    found, section = {}, ""
    for line in out.splitlines():
        if line.startswith("  "):
            name, _, value = line.strip().partition("  ")
            found[section][name] = value.strip()
        else:
            section = line
            found[section] = {}
    return found


def test_it_says_what_there_is(run):
    status, out, err = run("doctor")
    assert (status, err) == (0, "")
    found = facts(out)
    assert found["evenstream"]["version"] == __version__
    assert found["PyTorch"]["version"] == torch.__version__
    assert found["PyTorch"]["threads"].startswith(str(torch.get_num_threads()))
    assert found["libraries"]["numpy"] == numpy.__version__
    assert found["data sets"]["digits"] == "built in"
    assert "cifar10" in found["data sets"]["not here"]
    assert "EVENSTREAM_DATA" in found["environment"]


def test_extras_are_named_with_the_way_to_get_them(run, monkeypatch):
    lines = ["numpy>=1", "nowhere>=2; extra == 'gone'", 'numpy>=1 ; extra == "here"']
    monkeypatch.setattr(doctor_command, "requires", lambda name: lines)
    extras = facts(run("doctor")[1])["extras"]
    assert extras["gone"] == "not installed: pip install 'evenstream[gone]'"
    assert extras["here"] == f"numpy {numpy.__version__}"


@pytest.mark.parametrize(
    ("section", "break_it"),
    [
        ("data sets", lambda m: m.setattr("evenstream.data.list_datasets", broken)),
        ("machine", lambda m: m.setattr(doctor_command.platform, "platform", broken)),
        ("extras", lambda m: m.setattr(doctor_command, "requires", broken)),
    ],
)
def test_what_is_broken_is_said_and_all_else_as_well(run, monkeypatch, section, break_it):
    break_it(monkeypatch)
    status, out, err = run("doctor")
    assert (status, err) == (0, "")
    assert facts(out)[section]["cannot be said"]
    assert facts(out)["PyTorch"]["version"] == torch.__version__


def entry_points(folder, monkeypatch, **modules):
    """Install packages that name plugins, for this test."""
    (folder / "plug-1.dist-info").mkdir()
    lines = ["[evenstream.plugins]", *(f"{name} = {name}" for name in modules)]
    (folder / "plug-1.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize("code", ["raise OSError('boom')", "raise SystemExit('boom')", "boom("])
def test_a_plugin_that_fails_is_named_and_all_others_are_used(run, tmp_path, monkeypatch, code):
    folder = tmp_path / "site"
    folder.mkdir()
    entry_points(folder, monkeypatch, plug_bad=code, plug_good="")
    monkeypatch.setenv("EVENSTREAM_PLUGINS", "a_module_that_is_nowhere")
    status, out, err = run("doctor")
    assert (status, err) == (0, "")
    assert "fails on import" in facts(out)["plugins"]["plug_bad"]
    assert facts(out)["plugins"]["plug_good"].startswith("imported")
    assert "ModuleNotFoundError" in out
    assert facts(out)["data sets"]["digits"] == "built in"
    status, _, err = run("methods")
    assert status == 2 and "plug_bad" in err  # it is only the doctor who goes on


def broken(*args, **kwargs):
    raise OSError("the disk is gone")


def test_without_pytorch_there_is_no_traceback(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: cannot open')")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "evenstream", "doctor"]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and done.stderr == ""
    found = facts(done.stdout)
    assert found["PyTorch"]["cannot be said"] == "ImportError: libtorch.so: cannot open"
    assert found["libraries"]["numpy"] == numpy.__version__


def test_the_log_is_shown_if_asked_for(run, learn, table, caplog, monkeypatch, request):
    request.addfinalizer(lambda: logging.getLogger("evenstream").setLevel(logging.NOTSET))
    assert learn("--from", table)[0] == 0 and not caplog.records
    monkeypatch.setenv("EVENSTREAM_LOG", "debug")
    assert learn("--from", table, directory="other")[0] == 0
    said = [(record.levelname, record.message) for record in caplog.records]
    assert ("INFO", "auto: network made for inputs of shape (5,)") in said
    assert any(level == "DEBUG" and "saved " in text for level, text in said)
    monkeypatch.setenv("EVENSTREAM_LOG", "loud")
    assert run("methods")[0] == 2
