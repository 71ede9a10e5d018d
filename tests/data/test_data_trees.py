"""Folders of images: imported where they are, or unpacked from archives, and pinned."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from evenstream.data import DATASETS, get, import_files, list_datasets, load_dataset, verify
from evenstream.errors import DataError, EvenstreamError, InputError
from evenstream.files import exclusive
from tests.helpers.generated_data import tar_bytes
from tests.helpers.generated_images import imagenet, inaturalist, picture, save, tiny_imagenet

ZIP = "tiny-imagenet-200.zip"


def contents(folder):
    """The files in a folder, as they would be named in an archive."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def zip_bytes(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def tiny_zip(tmp_path):
    """The bytes of an archive in the layout of the original."""
    tree = tiny_imagenet(tmp_path / "made" / "tiny-imagenet-200")
    return zip_bytes(contents(tree.parent))


@pytest.fixture
def downloads(tmp_path, tiny_zip):
    folder = tmp_path / "usb"
    folder.mkdir()
    (folder / ZIP).write_bytes(tiny_zip)
    return folder


def status_of(name):
    (status,) = verify(name)
    return status.status


def row_of(name):
    return next(row for row in list_datasets() if row.name == name)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_unpacked_folder_is_read_where_it_is(tmp_path, data_folder):
    tree = imagenet(tmp_path / "disk" / "images")
    assert [status.status for status in import_files("imagenet", tree)] == ["pinned"]
    assert names_in(data_folder) == ["imports.json"]
    dataset = load_dataset("imagenet", size=16)
    assert dataset.x_train.shape == (6, 3, 16, 16)
    assert dataset.classes == ["n01440764", "n01443537"]
    row = row_of("imagenet")
    assert row.present
    assert (row.where, row.checked) == (str(tree), "unverified (pinned)")


@pytest.mark.parametrize("place", ["tiny-imagenet-200", "tinyimagenet", ""])
def test_import_finds_the_folder_below_the_one_given(tmp_path, place):
    tiny_imagenet(tmp_path / "usb" / place)
    import_files("tinyimagenet", tmp_path / "usb")
    assert load_dataset("tinyimagenet").n_classes == 3


def test_a_folder_that_was_put_in_the_data_folder_by_hand_is_found(data_folder):
    assert status_of("imagenet") == "missing"
    tree = imagenet(data_folder / "ILSVRC2012")
    assert len(load_dataset("imagenet").x_test) == 2
    assert status_of("imagenet") == "unpinned"
    assert row_of("imagenet").checked == "unverified"
    import_files("imagenet", tree)
    assert status_of("imagenet") == "pinned"
    assert json.loads((data_folder / "imports.json").read_text())["imagenet"]["folder"] == (
        "ILSVRC2012"
    )


def test_a_data_folder_can_be_moved(downloads, data_folder, tmp_path):
    import_files("tinyimagenet", downloads)
    moved = data_folder.rename(tmp_path / "moved")
    (status,) = verify("tinyimagenet", root=moved)
    assert (status.status, status.path) == ("pinned", moved / "tinyimagenet")


def test_verify_notices_changed_names_and_sizes(tmp_path):
    tree = imagenet(tmp_path / "images")
    import_files("imagenet", tree)
    image = tree / "train" / "n01440764" / "n01440764_0.JPEG"
    content = image.read_bytes()
    image.rename(image.with_name("other.JPEG"))
    assert status_of("imagenet") == "altered"
    image.with_name("other.JPEG").rename(image)
    assert status_of("imagenet") == "pinned"
    image.write_bytes(content + b"x")
    (status,) = verify("imagenet")
    assert status.status == "altered"
    assert "8 files" in status.problem
    image.write_bytes(content)
    (tree / "train" / ".DS_Store").write_text("made by looking at it")
    assert status_of("imagenet") == "pinned"
    image.unlink()
    assert status_of("imagenet") == "altered"
    import_files("imagenet", tree)
    assert status_of("imagenet") == "pinned"


def test_an_imported_folder_that_is_gone_is_named(tmp_path):
    tree = imagenet(tmp_path / "images")
    import_files("imagenet", tree)
    tree.rename(tmp_path / "elsewhere")
    assert status_of("imagenet") == "missing"
    with pytest.raises(DataError, match=f"no folder {tree}, from which it was imported"):
        load_dataset("imagenet")


