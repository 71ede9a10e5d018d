"""`evenstream methods`, `streams` and `data`."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest

from evenstream.cli.descriptions import options_of
from evenstream.composition import compose
from evenstream.methods import METHODS, register
from evenstream.methods.er import Replay
from evenstream.policies.rules import RULES


def test_list_of_methods(run):
    status, out, err = run("methods")
    assert (status, err) == (0, "")
    for name in METHODS:
        assert name in out
    assert "er-las" in out
    assert "shuffled" in out  # what joint needs
    assert "er-las:tau=2,window=5" in out


@pytest.mark.parametrize("columns", [80, 120])
def test_list_of_methods_has_slots_needs_cost_and_paper_and_fits(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = run("methods")
    assert max(map(len, out.splitlines())) <= columns
    words = " ".join(out.split())
    for name, cls in METHODS.items():
        for part in (cls.citation, cls.cost, *compose(name).method.needs):
            assert part in words
    assert "retrieve: maximally interfered; store: reservoir; predict: arg max" in words
    assert "clib, clib-las" in words
    assert "er-posthoc-las" not in words


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "er",
            ["Chaudhry", "er-las has tau, window, prior, decay", "retrieve: uniform", "head_scale"],
        ),
        ("er-las", ["tau", "1.0", "Strength of the adjustment", "Logit Adjusted Softmax"]),
        ("er-las:tau=2", ["er-las:tau=2.0", "2.0"]),
        ("er-las:prior=macro", ["label_counts", "macro", "One of window, exponential"]),
        ("fine-tune", ["no memory", "nothing from the stream"]),
        ("joint", ["shuffled"]),
        ("er@post-hoc:tau=2", ["er@post-hoc:tau=2.0", "@tau", "@decay", "post hoc correction"]),
    ],
)
def test_one_method(run, name, parts):
    status, out, err = run("methods", name)
    assert (status, err) == (0, "")
    for part in parts:
        assert part in out


@pytest.mark.parametrize("rule", sorted(RULES))
def test_one_rule(run, rule):
    status, out, err = run("methods", rule)
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert f"@{rule}, an inference rule" in words and f"er@{rule}." in words
    assert " ".join(RULES[rule].__doc__.split())[:60] in words
    for field in fields(RULES[rule]):
        assert field.name in out and str(field.default) in out
    for need in RULES[rule]().needs:
        assert need in out


def test_one_rule_with_options_or_as_it_is_written_behind_a_method(run):
    _, out, _ = run("methods", "@ema:decay=0.5")
    assert "@ema:decay=0.5" in out and "0.5" in out
    status, _, err = run("methods", "ema:speed=1")
    assert status == 2 and "ema has no option 'speed'" in err


def test_options_of_a_method_with_inherited_and_long_ones(run):
    @dataclass
    class Parent(Replay):
        """A method."""

        beta: float = 0.5
        """Weight of the other term,
        explained over two lines."""
        plain: int = 3
        gamma: bool = True
        "In single quotes."

    @dataclass
    class Child(Parent):
        """Its heir."""

        delta: int = 7
        """Its own."""
        beta: float = 0.25

    assert options_of(Child()) == [
        ("beta", "0.25", "Weight of the other term,\nexplained over two lines."),
        ("plain", "3", ""),
        ("gamma", "True", "In single quotes."),
        ("delta", "7", "Its own."),
    ]
    register("heir")(Child)
    _, out, _ = run("methods", "heir-las")
    for part in ("Weight of the other term", "delta", "tau"):
        assert part in out


def test_options_of_a_class_without_source():
    namespace = {"dataclass": dataclass, "Replay": Replay, "__name__": "nowhere"}
    exec("@dataclass\nclass Typed(Replay):\n    beta: float = 1.5\n", namespace)
    assert options_of(namespace["Typed"]()) == [("beta", "1.5", "")]


def test_list_of_streams(run):
    status, out, err = run("streams")
    assert (status, err) == (0, "")
    for part in ("c-digits", "c-cifar100", "resnet18", "32+32", ".npz", "b-", "minor", "lt-"):
        assert part in out


def test_one_stream(run):
    status, out, err = run("streams", "c-digits")
    assert (status, err) == (0, "")
    for part in ("8, 9", "network", "mlp", "memory", "100", "lr", "0.1"):
        assert part in out
    assert "out/stream_c-digits.png" in out
    assert Path("out/stream_c-digits.png").read_bytes().startswith(b"\x89PNG")
    header, first, *_ = Path("out/stream_c-digits.csv").read_text().splitlines()
    assert header == "class,task 1,task 2,task 3,task 4,task 5"
    assert first == "0,143,0,0,0,0"
    assert run("streams", "c-digits:tasks=2", "--picture", "here.png")[0] == 0
    assert Path("here.png").exists()


def test_domains_and_options_of_a_stream(run):
    status, out, err = run("streams", "d-digits")
    assert (status, err) == (0, "")
    for part in ("90°", "coupling", "0.000", "What a domain is", "One of auto"):
        assert part in out
    assert Path("out/stream_d-digits.csv").read_text().startswith("class,domain,task 1,task 2")
    assert run("streams", "d-digits:by=colour")[0] == 2
    assert run("streams", "")[0] == run("streams", "c-")[0] == 2  # not the current folder
    assert "given twice" in run("streams", "c-digits:tasks=2,tasks=3")[2]


def test_stream_of_a_file(run):
    np.savez("mine.npz", x=np.zeros((12, 2)), y=["a", "b", "c", "d"] * 3)
    status, out, _ = run("streams", "mine.npz")
    assert status == 0
    assert "a, b" in out


def test_list_of_data_sets(run):
    status, out, err = run("data", "list")
    assert (status, err) == (0, "")
    for part in ("digits", "embedded", "cifar100", "no-data"):
        assert part in out


def test_verify_and_import(run):
    assert run("data", "verify", "digits")[:2] == (0, "digits: all files are correct\n")
    status, out, _ = run("data", "verify", "mnist")
    assert status == 1
    assert "missing  train-images-idx3-ubyte" in out
    assert "mnist: not complete" in out
    Path("downloads").mkdir()
    status, _, err = run("data", "import", "mnist", "downloads")
    assert status == 2
    assert err.startswith("error: ")
    assert not Path("no-data/mnist").exists()


def test_get_without_network(run, monkeypatch):
    """Refused by a port that nobody listens on."""
    monkeypatch.setenv("EVENSTREAM_DATA_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    status, _, err = run("data", "get", "mnist")
    assert status == 2
    assert err.startswith("error: ")
    assert "train-images-idx3-ubyte" in err  # which files to put where
    assert "no-data/mnist" in err
    assert run("data", "get", "digits")[0] == 0
