"""Experiments: from a TOML file to cells and configurations."""

import hashlib
import itertools
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import safetensors.torch
import tomli_w
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.cli.settings import Settings
from evenstream.errors import DataError, EvenstreamError, InputError, UnknownName
from evenstream.measures import ENTRIES as METRICS
from evenstream.metrics import TAKEN
from evenstream.run import environment
from evenstream.run.runner import start_run
from evenstream.streams import STREAMS
from evenstream.sweep import experiment_file as module
from evenstream.sweep.experiment import Cell, check_data, check_options
from evenstream.sweep.experiment_file import LISTS, read_experiment
from evenstream.sweep.plan import make_plan
from tests.helpers.small_runs import save_table, small_config

SMALL = {
    "name": "small",
    "title": "A small one",
    "seeds": 2,
    "metrics": ["A_T"],
    "rows": ["method"],
    "grid": {"method": ["er", "er-las"], "stream": ["c-digits"]},
}


@pytest.fixture
def read(tmp_path):
    """Read an experiment that has these entries instead of those of the small one."""

    def reading(**entries):
        path = tmp_path / "experiment.toml"
        path.write_text(tomli_w.dumps({**SMALL, **entries}))
        return read_experiment(path)

    return reading


def only(experiment, scale=None, **keys):
    """The first run of the only cell with these keys."""
    cells = [c for c in experiment.cells(scale) if all(c[k] == v for k, v in keys.items())]
    (cell,) = cells
    return experiment.configs(cell, scale)[0]


# ---- what a file means -----------------------------------------------------------------------


def test_the_example_in_the_documentation(tmp_path):
    lines = module.__doc__.split("\n\n", 1)[1].split("\nA key is")[0]
    path = tmp_path / "example.toml"
    path.write_text("\n".join(line.removeprefix("    ") for line in lines.splitlines()))
    example = read_experiment(path)
    check_options(make_plan(example).runs())
    assert len(example.cells()) == 2 * 2 * 3 - 2 + 1
    assert len(example.cells("quick")) == 2 * 1 * 3 + 1
    run = only(example, method="mir-las", stream="c-digits", **{"method:tau": 2})
    assert run.method == "mir-las:tau=2,subsample=50" and run.memory == 200
    small = only(example, "quick", method="er-las", **{"method:tau": 0.5})
    assert (small.method, small.stream) == ("er-las:tau=0.5", "c-digits:fraction=0.2")


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(["er", "er-las", "mir"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["c-digits", "c-mnist"]), min_size=1, unique=True),
    st.lists(st.integers(0, 500), min_size=1, max_size=4, unique=True),
    st.integers(1, 4),
)
def test_cells_are_the_product_and_each_has_a_run_for_every_seed(
    tmp_path_factory, methods, streams, memories, seeds
):
    path = tmp_path_factory.mktemp("experiment") / "one.toml"
    grid = {"memory": memories, "method": methods, "stream": streams}
    path.write_text(tomli_w.dumps({**SMALL, "seeds": seeds, "grid": grid}))
    experiment = read_experiment(path)
    wanted = list(itertools.product(memories, methods, streams))
    assert [tuple(value for _, value in cell.keys) for cell in experiment.cells()] == wanted
    assert all([key for key, _ in cell.keys] == list(grid) for cell in experiment.cells())
    configs = [run for cell in experiment.cells() for run in experiment.configs(cell)]
    assert len(set(configs)) == len(wanted) * seeds
    for cell, (memory, method, stream) in zip(experiment.cells(), wanted, strict=True):
        runs = experiment.configs(cell)
        assert [run.seed for run in runs] == list(range(seeds))
        assert {(run.memory, run.method, run.stream) for run in runs} == {(memory, method, stream)}


@pytest.mark.parametrize("stream", [*STREAMS, "b-mnist:minor=3"])
def test_defaults_are_those_of_the_command_line(read, stream):
    experiment = read(grid={"method": ["er"], "stream": [stream]})
    plain, _, options = stream.partition(":")
    protocol = STREAMS[plain].protocol if plain in STREAMS else STREAMS["c-mnist"].protocol
    if options:
        protocol = replace(protocol, eval_every=5)
    assert only(experiment) == Settings(stream=stream).resolve("er", protocol)


