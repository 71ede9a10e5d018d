"""What a sweep shows: plans, estimates, the table filling in, the list of runs."""

import csv
import io
import re
import shutil
from dataclasses import replace

import pytest
from rich.console import Console
from rich.live import Live

from evenstream.errors import InputError, UnknownName
from evenstream.run.many import Ended
from evenstream.run.metrics_file import Metrics
from evenstream.sweep.board import LiveBoard, PlainBoard
from evenstream.sweep.cost import measure
from evenstream.sweep.estimate import Estimate, in_words, wall_seconds
from evenstream.sweep.listing import write_listing
from evenstream.sweep.making import Listener, work
from evenstream.sweep.plan import make_plan
from evenstream.sweep.store import Store
from tests.helpers.small_runs import finished, small_config
from tests.helpers.sweep_samples import Here, small_experiment


@pytest.fixture
def experiment(table, tmp_path):
    return small_experiment(tmp_path, table)


# ---- plans ---------------------------------------------------------------------------------------


def test_runs_come_seed_by_seed(experiment):
    plan = make_plan(experiment, seeds=2)
    runs = [(config.seed, config.method, config.memory) for config in plan.runs()]
    cells = [("er", 6), ("er", 12), ("er-las", 6), ("er-las", 12)]
    assert runs == [(seed, *cell) for seed in (0, 1) for cell in cells]


def test_scales_are_labelled(experiment):
    own, quick = make_plan(experiment), make_plan(experiment, scale="quick")
    assert (own.name, own.title) == ("small", "A small experiment")
    assert quick.name == "small_quick"
    assert quick.title == "A small experiment (at the scale 'quick')"
    assert [config.memory for config in quick.runs()] == [6, 6]


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (["method=er"], [("er", 6), ("er", 12)]),
        (["memory=12", "method=er-las"], [("er-las", 12)]),
        (["memory=6", "memory=12", "method=er"], [("er", 6), ("er", 12)]),
    ],
)
def test_chosen_cells(experiment, only, found):
    cells = make_plan(experiment, only=only).cells
    assert [(cell["method"], cell["memory"]) for cell in cells] == found


@pytest.mark.parametrize(
    ("only", "kind", "message"),
    [
        (["er"], InputError, "--cells takes KEY=VALUE, as in method=er-las; got 'er'"),
        (["metod=er"], UnknownName, "unknown key of the cells 'metod'; did you mean method?"),
        (["memory=7"], UnknownName, "unknown memory '7'; known: 12, 6"),
    ],
)
def test_cells_that_are_not_there(experiment, only, kind, message):
    with pytest.raises(kind, match=message.replace("?", r"\\?")):
        make_plan(experiment, only=only)


def test_cells_that_only_another_scale_has(experiment):
    with pytest.raises(UnknownName, match="unknown memory at the scale quick '12'; known: 6"):
        make_plan(experiment, "quick", only=["memory=12"])


def test_cells_that_never_go_together(table, tmp_path):
    extra = '[[skip]]\nmethod = "er"\nmemory = 6'
    experiment = small_experiment(tmp_path, table, extra=extra)
    with pytest.raises(InputError, match="no cell has method=er and memory=6"):
        make_plan(experiment, only=["method=er", "memory=6"])


def test_seeds_must_be_some(experiment):
    with pytest.raises(InputError, match="--seeds must be 1 or more, got 0"):
        make_plan(experiment, seeds=0)


# ---- estimates -----------------------------------------------------------------------------------


def took(seconds, steps):
    parts = {"train_seconds": seconds * 0.75, "eval_seconds": seconds * 0.25, "steps": steps}
    return Metrics(parts)


