"""Tables of runs: which run is found, and to which cell it belongs."""

from dataclasses import replace

import pytest

from evenstream.errors import DataError
from evenstream.report.experiments import find_runs
from tests.helpers.table_samples import (
    CIFAR10,
    EXPERIMENT,
    config_of,
    details_of,
    fill,
    make_experiment,
    measured,
    outcome_of,
    write_run,
)

# ---- finding runs --------------------------------------------------------------------------------


def test_runs_are_found_wherever_they_are_and_counted_once(tmp_path, experiment):
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(tmp_path / "runs" / "a" / "b" / "seed-0", config)
    write_run(tmp_path / "runs" / "copy", replace(config, checkpoint_every=7))
    write_run(tmp_path / "more" / "x", replace(config, seed=3))
    write_run(tmp_path / "runs" / "checkpoint" / "inside", replace(config, seed=4))
    search = find_runs([tmp_path / "runs", tmp_path / "more", tmp_path / "more"])
    assert [run.config.seed for run in search.runs] == [0, 3]
    assert (search.copies, search.problems) == (1, [])


def test_a_copy_with_another_result_is_told(tmp_path, experiment):
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(tmp_path / "runs" / "a", config, 50)
    write_run(tmp_path / "runs" / "b", config, 51)
    search = find_runs([tmp_path / "runs"])
    assert [run.run.metrics["A_T"] for run in search.runs] == [50]
    (problem,) = search.problems
    assert "another result (A_T 51.00, not 50.00)" in problem


def test_what_is_no_run_is_told_and_not_fatal(tmp_path, experiment):
    root = tmp_path / "runs"
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(root / "good", config)
    write_run(root / "half", replace(config, seed=1), status="running")
    (root / "begun").mkdir()
    replace(config, seed=2).write(root / "begun")
    (root / "foreign").mkdir()
    (root / "foreign" / "config.toml").write_text("title = 'a web site'")
    (root / "broken").mkdir()
    (root / "broken" / "config.toml").write_text("[[[")
    (root / "metrics").mkdir()
    (root / "metrics" / "metrics.json").write_text("{}")
    write_run(root / "cut", replace(config, seed=5))
    (root / "cut" / "metrics.json").write_text('{"format": 1, "stat')
    write_run(root / "mixed", replace(config, seed=6), seed=7)
    write_run(root / "empty", replace(config, seed=8), A_T=None)
    search = find_runs([root])
    assert [run.run.directory.name for run in search.runs] == ["good"]
    assert search.unfinished == 2
    said = {line.partition(":")[0].rpartition("/")[2]: line for line in search.problems}
    assert said.keys() == {"foreign", "broken", "metrics", "cut", "mixed", "empty"}
    assert all("\n" not in line for line in search.problems)
    assert "is not of the run in" in said["mixed"]


def test_folders_must_be_there(tmp_path):
    with pytest.raises(DataError, match="nowhere is not a folder"):
        find_runs([tmp_path / "nowhere"])


def test_old_runs_lack_settings_that_came_later(tmp_path, experiment):
    config = config_of(experiment, method="er", **CIFAR10)
    folder = write_run(tmp_path / "runs" / "old", config)
    text = (folder / "config.toml").read_text()
    later = ("epochs", "batch_schedule", "eval_every", "eval_images", "eval_future", "corrupt")
    kept = [line for line in text.splitlines() if line.split(" ")[0] not in later]
    assert len(kept) < len(text.splitlines())
    (folder / "config.toml").write_text("\n".join(kept))
    assert len(outcome_of(tmp_path / "runs", experiment).runs) == 1


# ---- cells ---------------------------------------------------------------------------------------