def test_missing_sets_say_how_to_get_them():
    with pytest.raises(DataError, match=r"needs an account.*image-net\.org.*data import imagenet"):
        load_dataset("imagenet")
    with pytest.raises(DataError, match=r"account.*md5:1d675b47d978889d74fa0da5fadfb00e"):
        get("imagenet")
    with pytest.raises(DataError, match=rf"`evenstream data get tinyimagenet`.*{ZIP}"):
        load_dataset("tinyimagenet")


def test_a_refused_import_leaves_no_data_folder_behind(tmp_path, data_folder):
    (tmp_path / "usb").mkdir()
    for name in ("imagenet", "tinyimagenet", "mnist"):
        with pytest.raises(DataError, match="does not hold"):
            import_files(name, tmp_path / "usb", root=data_folder / "deep" / "er")
        assert not data_folder.exists()


def test_a_wrong_layout_is_explained(tmp_path):
    tree = imagenet(tmp_path / "images")
    for image in list((tree / "val").rglob("*.JPEG")):
        image.rename(tree / "val" / image.name)
        image.parent.rmdir()
    with pytest.raises(DataError, match="sort the validation images"):
        import_files("imagenet", tree)
    with pytest.raises(DataError, match=r"there is no folder .*; give the folder that it is in"):
        import_files("imagenet", tree / "val" / "ILSVRC2012_val_n01440764.JPEG")


def test_import_unpacks_the_archive_and_pins_it(downloads, tiny_zip, data_folder, tmp_path):
    assert [status.status for status in import_files("tinyimagenet", downloads)] == ["pinned"]
    assert names_in(data_folder) == ["imports.json", "tinyimagenet"]
    made = tmp_path / "made" / "tiny-imagenet-200"
    assert contents(data_folder / "tinyimagenet") == contents(made)
    pins = json.loads((data_folder / "imports.json").read_text())["tinyimagenet"]["pins"]
    assert pins[ZIP]["sha256"] == hashlib.sha256(tiny_zip).hexdigest()
    assert pins[ZIP]["size"] == len(tiny_zip)
    assert len(load_dataset("tinyimagenet").x_train) == 9


def test_another_archive_than_the_pinned_one_is_refused(downloads, tiny_zip, data_folder):
    import_files("tinyimagenet", downloads)
    (data_folder / "tinyimagenet").rename(data_folder / "away")
    (downloads / ZIP).write_bytes(tiny_zip + b"x")
    with pytest.raises(DataError, match=r"not the file that was imported on.*imports\.json"):
        import_files("tinyimagenet", downloads)
    (downloads / ZIP).write_bytes(tiny_zip)
    import_files("tinyimagenet", downloads)
    assert status_of("tinyimagenet") == "pinned"


def test_nothing_that_is_there_is_overwritten(downloads, tiny_zip, data_folder, mirror):
    import_files("tinyimagenet", downloads)
    (data_folder / "tinyimagenet" / "mine.txt").write_text("keep")
    before = contents(data_folder)
    assert status_of("tinyimagenet") == "altered"
    mirror.serve("tinyimagenet", {ZIP: tiny_zip})
    for act in (
        lambda: import_files("tinyimagenet", downloads),
        lambda: get("tinyimagenet", mirror=mirror.url),
    ):
        with pytest.raises(DataError, match="already exists; remove it"):
            act()
    assert mirror.asked == []
    assert contents(data_folder) == before


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"tiny-imagenet-200/wnids.txt": b"n01443537", "../evil": b""}, "rejected"),
        ({"tiny-imagenet-200/readme.txt": b"?"}, r"does not hold tinyimagenet.*zip.*lacks wnids"),
        ({"something-else/wnids.txt": b"n01443537"}, "does not hold tinyimagenet as expected"),
    ],
)
def test_a_bad_archive_leaves_nothing_behind(downloads, data_folder, members, message):
    (downloads / ZIP).write_bytes(zip_bytes(members))
    with pytest.raises(DataError, match=message):
        import_files("tinyimagenet", downloads)
    assert not data_folder.exists()


