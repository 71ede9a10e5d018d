"""Readers of the layouts, on small trees like the real ones."""

import json
import os
import sys
import traceback

import numpy as np
import pytest

from evenstream.data.image_files import ImageFiles
from evenstream.data.images.image_folder import read_image_folder
from evenstream.data.images.imagenet import read_imagenet
from evenstream.data.images.inaturalist import read_inaturalist
from evenstream.data.images.tiny_imagenet import read_tiny_imagenet
from evenstream.data.pins import pin_folder
from evenstream.errors import DataError, InputError
from tests.helpers.generated_images import (
    SPECIES,
    folder_of_classes,
    imagenet,
    inaturalist,
    picture,
    read_rows,
    save,
    tiny_imagenet,
    truncated_jpeg,
)

READERS = {
    "folder": (lambda root: folder_of_classes(root, {"a": 4, "b": 4}), read_image_folder),
    "tiny": (tiny_imagenet, read_tiny_imagenet),
    "imagenet": (imagenet, read_imagenet),
    "inaturalist": (inaturalist, read_inaturalist),
}


def names(files):
    return [files.path(row).relative_to(files.root).as_posix() for row in range(len(files))]


def labelled(dataset, part):
    """Names of files and their labels."""
    x, y = getattr(dataset, f"x_{part}"), getattr(dataset, f"y_{part}")
    return list(zip(names(x), [dataset.classes[index] for index in y], strict=True))


# What all of them have in common.


@pytest.fixture(params=READERS)
def layout(request, tmp_path):
    make, read = READERS[request.param]
    return make(tmp_path / "set"), read


def test_every_image_is_lazy_and_readable(layout):
    root, read = layout
    dataset = read(root)
    assert isinstance(dataset.x_train, ImageFiles) and isinstance(dataset.x_test, ImageFiles)
    assert dataset.input_shape[0] == 3
    assert dataset.x_train[:].shape == dataset.x_train.shape
    assert dataset.x_test[:].shape == dataset.x_test.shape


def test_the_order_does_not_depend_on_the_file_system(layout, monkeypatch):
    root, read = layout
    expected = [labelled(read(root), part) for part in ("train", "test")]
    scandir = os.scandir

    class Reversed:
        def __init__(self, path):
            with scandir(path) as found:
                self.entries = list(found)[::-1]

        def __enter__(self):
            return self.entries

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(os, "scandir", Reversed)
    assert [labelled(read(root), part) for part in ("train", "test")] == expected


def test_size_and_skipping_are_options(layout):
    root, read = layout
    dataset = read(root, size=10, on_corrupt="skip")
    broken = dataset.x_train.path(1)
    truncated_jpeg(broken)
    assert dataset.input_shape == (3, 10, 10)
    found = read_rows(dataset.x_train, np.arange(3))
    assert found.rows.tolist() == [0, 2] and str(broken) in found.skipped[0]
    with pytest.raises(DataError, match="--corrupt skip"):
        read_rows(read(root).x_train, np.arange(3))


def test_no_folder_at_all(layout, tmp_path):
    _, read = layout
    with pytest.raises(DataError, match="nowhere"):
        read(tmp_path / "nowhere")


def test_a_folder_of_something_else(layout, tmp_path):
    _, read = layout
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("nothing here")
    with pytest.raises(DataError, match=r"other.* (holds|found) notes\.txt"):
        read(tmp_path / "other")


# Image folders.


def test_a_folder_of_classes_is_split_by_seed(tmp_path):
    root = folder_of_classes(tmp_path / "pets", {"dog": 10, "cat": 5})
    dataset = read_image_folder(root)
    assert dataset.name == "pets" and dataset.classes == ["cat", "dog"]
    assert dataset.input_shape == (3, 64, 64) and dataset.mean is None
    assert np.bincount(dataset.y_test).tolist() == [1, 2]
    everything = labelled(dataset, "train") + labelled(dataset, "test")
    assert sorted(everything) == sorted(
        [(f"cat/{n}.jpg", "cat") for n in range(5)] + [(f"dog/{n}.jpg", "dog") for n in range(10)]
    )
    again, other = read_image_folder(root), read_image_folder(root, test_fraction=0.5, seed=3)
    assert labelled(again, "test") == labelled(dataset, "test")
    assert np.bincount(other.y_test).tolist() == [2, 5]


