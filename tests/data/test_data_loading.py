"""What data sets there are, where they lie, and that only whole files are read."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenstream.data import (
    DATASETS,
    data_root,
    digits,
    get,
    import_files,
    list_datasets,
    load_dataset,
    verify,
)
from evenstream.errors import DataError, InputError, UnknownName
from tests.helpers.generated_data import (
    cifar10_files,
    cifar100_files,
    cifar_like,
    idx_bytes,
    mnist_files,
    mnist_like,
    statuses,
    write_files,
)


def test_digits_are_built_in_and_always_split_alike():
    dataset, again = load_dataset("digits"), load_dataset("digits")
    assert dataset.x_train.shape == (1442, 1, 8, 8)
    assert dataset.x_test.shape == (355, 1, 8, 8)
    assert dataset.x_train.dtype == np.uint8
    assert dataset.x_train.max() == 255
    assert dataset.classes == list(range(10))
    counts = np.bincount(dataset.y_train) + np.bincount(dataset.y_test)
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(dataset.y_test).tolist() == [count // 5 for count in counts]
    np.testing.assert_array_equal(dataset.x_test, again.x_test)
    assert verify("digits") == get("digits") == []
    with pytest.raises(InputError, match="built in"):
        import_files("digits", ".")


def test_digits_are_those_of_scikit_learn(monkeypatch):
    """Read from its file, or through it should it ever keep them elsewhere."""
    from sklearn.datasets import load_digits

    expected = load_digits()
    assert np.array_equal(digits.read_bundled(), np.c_[expected.data, expected.target])
    monkeypatch.setattr(digits, "FILE", Path("nowhere"))
    assert np.array_equal(digits.read_bundled(), np.c_[expected.data, expected.target])


def test_listing_imports_neither_torch_nor_scikit_learn():
    code = (
        "import sys; from evenstream.data import list_datasets; list_datasets(); "
        "assert not {'torch', 'sklearn', 'requests'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_registry_is_complete():
    files = {"digits", "mnist", "fashion-mnist", "cifar10", "cifar100"}
    trees = {"tinyimagenet", "imagenet", "inaturalist2017"}
    assert {info.name for info in DATASETS.values() if info.is_tree} == trees
    assert {info.name for info in DATASETS.values() if not info.is_tree} == files
    for info in DATASETS.values():
        provided = {name for download in info.downloads for name in download.provides}
        assert provided == {file.name for file in info.files}
        assert all(len(file.sha256) == 64 for file in info.files)
        assert bool(info.urls) == (bool(info.downloads) and not info.by_hand)
        assert info.licence
        assert info.description
        assert info.source.startswith("http")


def test_a_checksum_is_stated_only_where_one_is_published():
    unverified = {
        (info.name, download.name)
        for info in DATASETS.values()
        for download in info.downloads
        if download.checksum is None
    }
    assert unverified == {
        ("tinyimagenet", "tiny-imagenet-200.zip"),
        ("inaturalist2017", "train_val2017.zip"),
    }


def test_list_tells_what_is_there(register, data_folder):
    contents = mnist_files()
    register(mnist_like(contents)[0])
    before = {row.name: row for row in list_datasets()}
    assert before["digits"].present
    assert before["digits"].where == "built in"
    assert not before["mnist"].present
    write_files(data_folder / "mnist", contents)
    after = {row.name: row for row in list_datasets()}
    assert after["mnist"].present
    assert after["mnist"].where == str(data_folder / "mnist")
    assert after["mnist"].size == sum(map(len, contents.values()))


def test_data_root_is_the_argument_then_the_variable_then_the_cache(
    data_folder, monkeypatch, tmp_path
):
    assert data_root(tmp_path) == tmp_path
    assert data_root() == data_folder
    monkeypatch.delenv("EVENSTREAM_DATA")
    assert data_root().name == "evenstream"


def test_unknown_names_suggest_near_ones():
    with pytest.raises(UnknownName, match="cifar10"):
        load_dataset("cifar-10")
    with pytest.raises(UnknownName):
        verify("nothing")
    with pytest.raises(UnknownName):
        load_dataset("")  # not the current folder


def test_missing_files_say_how_to_get_them(data_folder):
    with pytest.raises(DataError) as caught:
        load_dataset("mnist")
    message = str(caught.value)
    assert "`evenstream data get mnist`" in message
    assert "`evenstream data import mnist DIR`" in message
    assert str(data_folder / "mnist") in message
    assert "train-images-idx3-ubyte" in message
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz"):
        load_dataset("cifar10")


def test_registered_sets_have_their_own_test_samples():
    with pytest.raises(InputError, match="test_fraction"):
        load_dataset("digits", test_fraction=0.5)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("place", ["mnist", "MNIST/raw"])
def test_mnist_loads_from_its_usual_places(register, data_folder, compressed, place):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(info)
    write_files(data_folder / place, served if compressed else contents)
    dataset = load_dataset("mnist")
    assert dataset.x_train.shape == (20, 1, 28, 28)
    assert idx_bytes(dataset.x_test[:, 0]) == contents["t10k-images-idx3-ubyte"]
    assert dataset.y_test.tolist() == list(range(10))
    assert dataset.mean is None
    assert set(statuses("mnist").values()) == {"ok"}


def test_cifar10_joins_its_batches_in_order(register, data_folder):
    contents = cifar10_files()
    register(cifar_like("cifar10", contents)[0])
    write_files(data_folder / "cifar-10-batches-bin", contents)
    dataset = load_dataset("cifar10")
    assert dataset.x_train.shape == (20, 3, 32, 32)
    assert dataset.y_train.tolist() == [(i + batch) % 10 for batch in range(5) for i in range(4)]
    assert dataset.x_train[5].tobytes() == contents["data_batch_2.bin"][3074 : 2 * 3073]
    assert dataset.label_names[3] == "kind3"
    assert dataset.classes == list(range(10))
    assert len(dataset.mean) == len(dataset.std) == 3


def test_cifar100_keeps_fine_and_coarse_labels(register, data_folder):
    contents = cifar100_files()
    register(cifar_like("cifar100", contents)[0])
    write_files(data_folder / "cifar-100-binary", contents)
    dataset = load_dataset("cifar100")
    assert dataset.n_classes == 100
    assert dataset.y_train.tolist() == [0, 16, 32, 48, 64, 80]
    assert dataset.coarse.train.tolist() == [0, 3, 6, 9, 12, 16]
    assert dataset.coarse.names[3] == "coarse3"
    assert dataset.label_names[16] == "fine16"


@pytest.mark.parametrize("compressed", [False, True])
def test_altered_and_cut_files_are_reported_and_never_read(register, data_folder, compressed):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(info)
    folder = data_folder / "mnist"
    write_files(folder, served if compressed else contents)
    suffix = ".gz" if compressed else ""
    image_path = folder / f"train-images-idx3-ubyte{suffix}"
    altered = bytearray(contents["train-images-idx3-ubyte"])
    altered[500] ^= 1
    image_path.write_bytes(gzip.compress(altered) if compressed else altered)
    label_path = folder / f"t10k-labels-idx1-ubyte{suffix}"
    label_path.write_bytes(label_path.read_bytes()[:-3])
    (folder / f"train-labels-idx1-ubyte{suffix}").unlink()
    assert statuses("mnist") == {
        "train-images-idx3-ubyte": "altered",
        "train-labels-idx1-ubyte": "missing",
        "t10k-images-idx3-ubyte": "ok",
        "t10k-labels-idx1-ubyte": "altered",
    }
    write_files(
        folder,
        {k: v for k, v in (served if compressed else contents).items() if "train-labels" in k},
    )
    with pytest.raises(DataError, match=r"train-images.*SHA-256.*`evenstream data get mnist`"):
        load_dataset("mnist")


def test_a_small_file_that_inflates_without_end_is_stopped(register, data_folder):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(info)
    write_files(data_folder / "mnist", served)
    bomb = gzip.compress(bytes(50_000_000), compresslevel=1)
    (data_folder / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(bomb)
    with pytest.raises(DataError, match="more than the expected 18 bytes"):
        load_dataset("mnist")
