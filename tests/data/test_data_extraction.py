"""Archives that mean harm, and some that do not."""

import contextlib
import gzip
import io
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.data import extraction
from evenstream.data.checked_files import AlteredFile
from evenstream.data.extraction import extract

GOOD = {"top/a.txt": b"first", "top/deep/er/b.bin": bytes(5000), "top/empty": b""}


def write_zip(path, files, *odd):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo("any")
            info.filename = name  # whatever it is: the class itself cuts it off at a NUL
            info.external_attr = 0o100777 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
        for info in odd:
            archive.writestr(info, b"/etc/passwd")
    return path


def write_tar(path, files, *odd):
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o777
            archive.addfile(info, io.BytesIO(content))
        for info in odd:
            archive.addfile(info)
    return path


def files_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


WRITERS = {"x.zip": write_zip, "x.tar": write_tar, "x.tar.gz": write_tar}


@pytest.fixture(params=WRITERS)
def write(request, tmp_path):
    """Writes an archive of one of the kinds."""
    return lambda *members: WRITERS[request.param](tmp_path / request.param, *members)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "box" / "inside"


def test_files_come_out_as_they_went_in_but_not_executable(write, folder):
    extract(write(GOOD), folder)
    assert files_in(folder) == GOOD
    assert not any(path.stat().st_mode & 0o111 for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "name",
    ["../out", "top/../../out", "/out", "..", "..\\out", "top\\..\\..\\out", "C:\\out", "C:out"],
)
def test_a_name_that_leads_out_refuses_all(write, folder, name):
    with pytest.raises(AlteredFile, match=r"rejected.*leads out of the folder"):
        extract(write({**GOOD, name: b"evil"}), folder)
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_links_and_devices_refuse_a_tar_file(tmp_path, folder, kind):
    member = tarfile.TarInfo("top/odd")
    member.type, member.linkname = kind, "a.txt"
    with pytest.raises(AlteredFile, match="neither a plain file nor a folder"):
        extract(write_tar(tmp_path / "x.tar.gz", GOOD, member), folder)
    assert not folder.parent.exists()


@pytest.mark.parametrize("unix_type", [0o120000, 0o010000, 0o020000])
def test_links_and_devices_refuse_a_zip_file(tmp_path, folder, unix_type):
    member = zipfile.ZipInfo("top/odd")
    member.external_attr = (unix_type | 0o777) << 16
    with pytest.raises(AlteredFile, match="neither a plain file nor a folder"):
        extract(write_zip(tmp_path / "x.zip", GOOD, member), folder)
    assert not folder.parent.exists()


def test_an_encrypted_member_refuses_a_zip_file(tmp_path, folder):
    path = write_zip(tmp_path / "x.zip", {"a": b"secret"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(AlteredFile, match="'a' is encrypted"):
        extract(path, folder)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "'' is neither a plain file nor a folder"),
        ("top/line\nbreak", "control characters"),
        ("top/\x1b[31mred", "control characters"),
        ("top/" + "n" * 5000, "'top/nnn.* too long"),
        ("top/" + "é" * 150, "too long"),
        ("top/" * 100 + "deep", "too long"),
        (("n" * 150 + "/") * 8, "too long"),
    ],
)
def test_a_name_that_no_file_should_have_refuses_all(write, folder, name, complaint):
    with pytest.raises(AlteredFile, match=f"rejected.*{complaint}") as caught:
        extract(write({**GOOD, name: b"odd"}), folder)
    assert len(str(caught.value)) < 500
    assert not folder.parent.exists()


def test_a_name_that_goes_on_behind_a_nul_refuses_a_zip_file(tmp_path, folder):
    path = write_zip(tmp_path / "x.zip", {**GOOD, "top/good\0evil": b""})
    with pytest.raises(AlteredFile, match="control characters"):
        extract(path, folder)
    assert not folder.parent.exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_unpacks_without_bound_refuses_a_zip_file(tmp_path, folder, method):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("a", b"content")
    with pytest.raises(AlteredFile, match="'a' is compressed"):
        extract(tmp_path / "x.zip", folder)
    assert not folder.parent.exists()