def test_settings_cells_and_rules_count_in_that_order(read):
    experiment = read(
        settings={"memory": 10, "lr": 0.5, "batch": 7},
        grid={"method": ["er", "mir"], "stream": ["c-digits"], "lr": [0.1, 0.2]},
        when=[
            {"match": {"method": "mir"}, "set": {"batch": 3, "method:subsample": 9}},
            {"match": {"method": "mir", "lr": [0.2]}, "set": {"batch": 4, "lr": 0.9}},
        ],
        scale={"small": {"settings": {"batch": 5, "memory": 6}}},
    )
    assert (
        only(experiment, method="er", lr=0.1).batch,
        only(experiment, method="er", lr=0.1).lr,
    ) == (7, 0.1)
    first, second = (only(experiment, method="mir", lr=lr) for lr in (0.1, 0.2))
    assert (first.batch, first.lr, first.method) == (3, 0.1, "mir:subsample=9")
    assert (second.batch, second.lr, second.memory) == (4, 0.9, 10)
    assert only(experiment, "small", method="er", lr=0.2).batch == 5
    assert only(experiment, "small", method="mir", lr=0.1).batch == 3  # rules come last
    assert only(experiment, "small", method="mir", lr=0.1).memory == 6


def test_a_scale_has_its_own_seeds_grid_and_rules(read):
    experiment = read(
        base="paper",
        scale={
            "tiny": {
                "seeds": 1,
                "grid": {"stream": ["c-mnist", "d-mnist"]},
                "when": [{"match": {"stream": "d-mnist"}, "set": {"lr": 0.5}}],
            },
            "same": {},
        },
    )
    assert experiment.scale_names == ["paper", "tiny", "same"]
    assert [len(experiment.cells(scale)) for scale in experiment.scale_names] == [2, 4, 2]
    assert experiment.cells() == experiment.cells("paper") == experiment.cells("same")
    cell = experiment.cells("tiny")[1]
    assert [run.lr for run in experiment.configs(cell, "tiny")] == [0.5]
    assert [run.seed for run in experiment.configs(cell, "tiny", seeds=3)] == [0, 1, 2]
    with pytest.raises(UnknownName, match="unknown scale of small 'tinny'; did you mean tiny"):
        experiment.cells("tinny")


def test_cells_can_be_left_out_and_added(read):
    experiment = read(
        grid={"method": ["er", "mro"], "stream": ["c-digits"], "memory": [0, 10, 20]},
        skip=[{"method": "mro", "memory": [0, 20]}],
        cell=[{"memory": 99, "stream": "d-digits", "method": "joint"}],
    )
    assert [(cell["method"], cell["memory"]) for cell in experiment.cells()] == [
        ("er", 0), ("er", 10), ("er", 20), ("mro", 10), ("joint", 99)
    ]  # fmt: skip
    assert str(experiment.cells()[-1]) == "joint, d-digits, memory 99"
    assert {Cell(experiment.cells()[0].keys), *experiment.cells()} == set(experiment.cells())


def test_a_single_cell_may_have_keys_of_its_own(read):
    """All others have the usual value: that of the settings, of the scale, or the default."""
    cell = {"method": "er", "stream": "c-digits"}
    experiment = read(
        settings={"memory": 20},
        cell=[{**cell, "steps": 4}, {**cell, "memory": 50}],
        scale={"quick": {"settings": {"memory": 5}}},
    )

    def all_of(scale=None):
        runs = [experiment.configs(cell, scale)[0] for cell in experiment.cells(scale)]
        return [(run.method, run.steps, run.memory) for run in runs]

    assert all_of() == [("er", 1, 20), ("er-las", 1, 20), ("er", 4, 20), ("er", 1, 50)]
    assert all_of("quick")[:2] == [("er", 1, 5), ("er-las", 1, 5)]
    assert str(experiment.cells()[2]) == "er, c-digits, steps 4, memory 20"


