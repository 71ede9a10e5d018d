"""A researcher's own file that registers one of each kind; tests/cli has the commands."""

import inspect
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from torch import nn

import evenstream
from evenstream import Learner, networks
from evenstream.composition import compose
from evenstream.core.heads import Head
from evenstream.data import from_arrays, list_datasets, load_dataset
from evenstream.errors import DataError, InputError, UnknownName
from evenstream.live import follow, register_source
from evenstream.live.open_data import Known, Reading, open_source
from evenstream.live.tally import Place
from evenstream.measures import metric_of
from evenstream.methods import Method
from evenstream.metrics import own_metrics, register_metric
from evenstream.plugins import import_plugins
from evenstream.policies.rules import InferenceRule
from evenstream.report.comparison.summary import summarise
from evenstream.report.runs import load_run
from evenstream.streams import open_stream
from evenstream.streams.scenario import Scenario
from tests.helpers.odd_values import ODD, refused_or_taken
from tests.helpers.small_streams import blobs

PLUGIN = Path(__file__).parent / "helpers" / "own_plugin.py"
NAMES = {
    "register": "own-er",
    "register_dataset": "blobs",
    "register_head": "halved",
    "register_metric": "worst_task",
    "register_network": "narrow",
    "register_rule": "first",
    "register_scenario": "rev",
    "register_source": "blobs",
}


@pytest.fixture
def plugin(monkeypatch):
    """What the plugin brings, for one test."""
    monkeypatch.setenv("EVENSTREAM_PLUGINS", str(PLUGIN))
    import_plugins(again=True)


def test_each_decorator_is_in_the_package():
    decorators = {name for name in evenstream.__all__ if name.startswith("register")}
    assert decorators == NAMES.keys() | {"register_encoder", "register_optimizer"}
    text = PLUGIN.read_text()
    for decorator, name in NAMES.items():
        assert f'@{decorator}("{name}"' in text


def test_an_address_is_gone_on_with(tmp_path):
    """It is read from its beginning, and what was learned is passed over."""
    there = 3

    @register_source("growing")
    def growing(address):
        return [blobs(4, seed=number) for number in range(there)]

    def learn(folder):
        source = open_source("growing://here", Known(), Reading())
        learner = Learner("er-las", "mlp", memory=20, lr=0.1)
        metrics = follow(learner, source.stream, tmp_path / folder, name=source.name_in({}))
        source.close()
        return learner.fingerprint(), metrics["batches"]

    assert learn("plant")[1] == 3
    there = 6
    assert learn("plant") == learn("whole")
    assert learn("whole")[1] == 6


def test_an_address_is_known_by_its_name(plugin):
    source = open_source("blobs://4?batches=3", Known(), Reading())
    ended = Place(batches=3, state="digest", ended=True)
    streams = {"blobs://4?batches=30": ended, source.name: ended}
    assert source.name_in({}) == source.name_in(streams) == source.name
    assert source.name_in(streams, again=True) == f"{source.name} (2)"
    streams[f"{source.name} (2)"] = Place(batches=1, state="digest")
    assert source.name_in(streams, again=True) == f"{source.name} (2)"
    evenstream.register_source("nothing")(lambda address: None)
    with pytest.raises(DataError, match="must return an iterable"):
        open_source("nothing://", Known(), Reading())


def test_a_network_of_ones_own(plugin):
    learner = Learner("er", "narrow")
    learner.learn(*blobs(4))
    assert learner.predict_proba(blobs(3)[0]).shape[0] == 3
    networks.register_network("list")(lambda shape: [shape])
    with pytest.raises(InputError, match="network 'list' must be a torch module"):
        networks.build("list", (3,))
    networks.register_network("large", min_side=64)(lambda shape: None)
    with pytest.raises(InputError, match="at least 64x64 pixels"):
        networks.build("large", (3, 32, 32))