def tar_header(kind, size):
    info = tarfile.TarInfo("odd")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "content",
    [
        tar_header(tarfile.GNUTYPE_LONGNAME, 2**40),
        tar_header(tarfile.XHDTYPE, 50_000_000) + b"9 a=bcde\n" * 20_000,
        tar_header(tarfile.REGTYPE, 2**63),
        tar_header(tarfile.REGTYPE, -1024),
        (tar_header(tarfile.GNUTYPE_LONGNAME, 2) + b"a".ljust(512, b"\0")) * 3000,
    ],
    ids=["long name", "long header", "large file", "file below zero", "name of a name"],
)
def test_headers_of_a_tar_file_that_lie(tmp_path, folder, content):
    path = tmp_path / "x.tar"
    path.write_bytes(write_tar(path, GOOD).read_bytes()[: -20 * 512] + content)
    tracemalloc.start()
    with pytest.raises(AlteredFile):
        extract(path, folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000
    assert not folder.parent.exists()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, folder):
    bomb = write_zip(tmp_path / "x.zip", {**GOOD, "zeros": bytes(80_000_000)})
    with pytest.raises(AlteredFile, match=r"would unpack to more than .*64 MiB and 20 times"):
        extract(bomb, folder)
    assert not folder.parent.exists()


def test_the_documents_say_how_much_an_archive_may_hold():
    document = Path(__file__).parents[2] / "docs" / "how-to" / "data.md"
    limit = f"{extraction.ROOM >> 20} MiB plus {extraction._RATIO} times its own size"
    assert limit in document.read_text(encoding="utf-8")


def test_many_empty_files_are_a_bomb_as_well(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(extraction, "ROOM", 0)
    names = {f"{number:04}": b"" for number in range(500)}
    with pytest.raises(AlteredFile, match="would unpack to more than"):
        extract(write_tar(tmp_path / "x.tar.gz", names), folder)


def test_what_is_cut_short_or_no_archive_is_refused(write, folder):
    path = write({"noise": bytes(range(256)) * 400})
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"<html>please log in</html>" * 50):
        path.write_bytes(content)
        with pytest.raises(AlteredFile, match="not a readable archive"):
            extract(path, folder)


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
def test_a_changed_byte_is_noticed(tmp_path, folder, name):
    noise = np.random.default_rng(0).bytes(5000)
    path = WRITERS[name](tmp_path / name, {"noise": noise})
    content = bytearray(path.read_bytes())
    content[2500] ^= 1
    path.write_bytes(content)
    with pytest.raises(AlteredFile, match="not a readable archive"):
        extract(path, folder)


def test_zeros_without_end_behind_the_files_are_not_read(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(extraction, "ROOM", 1 << 20)
    path = write_tar(tmp_path / "x.tar.gz", GOOD)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(5 << 20)))
    with pytest.raises(AlteredFile, match="would unpack to more than"):
        extract(path, folder)
    assert not folder.parent.exists()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from([*WRITERS]))
def test_damage_of_any_kind_is_one_error(tmp_path_factory, data, name):
    box = tmp_path_factory.mktemp("box")
    path = WRITERS[name](box / name, GOOD)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + 4] = data.draw(st.binary(max_size=8))
    path.write_bytes(content)
    with contextlib.suppress(AlteredFile):
        extract(path, box / "inside")
    assert {entry.name for entry in box.iterdir()} <= {name, "inside"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_comes_twice_is_refused(tmp_path, folder):
    path = write_zip(tmp_path / "x.zip", GOOD, zipfile.ZipInfo("top/a.txt"))
    with pytest.raises(AlteredFile, match=r"a\.txt more than once"):
        extract(path, folder)


def test_a_file_that_is_a_folder_as_well_is_refused(write, folder):
    with pytest.raises(AlteredFile, match="more than once"):
        extract(write({"a": b"file", "a/b": b"below it"}), folder)


@settings(max_examples=150, deadline=None)
@given(name=st.text("./\\:aC", min_size=1, max_size=9))
def test_no_name_whatsoever_leads_out(tmp_path_factory, name):
    box = tmp_path_factory.mktemp("box")
    archive = write_zip(box / "x.zip", {name: b"content"})
    inside = box / "deep" / "inside"
    try:
        extract(archive, inside)
    except AlteredFile:
        assert set(box.iterdir()) == {archive}
    else:
        assert {path for path in box.rglob("*") if path.is_file()} - set(inside.rglob("*")) == {
            archive
        }
