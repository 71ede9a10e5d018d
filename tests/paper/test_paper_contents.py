"""The paper's experiments: all of them, with its protocol, and small enough at other scales."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from evenstream.data.known import DATASETS
from evenstream.methods.mir import CANDIDATES_FOR_EACH
from evenstream.paper import descriptions, experiments, notes, printed
from evenstream.paper.contents import above_tables, all_notes, printed_lines
from evenstream.paper.report import background
from evenstream.run.config import RunConfig
from evenstream.run.preparation import prepare
from evenstream.streams import STREAMS, read_spec
from evenstream.sweep.experiment import check_options
from evenstream.sweep.plan import make_plan
from tests.helpers.small_streams import class_stream, parameters
from tests.helpers.small_streams import small as small_learner

TABLES = [f"Table {number}" for number in range(1, 18)]
FIGURES = [f"Figure {number}" for number in range(1, 7)]
ALL = sorted(experiments())
TWICE = "er-las at 2x lr"
"""A row of ours, not of the paper's."""

INFERRED = ("mnist", "rehearsal-free")
"""The paper prints no protocol for these; at the scale "general" they have that of all others."""


def runs(name, scale=None):
    """The first run of each cell, with the cell."""
    experiment = experiments()[name]
    return [(cell, experiment.configs(cell, scale)[0]) for cell in experiment.cells(scale)]


def test_all_tables_and_figures_are_there():
    found = [entry.source for entry in [*experiments().values(), *descriptions().values()]]  # type: ignore[attr-defined]
    assert sorted(found) == sorted([*TABLES, *FIGURES, "Section 6", "Section 8"])
    assert not experiments().keys() & descriptions().keys()


@pytest.mark.parametrize("name", ALL)
def test_an_experiment_has_the_papers_scale_and_two_smaller_ones(name):
    experiment = experiments()[name]
    general = ["general"] if name in INFERRED else []
    assert experiment.name == name
    assert experiment.scale_names == ["paper", *general, "cpu", "smoke"]
    assert experiment.seeds == 10
    assert experiment.inferred == (name in INFERRED)
    assert [s for s in experiment.scale_names if not experiment.at(s).inferred] == (
        general or ([] if experiment.inferred else experiment.scale_names)
    )
    assert experiment.jobs == ("train_seconds" in experiment.metrics)  # 1 where times are compared
    counts = [
        sum(cell["method"] != TWICE for cell in experiment.cells(scale))
        for scale in experiment.scale_names
    ]
    assert counts == sorted(counts, reverse=True)
    assert all(experiment.at(scale).seeds <= 5 for scale in ("cpu", "smoke"))
    for scale in experiment.scale_names:
        check_options(make_plan(experiment, scale, overrides={"weights": ""}).runs())


@pytest.mark.parametrize("name", [name for name in ALL if printed(name)])
def test_every_printed_number_has_a_cell_and_every_cell_of_a_table_its_numbers(name):
    experiment = experiments()[name]
    cells = experiment.cells()
    for value in printed(name):
        assert any(value.belongs_to(cell) for cell in cells)
        assert value.source == experiment.source
    if experiment.source.startswith("Table"):
        for cell in cells:
            own = [value.metric for value in printed(name) if value.belongs_to(cell)]
            assert set(own) >= (set() if cell["method"] == TWICE else set(experiment.metrics))


@pytest.mark.parametrize("name", ALL)
def test_the_protocol_is_the_papers(name):
    for cell, run in runs(name, "general" if name in INFERRED else None):
        large = "imagenet" in run.network
        batch = 128 if large else 32
        other = name in ("batch-sizes", "contrastive", "single-samples") or run.method.startswith(
            "pec"
        )
        assert run.batch == batch or other
        assert run.replay_batch == batch or other
        if name in ("batch-sizes", "contrastive"):
            assert run.replay_batch == run.batch == cell["batch"]
        assert (run.momentum, run.class_order) == (0, "label")
        optimiser = ("adam", 0.001, 0.0001) if cell["method"] == "ocm" else ("sgd", 0.03, 0)
        if (name, cell["method"]) == ("offline", "er"):  # as in Buzzega et al.
            optimiser = ("sgd", 0.1, 0)
        if cell["method"] == TWICE:
            optimiser = ("sgd", 0.06, 0)
        assert (run.optimizer, run.lr, run.weight_decay) == optimiser
        assert run.epochs == (50 if name == "offline" else 1)
        assert run.network == ("mlp" if "mnist" in run.stream else run.network)
        assert run.network in ("mlp", "resnet18", "resnet18-imagenet")