def test_a_run_belongs_to_the_cells_whose_settings_it_has(tmp_path, experiment):
    runs = tmp_path / "runs"
    write_run(runs / "1", config_of(experiment, 0, method="er", **CIFAR10), 10)
    write_run(runs / "2", config_of(experiment, 7, method="er", **CIFAR10), 20)  # a seed beyond
    write_run(runs / "3", config_of(experiment, 0, "cpu", method="er"), 30)
    write_run(runs / "4", config_of(experiment, 0, "smoke", method="er-las"), 40)
    other = replace(config_of(experiment, method="er", **CIFAR10), lr=0.5)
    write_run(runs / "5", other, 50)
    found = outcome_of(runs, experiment)
    assert list(found.cells) == ["full", "cpu", "smoke"]
    assert {place: dict(each.values) for place, each in measured(found).items()} == {
        ("full", "er", "c-cifar10"): {0: 10, 7: 20},
        ("cpu", "er", "c-cifar10"): {0: 30},
        ("smoke", "er-las", "c-digits"): {0: 40},
    }
    assert len(found.runs) == 4


def test_how_a_run_was_written_does_not_matter(tmp_path, experiment):
    config = config_of(experiment, method="er-las", **CIFAR10)
    other = replace(config, method="er-las:window=1,tau=1.0", stream="c-cifar10:fraction=1", seed=1)
    write_run(tmp_path / "runs" / "a", config)
    write_run(tmp_path / "runs" / "b", other)
    (each,) = measured(outcome_of(tmp_path / "runs", experiment)).values()
    assert list(each.values) == [0, 1]


def test_precision_and_evaluations_are_how_and_not_what(tmp_path, experiment):
    runs = tmp_path / "runs"
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(runs / "a", replace(config, dtype="float32", threads=2, eval_every=5), 10)
    write_run(runs / "b", replace(config, seed=1, dtype="bfloat16"), 20)
    write_run(runs / "c", replace(config, seed=1), 30)  # exactly the cell's: it counts
    (each,) = measured(outcome_of(runs, experiment)).values()
    assert dict(each.values) == {0: 10, 1: 30}


def test_of_seeds_run_in_two_precisions_all_count_in_float32(tmp_path, experiment):
    for method in ("er", "er-las"):
        for seed in range(3):
            config = config_of(experiment, seed, method=method, **CIFAR10)
            order = ("float32", "bfloat16") if (seed + len(method)) % 2 else ("bfloat16", "float32")
            for place, dtype in enumerate(order):
                folder = tmp_path / "runs" / f"{method}{seed}{place}"
                write_run(folder, replace(config, dtype=dtype), 20 + len(dtype), dtype=dtype)
    outcome = outcome_of(tmp_path / "runs", experiment)
    assert [run.config.dtype for run in outcome.runs] == ["float32"] * 6
    assert all(gain.seeds == (0, 1, 2) for gain in outcome.gains)


def test_a_cell_that_says_how_takes_no_other(tmp_path):
    text = EXPERIMENT.replace("memory = [100]", 'memory = [100]\ndtype = ["auto", "float32"]')
    experiment = make_experiment(tmp_path / "file", text)
    for dtype in ("float32", "bfloat16"):
        config = config_of(experiment, method="er", dtype="auto", **CIFAR10)
        write_run(tmp_path / "runs" / dtype, replace(config, dtype=dtype))
    found = outcome_of(tmp_path / "runs", experiment).cells["full"]
    kinds = {cell["dtype"]: [run.config.dtype for run in seeds.values()]
             for cell, seeds in found.items()}  # fmt: skip
    assert kinds == {"float32": ["float32"]}


@pytest.mark.parametrize(
    ("given", "other"),
    [("threads = 1", {"threads": 2}), ("eval_images = 1000", {"eval_images": 20})],
)
def test_a_setting_binds_also_where_it_is_the_default(tmp_path, given, other):
    text = EXPERIMENT.replace('network = "resnet18"', f'network = "resnet18"\n{given}')
    experiment = make_experiment(tmp_path / "file", text)
    config = config_of(experiment, method="er", **CIFAR10)
    write_run(tmp_path / "runs" / "a", config)
    write_run(tmp_path / "runs" / "b", replace(config, seed=1, **other))
    (each,) = measured(outcome_of(tmp_path / "runs", experiment)).values()
    assert list(each.values) == [0]


def test_what_one_cell_leaves_open_another_may_not(tmp_path):
    extra = '[[when]]\nmatch = { method = "er" }\nset = { threads = 1 }\n'
    text = EXPERIMENT.replace("[scale.cpu]", f"{extra}[scale.cpu]")
    experiment = make_experiment(tmp_path / "file", text)
    for method in ("er", "er-las"):
        config = config_of(experiment, method=method, **CIFAR10)
        write_run(tmp_path / "runs" / method, replace(config, threads=2))
    assert list(measured(outcome_of(tmp_path / "runs", experiment))) == [
        ("full", "er-las", "c-cifar10")
    ]


