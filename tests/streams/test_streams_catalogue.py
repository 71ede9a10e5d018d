"""Streams by name and from files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import evenstream.data
from evenstream.data import CoarseLabels, Dataset
from evenstream.errors import DataError, InputError, UnknownName
from evenstream.streams import SCENARIOS, STREAMS, absolute_name, open_stream, read_spec
from evenstream.streams.blurry import Blurry
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.gradual import Gradual
from evenstream.streams.long_tailed import LongTailed
from tests.helpers.stream_samples import SUPERCLASS_OF, task_tests

SMALL = ("mlp", 32, 32, 1000, 0.03, "none")
COLOUR = ("resnet18", 32, 32, 1000, 0.03, "crop+flip")
LARGE = ("resnet18-imagenet", 128, 128, 20_000, 0.03)
PROTOCOLS = {
    # data set: classes, network, batch, replay, memory, lr, augmentation
    "digits": (10, "mlp", 10, 10, 100, 0.1, "none"),
    "mnist": (10, *SMALL),
    "fashion-mnist": (10, *SMALL),
    "cifar10": (10, *COLOUR),
    "cifar100": (100, *COLOUR),
    "tinyimagenet": (200, *COLOUR),
    "imagenet": (1000, *LARGE, "resized-crop0.75@224+flip"),
    "inaturalist2017": (5089, *LARGE, "resized-crop0.75@299+flip"),
}
TASKS = {
    # stream: tasks, classes tested in each
    "c-digits": (5, 2), "c-mnist": (5, 2), "c-fashion-mnist": (5, 2), "c-cifar10": (5, 2),
    "c-cifar100": (10, 10), "c-tinyimagenet": (10, 20), "c-imagenet": (90, 10),
    "c-inaturalist": (26, None), "b-cifar100": (10, 10), "b-tinyimagenet": (10, 20),
    "s-cifar100": (20, None), "m-cifar100": (20, None), "d-cifar100": (5, 20),
    "d-digits": (4, 10), "d-mnist": (4, 10), "d-fashion-mnist": (4, 10), "lt-digits": (5, 2),
    "lt-cifar10": (5, 2), "lt-cifar100": (10, 10), "g-digits": (5, 2), "g-cifar100": (10, 10),
    "r-digits": (15, 2), "r-cifar100": (30, 10),
}  # fmt: skip


@pytest.fixture
def loaded(monkeypatch):
    """Stands in for `load_dataset`; the list of what was loaded."""
    names = []

    def load(name, **options):
        names.append(name)
        n_classes = PROTOCOLS[name][0]
        y = np.repeat(np.arange(n_classes), 100 if n_classes <= 200 else 1)
        x = np.zeros((len(y), 1, 1, 1), dtype=np.uint8)
        coarse = None
        if name == "cifar100":
            above = np.array(SUPERCLASS_OF)[y]
            coarse = CoarseLabels(above, above, [str(number) for number in range(20)])
        labels = [f"{chr(65 + index % 26)} {index}" for index in range(n_classes)]
        return Dataset(name, x, y, x, y, list(range(n_classes)), labels, coarse=coarse)

    monkeypatch.setattr(evenstream.data, "load_dataset", load)
    return names


@pytest.mark.parametrize("name", TASKS)
def test_each_named_stream(name, loaded):
    tasks, classes = TASKS[name]
    stream = open_stream(name)
    dataset = name.partition("-")[2].replace("inaturalist", "inaturalist2017")
    assert loaded == [dataset]
    assert stream.name == name
    assert len(stream) == STREAMS[name].tasks == tasks
    if classes is not None:
        assert {len(task.classes) for task in stream.tasks} == {classes}
    found = stream.protocol
    assert found == STREAMS[name].protocol
    assert (
        found.network, found.batch, found.replay_batch, found.memory, found.lr, found.augment
    ) == PROTOCOLS[dataset][1:]  # fmt: skip
    assert found.eval_every == (5 if name.startswith("b-") else 0)  # for A_AUC
    assert stream.drop_last is (dataset in ("imagenet", "inaturalist2017"))
    assert stream.boundaries is (name[0] not in "gr")


def test_every_named_stream_is_tested():
    assert set(STREAMS) == set(TASKS)


def test_c_imagenet_sets_the_same_classes_aside_for_every_seed(loaded):
    streams = [open_stream("c-imagenet", seed=seed) for seed in (0, 1)]
    streamed = [{c for task in stream.tasks for c in task.classes} for stream in streams]
    assert streamed[0] == streamed[1]
    assert len(streamed[0]) == 900


def test_digits_need_no_download(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENSTREAM_DATA", str(tmp_path / "nothing"))
    stream = open_stream("c-digits", seed=3)
    steps = sum(stream.steps(task, stream.protocol.batch) for task in range(len(stream)))
    assert steps >= 140
    assert stream.class_names() == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"], ["8", "9"]]
    assert sum(len(task.train) + len(task.test) for task in stream.tasks) == 1797


def test_options(loaded):
    stream = open_stream("c-mnist", seed=5, class_order="seed", tasks=2)
    assert len(stream) == 2
    assert stream.seed == 5
    assert stream.tasks[0].classes != (0, 1, 2, 3, 4)
    written = open_stream("c-mnist:tasks=2,class_order=seed", seed=5)
    assert written.name == "c-mnist:tasks=2,class_order=seed"
    assert [t.classes for t in written.tasks] == [t.classes for t in stream.tasks]


def test_options_of_a_spec():
    assert read_spec("b-cifar100:disjoint=30,minor=5,tasks=20").scenario == Blurry(
        disjoint=30, minor=5, tasks=20
    )
    assert read_spec("c-imagenet:tasks=45").scenario == ClassIncremental(tasks=45, reserve=100)
    assert read_spec("g-mnist:blend=sigmoid").scenario == Gradual(blend="sigmoid")
    assert read_spec("lt-digits").scenario == LongTailed(imbalance=0.1)
    assert read_spec("lt-mnist:imbalance=0.5").scenario == LongTailed(imbalance=0.5)
    assert read_spec("c-cifar10:boundaries=false").scenario == ClassIncremental(boundaries=False)
    assert read_spec("r-cifar10", tasks=2, class_order="seed").scenario.class_order == "seed"  # type: ignore[attr-defined]


def test_any_scenario_on_any_data_set(loaded):
    """Streams without an entry of their own have the data set's protocol."""
    for prefix in set(SCENARIOS) - {"s", "m"}:
        protocol = open_stream(f"{prefix}-fashion-mnist").protocol
        assert replace(protocol, eval_every=0) == STREAMS["c-fashion-mnist"].protocol
    with pytest.raises(InputError, match="mnist has no superclasses"):
        open_stream("s-mnist")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("b-cifar100:M=5", "stream b-cifar100 has no option 'M'; it has: .*disjoint, minor"),
        ("b-cifar100:minor", "option 'minor' of stream b-cifar100 needs a value"),
        ("b-cifar100:minor=few", r"b-cifar100:minor must be a number \(int\), got 'few'"),
        ("b-cifar100:minor=1_0", r"b-cifar100:minor must be a number \(int\), got '1_0'"),
        ("b-cifar100:minor=-1", "minor must be 0 or more"),
        ("g-digits:blend=cubic", "g-digits:blend must be one of linear, sigmoid, got 'cubic'"),
        ("c-digits:boundaries=maybe", "must be true or false"),
        ("lt-cifar100:imbalance=0", "imbalance must lie above 0"),
        ("c-inaturalist:tasks=3", "has no option 'tasks'; it has: boundaries"),
    ],
)
def test_bad_options(spec, message, loaded):
    with pytest.raises(InputError, match=message):
        open_stream(spec)
    assert loaded == []  # refused before any data is read