def test_the_most_alike_runs_count():
    er, las = small_config("c-digits", "er"), small_config("c-digits", "er-las")
    mnist = small_config("c-mnist", "er")
    estimate = Estimate([(er, took(10, 100)), (las, took(30, 100)), (mnist, took(400, 1000))])
    assert estimate.seconds(small_config("c-digits", "er", seed=5)) == pytest.approx(10)
    assert estimate.seconds(small_config("c-digits", "er", memory=5), done=60) == pytest.approx(4)
    assert estimate.seconds(small_config("c-digits", "er:x=1", batch=4)) == pytest.approx(10)
    # Another method may be much slower. A guess is the mean of those on the same stream.
    ace = small_config("c-digits", "er-ace")
    assert estimate.seconds(ace) is None
    assert estimate.seconds(ace, guess=True) == pytest.approx(20)
    # More steps than were ever expected leave nothing.
    assert estimate.seconds(er, done=101) == 0


def test_nothing_alike_is_unknown_unless_guessed():
    estimate = Estimate([(small_config("c-digits", "er"), took(10, 100))])
    other = small_config("c-mnist", "er")
    assert estimate.seconds(other) is None
    assert estimate.seconds(other, guess=True) == pytest.approx(10)
    # As fast a step, but who knows how many of them.
    assert estimate.seconds(small_config("c-digits", "er", batch=2)) is None
    assert Estimate().seconds(other, guess=True) is None


def test_a_run_that_does_not_say_how_long_it_took_tells_nothing():
    config = small_config("c-digits", "er")
    whole = took(10, 100).entries
    for name in whole:
        for value in ({}, {name: None}, {name: "1"}):
            rest = {key: number for key, number in whole.items() if key != name}
            assert (
                Estimate([(config, Metrics({**rest, **value}))]).seconds(config, guess=True) is None
            )


def test_several_at_the_same_time():
    assert wall_seconds([10, 10, 10, 10], at_once=2) == 20
    assert wall_seconds([30, 1, 1], at_once=3) == 30  # the longest cannot be split
    assert wall_seconds([10, None], at_once=2) is None
    assert wall_seconds([], at_once=2) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (98, "98 s"), (120, "2 min"), (5400, "90 min"), (12_000, "3 h 20 min"),
     (352_800, "4 d 2 h")],
)  # fmt: skip
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words


def test_measured_cost(table):
    config = small_config(table, eval_every=5, epochs=2)
    found = measure(config)
    assert found["steps"] == 40
    assert 0 < found["train_seconds"] < 60
    assert 0 < found["eval_seconds"] < 60
    assert Estimate([(config, found)]).seconds(config) > 0


# ---- the board -----------------------------------------------------------------------------------


