"""Files written whole: what stands in their place, links, pipes, devices, and permissions."""

import os
import socket
import stat
import subprocess
import sys
import threading

import pytest

from evenstream.files import replacing, write_atomically
from tests.helpers.small_runs import names

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and devices")


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link, chain = tmp_path / "far" / "target", tmp_path / "link", tmp_path / "chain"
    link.symlink_to("far/target")
    chain.symlink_to("link")
    for text in ("new", "again"):  # the target is not there at first
        write_atomically(chain, text)
        assert (chain.is_symlink(), link.is_symlink(), target.is_symlink()) == (True, True, False)
        assert target.read_text() == text
    assert names(tmp_path / "far") == ["target"]


def test_a_pipe_is_written_into(tmp_path):
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, "through the pipe")
    reader.join(10)
    assert heard == ["through the pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_written_into(tmp_path):
    null, link = tmp_path / "null", tmp_path / "link"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        null.open("wb").close()
    except PermissionError:
        pytest.skip("no devices in this container")
    link.symlink_to(null)
    for path in (null, link):
        write_atomically(path, "gone")
    assert stat.S_ISCHR(null.stat().st_mode) and link.is_symlink()


def test_what_cannot_be_written_is_said_and_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, reason in {"folder": "folder", "loop": "links", "socket": "socket"}.items():
            with pytest.raises(OSError, match=reason):
                write_atomically(tmp_path / name, "text")
    for path in ("/", "", "absent/file"):
        with pytest.raises(OSError, match=r"folder|No such file"):
            write_atomically(tmp_path / path, "text")
    assert names(tmp_path) == ["folder", "loop", "socket"]


def test_the_mode_of_a_file_stays(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    for mode in (0o600, 0o640, 0o755):
        file.chmod(mode)
        write_atomically(file, "new")
        assert stat.S_IMODE(file.stat().st_mode) == mode
    file.chmod(0o600)
    with replacing(file) as new:  # never open to more people, not even for a moment
        assert stat.S_IMODE(os.fstat(new.fileno()).st_mode) == 0o600


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "file.tmp").symlink_to("precious")
    write_atomically(tmp_path / "file", "new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert names(tmp_path) == ["file", "precious"]


def test_an_error_leaves_the_old_file(tmp_path):
    file = tmp_path / "file"
    write_atomically(file, "old")
    with pytest.raises(ZeroDivisionError), replacing(file) as new:
        new.write(b"half")
        raise ZeroDivisionError
    assert file.read_text() == "old" and names(tmp_path) == ["file"]


@pytest.mark.parametrize("where", ["file", "pipe"])
def test_the_standard_output_is_written_to_not_replaced(tmp_path, where):
    """In a file, what stands before it stays."""
    program = (
        "from pathlib import Path; from evenstream.files import write_atomically; "
        "print('first'); write_atomically(Path('/dev/stdout'), 'second\\n'); print('third')"
    )
    command = [sys.executable, "-c", program]
    with (tmp_path / "out").open("w") as out:
        ended = subprocess.run(command, stdout=out if where == "file" else -1, check=True)
    text = (tmp_path / "out").read_text() if where == "file" else ended.stdout.decode()
    assert text.split() == ["first", "second", "third"]
