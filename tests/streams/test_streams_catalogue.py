"""Streams by name and from files."""

import numpy as np
import pytest

import evenstream.data
from evenstream.data import Dataset
from evenstream.errors import DataError, InputError, UnknownName
from evenstream.streams import STREAMS, open_stream

PROTOCOLS = {
    # stream: data set, classes, tasks, network, batch, replay, memory, lr, augmentation
    "c-digits": ("digits", 10, 5, "mlp", 10, 10, 100, 0.1, "none"),
    "c-mnist": ("mnist", 10, 5, "mlp", 32, 32, 1000, 0.03, "none"),
    "c-fashion-mnist": ("fashion-mnist", 10, 5, "mlp", 32, 32, 1000, 0.03, "none"),
    "c-cifar10": ("cifar10", 10, 5, "resnet18", 32, 32, 1000, 0.03, "crop+flip"),
    "c-cifar100": ("cifar100", 100, 10, "resnet18", 32, 32, 1000, 0.03, "crop+flip"),
}


@pytest.fixture
def loaded(monkeypatch):
    """Stands in for `load_dataset`; the list of what was loaded."""
    names = []

    def load(name, **options):
        names.append(name)
        n_classes = next(row[1] for row in PROTOCOLS.values() if row[0] == name)
        y = np.arange(2 * n_classes) % n_classes
        x = np.zeros((len(y), 1, 1, 1), dtype=np.uint8)
        return Dataset(name, x, y, x, y, classes=list(range(n_classes)))

    monkeypatch.setattr(evenstream.data, "load_dataset", load)
    return names


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocol_of_each_named_stream(name, loaded):
    dataset, n_classes, tasks, *protocol = PROTOCOLS[name]
    stream = open_stream(name)
    assert loaded == [dataset]
    assert len(stream) == tasks
    assert {len(task.classes) for task in stream.tasks} == {n_classes // tasks}
    found = stream.protocol
    assert [
        found.network, found.batch, found.replay_batch, found.memory, found.lr, found.augment
    ] == protocol  # fmt: skip


def test_every_named_stream_is_tested():
    assert set(STREAMS) == set(PROTOCOLS)


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


def test_unknown_names_and_near_misses():
    with pytest.raises(UnknownName, match="did you mean c-cifar10 or c-cifar100"):
        open_stream("cifar10")
    with pytest.raises(UnknownName, match=r"known: PATH\.npz, c-cifar10"):
        open_stream("imagenet-22k")


def test_named_streams_have_their_own_test_set():
    with pytest.raises(InputError, match="has a test set of its own"):
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
    assert table.protocol.network == "mlp"
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