@pytest.mark.parametrize("test_part", ["test", "val", "valid", "validation"])
def test_a_folder_with_parts(tmp_path, test_part):
    folder_of_classes(tmp_path / "train", {"a": 2, "b": 1, "c": 1})
    folder_of_classes(tmp_path / test_part, {"c": 2})
    dataset = read_image_folder(tmp_path)
    assert [label for _, label in labelled(dataset, "train")] == ["a", "a", "b", "c"]
    assert labelled(dataset, "test") == [(f"{test_part}/c/{n}.jpg", "c") for n in range(2)]
    with pytest.raises(InputError, match="own test images"):
        read_image_folder(tmp_path, test_fraction=0.3)


def test_a_train_folder_alone_is_split(tmp_path):
    folder_of_classes(tmp_path / "train", {"a": 5, "b": 5})
    dataset = read_image_folder(tmp_path)
    assert dataset.classes == ["a", "b"] and len(dataset.y_test) == 2
    assert all(name.startswith("train/") for name in names(dataset.x_train))


def test_a_test_folder_without_train_is_a_class(tmp_path):
    folder_of_classes(tmp_path, {"test": 2, "exam": 2})
    assert read_image_folder(tmp_path).classes == ["exam", "test"]


def test_classes_to_test_on_must_be_trained_on(tmp_path):
    folder_of_classes(tmp_path / "train", {"a": 2})
    folder_of_classes(tmp_path / "test", {"a": 1, "zebra": 1})
    with pytest.raises(DataError, match="not trained on: zebra"):
        read_image_folder(tmp_path)


def test_what_belongs_to_a_class(tmp_path):
    """Sub-folders and all suffixes do; hidden files and other files do not."""
    for name in ("b.PNG", "a.jpeg", "deep/er/c.jpg", "über uns/d e.bmp", "z.webp"):
        save(picture(1), tmp_path / "Zoë's cats" / name)
    folder_of_classes(tmp_path, {"dog": 2})
    for name in (".DS_Store", "Thumbs.db", "._a.jpeg", "read me.txt"):
        (tmp_path / "Zoë's cats" / name).write_text("no image")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "labels.csv").write_text("a,b")
    dataset = read_image_folder(tmp_path)
    assert dataset.classes == ["Zoë's cats", "dog"]
    found = labelled(dataset, "train") + labelled(dataset, "test")
    assert sorted(name for name, label in found if label != "dog") == [
        "Zoë's cats/a.jpeg",
        "Zoë's cats/b.PNG",
        "Zoë's cats/deep/er/c.jpg",
        "Zoë's cats/z.webp",
        "Zoë's cats/über uns/d e.bmp",
    ]
    assert dataset.x_train[:].any()


def test_folders_may_be_deeper_than_functions_can_call_each_other(tmp_path):
    folder_of_classes(tmp_path, {"a": 2, "b": 2})
    read_image_folder(tmp_path)  # so that all is imported
    deep = "a" + "/d" * 200
    save(picture(1), tmp_path / deep / "x.png")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(sum(1 for _ in traceback.walk_stack(None)) + 100)
    try:
        dataset, pin = read_image_folder(tmp_path), pin_folder(tmp_path)
    finally:
        sys.setrecursionlimit(limit)
    found = [*names(dataset.x_train), *names(dataset.x_test)]
    assert f"{deep}/x.png" in found
    assert pin.files == len(found) == 5


def test_a_class_without_images_is_refused(tmp_path):
    folder_of_classes(tmp_path, {"a": 2})
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match=r"no images in .*/b \(.bmp, .*it holds nothing"):
        read_image_folder(tmp_path)