@pytest.mark.parametrize(
    ("method", "options", "wanted"),
    [
        ("er-las", {"method:tau": float("inf")}, "er-las:tau=inf"),
        ("er-las:tau=2@ncm", {"method:window": 5}, "er-las:tau=2,window=5@ncm"),
        ("er-obc", {"method:surrogate_head": True}, "er-obc:surrogate_head=true"),
    ],
)
def test_options_of_methods(read, method, options, wanted):
    experiment = read(settings=options, grid={"method": [method], "stream": ["c-digits"]})
    assert only(experiment).method == wanted
    check_options(make_plan(experiment).runs())


@pytest.mark.parametrize("scale", ["full", "quick"])
def test_overrides_count_more_than_everything_else(read, scale):
    experiment = read(
        settings={"device": "cpu", "lr": 0.1},
        when=[{"match": {"method": "er"}, "set": {"dtype": "float32"}}],
        scale={"quick": {"settings": {"device": "meta"}}},
    )
    plain = make_plan(experiment, scale).runs()
    runs = make_plan(experiment, scale, overrides={"device": "cuda", "dtype": "bfloat16"}).runs()
    assert runs == [replace(run, device="cuda", dtype="bfloat16") for run in plain]


def test_a_file_can_say_how_many_runs_there_are_at_once(read):
    assert [read().at_once(asked) for asked in (0, 1, 4)] == [0, 1, 4]
    assert [read(jobs=1).at_once(asked) for asked in (0, 1, 4)] == [1, 1, 1]
    assert [read(jobs=3).at_once(asked) for asked in (0, 1, 4, -1)] == [3, 1, 3, -1]
    with pytest.raises(InputError, match="jobs must be 1 or more"):
        read(jobs=-1)


def test_seeds_can_begin_elsewhere(read):
    experiment = read(first_seed=100)
    assert [run.seed for run in experiment.configs(experiment.cells()[0])] == [100, 101]
    with pytest.raises(InputError, match="first_seed"):
        read(first_seed=-1)


def test_what_reports_have_to_know_about_settings(read):
    quick = {"quick": {"inferred": False}, "tiny": {}}
    experiment = read(inferred=True, chosen_on=[{"method": "er"}], scale=quick)
    assert [experiment.at(s).inferred for s in experiment.scale_names] == [True, False, True]
    assert [chosen for chosen in experiment.cells() if experiment.chosen_on[0](chosen)] == [
        cell for cell in experiment.cells() if cell["method"] == "er"
    ]
    with pytest.raises(InputError, match="inferred must be true or false, not 1"):
        read(inferred=1)
    with pytest.raises(InputError, match=r"chosen_on.* for method = .'mir'. matches no cell"):
        read(chosen_on=[{"method": "mir"}])


def test_a_baseline_is_of_the_grid(read):
    assert read(baseline={"method": "er"}).baseline == {"method": "er"}
    with pytest.raises(InputError, match="unknown method in baseline 'mir'; known: er, er-las"):
        read(baseline={"method": "mir"})
    with pytest.raises(InputError, match="unknown entry of baseline 'memory'"):
        read(baseline={"memory": 5})


def test_weights_that_the_command_has_to_name(read, tmp_path):
    experiment = read(settings={"weights": "?"}, scale={"small": {"settings": {"weights": ""}}})
    plan = make_plan(experiment)
    assert {run.weights_sha256 for run in plan.runs()} == {"?"}
    with pytest.raises(InputError, match="name the file with --weights"):
        check_options(plan.runs())
    file = tmp_path / "base.safetensors"
    file.write_bytes(content := safetensors.torch.save({"conv1.weight": torch.zeros(1)}))
    digest = hashlib.sha256(content).hexdigest()
    given = make_plan(experiment, overrides={"weights": str(file)}).runs()
    assert {(run.weights, run.weights_sha256) for run in given} == {(str(file), digest)}
    check_options(given)
    for scratch in (
        make_plan(experiment, overrides={"weights": ""}),
        make_plan(experiment, "small"),
    ):
        assert {run.weights_sha256 for run in scratch.runs()} == {None}
        check_options(scratch.runs())