def test_the_protocol_of_mnist_is_that_of_pecs_code():
    for _, run in runs("mnist"):
        assert (run.optimizer, run.lr, run.lr_decay, run.reset_optimizer) == (
            "adam", 0.001, "linear", True
        )  # fmt: skip
        assert (run.batch, run.replay_batch, run.scope) == (10, 10, "all")
    for cell, run in runs("rehearsal-free"):
        assert (run.optimizer, run.lr, run.lr_decay, run.reset_optimizer, run.scope) == (
            "adam", 0.0001, "none", True, "all"
        )  # fmt: skip
        assert run.batch == (1 if cell["method"] == "pec" else 32)


@pytest.mark.parametrize("name", ALL)
def test_where_steps_differ_in_length_a_row_and_the_tables_say_so(name):
    """Adam's updates do not grow with the loss, so there it is no question."""
    for scale in experiments()[name].scale_names:
        by_cell = {cell.keys: run for cell, run in runs(name, scale)}
        summing = {
            run.optimizer
            for keys, run in by_cell.items()
            if dict(keys)["method"] in ("der++", "er-ace", "er-cba")
        }
        assert len(summing) <= 1
        compares = summing == {"sgd"} and name != "training-time"
        assert bool(above_tables(name, scale)) == compares
        twice = [keys for keys in by_cell if dict(keys)["method"] == TWICE]
        assert bool(twice) == compares
        for keys in twice:
            usual = by_cell[tuple((k, "er-las" if k == "method" else v) for k, v in keys)]
            assert by_cell[keys] == replace(usual, lr=2 * usual.lr)


@pytest.mark.parametrize(("optimizer", "ratio"), [("sgd", 2.0), ("adam", 1.0)])
def test_only_sgd_steps_further_where_two_means_are_added(optimizer, ratio):
    x, labels = class_stream(1, batch=8)[0]
    sizes = []
    for reduction in ("mean", "sum-of-means"):
        learner = small_learner(
            f"er:reduction={reduction}", replay_batch=8, optimizer=optimizer, lr=0.001
        )
        learner.learn(x, labels)
        learner.reset_optimizer()
        before = parameters(learner)
        learner.learn(x, labels)
        after = parameters(learner)
        sizes.append(sum(float((after[n] - before[n]).square().sum()) for n in after) ** 0.5)
    assert sizes[1] / sizes[0] == pytest.approx(ratio, rel=0.05)


def test_no_cell_judges_a_setting_that_was_chosen_on_it():
    """C-MNIST with M = 500 is where the options of SS-IL and ER-OBC were tried first."""
    experiment = experiments()["mnist"]
    withheld = {
        (cell["method"], cell["memory"])
        for cell in experiment.cells()
        for values in background(experiment).stated(cell, "paper").values()
        if not all(value.judged for value in values)
    }
    assert withheld == {("ss-il", 500), ("er-obc", 500)}


def test_hyper_parameters_of_the_appendix():
    found = {}
    for name in ALL:
        for cell, run in runs(name):
            found.setdefault((cell["method"], cell["stream"]), set()).add(run.method)
    for method, stream, wanted in (
        ("der++", "c-cifar10", "der++:alpha=0.1,beta=0.5"),
        ("ss-il", "c-cifar100", "ss-il:refresh=100,replayed=seen"),
        ("ss-il", "c-mnist", "ss-il:refresh=100,replayed=seen"),
        ("clib", "b-cifar100", "clib:period=3,ties=oldest"),
        ("clib", "c-cifar10", "clib:period=3,ties=oldest"),
        ("er-obc", "c-cifar10", "er-obc:surrogate_head=true,correction_draw=balanced"),
        ("er-obc", "c-mnist", "er-obc:surrogate_head=true,correction_draw=balanced"),
        ("er-wn", "c-cifar10", "er-wn:when=train"),
        ("il2m", "c-cifar10", "il2m:measured=afterwards"),
        ("er-cba", "c-cifar10", "er-cba:adaptor_lr=0.001"),
        ("er-cba", "c-cifar100", "er-cba:adaptor_lr=0.01"),
        ("er-cba", "c-tinyimagenet", "er-cba:adaptor_lr=0.01"),
        ("aser", "c-cifar100", "aser:neighbours=5,per_class=6"),
        ("ocs", "c-cifar100", "ocs:affinity=1000.0"),
        ("lwf", "s-cifar100", "lwf:weight=0.5,temperature=2.0"),
        ("lwf-las", "c-cifar10", "lwf-las:weight=0.5,temperature=2.0"),
        ("lucir-las", "s-cifar100", "lucir-las:weight=5.0"),
        ("geodl", "s-cifar100", "geodl:weight=5.0"),
        ("scr", "c-cifar10", "scr:temperature=0.07"),
        ("e2e", "c-cifar10", "e2e:fine_tune_lr=0.003,fine_tune_epochs=30"),
        ("lucir-full", "c-cifar10", "lucir-full:weight=5.0,hardest=2,margin=0.5"),
    ):
        assert found[method, stream] == {wanted}
    (bic,) = found["bic", "c-cifar10"]
    assert bic.startswith("bic:temperature=2.0,held_out=0.1,bias_epochs=50,")
    mir = [(run.method, run.replay_batch) for cell, run in runs("replay-gains")
           if cell["method"] in ("mir", "mir-las")]  # fmt: skip
    assert set(mir) == {("mir", 32), ("mir-las", 32)} and 32 * CANDIDATES_FOR_EACH == 160