def test_flags_that_a_scenario_does_not_have():
    for name, flags, message in (
        (
            "d-digits",
            {"tasks": 2},
            "d-digits takes no --tasks; its options are: boundaries, fraction, validation, by",
        ),
        ("d-digits", {"class_order": "seed"}, "takes no --class-order"),
        ("c-inaturalist", {"tasks": 2}, "takes no --tasks"),
        ("c-digits:tasks=5", {"tasks": 2}, "--tasks 2 contradict each other"),
    ):
        with pytest.raises(InputError, match=message):
            open_stream(name, **flags)
    assert read_spec("c-digits:tasks=2", tasks=2).scenario == ClassIncremental(tasks=2)


def test_unknown_names_and_near_misses():
    with pytest.raises(UnknownName, match="did you mean c-cifar10"):
        open_stream("cifar10")
    with pytest.raises(UnknownName, match=r"known: PATH, PREFIX-DATASET .*, b-cifar100, "):
        open_stream("no such stream anywhere")
    with pytest.raises(UnknownName, match="did you mean lt-cifar100 or lt-cifar10"):
        open_stream("lt-cifar1000")


def test_named_streams_have_their_own_test_set():
    with pytest.raises(
        InputError, match="digits has its own test samples; leave test_fraction out"
    ):
        open_stream("c-digits", test_fraction=0.5)


def test_missing_data_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENSTREAM_DATA", str(tmp_path))
    with pytest.raises(DataError, match="evenstream data get mnist"):
        open_stream("c-mnist")


def save(path, n_classes, shape=(4,), dtype=np.float32, split=True):
    y = np.arange(4 * n_classes) % n_classes
    x = np.random.default_rng(0).integers(0, 9, (len(y), *shape)).astype(dtype)
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y} if split else {"x": x, "y": y}
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize(("n_classes", "tasks"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4), (50, 10)])
def test_default_number_of_tasks_of_a_file(tmp_path, n_classes, tasks):
    stream = open_stream(save(tmp_path / "a.npz", n_classes))
    assert len(stream) == tasks
    assert sum(len(task.classes) for task in stream.tasks) == n_classes


def test_network_for_a_file(tmp_path):
    table = open_stream(save(tmp_path / "table.npz", 4))
    assert table.protocol.network == "normalised-mlp"  # columns may have any scale
    images = open_stream(save(tmp_path / "images.npz", 4, (3, 8, 8), np.uint8))
    assert images.protocol.network == "convnet"


