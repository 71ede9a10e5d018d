"""Small files in the layouts of the real data sets, and registry entries that describe them."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstream.data import verify
from evenstream.data.known import DATASETS, DataFile, DatasetInfo, Download

RNG = np.random.default_rng(7)


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def random_images(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def mnist_files(n_train: int = 20, n_test: int = 10) -> dict[str, bytes]:
    files = {}
    for part, n in (("train", n_train), ("t10k", n_test)):
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(random_images(n, 28, 28))
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes(np.arange(n) % 10)
    return files


def cifar_records(labels: np.ndarray, images: np.ndarray) -> bytes:
    return np.hstack([labels.astype(np.uint8), images.reshape(len(images), -1)]).tobytes()


def cifar10_files(n: int = 4) -> dict[str, bytes]:
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    files = {
        name: cifar_records((np.arange(n)[:, None] + index) % 10, random_images(n, 3, 32, 32))
        for index, name in enumerate(names)
    }
    files["batches.meta.txt"] = ("\n".join(f"kind{i}" for i in range(10)) + "\n\n").encode()
    return files


def cifar100_files(n: int = 6) -> dict[str, bytes]:
    fine = np.arange(n)[:, None] * 16 % 100
    labels = np.hstack([fine // 5, fine])
    return {
        "train.bin": cifar_records(labels, random_images(n, 3, 32, 32)),
        "test.bin": cifar_records(labels, random_images(n, 3, 32, 32)),
        "fine_label_names.txt": ("\n".join(f"fine{i}" for i in range(100)) + "\n").encode(),
        "coarse_label_names.txt": ("\n".join(f"coarse{i}" for i in range(20)) + "\n").encode(),
    }


def tar_bytes(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def data_files(contents: dict[str, bytes]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in contents.items()
    )


def mnist_like(contents: dict[str, bytes]) -> tuple[DatasetInfo, dict[str, bytes]]:
    """A registry entry for these files, and what its source would serve."""
    served = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    downloads = tuple(
        Download(
            name,
            len(content),
            f"sha256:{hashlib.sha256(content).hexdigest()}",
            (name.removesuffix(".gz"),),
        )
        for name, content in served.items()
    )
    info = replace(DATASETS["mnist"], files=data_files(contents), downloads=downloads)
    return info, served


def cifar_like(
    name: str, contents: dict[str, bytes], archive: bytes | None = None
) -> tuple[DatasetInfo, dict[str, bytes]]:
    """As `mnist_like`, for the archive of one of the CIFAR sets, which can be made to differ."""
    real = DATASETS[name].downloads[0]
    members = {f"{real.folder}/{member}": content for member, content in contents.items()}
    archive = tar_bytes(members) if archive is None else archive
    download = replace(
        real,
        size=len(archive),
        checksum=f"md5:{hashlib.md5(archive, usedforsecurity=False).hexdigest()}",
    )
    info = replace(DATASETS[name], files=data_files(contents), downloads=(download,))
    return info, {real.name: archive}


def write_files(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def statuses(name: str) -> dict[str, str]:
    """What `verify` says of each file of a data set."""
    return {status.name: status.status for status in verify(name)}