def test_tables_share_their_runs():
    accuracy, forgetting = ({run for _, run in runs(name)} for name in (
        "class-incremental", "class-incremental-forgetting"
    ))  # fmt: skip
    assert forgetting < accuracy
    assert {run for _, run in runs("training-time")} < accuracy
    assert {run for _, run in runs("inaturalist-balanced")} < {
        run for _, run in runs("long-sequences")
    }


def test_the_stated_limitations_are_experiments():
    domain = experiments()["domain-incremental"]
    assert {cell["method"] for cell in domain.cells()} == {"er", "er-las"}
    assert {cell["stream"] for cell in domain.cells()} == {"d-cifar100"}
    assert {run.memory for _, run in runs("rehearsal-free")} == {0}
    assert "las" in {cell["method"] for cell in experiments()["rehearsal-free"].cells()}


def test_the_grid_of_tau_and_window():
    cells = experiments()["sensitivity"].cells("cpu")
    pairs = {(cell["method:tau"], cell["method:window"]) for cell in cells}
    assert pairs == {(tau, l) for tau in (0.25, 0.5, 1, 2, 4) for l in (1, 2, 5, 20, 100)}  # noqa: E741
    assert all(run.stream == "c-cifar100:fraction=0.2" for _, run in runs("sensitivity", "cpu"))


@pytest.mark.parametrize("name", ALL)
def test_smaller_scales_need_no_gpu_and_no_large_data(name):
    for scale, small in (("cpu", {"mnist", "cifar10", "cifar100"}), ("smoke", {"digits"})):
        for _, run in runs(name, scale):
            assert read_spec(run.stream).dataset in small
            assert run.network not in ("resnet18", "resnet18-imagenet")


SOME = ["blurry", "contrastive", "domain-incremental"]


@pytest.mark.parametrize(
    "name", [n if n in SOME else pytest.param(n, marks=pytest.mark.slow) for n in ALL]
)
def test_the_smallest_scale_can_run(name):
    for _, run in runs(name, "smoke"):
        stream = prepare(run)
        assert len(stream) and all(len(task.test) for task in stream.tasks)


def test_data_sets_are_those_of_the_registry():
    for line in printed_lines("data-sets"):
        described = DATASETS[line["dataset"]].description
        train, test, classes = (int(line[column]) for column in ("train", "test", "classes"))
        assert any(f"{n:,}" in described for n in (train, train + test)), described
        assert f"{classes:,}" in described
        side = line["image_size"].rpartition("x")[2]
        protocol = next(s.protocol for s in STREAMS.values() if s.dataset == line["dataset"])
        assert f"{side}x{side}" in described or f"@{side}" in protocol.augment


def test_descriptions_are_of_streams_that_there_are():
    for description in descriptions().values():
        assert set(description.streams) <= set(STREAMS)
    assert [STREAMS[s].dataset for s in descriptions()["data-sets"].streams] == [
        line["dataset"] for line in printed_lines("data-sets")
    ]
    assert STREAMS["c-inaturalist"].tasks == 26 and STREAMS["s-cifar100"].tasks == 20


def test_notes_are_about_what_there_is():
    known = experiments().keys() | descriptions().keys()
    assert {name for note in all_notes()["note"] for name in note["experiments"]} <= known
    assert any("10.7" in note and "29.1" in note for note in notes("class-incremental-forgetting"))
    assert all("\n" not in note for name in known for note in notes(name))


def test_the_catalogue_needs_no_pytorch():
    code = (
        "import sys\nfrom evenstream import paper\npaper.experiments()\npaper.printed('ablation')\n"
    )
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_settings_are_written_out_and_not_left_to_defaults():
    """What a run of the paper depends on is in the file, even where it is the stream's default."""
    folder = Path(sys.modules["evenstream.paper"].__file__).parent / "experiments"
    assert {path.stem for path in folder.glob("*.toml")} == set(ALL)
    names = {field.name for field in fields(RunConfig)}
    for name in ALL:
        experiment = experiments()[name]
        rules = [key for rule in experiment.when for key in rule.settings]
        written = {*experiment.settings, *experiment.grid, *rules} & names
        assert {"network", "augment", "batch", "lr", "memory"} <= written