def test_a_killed_import_leaves_nothing_half_made(downloads, data_folder):
    code = (
        "import sys, time; from evenstream.data import import_files; seen = []\n"
        "def hook(event, args):\n"
        "    if event == 'open' and str(args[0]).endswith('.JPEG'): seen.append(args[0])\n"
        "    if len(seen) > 5: time.sleep(60)\n"
        "sys.addaudithook(hook); import_files('tinyimagenet', sys.argv[1])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code, str(downloads)], env=environment)
    give_up = time.monotonic() + 60
    while len(list(data_folder.rglob("*.JPEG"))) < 3:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (data_folder / "tinyimagenet").exists()
    assert status_of("tinyimagenet") == "missing"
    import_files("tinyimagenet", downloads)
    assert names_in(data_folder) == ["imports.json", "tinyimagenet"]


def test_a_data_folder_has_one_worker_at_a_time(data_folder):
    data_folder.mkdir()
    with (
        exclusive(data_folder),
        pytest.raises(EvenstreamError, match=f"working in {data_folder};"),
        exclusive(data_folder, patience=0),
    ):
        pass


def test_leftovers_of_a_killed_download_go_with_the_next_get(data_folder, mirror, tiny_zip):
    (data_folder / ".incoming-abc" / "unpacked").mkdir(parents=True)
    (data_folder / ".incoming-file").write_bytes(b"half")
    mirror.serve("tinyimagenet", {ZIP: tiny_zip})
    get("tinyimagenet", mirror=mirror.url)
    assert names_in(data_folder) == ["imports.json", "tinyimagenet"]


def test_get_downloads_unpacks_and_pins(mirror, tiny_zip, data_folder):
    mirror.serve("tinyimagenet", {ZIP: tiny_zip})
    mirror.break_after = [len(tiny_zip) // 2, 100]
    assert [status.status for status in get("tinyimagenet", mirror=mirror.url)] == ["pinned"]
    assert names_in(data_folder) == ["imports.json", "tinyimagenet"]
    asked = len(mirror.asked)
    get("tinyimagenet", mirror=mirror.url)
    assert len(mirror.asked) == asked
    (data_folder / "tinyimagenet").rename(data_folder / "away")
    mirror.serve("tinyimagenet", {ZIP: tiny_zip[:-1] + b"x"})
    with pytest.raises(DataError, match="not the file that was imported on"):
        get("tinyimagenet", mirror=mirror.url)
    assert names_in(data_folder) == ["away", "imports.json"]


def test_a_page_to_log_in_is_not_kept_as_the_archive(mirror, tiny_zip, data_folder):
    mirror.serve("tinyimagenet", {ZIP: b"<html>Welcome to the hotel</html>"})
    with pytest.raises(DataError, match="not a readable archive"):
        get("tinyimagenet", mirror=mirror.url)
    assert not data_folder.exists()
    mirror.serve("tinyimagenet", {ZIP: tiny_zip})
    assert [status.status for status in get("tinyimagenet", mirror=mirror.url)] == ["pinned"]


@pytest.fixture
def inaturalist_archives(register, tmp_path):
    """Both archives of iNaturalist, small, and a registry that knows the MD5 of the images."""
    tree = inaturalist(tmp_path / "species")
    files = contents(tree)
    notes = {name: files.pop(name) for name in ("train2017.json", "val2017.json")}
    archives = {"train_val2017.zip": zip_bytes(notes), "train_val_images.tar.gz": tar_bytes(files)}
    notes_download, images_download = DATASETS["inaturalist2017"].downloads
    md5 = hashlib.md5(archives["train_val_images.tar.gz"], usedforsecurity=False).hexdigest()
    images_download = replace(images_download, checksum=f"md5:{md5}")
    register(replace(DATASETS["inaturalist2017"], downloads=(notes_download, images_download)))
    return archives


def test_a_set_in_two_archives(inaturalist_archives, mirror, data_folder, tmp_path):
    mirror.serve("inaturalist2017", inaturalist_archives)
    get("inaturalist2017", mirror=mirror.url)
    assert names_in(data_folder) == ["imports.json", "inaturalist2017"]
    assert contents(data_folder / "inaturalist2017") == contents(tmp_path / "species")
    pins = json.loads((data_folder / "imports.json").read_text())["inaturalist2017"]["pins"]
    assert set(pins) == {"train_val2017.zip", "names and sizes of all files"}
    assert len(load_dataset("inaturalist2017", size=8).x_train) == 5


def test_what_was_downloaded_of_two_archives_is_kept(inaturalist_archives, mirror, data_folder):
    images = inaturalist_archives.pop("train_val_images.tar.gz")
    mirror.serve("inaturalist2017", inaturalist_archives)
    with pytest.raises(DataError, match="404"):
        get("inaturalist2017", mirror=mirror.url)
    assert list(contents(data_folder)) == ["downloads/inaturalist2017/train_val2017.zip"]
    mirror.asked.clear()
    mirror.serve("inaturalist2017", {"train_val_images.tar.gz": images})
    get("inaturalist2017", mirror=mirror.url)
    assert mirror.asked == ["/inaturalist2017/train_val_images.tar.gz"]
    assert names_in(data_folder) == ["imports.json", "inaturalist2017"]


def test_a_published_checksum_is_checked_on_import(inaturalist_archives, data_folder, tmp_path):
    usb = tmp_path / "usb"
    usb.mkdir()
    for name, content in inaturalist_archives.items():
        (usb / name).write_bytes(content)
    with (usb / "train_val_images.tar.gz").open("ab") as archive:
        archive.write(b"x")
    with pytest.raises(DataError, match=r"images\.tar\.gz is not the expected file: its MD5"):
        import_files("inaturalist2017", usb)
    assert not data_folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "[" * 100_000, '{"imagenet": {"pins": {"x": {"sha": 1}}}}'),
        '{"imagenet": {"pins": {}, "folder": 3}}',
    ],
)
def test_a_damaged_list_of_imports_is_explained(data_folder, text):
    data_folder.mkdir()
    (data_folder / "imports.json").write_text(text)
    with pytest.raises(DataError, match=r"imports\.json cannot be read.*remove it"):
        verify("imagenet")


