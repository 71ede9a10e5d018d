"""Hostile archives and files: nothing escapes, no code is run, nothing partial is kept."""

from __future__ import annotations

import io
import os
import pickle
import random
import tarfile
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from campaign.processes import Failure, Life
from evenstream.data.known import DATASETS, Download

EACH, FULL = 1, 300
NAME = "pictures"
_TOP = "tiny-imagenet-200"
_FIRST = f"{_TOP}/train/n01443537/images/n01443537_0.JPEG"
_NAMES = [
    "../evil", f"{_TOP}/../../evil", "/evil", "..\\evil", "C:\\evil", "", ".", "/", "./", "a\0b",
    " ", f"{_TOP}//", "x" * 300, "d/" * 2000 + "x", "\x1b[31m", "é", "\u202e", "~/evil", "CON",
    _FIRST, _FIRST.upper(), f"{_FIRST}/child", _TOP, f"{_TOP}/train", f"{_TOP}/wnids.txt",
    f"{_TOP}/val/val_annotations.txt", f"{_TOP}/train/n1/images/x.JPEG",
]  # fmt: skip
_CONTENTS = [b"", b"evil", b"\xff\xd8\xff", bytes(30_000_000), b"n01443537\n" * 9, b"a\tb\tc\n"]
_MODES = [0o100644, 0o120777, 0o010644, 0o020644, 0o104755, 0]
_TYPES = [b"0", tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"Z"]
_LINKS = [_FIRST, "/etc/passwd", "../../evil", "", "."]


def attack(seed: int, folder: Path) -> None:
    """Offer a malicious file; or a malicious archive followed by the good one."""
    draw = random.Random(seed)
    if seed % 3 == 2:
        _offer_file(draw, folder)
        return
    kind, source = draw.choice(["zip", "tar", "tar.gz"]), folder / "source"
    source.mkdir()
    archive = source / f"{NAME}.{kind}"
    archive.write_bytes(_hostile(kind, draw))
    words = ["data", "import", NAME, str(source)]
    for last in (False, True):
        ended = Life(words, folder / "place", lambda: register(archive.name, folder)).end()
        ended.check()
        _check_nothing_got_out(folder)
        if ended.status == 0:
            return
        if last or (folder / "data" / NAME).exists():
            raise Failure(f"after a hostile {kind}, something stays or the good one is refused")
        archive.write_bytes(packed(kind, good_files()))


def register(file: str, folder: Path, size: int = 10**6, checksum: str | None = None) -> None:
    """Make a small data set of images known to this process, and a data folder of its own."""
    os.environ["EVENSTREAM_DATA"] = str(folder / "data")
    download = Download(file, size, checksum, folder=_TOP, approximate=checksum is None)
    DATASETS.add(NAME, replace(DATASETS["tinyimagenet"], name=NAME, downloads=(download,)))


def good_files() -> dict[str, bytes]:
    """The members of a good archive: Tiny-ImageNet's layout."""
    buffer = io.BytesIO()
    Image.fromarray(np.resize(np.arange(250, dtype=np.uint8), (64, 64, 3))).save(buffer, "JPEG")
    synsets = ["n01443537", "n02999410", "n03444034"]
    images = [f"train/{s}/images/{s}_{n}.JPEG" for s in synsets for n in range(2)]
    images += [f"val/images/val_{n}.JPEG" for n in range(3)]
    lines = [f"val_{n}.JPEG\t{synset}\t0\t32\t44\t62" for n, synset in enumerate(synsets)]
    files = {
        **dict.fromkeys(images, buffer.getvalue()),
        "val/val_annotations.txt": "\n".join(lines).encode(),
        "wnids.txt": "\n".join(synsets).encode(),
        "words.txt": b"n01443537\tgoldfish\n",
    }
    return {f"{_TOP}/{name}": content for name, content in files.items()}