def test_a_cell_that_says_one_thing_about_how_leaves_the_others_open(tmp_path):
    settings = 'network = "resnet18"\neval_every = 5\neval_images = 0'
    text = EXPERIMENT.replace('network = "resnet18"', settings)
    experiment = make_experiment(tmp_path / "file", text)
    config = config_of(experiment, method="er", **CIFAR10)
    differently = [{"dtype": "float32"}, {"threads": 2}, {"device": "cuda"}, {"eval_every": 7}]
    for seed, how in enumerate(differently):
        write_run(tmp_path / "runs" / str(seed), replace(config, seed=seed, **how), 10 * seed)
    (each,) = measured(outcome_of(tmp_path / "runs", experiment)).values()
    assert dict(each.values) == {0: 0, 1: 10, 2: 20}  # not the one with another rhythm


def test_of_two_cells_the_one_that_says_more_about_how_gets_a_run(tmp_path):
    text = EXPERIMENT + "[scale.often]\nsettings = { eval_every = 5 }\n"
    experiment = make_experiment(tmp_path / "file", text)
    config = config_of(experiment, scale="often", method="er", **CIFAR10)
    write_run(tmp_path / "runs" / "a", replace(config, dtype="float32"))
    write_run(tmp_path / "runs" / "b", replace(config, dtype="float32", eval_every=7))
    found = outcome_of(tmp_path / "runs", experiment).cells
    assert {scale: [run.config.eval_every for seeds in cells.values() for run in seeds.values()]
            for scale, cells in found.items()} == {"full": [7], "often": [5]}  # fmt: skip


def test_any_file_of_weights_will_do_where_a_cell_leaves_it_to_the_command(tmp_path):
    text = EXPERIMENT.replace('network = "resnet18"', 'network = "resnet18"\nweights = "?"')
    experiment = make_experiment(tmp_path / "file", text)
    for method, digest, accuracy in (("er", "aa", 40), ("er-las", "aa", 50), ("er-las", "bb", 60)):
        for how in ({}, {"device": "cuda"}):
            config = config_of(experiment, len(how), method=method, **CIFAR10)
            started = replace(config, weights=f"x/{digest}.pth", weights_sha256=digest, **how)
            write_run(tmp_path / "runs" / f"{method}{digest}{len(how)}", started, accuracy)
    scratch = replace(config_of(experiment, 7, method="er", **CIFAR10), weights_sha256="")
    write_run(tmp_path / "runs" / "scratch", scratch)
    outcome = outcome_of(tmp_path / "runs", experiment)
    assert dict(measured(outcome)["full", "er", "c-cifar10"].values) == {0: 40, 1: 40}
    (detail,) = details_of(outcome)
    assert "Weights: aa.pth (aa)." in detail.caption


def test_gains_are_paired_from_the_same_weights_only(tmp_path):
    text = EXPERIMENT.replace('network = "resnet18"', 'network = "resnet18"\nweights = "?"')
    experiment = make_experiment(tmp_path / "file", text)
    for method, digests in (("er", "ab"), ("er-las", "ac")):
        for seed, digest in enumerate(digests):
            config = config_of(experiment, seed, method=method, **CIFAR10)
            started = replace(config, weights=f"{digest}.pth", weights_sha256=digest)
            write_run(tmp_path / "runs" / f"{method}{seed}", started)
    assert {gain.seeds for gain in outcome_of(tmp_path / "runs", experiment).gains} == {(0,)}


def test_a_scale_that_changes_nothing_is_the_experiments_own(tmp_path):
    text = EXPERIMENT.replace('settings = { network = "slim-resnet18" }\n', "")
    experiment = make_experiment(tmp_path / "file", text)
    fill(tmp_path / "runs", experiment, {"er": [10, 20]}, **CIFAR10)
    assert list(outcome_of(tmp_path / "runs", experiment).cells) == ["full"]
