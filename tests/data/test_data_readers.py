import struct

import numpy as np
import pytest

from evenstream.data.cifar import parse_cifar, parse_names
from evenstream.data.idx import parse_idx, parse_images_and_labels
from evenstream.errors import DataError
from tests.helpers.generated_data import cifar_records, idx_bytes, random_images


@pytest.mark.parametrize("shape", [(5,), (4, 28, 28), (2, 3, 4, 5)])
def test_idx_gives_back_what_was_written(shape):
    array = random_images(*shape)
    read = parse_idx(idx_bytes(array), "f")
    np.testing.assert_array_equal(read, array)
    assert read.flags.writeable


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not an IDX file"),
        (b"PK\x03\x04 not idx", "not an IDX file"),
        (bytes([0, 0, 0x0D, 1]) + bytes(8), "type 0x0d"),
        (bytes([0, 0, 8, 3]) + bytes(5), "header is cut short"),
        (bytes([0, 0, 8, 0]), "header is cut short"),
        (idx_bytes(np.zeros(9))[:-1], "16 bytes, but its header announces 17"),
        (idx_bytes(np.zeros(9)) + b"x", "18 bytes, but its header announces 17"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "announces"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 28, 28), "announces 1683627180048"),
        (bytes([0, 0, 8, 5]) + bytes(4) + b"\xff" * 16, "header makes no sense"),
        (bytes([0, 0, 8, 200]) + struct.pack(">I", 1) * 200 + b"x", "header makes no sense"),
    ],
)
def test_idx_refuses_damaged_content_and_names_the_file(content, complaint):
    with pytest.raises(DataError, match=f"some-file.*{complaint}"):
        parse_idx(content, "some-file")


def test_images_and_labels_must_belong_together():
    images, labels = idx_bytes(random_images(3, 28, 28)), idx_bytes(np.arange(4))
    with pytest.raises(DataError, match="do not belong together"):
        parse_images_and_labels(images, labels, "mnist train")


@pytest.mark.parametrize("n_labels", [1, 2])
def test_cifar_gives_back_images_and_labels(n_labels):
    images = random_images(5, 3, 32, 32)
    labels = np.arange(5 * n_labels).reshape(5, n_labels)
    read_images, read_labels = parse_cifar(cifar_records(labels, images), n_labels, "f")
    np.testing.assert_array_equal(read_images, images)
    np.testing.assert_array_equal(read_labels, labels.T)
    assert read_labels.dtype == np.int64
    assert read_images.flags.writeable
    assert read_images.flags.c_contiguous


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(3073 * 2 + 1)])
def test_cifar_refuses_broken_records(content):
    with pytest.raises(DataError, match=r"train\.bin.*3073-byte records"):
        parse_cifar(content, 1, "train.bin")


def test_class_names_skip_blank_lines():
    assert parse_names(b"cat\r\ndog\n\n", "f") == ["cat", "dog"]
    with pytest.raises(DataError, match="not a list of class names"):
        parse_names(b"\xff\xfe", "f")
