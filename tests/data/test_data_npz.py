"""`.npz` files: what is read of them, and those that lie about what they hold."""

import importlib.util
import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from evenstream.data import from_arrays, load_dataset, npz
from evenstream.errors import DataError
from tests.helpers.generated_data import random_images


def table(n=6, d=3):
    return np.arange(n * d, dtype=float).reshape(n, d)


def test_npz_with_its_own_split(tmp_path):
    x = random_images(6, 8, 8)
    y = np.array(list("aabbcc"))
    np.savez(tmp_path / "letters.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    dataset = load_dataset(tmp_path / "letters.npz")
    assert (dataset.name, dataset.classes) == ("letters", ["a", "b", "c"])
    assert dataset.x_train.shape == (6, 1, 8, 8)
    assert dataset.y_test.tolist() == [0, 0]
    np.savez(tmp_path / "short.npz", x=x, y=y, x_test=x[:2], y_test=y[:2])
    short = load_dataset(tmp_path / "short.npz")
    np.testing.assert_array_equal(short.x_train, dataset.x_train)
    np.testing.assert_array_equal(short.x_test, dataset.x_test)


def test_npz_without_a_split_is_split_repeatably(tmp_path):
    path = str(tmp_path / "all.npz")
    np.savez_compressed(path, x=table(100), y=np.repeat([1, 2], 50), notes=np.array("ignored"))
    fifth, again = load_dataset(path), load_dataset(path)
    assert (len(fifth.x_train), len(fifth.x_test)) == (80, 20)
    np.testing.assert_array_equal(fifth.x_test, again.x_test)
    half = load_dataset(path, test_fraction=0.5, seed=3)
    assert np.bincount(half.y_test).tolist() == [25, 25]
    rows = {row.tobytes() for row in np.concatenate([half.x_train, half.x_test])}
    assert len(rows) == 100


def test_npz_with_the_normalisation_of_its_images(tmp_path):
    images, y = np.zeros((6, 3, 4, 4), np.uint8), np.arange(6) % 2
    path, scale = tmp_path / "images.npz", {"mean": [0.1, 0.2, 0.3], "std": [1, 2, 3]}
    np.savez(path, x=images, y=y, **scale)
    dataset = load_dataset(path)
    assert (dataset.mean, dataset.std) == ((0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    np.savez(path, x=table(), y=np.arange(len(table())) % 2, **scale)
    assert load_dataset(path).mean is None  # of a table they would mean something else
    for mean in (0.5, ["a", "b", "c"], [[0.1], [0.2], [0.3]]):
        np.savez(path, x=images, y=y, mean=mean, std=scale["std"])
        with pytest.raises(DataError, match="mean must be a list of numbers, one for each channel"):
            load_dataset(path)


def test_wrapped_images(tmp_path):
    path = Path(__file__).parents[2] / "tools" / "wrap_images.py"
    spec = importlib.util.spec_from_file_location("wrap_images", path)
    spec.loader.exec_module(tool := importlib.util.module_from_spec(spec))
    x = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
    plain = from_arrays(x, ["b", "a"], x[:1], ["a"], mean=[0.1, 0.2, 0.3], std=[1, 2, 3])
    tool.write_wrapped(plain, tmp_path / "wrapped.npz")
    wrapped = load_dataset(tmp_path / "wrapped.npz")
    for part in ("x_train", "x_test"):
        expected = (-getattr(plain, part).astype(int)) % 256
        assert getattr(wrapped, part).tolist() == expected.tolist()
    for same in ("y_train", "y_test", "classes", "mean", "std"):
        assert list(getattr(wrapped, same)) == list(getattr(plain, same))


def test_npz_object_labels_are_refused_with_a_remedy(tmp_path):
    path = tmp_path / "objects.npz"
    np.savez(path, x=table(), y=np.array(list("aabbcc"), dtype=object))
    with pytest.raises(DataError, match=r"Python objects.*np\.array\(y\.tolist\(\), dtype=str\)"):
        load_dataset(path)


def test_npz_files_that_are_none(tmp_path):
    np.savez(tmp_path / "other.npz", images=table())
    np.save(tmp_path / "bare.npy", table())
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name, complaint in [
        ("other.npz", "holds images; save one with"),
        ("bare.npy", "is not a data set: give a folder"),
        ("text.npz", "not a readable .npz"),
        ("empty.npz", "not a readable .npz"),
        ("absent.npz", "there is no file"),
        ("absent.csv", "No such file"),
    ]:
        with pytest.raises(DataError, match=complaint):
            load_dataset(str(tmp_path / name))


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_cut_short_or_altered_is_refused(tmp_path, compressed):
    path = tmp_path / "data.npz"
    save = np.savez_compressed if compressed else np.savez
    save(path, x=random_images(60, 8, 8), y=np.arange(60) % 3)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"data\.npz"):
        load_dataset(path)
    altered = bytearray(whole)
    altered[1000] ^= 0xFF
    path.write_bytes(altered)
    with pytest.raises(DataError, match=r"data\.npz.*damaged"):
        load_dataset(path)


def write_members(path, method=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_header(text, version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


def announcing(shape, descr="'<f4'"):
    return npy_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}")


@pytest.mark.parametrize(
    "x",
    [
        announcing("(2500000000,)"),
        announcing("(20, 125000000)") + bytes(100),
        announcing(f"({10**30}, 2)"),
        announcing("(-1, 2)") + bytes(80),
        announcing("(True, 20)") + bytes(80),
        npy_header(" " * 5_000_000, version=2),
        npy_header("-" * 9000),
        announcing("(6, 2)", "'|O'") + b"cos\nsystem\n",
        npy_bytes(table()) + b"more",
        npy_bytes(table())[:-1],
        b"no array",
        b"",
    ],
    ids=range(12),
)
def test_npz_arrays_that_lie_are_refused_before_there_is_room_for_them(tmp_path, x):
    path = write_members(tmp_path / "data.npz", x=x, y=npy_bytes(np.arange(6)))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"data\.npz: x "):
        load_dataset(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_npz_of_another_compression_or_version_is_refused(tmp_path):
    arrays = {"x": npy_bytes(table()), "y": npy_bytes(np.arange(6) % 2)}
    path = write_members(tmp_path / "data.npz", zipfile.ZIP_BZIP2, **arrays)
    with pytest.raises(DataError, match="not compressed as NumPy does"):
        load_dataset(path)
    content = bytearray(write_members(path, **arrays).read_bytes())
    content[content.index(b"PK\1\2") + 6] = 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data\.npz"):
        load_dataset(path)


def test_npz_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "ROOM", 0)
    np.savez_compressed(tmp_path / "data.npz", x=np.zeros((1000, 200)), y=np.arange(1000) % 2)
    with pytest.raises(DataError, match="would unpack to 1 MB, more than"):
        load_dataset(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", x=np.zeros((1000, 200)), y=np.arange(1000) % 2)
    assert load_dataset(tmp_path / "data.npz").n_classes == 2


@pytest.mark.parametrize("change", [np.asfortranarray, lambda x: x.astype(">f8"), np.float16])
def test_npz_arrays_may_be_laid_out_in_any_way(tmp_path, change):
    np.savez(tmp_path / "data.npz", x=change(table()), y=np.arange(6) % 2)
    np.savez(tmp_path / "plain.npz", x=table().astype(np.float32), y=np.arange(6) % 2)
    expected = load_dataset(tmp_path / "plain.npz").x_train
    np.testing.assert_allclose(load_dataset(tmp_path / "data.npz").x_train, expected, rtol=1e-3)
