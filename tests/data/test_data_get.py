"""Data sets are imported and downloaded: checked before they are kept, and nothing half."""

import errno
import gzip
import os
from dataclasses import replace

import pytest

from evenstream.data import checked_files as files_module
from evenstream.data import (
    get,
    import_files,
    load_dataset,
)
from evenstream.errors import DataError
from tests.helpers.generated_data import (
    cifar10_files,
    cifar100_files,
    cifar_like,
    mnist_files,
    mnist_like,
    statuses,
    tar_bytes,
    write_files,
)


def everything_under(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


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
    with pytest.raises(DataError, match="no intact copy of t10k-images-idx3-ubyte"):
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