def test_a_network_of_ones_own_has_options(plugin):
    @networks.register_network("stretch")
    def stretch(input_shape, width: int = 4, kind: Literal["a", "b"] = "a", other=None):
        return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], width), nn.ReLU())

    learner = Learner("er", "stretch:width=6")
    learner.learn(*blobs(4))
    assert learner.network.head.weight.shape[1] == 6
    assert networks.canonical_name("stretch:width=6,kind=a") == "stretch:width=6"
    assert networks.canonical_name("stretch:width=4,kind=b") == "stretch:kind=b"
    for text, trouble in {"other=1": "it has: width, kind", "width=x": "must be a number"}.items():
        with pytest.raises(InputError, match=trouble):
            networks.build(f"stretch:{text}", (3,))


def test_a_data_set_of_ones_own(plugin):
    dataset = load_dataset("blobs")
    assert dataset.n_classes == 4
    (row,) = [row for row in list_datasets() if row.name == "blobs"]
    assert (row.present, row.checked, row.description) == (True, "unverified", "Four blobs.")
    with pytest.raises(InputError, match="leave test_fraction out"):
        load_dataset("blobs", test_fraction=0.5)
    evenstream.register_dataset("pair")(lambda: (np.zeros((4, 2)), [0, 1, 0, 1]))
    with pytest.raises(DataError, match="must return a Dataset"):
        load_dataset("pair")
    evenstream.register_dataset("own")(
        lambda: from_arrays(np.random.default_rng(0).random((40, 2)), [0, 1] * 20)
    )
    assert len(open_stream("c-own")) == 1


def test_reports_compute_an_own_metric_for_older_runs(plugin, tmp_path):
    matrix = [[90.0, None], [40.0, 80.0]]
    found = {
        "format": 1, "status": "finished", "method": "er", "stream": "c", "seed": 0, "A_T": 60.0,
        "F_T": 50.0, "tasks": [["a"], ["b"]], "accuracy_matrix": matrix, "train_seconds": 1.0,
        "classes": ["a", "b"], "average_accuracy": [90.0, 60.0], "steps": 2, "samples": 4,
    }  # fmt: skip
    (tmp_path / "metrics.json").write_text(json.dumps(found))
    run = load_run(tmp_path)
    assert run.problem is None
    assert run.metrics["worst_task"] == 40
    assert summarise([run.metrics])["er"].mean("worst_task").mean == 40


def test_a_metric_that_fails_loses_no_run():
    @register_metric("broken")
    def broken(matrix):
        return matrix[99, 99]

    @register_metric("undefined")
    def undefined(matrix):
        matrix[:] = 0  # of its own copy
        return np.nan

    @register_metric("last", better="higher", unit="%")
    def last(matrix):
        """Accuracy on the last task."""
        return matrix[-1, -1]

    with pytest.warns(UserWarning, match="metric broken could not be computed: IndexError"):
        assert own_metrics([[90.0]]) == {"broken": None, "undefined": None, "last": 90.0}
    assert own_metrics(None) == {"broken": None, "undefined": None, "last": None}
    assert metric_of("last_gain").better == "higher"


@pytest.mark.parametrize(
    ("decorator", "name", "thing", "message"),
    [
        ("register_metric", "seed", len, "choose another name"),
        ("register_metric", "A_T", len, "already registered"),
        ("register_metric", "no good", len, "cannot be called"),
        ("register_network", "mlp", len, "already registered"),
        ("register_dataset", "digits", len, "already registered"),
        ("register_dataset", "a/b", len, "cannot be called"),
        ("register_scenario", "c", Scenario, "already registered"),
        ("register_scenario", "my-c", Scenario, "cannot be called"),
        ("register_scenario", "mine", len, "subclass of Scenario"),
        ("register_source", "My", len, "cannot be called"),
        ("register_source", "my", 3, "by its function"),
    ],
)
def test_what_cannot_be_registered(decorator, name, thing, message):
    with pytest.raises(InputError, match=message):
        getattr(evenstream, decorator)(name)(thing)