@pytest.mark.parametrize("name", ["base.toml", "base.safetensors", "base.pth"])
def test_files_that_hold_no_weights_are_told_before_a_run(read, tmp_path, name):
    (tmp_path / name).write_text("something else")
    plan = make_plan(read(), overrides={"weights": str(tmp_path / name)})
    with pytest.raises(InputError, match=f"{name}.*(weights are read from|damaged)"):
        check_options(plan.runs())


def test_data_that_is_not_here_is_told_before_a_run(read, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENSTREAM_DATA", str(tmp_path / "no-data"))

    def check(*streams):
        experiment = read(
            grid={"method": ["er"], "stream": list(streams)}, settings={"network": "mlp"}
        )
        check_data(make_plan(experiment).runs())

    check("c-digits", "b-digits")
    with pytest.raises(DataError, match="mnist is not in the data folder") as told:
        check("c-mnist", "b-mnist")
    assert "evenstream data get mnist" in str(told.value) and "--cells" not in str(told.value)
    with pytest.raises(DataError, match="or choose cells of other data with --cells"):
        check("c-digits", "c-mnist")
    own = tmp_path / "parts.npz"
    with pytest.raises(DataError, match=f"there is no {own}"):
        check(str(own))
    save_table(own)
    check(str(own), "c-digits")


def test_data_of_ones_own(read, tmp_path, monkeypatch):
    save_table(tmp_path / "parts.npz")
    monkeypatch.chdir(tmp_path)
    grid = {"method": ["er"], "stream": ["parts.npz", "lt-parts.npz:imbalance=0.5"]}
    chosen = only(read(grid=grid), stream="parts.npz")
    assert (chosen.network, chosen.optimizer) == ("normalised-mlp", "adamw")
    options = {"network": "mlp-norm", "stream:fraction": 0.5}
    plain, tailed = (only(read(grid=grid, settings=options), stream=s) for s in grid["stream"])
    assert plain.stream == f"{tmp_path}/parts.npz:fraction=0.5"
    assert tailed.stream == f"lt-{tmp_path}/parts.npz:imbalance=0.5,fraction=0.5"
    assert (plain.network, plain.batch) == ("mlp-norm", 32)


def test_weights_are_told_apart_by_what_is_in_the_file(read, tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"some")
    run = only(read(settings={"weights": str(path)}), method="er")
    assert run.weights == str(path) and len(run.weights_sha256) == 64


def test_reading_needs_no_pytorch(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(tomli_w.dumps(SMALL))
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from evenstream.sweep.experiment_file import read_experiment\n"
        f"found = read_experiment(Path({str(path)!r}))\n"
        "found.configs(found.cells()[0])\nsys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_all_metrics_are_in_the_file_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "describe_environment", dict)
    start_run(small_config(save_table(tmp_path / "table.npz")), tmp_path / "run")
    found = json.loads((tmp_path / "run/metrics.json").read_text()).keys()
    assert {*METRICS, *LISTS} <= found
    assert found <= {*METRICS, *TAKEN}  # nobody's own metric can have such a name


# ---- what is refused -------------------------------------------------------------------------

GRID = SMALL["grid"]
CELL = {"method": "er", "stream": "c-digits"}
RULE = {"match": {"method": "er"}, "set": {"lr": 0.1}}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"name": "Small one"}, "name must consist of a-z, 0-9 and single -"),
        ({"name": "index"}, "name must not be 'index'"),
        ({"base": "a:b"}, "base must consist of a-z, 0-9 and single -, not 'a:b'"),
        ({"scale": {'a/b"><i>x': {}}}, "the name of a scale must consist of a-z, 0-9"),
        ({"scale": {"": {}}}, "the name of a scale must consist of a-z, 0-9"),
        ({"title": "two\nlines"}, "title must be one line"),
        ({"titel": "x"}, "unknown entry 'titel'; did you mean title"),
        ({"seeds": 0}, "seeds must be 1 or more"),
        ({"seeds": "2"}, "seeds must be a whole number, not '2'"),
        ({"seeds": True}, "seeds must be a whole number, not True"),
        ({"metrics": []}, "metrics must not be empty"),
        ({"metrics": ["A_X"]}, "unknown name in metrics 'A_X'; did you mean A_T"),
        ({"metrics": ["A_T", "A_T"]}, "metrics has 'A_T' twice"),
        ({"rows": ["memory"]}, "unknown name in rows 'memory'; did you mean method"),
        ({"settings": {"memry": 5}}, "unknown key in settings 'memry'; did you mean memory"),
        ({"settings": {"seed": 5}}, "unknown key in settings 'seed'"),
        ({"settings": {"method:": 5}}, "unknown key in settings 'method:'"),
        ({"settings": {"lr:x": 5}}, "unknown key in settings 'lr:x'"),
        ({"settings": {"stream": "c-mnist"}}, r"settings: stream belongs into \[grid\]"),
        ({"settings": {"memory": [5]}}, "settings: memory must be a text, a number, true or false"),
        ({"settings": {"memory": "5"}}, "memory must be of type int, not '5'"),
        ({"settings": {"weights": 5}}, "settings: weights must be a text, not 5"),
        ({"grid": {**GRID, "method": [5]}}, "grid: method must be a text, not 5"),
        ({"when": [{**RULE, "set": {"stream": 5}}]}, "when.set: stream must be a text, not 5"),
        ({"settings": {"tasks": "2"}}, "tasks must be a whole number"),
        ({"settings": {"class_order": "name"}}, "class_order must be one of label, seed"),
        ({"settings": {"epochs": 0}}, "epochs must be 1 or more"),
        ({"settings": {"weights": "no.pt"}}, "no.pt"),
        ({"grid": {"method": ["er"]}}, "the grid needs the key 'stream'"),
        ({"grid": {**GRID, "memory": 5}}, "grid: memory must be a list of one value or more"),
        ({"grid": {**GRID, "memory": []}}, r"memory must be a list of one value or more, not \[\]"),
        ({"grid": {**GRID, "memory": [5, 5]}}, "the cell .er, c-digits, memory 5. is there twice"),
        ({"grid": {**GRID, "stream": ["c-dogs"]}}, "unknown stream 'c-dogs'"),
        ({"grid": {**GRID, "stream:minor": [1]}}, "stream c-digits has no option 'minor'"),
        ({"grid": {**GRID, "stream:fraction": [2]}}, "fraction must lie above 0"),
        ({"when": [{"match": {}}]}, r"each \[\[when\]\] needs an entry `match` and an entry `set`"),
        ({"when": [{**RULE, "sett": {}}]}, "unknown entry of when 'sett'"),
        ({"when": [{**RULE, "match": {"lr": 1}}]}, "unknown entry of when.match 'lr'"),
        ({"when": [{**RULE, "set": {"seed": 1}}]}, "unknown key in when.set 'seed'"),
        ({"when": [{**RULE, "set": {"lr": "x"}}]}, "lr must be of type float, not 'x'"),
        (
            {"when": [{**RULE, "match": {"method": "mir"}}]},
            r"\[\[when\]\] for method = \['mir'\] matches no cell",
        ),
        ({"metrics": ["A_AUC"]}, r"no run would have A_AUC: set eval_every in \[settings\]"),
        ({"metrics": ["FWT"]}, "no run would have FWT: set eval_future"),
        ({"skip": [{"stream": "c-mnist"}]}, r"\[\[skip\]\] for stream = .* matches no cell"),
        ({"skip": [{"stream": "c-digits"}]}, "there are no cells"),
        ({"skip": [5]}, "skip must be a table, not 5"),
        ({"cell": [{"method": "er"}]}, r"a \[\[cell\]\] needs every key of the grid.* no 'stream'"),
        ({"cell": [{"method": "er", "stream": "c-digits"}]}, "is there twice"),
        ({"cell": [{**CELL, "stepz": 2}]}, "unknown key in cell 'stepz'; did you mean steps"),
        ({"cell": [{**CELL, "lr": 2}]}, r"has lr: say in \[settings\] what all others have"),
        ({"cell": [{**CELL, "steps": [2]}]}, "steps must be a text, a number, true or false"),
        ({"scale": {"a": {"grid": {"lr": [1]}}}}, "unknown entry of scale.a.grid 'lr'"),
        ({"scale": {"a": {"rows": []}}}, "unknown entry of scale.a 'rows'"),
        ({"scale": {"a": {"seeds": 0}}}, "scale.a: seeds must be 1 or more"),
        ({"scale": {"full": {}}}, "scale.full is the experiment's own scale already"),
        ({"scale": {"a": 5}}, "scale.a must be a table"),
    ],
)  # fmt: skip
def test_mistakes_are_told(read, entries, message):
    with pytest.raises(InputError, match=message) as caught:
        read(**entries)
    assert "experiment.toml: " in str(caught.value)