def test_images_without_class_folders_are_refused(tmp_path):
    for number in range(7):
        save(picture(number), tmp_path / f"{number}.jpg")
    with pytest.raises(DataError, match=r"CLASS/\*.jpg.*found 0.jpg, .*4.jpg and 2 more"):
        read_image_folder(tmp_path)


@pytest.mark.parametrize("target", ["outside", "outside/0.jpg", "root/a", "."])
def test_links_to_folders_or_out_of_the_root_are_refused(tmp_path, target):
    save(picture(0), tmp_path / "outside" / "0.jpg")
    root = folder_of_classes(tmp_path / "root", {"a": 3})
    (root / "a" / "link.jpg").symlink_to(tmp_path / target)
    with pytest.raises(DataError, match=r"link\.jpg is a symbolic link"):
        read_image_folder(root)


@pytest.mark.parametrize("target", ["gone.jpg", "broken.jpg"])
def test_a_link_to_a_file_inside_is_followed_and_a_broken_one_is_unreadable(tmp_path, target):
    root = folder_of_classes(tmp_path / "train", {"a": 1})
    folder_of_classes(tmp_path / "test", {"a": 1})
    (root / "a" / "again.jpg").symlink_to("0.jpg")
    (root / "a" / "broken.jpg").symlink_to(target)
    files = read_image_folder(tmp_path, on_corrupt="skip").x_train
    read = read_rows(files, np.arange(3))
    assert [files.path(row).name for row in read.rows] == ["0.jpg", "again.jpg"]
    assert read.skipped[0].endswith("broken.jpg: there is no such file")


# TinyImageNet.


def test_tiny_imagenet(tmp_path):
    dataset = read_tiny_imagenet(tiny_imagenet(tmp_path))
    assert dataset.classes == ["n01443537", "n02999410", "n03444034"]
    assert dataset.label_names == ["goldfish, Carassius auratus", "n02999410", "go-kart"]
    assert dataset.input_shape == (3, 64, 64)
    assert dataset.mean == (0.4802, 0.4480, 0.3975) and dataset.std == (0.2770, 0.2691, 0.2821)
    train, test = labelled(dataset, "train"), labelled(dataset, "test")
    assert len(train) == 9
    assert train[0] == ("train/n01443537/images/n01443537_0.JPEG", "n01443537")
    assert all(f"/{label}_" in name for name, label in train)
    assert test == [
        ("val/images/val_0.JPEG", "n03444034"),
        ("val/images/val_1.JPEG", "n01443537"),
        ("val/images/val_2.JPEG", "n02999410"),
        ("val/images/val_3.JPEG", "n03444034"),
    ]


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("wnids.txt", None, "lacks wnids.txt; it holds train, val, words.txt"),
        ("wnids.txt", "", "not a list of synsets"),
        ("wnids.txt", "../etc\n", "not a list of synsets"),
        ("wnids.txt", "n01443537", "not trained on: n02999410, n03444034"),
        ("wnids.txt", "n01443537\nn02999410\nn03444034\nn09999999", "lacks 1 .* 4 .*n09999999"),
        ("words.txt", None, "lacks words.txt"),
        ("words.txt", b"\xff\xfe", "cannot read"),
        ("val/val_annotations.txt", None, r"lacks val/val_annotations\.txt"),
        ("val/val_annotations.txt", "", "names no images"),
        ("val/val_annotations.txt", "val_0.JPEG n03444034", "two columns"),
        ("val/val_annotations.txt", "val_0.JPEG\tn00000000", "class 'n00000000', which is not"),
        ("val/val_annotations.txt", "gone.JPEG\tn03444034", "gone.JPEG, but there is no such"),
        ("val/val_annotations.txt", "../../../a.JPEG\tn03444034", "not the name of a file inside"),
    ],
)
def test_tiny_imagenet_says_what_is_wrong(tmp_path, file, content, complaint):
    path = tiny_imagenet(tmp_path) / file
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=complaint):
        read_tiny_imagenet(tmp_path)


# ImageNet.