THINGS = {
    "register": lambda: dataclass(type("Own", (Method,), {})),
    "register_dataset": lambda: lambda: None,
    "register_encoder": lambda: lambda: None,
    "register_head": lambda: dataclass(frozen=True)(type("Own", (Head,), {})),
    "register_metric": lambda: lambda matrix: None,
    "register_network": lambda: lambda shape: None,
    "register_optimizer": lambda: lambda groups, **options: None,
    "register_rule": lambda: dataclass(type("Own", (InferenceRule,), {})),
    "register_scenario": lambda: dataclass(frozen=True)(type("Own", (Scenario,), {})),
    "register_source": lambda: lambda address: None,
}


def test_there_is_something_to_register_by_each_decorator():
    assert THINGS.keys() == {name for name in evenstream.__all__ if name.startswith("register")}


@pytest.mark.parametrize("decorator", THINGS)
def test_names_and_things_of_other_kinds(decorator):
    register, make = getattr(evenstream, decorator), THINGS[decorator]
    words = list(inspect.signature(register).parameters)[1:]
    for value in [*ODD.values(), "a:b", "a@b", "a,b", "a=b", "a b", "-a", "a/b"]:
        refused = refused_or_taken(lambda v=value: register(v)(make()))
        assert refused or (isinstance(value, str) and value.isalpha())
        if not callable(value):
            assert refused_or_taken(lambda v=value: register("odd")(v))
        for word in words:
            refused_or_taken(lambda w=word, v=value: register("odd", **{w: v})(make()))


def fails(*args, **kwargs):
    raise KeyError("own")


class FailingScenario(Scenario):
    arrange = fails


@pytest.mark.parametrize(
    "use",
    [
        lambda: Learner("er", "failing").learn(np.zeros((2, 3)), [0, 1]),
        lambda: Learner("er", "failing-encoder").learn(np.zeros((2, 3)), [0, 1]),
        lambda: Learner("er", optimizer="failing").learn(np.zeros((2, 3)), [0, 1]),
        lambda: load_dataset("failing"),
        lambda: FailingScenario().stream(load_dataset("digits")),
        lambda: open_source("failing://x", Known(), Reading()),
    ],
)
def test_what_fails_in_a_function_of_ones_own_is_told_with_its_role(use):
    for decorator in (
        "register_network",
        "register_dataset",
        "register_optimizer",
        "register_source",
    ):
        getattr(evenstream, decorator)("failing")(fails)
    evenstream.register_encoder("failing-encoder")(fails)
    with pytest.raises(InputError, match="fails: KeyError: 'own'"):
        use()


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([3], "must yield pairs"),
        ([(blobs(4)[0], [0, 1])], "4 rows but 2 labels"),
        (map(fails, [1]), "fails: KeyError: 'own'"),
    ],
)
def test_what_a_source_gives_to_predict(batches, message):
    register_source("odd")(lambda address: batches)
    with pytest.raises(InputError, match=message):
        list(open_source("odd://x", Known(), Reading(label_needed=False)))


def test_a_cell_of_a_notebook_may_run_twice():
    for _ in range(2):

        @networks.register_network("again")
        def again(shape):
            return shape

    assert networks.NETWORKS["again"].where is again


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (lambda: Learner("own-err"), "own-er"),
        (lambda: Learner("er@frist"), "first"),
        (lambda: Learner("er", "narow"), "narrow"),
        (lambda: open_stream("rev-blob"), "rev-blobs"),
        (lambda: open_stream("reb-blobs"), "rev-blobs"),
        (lambda: load_dataset("blob"), "blobs"),
    ],
)
def test_unknown_names_know_the_plugins(plugin, wrong, right):
    with pytest.raises(UnknownName) as raised:
        wrong()
    assert f"did you mean {right}" in str(raised.value)
    assert f"EVENSTREAM_PLUGINS names {PLUGIN}" in str(raised.value)