def test_a_file_needs_a_grid_only(tmp_path):
    path = tmp_path / "my-tau.toml"
    path.write_text('[grid]\nmethod = ["er"]\nstream = ["c-digits"]\n')
    found = read_experiment(path)
    assert (found.name, found.title, found.seeds) == ("my-tau", "my-tau", 5)
    assert (found.metrics, found.rows) == (("A_T", "F_T"), ("method",))
    other = path.rename(tmp_path / "My_tau (2).toml")
    assert read_experiment(other).name == "my-tau-2"
    other.write_text('name = "My tau"\n' + other.read_text())
    with pytest.raises(InputError, match="name must consist of a-z, 0-9 and single -, not 'My tau"):
        read_experiment(other)


def test_missing_grids_and_files(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text(tomli_w.dumps({key: v for key, v in SMALL.items() if key != "grid"}))
    with pytest.raises(InputError, match=r"needs a table \[grid\], with the keys method and"):
        read_experiment(path)
    path.write_text("name = ")
    with pytest.raises(InputError, match="cannot be read as TOML"):
        read_experiment(path)
    with pytest.raises(InputError, match="cannot be read as TOML"):
        read_experiment(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("options", "method", "message"),
    [
        ({}, "er-lass", "unknown method 'er-lass'; did you mean er-las"),
        ({"method:tau": 1}, "er", "method er has no option 'tau'"),
        ({"network": "resnet19"}, "er", "unknown network 'resnet19'"),
        ({"augment": "crops"}, "er", "unknown augmentation 'crops'"),
        ({"optimizer": "newton"}, "er", "optimizer 'newton'; known: adam, adamw, muon, sgd"),
    ],
)
def test_options_that_no_learner_has(read, options, method, message):
    experiment = read(settings=options, grid={"method": [method], "stream": ["c-digits"]})
    with pytest.raises(EvenstreamError, match=message):
        check_options(make_plan(experiment).runs())


ENTRIES = st.recursive(
    st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=3),
    ),
    max_leaves=6,
)


KEYS = st.sampled_from([*sorted(module._FIELDS), "method:tau", "stream:fraction"])


@settings(max_examples=60)
@given(
    st.one_of(
        st.tuples(st.sampled_from([*module._ENTRIES]), ENTRIES),
        st.tuples(st.just("settings"), st.dictionaries(KEYS, ENTRIES, min_size=1, max_size=2)),
        st.tuples(
            st.just("grid"), st.dictionaries(KEYS, st.lists(ENTRIES, max_size=2)).map(GRID.__or__)
        ),
    )
)
def test_whatever_stands_there_is_understood_or_refused(tmp_path_factory, entry):
    path = tmp_path_factory.mktemp("experiment") / "one.toml"
    path.write_text(tomli_w.dumps({**SMALL, entry[0]: entry[1]}), encoding="utf-8")
    try:
        read_experiment(path)
    except InputError as error:
        assert str(error).startswith(str(path))