def packed(kind: str, files: dict[str, bytes], odd: tuple[Any, bytes] | None = None) -> bytes:
    """An archive; `odd` is an additional member in the archive's own format."""
    warnings.simplefilter("ignore")  # of names that occur twice
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (*files.items(), *([odd] if odd else [])):
                archive.writestr(name, content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w:gz" if kind == "tar.gz" else "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if odd:
            tar.addfile(odd[0], io.BytesIO(odd[1]))
    return buffer.getvalue()


def _hostile(kind: str, draw: random.Random) -> bytes:
    """A good archive with a malicious member, or damage, or both."""
    name, content = draw.choice(_NAMES), draw.choice(_CONTENTS)
    member: Any = zipfile.ZipInfo("x")
    if kind == "zip":
        member.filename, member.compress_type = name, zipfile.ZIP_DEFLATED
        member.external_attr = draw.choice(_MODES) << 16
    else:
        member = tarfile.TarInfo(name.replace("\0", "0"))
        member.size, member.type, member.linkname = (
            len(content),
            draw.choice(_TYPES),
            draw.choice(_LINKS),
        )
    made = bytearray(packed(kind, good_files(), (member, content)))
    change = draw.random()
    if change < 0.2:
        del made[draw.randrange(len(made)) :]
    elif change < 0.5:
        for _ in range(draw.choice([1, 10, 200])):
            made[draw.randrange(len(made))] = draw.randrange(256)
    return bytes(made)


def _check_nothing_got_out(folder: Path) -> None:
    evil = [folder / "evil", folder / "place" / "evil", folder / "source" / "evil", Path("/evil")]
    strange = [
        path
        for path in (folder / "data").rglob("*")
        if path.is_symlink() or not (path.is_dir() or path.is_file())
    ]
    for path in (*evil, *strange):
        if path.exists() or path.is_symlink():
            raise Failure(f"a hostile archive or file has made {path}")


class _Harm:
    """A pickle that would create a folder if it were executed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder / "evil"),)


def _offer_file(draw: random.Random, folder: Path) -> None:
    """A table, an array, weights or an image that is a program, a bomb, or broken."""
    place, samples = folder / "place", folder.parents[1] / "samples"
    kind = draw.choice(["npz", "pth", "safetensors", "csv", "parquet", "png", "jpg"])
    file = place / "pictures" / "a" / f"x.{kind}"
    file.parent.mkdir(parents=True)
    evil = pickle.dumps(_Harm(folder))
    good = (samples / ("rows.npz" if kind == "npz" else "table.csv")).read_bytes()
    spoiled, bomb = bytearray(good), io.BytesIO()
    for _ in range(5):
        spoiled[draw.randrange(len(spoiled))] = draw.randrange(256)
    np.savez_compressed(bomb, x=np.zeros(3 * 10**7, np.uint8), y=np.array([_Harm(folder)], "O"))
    file.write_bytes(draw.choice([
        evil, packed("zip", {"archive/data.pkl": evil, "archive/version": b"3"}), bytes(spoiled),
        packed("zip", {"x.npy": evil, "y.npy": b""}), bomb.getvalue(), good[: len(good) // 3], b"",
        b"\xff" * 8 + b'{"a":{"dtype":"F32","shape":[9999999999],"data_offsets":[0,4]}}',
        b"\x89PNG\r\n\x1a\n" + draw.randbytes(50), b"label,a\n" + b"x" * 3_000_000,
        b'label,a\n"' + b"1,\n" * 1000, b"a,a,label,label\n1,2,3,4\n", b"\xff\xfe\x00" * 100,
    ]))  # fmt: skip
    data = str(file.parents[1] if kind in ("png", "jpg") else file)
    run = ["run", "er", "--network", "mlp", "--out", "new", "--stream"]
    lines = [["learn", "new", "--from", data], ["predict", str(samples / "plant"), data]]
    if kind in ("pth", "safetensors"):
        lines = [[*run, str(samples / "table.npz"), "--weights", data]]
    Life(draw.choice([*lines, [*run, data]]), place).end().check()
    _check_nothing_got_out(folder)