# ---- where plugins come from ---------------------------------------------------------------------

METHOD = """
from dataclasses import dataclass
from evenstream import register
from evenstream.methods.er import ER

@register("my-er")
@dataclass
class MyER(ER):
    \"\"\"ER under another name.\"\"\"
"""


@pytest.mark.parametrize("plugins", ["plug.py", "plug"])
def test_plugins_are_files_or_modules(tmp_path, monkeypatch, plugins):
    (tmp_path / "plug.py").write_text(METHOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("EVENSTREAM_PLUGINS", f" {plugins} ,")
    import_plugins()
    assert compose("my-er-las").text == "my-er-las"
    sys.modules.pop("plug", None)


def test_two_plugins_may_be_files_of_one_name(tmp_path, monkeypatch):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "plug.py").write_text(METHOD.replace("my-er", f"er-{folder}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENSTREAM_PLUGINS", "one/plug.py,two/plug.py")
    import_plugins()
    classes = [type(compose(f"er-{folder}").method) for folder in ("one", "two")]
    files = [Path(inspect.getfile(found)) for found in classes]
    assert [file.parent.name for file in files] == ["one", "two"]


def test_installed_packages_name_their_plugins(tmp_path, monkeypatch):
    (tmp_path / "plug.py").write_text(METHOD)
    (tmp_path / "plug-1.dist-info").mkdir()
    text = "[evenstream.plugins]\nmine = plug\n"
    (tmp_path / "plug-1.dist-info" / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import_plugins(again=True)  # as after an installation in a running process
    assert compose("my-er").text == "my-er"
    sys.modules.pop("plug", None)


@pytest.mark.parametrize(
    ("plugins", "text", "message"),
    [
        ("nowhere", "", "plugin nowhere, named by EVENSTREAM_PLUGINS, fails on import: ModuleNot"),
        ("plug.py", "1 / 0", "fails on import: ZeroDivisionError: division by zero"),
        ("plug.py", METHOD.replace("my-er", "er"), "method 'er' is already registered"),
    ],
)
def test_plugins_that_cannot_be_imported(tmp_path, monkeypatch, plugins, text, message):
    (tmp_path / "plug.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENSTREAM_PLUGINS", plugins)
    with pytest.raises(InputError, match=message):
        import_plugins()


SCRIPT = """
import os, sys
from evenstream import metrics, register_metric

@register_metric("mine")
def mine(matrix):
    return 1.0

os.environ["EVENSTREAM_PLUGINS"] = __file__
print(metrics.own_metrics([[90.0]]))
"""


def test_a_program_may_name_itself_for_its_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    program = [sys.executable, "script.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "{'mine': 1.0}\n", done.stderr


def test_a_file_is_executed_once(tmp_path, monkeypatch):
    """Also if another is named beside it; one that failed is tried again."""
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(f"with open({str(tmp_path / 'log')!r}, 'a') as file: file.write('x')")
    second.write_text("1 / 0")
    monkeypatch.setenv("EVENSTREAM_PLUGINS", str(first))
    import_plugins()
    monkeypatch.setenv("EVENSTREAM_PLUGINS", f"{first},{second}")
    for _ in range(2):
        with pytest.raises(InputError, match="ZeroDivisionError"):
            import_plugins()
    second.write_text("")
    import_plugins()
    assert (tmp_path / "log").read_text() == "x"
    import_plugins(again=True)
    assert (tmp_path / "log").read_text() == "xx"


def test_other_threads_wait_for_plugins(tmp_path, monkeypatch):
    text = (
        "import time; time.sleep(0.3)\nimport evenstream\nevenstream.register_network('slow')(len)"
    )
    (tmp_path / "slow.py").write_text(text)
    monkeypatch.setenv("EVENSTREAM_PLUGINS", str(tmp_path / "slow.py"))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: "slow" in networks.NETWORKS, range(4)))