def test_imagenet(tmp_path):
    dataset = read_imagenet(imagenet(tmp_path))
    assert dataset.classes == dataset.label_names == ["n01440764", "n01443537"]
    assert dataset.input_shape == (3, 256, 256)
    assert dataset.mean == (0.485, 0.456, 0.406) and dataset.std == (0.229, 0.224, 0.225)
    assert labelled(dataset, "train")[3] == ("train/n01443537/n01443537_0.JPEG", "n01443537")
    assert [label for _, label in labelled(dataset, "test")] == ["n01440764", "n01443537"]


def test_imagenet_with_an_unsorted_validation_folder(tmp_path):
    root = imagenet(tmp_path)
    for number, path in enumerate(root.glob("val/*/*.JPEG")):
        path.rename(root / "val" / f"ILSVRC2012_val_{number:08}.JPEG")
    for folder in [path for path in (root / "val").iterdir() if path.is_dir()]:
        folder.rmdir()
    with pytest.raises(DataError, match="sort the validation images into one for each synset"):
        read_imagenet(root)


def test_imagenet_with_other_folders(tmp_path):
    root = imagenet(tmp_path)
    folder_of_classes(root / "train", {"goldfish": 1})
    with pytest.raises(DataError, match="not synsets like n01440764: goldfish"):
        read_imagenet(root)


def test_imagenet_with_archives_still_packed(tmp_path):
    root = imagenet(tmp_path)
    (root / "train").rename(root / "moved")
    (root / "train").mkdir()
    (root / "train" / "n01440764.tar").touch()
    with pytest.raises(DataError, match=r"no folders of classes.*found n01440764\.tar"):
        read_imagenet(root)


# iNaturalist.


def test_inaturalist(tmp_path):
    dataset = read_inaturalist(inaturalist(tmp_path))
    assert dataset.classes == list(SPECIES) == [7, 0]
    assert dataset.label_names == ["Zonotrichia albicollis", "Amanita muscaria"]
    assert dataset.input_shape == (3, 341, 341)
    assert dataset.mean == (0.485, 0.456, 0.406) and dataset.std == (0.229, 0.224, 0.225)
    assert labelled(dataset, "train") == [
        (f"train_val_images/{'/'.join(SPECIES[label])}/train{number}.jpg", label)
        for number, label in enumerate([7, 0, 7, 0, 7])
    ]
    assert len(dataset.x_test) == 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda content: content.pop("images"), "KeyError: 'images'"),
        (lambda content: content.pop("categories"), "KeyError: 'categories'"),
        (lambda content: content["annotations"].pop(), "KeyError: 100"),
        (lambda content: content["images"][0].pop("file_name"), "'file_name'"),
        (lambda content: content["annotations"][-1].update(category_id=3), "class 3, which is not"),
        *(
            (
                lambda content, odd=odd: content["annotations"][-1].update(category_id=odd),
                "not a whole number",
            )
            for odd in (None, "7", "1_0", 1.9, True, float("inf"))
        ),
        (lambda content: content["categories"][0].update(id="7"), "'7' is not a whole number"),
        (lambda content: content.update(images=[]), "names no images"),
        (lambda content: content.update(images=5), "TypeError"),
        (lambda content: content["images"][1].update(file_name="../../a.jpg"), "not the name of"),
        (lambda content: content["images"][0].update(file_name="train/a.jpg"), "no such file"),
        (lambda content: content["images"][0].update(file_name="a" * 5000), "no such file"),
        (lambda content: content["images"][0].update(file_name="a\0.jpg"), "not the name of"),
    ],
)
@pytest.mark.parametrize("file", ["train2017.json", "val2017.json"])
def test_inaturalist_says_what_is_wrong(tmp_path, file, change, complaint):
    path = inaturalist(tmp_path) / file
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=complaint):
        read_inaturalist(tmp_path)


@pytest.mark.parametrize("content", ["", "[1, 2]", "{", "[" * 100_000, '{"images": [}'])
def test_inaturalist_refuses_what_is_not_such_a_file(tmp_path, content):
    (inaturalist(tmp_path) / "val2017.json").write_text(content)
    with pytest.raises(DataError, match=r"val2017\.json is not a list of annotations"):
        read_inaturalist(tmp_path)