@pytest.fixture
def pictures(tmp_path):
    for label in ("cat", "dog"):
        for number in range(5):
            save(picture(number), tmp_path / "pictures" / label / f"{number}.png")
    return tmp_path / "pictures"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    rows = [f"{number},{number % 3},{'ab'[number % 2]}" for number in range(10)]
    path.write_text("\n".join(["height,width,kind", *rows]))
    return path


def test_folders_and_tables_load_by_their_paths(pictures, table, monkeypatch):
    dataset = load_dataset(pictures, size=8, test_fraction=0.4, corrupt="skip")
    assert dataset.x_train.shape == (6, 3, 8, 8)
    assert dataset.classes == ["cat", "dog"]
    assert load_dataset(table, label="kind").x_test.shape == (2, 2)
    monkeypatch.chdir(pictures.parent)
    assert len(load_dataset("pictures").x_test) == 2
    assert load_dataset("table.csv", label="kind", test_fraction=0.5).classes == ["a", "b"]


def test_the_same_seed_sets_the_same_images_aside(pictures):
    pixels = [load_dataset(pictures, seed=seed).x_test[:].tobytes() for seed in (3, 3, 4)]
    assert pixels[0] == pixels[1] != pixels[2]


def test_options_that_do_not_apply_are_refused(pictures, table, tmp_path, data_folder):
    imagenet(data_folder / "imagenet")
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 2), np.float32), y=[0, 0, 1, 1])
    refused = {
        "digits": ["test_fraction", "size", "corrupt", "label"],
        "imagenet": ["test_fraction", "label"],
        pictures: ["label"],
        table: ["size", "corrupt"],
        tmp_path / "mine.npz": ["size", "corrupt", "label"],
    }
    values = {"test_fraction": 0.5, "size": 8, "corrupt": "skip", "label": "kind"}
    for source, options in refused.items():
        for option in options:
            with pytest.raises(InputError, match=f"leave {option} out"):
                load_dataset(source, **{option: values[option]})


def test_what_cannot_be_loaded_lists_what_can(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path / "notes.txt", tmp_path / "absent"):
        with pytest.raises(DataError, match=r"folder of images.*\.npz, \.csv.*\.parquet.*cifar10"):
            load_dataset(path)
    with pytest.raises(DataError, match=r"absent\.csv"):
        load_dataset("absent.csv")