def text_of(renderable, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def metrics_of(accuracy, forgetting=5.0):
    entries = {"A_T": accuracy, "F_T": forgetting, "accuracy_matrix": [[1]]}
    return Metrics({**entries, **took(10, 20).entries})


def test_table_fills_in(experiment, tmp_path):
    plan, store = make_plan(experiment), Store(tmp_path / "store")
    board = LiveBoard(plan, store, 2, Console(file=io.StringIO()))
    runs = plan.runs()
    folder = store.folder
    assert not board.running()
    waiting = [(config, folder(config)) for config in runs[2:]]
    board.start({folder(runs[0]).name: metrics_of(50)}, waiting)
    assert board.status() == "1 of 8 runs, about 35 s left"
    shown = text_of(board)
    assert "A_T: A small experiment" in shown
    assert "memory 6" in shown and "memory 12" in shown
    row = next(line for line in shown.splitlines() if "│ er " in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["er", "50.0 1/2", "0/2 …"]
    board.ended(Ended(runs[1], folder(runs[1]), error="no luck", again=True))
    assert not board.failed
    board.ended(Ended(runs[1], folder(runs[1]), error="no luck"))
    board.ended(Ended(runs[4], folder(runs[4]), metrics=metrics_of(60)))
    assert board.status() == "2 of 8 runs, 1 failed, about 25 s left"
    shown = text_of(board)
    assert "55.0 ± 7.1" in shown
    assert "1 failed" in shown
    assert board.has("A_T") and board.has("F_T") and not board.has("accuracy_matrix")


def test_a_failure_is_told_and_leaves_the_live_table_as_it_is(experiment, tmp_path):
    plan, store = make_plan(experiment), Store(tmp_path / "store")
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    board = LiveBoard(plan, store, 2, console)
    runs = plan.runs()
    board.start({}, [(config, store.folder(config)) for config in runs])
    with Live(board, console=console, auto_refresh=False):
        failed = Ended(runs[1], store.folder(runs[1]), error="no [red]luck", again=True)
        board.ended(failed)
    shown = re.sub("\x1b[^mKAh]*[a-zA-Z]", "", console.file.getvalue())  # type: ignore[attr-defined]
    assert f"{runs[1].method}, {runs[1].stream}, memory 12, seed 0: failed: no [red]luck; " in shown
    assert "will be tried again" in shown
    assert "0/2" in shown and "[dim]" not in shown


def test_running_runs_count_by_their_steps(experiment, tmp_path):
    plan, store = make_plan(experiment, only=["method=er", "memory=6"]), Store(tmp_path / "store")
    board = PlainBoard(plan, store, 1, Console(file=io.StringIO()))
    first, second = plan.runs()
    board.start({store.folder(first).name: metrics_of(50)}, [])
    assert board.seconds_left() == pytest.approx(10)
    store.folder(second).mkdir(parents=True)
    (store.folder(second) / "events.jsonl").write_text('{"step": 15}\n')
    assert board.seconds_left() == pytest.approx(2.5)


def test_runs_of_other_sweeps_tell_about_those_alike(experiment, tmp_path):
    plan, store = make_plan(experiment, only=["method=er", "memory=6"]), Store(tmp_path / "store")

    def left(*others):
        for config in others:
            store.folder(config).mkdir(parents=True)
            config.write(store.folder(config))
            text = finished(config, **took(10, 20).entries)
            (store.folder(config) / "metrics.json").write_text(text)
        return PlainBoard(plan, store, 1, Console(file=io.StringIO())).status()

    first, _ = plan.runs()
    assert left() == "0 of 2 runs"
    assert left(replace(first, network="slim-resnet18")) == "0 of 2 runs"  # another kind of step
    assert left(replace(first, memory=7)) == "0 of 2 runs, about 20 s left"


def test_what_is_not_a_number_is_done(experiment, tmp_path):
    plan, store = make_plan(experiment, seeds=1), Store(tmp_path / "store")
    board = LiveBoard(plan, store, 1, Console(file=io.StringIO()))
    first, *others = plan.runs()
    waiting = [(config, store.folder(config)) for config in others]
    board.start({store.folder(first).name: metrics_of(50)}, waiting)
    row = next(r for r in text_of(board.table("accuracy_matrix")).splitlines() if "│ er " in r)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["er", "done", "0/1"]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("rows", [["method"], ["method", "memory"], ["stream", "method"]])
def test_wide_tables_are_cut_into_some_that_fit(table, tmp_path, rows, width):
    """Nothing is lost, and no line is longer than the screen."""
    methods = ["er", "er-las:tau=0.5,window=7", "an-unbearably-long-name-of-a-method-of-ones-own"]
    grid = {
        "method": methods,
        "stream": [str(table), "c-digits"],
        "memory": [6, 12, 24],
        "lr": [0.1, 0.2],
    }
    experiment = replace(small_experiment(tmp_path, table), grid=grid, rows=tuple(rows))
    plan = make_plan(experiment, seeds=1)
    board = PlainBoard(plan, Store(tmp_path), 1, Console(file=io.StringIO()))
    for number, config in enumerate(plan.runs()):
        board.finished[board.key_of[config]] = metrics_of(10 + number)
    shown = text_of(board.table("A_T"), width)
    assert max(map(len, shown.splitlines())) <= width
    assert [shown.count(f" {10 + n}.0 ") for n in range(36)] == [1] * 36
    assert "…" not in shown and shown.count("A_T: ") == 1


def test_texts_of_users_are_no_markup(table, tmp_path):
    experiment = small_experiment(tmp_path, table)
    experiment = replace(experiment, title="[/b] of [red]it", base="own")
    board = LiveBoard(make_plan(experiment), Store(tmp_path), 1, Console(file=io.StringIO()))
    assert "A_T: [/b] of [red]it" in text_of(board)


def test_plain_lines_and_the_list_of_runs(table, tmp_path):
    extra = '[[when]]\nmatch = { method = "er" }\nset = { lr = 1e30 }'
    experiment = small_experiment(tmp_path, table, extra=extra)
    plan, store = make_plan(experiment, scale="quick"), Store(tmp_path / "store")
    console = Console(file=io.StringIO(), width=60)
    board = PlainBoard(plan, store, 1, console)
    work(plan.runs(), store, Here().backend, retries=1, listener=board)
    start, failed, made, given_up = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert start == "0 of 2 runs"
    assert failed.startswith(f"er, {table}, memory 6, seed 0, at quick: failed: the loss is")
    assert "; will be tried again  (0 of 2 runs)" in failed
    assert made.startswith(f"er-las, {table}, memory 6, seed 0, at quick: A_T ")
    assert "(1 of 2 runs" in made
    assert given_up.endswith("(1 of 2 runs, 1 failed)")

    lines = list(csv.DictReader(write_listing(plan, store).read_text().splitlines()))
    assert (store.root / "small_quick.csv").exists()
    assert [(line["method"], line["status"], line["scale"]) for line in lines] == [
        ("er", "failed", "quick"), ("er-las", "finished", "quick")
    ]  # fmt: skip
    assert lines[0]["A_T"] == ""
    assert float(lines[1]["A_T"]) == store.metrics(plan.runs()[1])["A_T"]
    assert (store.root / lines[1]["folder"] / "metrics.json").exists()
    assert not lines[1]["accuracy_matrix"]


def test_the_list_keeps_runs_that_a_smaller_sweep_leaves_out(table, tmp_path):
    extra = '[[when]]\nmatch = { method = "er" }\nset = { lr = 1e30 }'
    experiment = small_experiment(tmp_path, table, extra=extra)
    store = Store(tmp_path / "store")

    def swept(**chosen):
        plan = make_plan(experiment, scale="quick", **chosen)
        work(plan.runs(), store, Here().backend, retries=0, listener=Listener())
        lines = csv.DictReader(write_listing(plan, store).read_text().splitlines())
        return [(line["method"], line["seed"], line["status"]) for line in lines]

    both = [("er", "0", "failed"), ("er-las", "0", "finished")]
    assert swept() == both
    assert swept(only=["method=er-las"]) == both[::-1]
    assert swept(only=["method=er-las"], seeds=2) == [both[1], ("er-las", "1", "finished"), both[0]]
    for folder in (store.root / "runs").iterdir():
        if (folder / "error.json").exists():
            shutil.rmtree(folder)
    assert swept(only=["method=er-las"]) == [both[1], ("er-las", "1", "finished")]


def test_cells_that_share_a_run_are_both_filled(table, tmp_path):
    extra = "[[when]]\nmatch = { memory = 12 }\nset = { memory = 6 }"
    plan = make_plan(small_experiment(tmp_path, table, extra=extra), seeds=1, only=["method=er"])
    assert len(plan.cells) == 2
    (config,) = plan.runs()
    store = Store(tmp_path / "store")
    board = PlainBoard(plan, store, 1, Console(file=io.StringIO()))
    board.start({}, [(config, store.folder(config))])
    board.ended(Ended(config, store.folder(config), metrics=metrics_of(50)))
    assert board.status() == "1 of 1 runs"
    assert text_of(board.table("A_T")).count("50.0") == 2


@pytest.mark.parametrize(
    "content",
    [b"method,seed\ner,0\n", b"folder,seed\n\n,0\nx\n", b"\xff\xfe,\n1", b'"' + b"x" * 200_000],
)
def test_a_damaged_list_is_written_again(table, tmp_path, content):
    plan, store = (
        make_plan(small_experiment(tmp_path, table), scale="quick"),
        Store(tmp_path / "store"),
    )
    store.root.mkdir()
    whole = write_listing(plan, store).read_bytes()
    (store.root / "small_quick.csv").write_bytes(content)
    assert write_listing(plan, store).read_bytes() == whole