def test_split_of_a_file_without_test_set(tmp_path):
    path = save(tmp_path / "whole.npz", 4, split=False)
    sizes = {
        fraction: sum(len(t.test) for t in open_stream(path, test_fraction=fraction).tasks)
        for fraction in (None, 0.25, 0.5)
    }
    assert sizes == {None: 4, 0.25: 4, 0.5: 8}
    one, two = open_stream(path, seed=0), open_stream(path, seed=1)
    assert not np.array_equal(one.dataset.x_test, two.dataset.x_test)
    with pytest.raises(InputError, match="leave test_fraction out"):
        open_stream(save(tmp_path / "split.npz", 4), test_fraction=0.5)


def test_corrupt_file(tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(b"PK\x03\x04 no zip at all")
    with pytest.raises(DataError, match=r"bad\.npz is not a readable \.npz file"):
        open_stream(str(path))


def test_scenarios_over_files(tmp_path, monkeypatch):
    path = save(tmp_path / "mine.npz", 4)
    stream = open_stream(f"b-{path}:minor=1,tasks=2")
    assert stream.name == f"b-{path}:minor=1,tasks=2"
    assert [len(task.train) for task in stream.tasks] == [8, 8]
    assert [len(task.train) for task in open_stream(f"r-{path}:rounds=2").tasks] == [4] * 4
    assert len(open_stream(path, tasks=4)) == len(open_stream(f"{path}:tasks=4")) == 4
    monkeypatch.chdir(tmp_path)
    assert len(open_stream("g-mine.npz")) == 2
    assert absolute_name("g-mine.npz:width=1") == f"g-{path}:width=1"
    assert absolute_name("mine.npz") == path
    assert absolute_name("c-digits:tasks=2") == "c-digits:tasks=2"


def test_a_file_whose_name_looks_like_a_prefix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "b-side.npz", 4)
    assert read_spec("b-side.npz").scenario == ClassIncremental()
    assert absolute_name("b-side.npz") == path
    (tmp_path / "g-cifar10").mkdir()  # say, the folder of a run
    assert read_spec("g-cifar10").dataset == "cifar10"
    colon = save(tmp_path / "a:b.npz", 4)
    assert len(open_stream(colon, tasks=4)) == 4
    assert len(open_stream(f"{colon}:tasks=4")) == 4


def test_missing_files():
    for name in ("/no/such/file.npz", "b-/no/such/file.npz:minor=2"):
        with pytest.raises(DataError, match=r"no/such/file\.npz"):
            open_stream(name)


def test_how_data_is_read(tmp_path, monkeypatch):
    asked = []

    def load(name, **options):
        asked.append((str(name), options))
        x, y = np.zeros((4, 2), dtype=np.float32), np.array([0, 0, 1, 1])
        return Dataset("table", x, y, x, y, classes=["a", "b"])

    monkeypatch.setattr(evenstream.data, "load_dataset", load)
    table = "lt-/data/parts.csv:label=kind,rare=seed"
    assert open_stream(table, seed=3, test_fraction=0.5).name == table
    open_stream("c-imagenet:reserve=0,tasks=2,size=64", corrupt="skip")
    assert asked == [
        ("/data/parts.csv", {"label": "kind", "test_fraction": 0.5, "seed": 3}),
        ("imagenet", {"size": 64, "corrupt": "skip", "test_fraction": None, "seed": 0}),
    ]


def test_options_of_reading_that_do_not_apply():
    for name, flags in (("c-digits:size=4", {}), ("c-digits", {"corrupt": "skip"})):
        with pytest.raises(InputError, match="digits does not come from image files"):
            open_stream(name, **flags)
    with pytest.raises(InputError, match="digits is not a table"):
        open_stream("c-digits:label=kind")


def test_an_image_folder(tmp_path):
    for kind in ("a", "b", "c", "d"):
        (tmp_path / "pictures" / kind).mkdir(parents=True)
        for number in range(6):
            pixels = np.full((5, 7, 3), 10 * number, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / kind / f"{number}.png")
    name = f"r-{tmp_path / 'pictures'}:rounds=2,size=4"
    stream = open_stream(name, test_fraction=0.5)
    assert stream.class_names() == [["a", "b"], ["c", "d"]] * 2
    (batch,) = stream.batches(0, 8)
    assert batch.x.shape == (8, 3, 4, 4)  # over the end of the stage, which nobody is told
    x, labels = task_tests(stream, 1)
    assert x.shape == (6, 3, 4, 4)
    assert sorted(labels) == ["c"] * 3 + ["d"] * 3
    with pytest.raises(InputError, match="by=rotation needs images in memory"):
        open_stream(f"d-{tmp_path / 'pictures'}")


def test_the_example_in_the_docs_runs():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "streams.md").read_text(
        encoding="utf-8"
    )
    found = {}
    exec(text.split("```python\n")[1].split("```")[0], found)
    assert found["profile"](found["stream"]).over_time.sum() == 1442
