import errno
import gzip
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_data import (
    cifar10_files,
    cifar100_files,
    cifar_like,
    idx_bytes,
    mnist_files,
    mnist_like,
    tar_bytes,
)

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
from evenstream.data import files as files_module
from evenstream.errors import DataError, InputError, UnknownName


def write_files(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def statuses(name):
    return {status.name: status.status for status in verify(name)}


def everything_under(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


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
    assert np.array_equal(digits._read_bundled(), np.c_[expected.data, expected.target])
    monkeypatch.setattr(digits, "FILE", Path("nowhere"))
    assert np.array_equal(digits._read_bundled(), np.c_[expected.data, expected.target])


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


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("place", ["", "raw", "MNIST/raw", "mnist"])
def test_import_copies_checked_files(register, data_folder, tmp_path, compressed, place):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(info)
    write_files(tmp_path / "usb" / place, served if compressed else contents)
    assert {status.status for status in import_files("mnist", tmp_path / "usb")} == {"ok"}
    assert everything_under(data_folder) == sorted(f"mnist/{name}" for name in contents)
    assert len(load_dataset("mnist").x_train) == 20


def test_import_accepts_recompressed_files(register, tmp_path):
    contents = mnist_files()
    register(mnist_like(contents)[0])
    recompressed = {f"{k}.gz": gzip.compress(v, 1, mtime=5) for k, v in contents.items()}
    write_files(tmp_path / "debian", recompressed)
    import_files("mnist", tmp_path / "debian")
    assert len(load_dataset("mnist").x_test) == 10


def test_import_takes_the_sources_archive(register, tmp_path, data_folder):
    contents = cifar100_files()
    info, served = cifar_like("cifar100", contents)
    register(info)
    write_files(tmp_path / "downloads", served)
    import_files("cifar100", tmp_path / "downloads")
    assert everything_under(data_folder) == sorted(f"cifar100/{name}" for name in contents)
    assert load_dataset("cifar100").n_classes == 100


def test_import_refuses_altered_files_and_archives(register, tmp_path, data_folder):
    contents = cifar100_files()
    info, served = cifar_like("cifar100", contents)
    register(info)
    source = tmp_path / "downloads"
    write_files(source, {"train.bin": contents["train.bin"][:-1]})
    write_files(source, {name: content[:-9] for name, content in served.items()})
    with pytest.raises(DataError, match=r"train\.bin is cut short.*MD5"):
        import_files("cifar100", source)
    assert everything_under(data_folder) == []


def test_import_from_nowhere(tmp_path, data_folder):
    with pytest.raises(DataError, match="there is no folder"):
        import_files("mnist", tmp_path / "absent")
    with pytest.raises(DataError, match="no right copy of t10k-images-idx3-ubyte"):
        import_files("mnist", tmp_path)


def test_import_prefers_a_right_copy_over_an_altered_one(register, tmp_path):
    contents = mnist_files()
    register(mnist_like(contents)[0])
    write_files(tmp_path / "usb", dict.fromkeys(contents, b"something else"))
    write_files(tmp_path / "usb" / "MNIST" / "raw", contents)
    import_files("mnist", tmp_path / "usb")
    assert set(statuses("mnist").values()) == {"ok"}


def test_get_downloads_checks_and_reports_progress(register, mirror, data_folder):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(info)
    mirror.serve("mnist", served)
    seen = []
    result = get("mnist", mirror=mirror.url, progress=lambda *args: seen.append(args))
    assert {status.status for status in result} == {"ok"}
    assert everything_under(data_folder) == sorted(f"mnist/{name}" for name in contents)
    assert {name for name, _, _ in seen} == set(served)
    assert all(0 <= done <= total == len(served[name]) for name, done, total in seen)
    assert {name for name, done, total in seen if done == total} == set(served)
    assert len(load_dataset("mnist").x_train) == 20


def test_get_asks_only_for_what_is_missing_or_altered(register, mirror, data_folder, monkeypatch):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(info)
    mirror.serve("mnist", served)
    monkeypatch.setenv("EVENSTREAM_DATA_MIRROR", mirror.url + "/")
    get("mnist")
    mirror.asked.clear()
    get("mnist")
    assert mirror.asked == []
    (data_folder / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"?")
    get("mnist")
    assert mirror.asked == ["/mnist/t10k-labels-idx1-ubyte.gz"]
    assert set(statuses("mnist").values()) == {"ok"}


def test_get_unpacks_an_archive_and_removes_it(register, mirror, data_folder):
    contents = cifar10_files()
    info, served = cifar_like("cifar10", contents)
    register(info)
    mirror.serve("cifar10", served)
    get("cifar10", mirror=mirror.url)
    assert everything_under(data_folder) == sorted(f"cifar10/{name}" for name in contents)
    assert load_dataset("cifar10").label_names[0] == "kind0"


def test_get_tries_the_sources_in_turn(register, mirror):
    contents = mnist_files()
    info, served = mnist_like(contents)
    register(replace(info, urls=(f"{mirror.url}/gone/", f"{mirror.url}/mnist/")))
    mirror.serve("mnist", served)
    assert {status.status for status in get("mnist")} == {"ok"}


def test_a_download_with_the_wrong_checksum_leaves_nothing_behind(register, mirror, data_folder):
    info, served = cifar_like("cifar10", cifar10_files())
    register(info)
    mirror.serve("cifar10", {name: content[:-1] + b"x" for name, content in served.items()})
    with pytest.raises(DataError, match=r"its MD5 is .*evenstream data import cifar10"):
        get("cifar10", mirror=mirror.url)
    assert list(data_folder.rglob("*")) == []


def test_a_download_that_is_too_large_is_stopped(register, mirror, data_folder):
    info, served = mnist_like(mnist_files())
    register(info)
    mirror.serve("mnist", {name: bytes(5_000_000) for name in served})
    with pytest.raises(DataError, match="more than the expected"):
        get("mnist", mirror=mirror.url)
    assert list(data_folder.rglob("*")) == []


def test_a_missing_download_names_the_address(register, mirror, data_folder):
    with pytest.raises(DataError, match=rf"404.*{mirror.url}/mnist/train-images-idx3-ubyte\.gz"):
        get("mnist", mirror=mirror.url)
    assert list(data_folder.rglob("*")) == []


def test_no_server_at_all_is_a_data_error():
    with pytest.raises(DataError, match="could not download"):
        get("mnist", mirror="http://127.0.0.1:9")


def test_archive_members_cannot_escape(register, mirror, data_folder, tmp_path):
    contents = cifar100_files()
    members = {f"cifar-100-binary/{name}": content for name, content in contents.items()}
    evil = {
        "../escaped.bin": b"evil",
        "/tmp/evenstream-escaped.bin": b"evil",
        "cifar-100-binary/../../train.bin": b"evil",
        "cifar-100-binary/extra.bin": b"evil",
    }
    info, served = cifar_like("cifar100", contents, tar_bytes({**evil, **members}))
    register(info)
    mirror.serve("cifar100", served)
    before = set(everything_under(tmp_path))
    get("cifar100", mirror=mirror.url)
    expected = {f"root/cifar100/{name}" for name in contents}
    assert set(everything_under(tmp_path)) - before == expected


def test_archive_links_are_not_followed(register, mirror, data_folder):
    contents = cifar100_files()
    members = {f"cifar-100-binary/{name}": content for name, content in contents.items()}
    del members["cifar-100-binary/train.bin"]
    archive = tar_bytes(members, links={"cifar-100-binary/train.bin": "/etc/hostname"})
    info, served = cifar_like("cifar100", contents, archive)
    register(info)
    mirror.serve("cifar100", served)
    with pytest.raises(DataError, match=r"lacks cifar-100-binary/train\.bin"):
        get("cifar100", mirror=mirror.url)
    assert "cifar100/train.bin" not in everything_under(data_folder)


def test_altered_archive_members_are_refused(register, mirror, data_folder):
    contents = cifar100_files()
    members = {f"cifar-100-binary/{name}": content for name, content in contents.items()}
    members["cifar-100-binary/train.bin"] = bytes(len(contents["train.bin"]))
    info, served = cifar_like("cifar100", contents, tar_bytes(members))
    register(info)
    mirror.serve("cifar100", served)
    with pytest.raises(DataError, match=r"train\.bin is not the expected file"):
        get("cifar100", mirror=mirror.url)
    assert everything_under(data_folder) == []


def test_an_archive_that_is_none_is_refused(register, mirror, data_folder):
    info, served = cifar_like("cifar100", cifar100_files(), archive=b"not a tar file")
    register(info)
    mirror.serve("cifar100", served)
    with pytest.raises(DataError, match="not a readable archive"):
        get("cifar100", mirror=mirror.url)
    assert everything_under(data_folder) == []


def test_a_data_folder_that_cannot_be_made_is_explained(register, tmp_path):
    contents = mnist_files()
    register(mnist_like(contents)[0])
    write_files(tmp_path / "usb", contents)
    (tmp_path / "file").write_text("in the way")
    for act in (
        lambda root: import_files("mnist", tmp_path / "usb", root=root),
        lambda root: get("mnist", root=root, mirror="http://127.0.0.1:9"),
    ):
        with pytest.raises(DataError, match=r"cannot write to the data folder.*EVENSTREAM_DATA"):
            act(tmp_path / "file" / "root")


def test_a_full_disk_is_explained_and_leaves_no_half_files(
    register, tmp_path, data_folder, monkeypatch
):
    contents = mnist_files()
    register(mnist_like(contents)[0])
    write_files(tmp_path / "usb", contents)
    real_fdopen = os.fdopen

    def full_disk(handle, mode):
        stream = real_fdopen(handle, mode)

        class Full:
            def __enter__(self):
                return self

            def __exit__(self, *error):
                stream.close()

            def write(self, chunk):
                raise OSError(errno.ENOSPC, "No space left on device")

        return Full()

    monkeypatch.setattr(files_module.os, "fdopen", full_disk)
    with pytest.raises(DataError, match="No space left on device"):
        import_files("mnist", tmp_path / "usb")
    assert everything_under(data_folder) == []
