"""Downloads that break, from a server on this machine."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from evenstream.data import download as download_module
from evenstream.data.checked_files import AlteredFile
from evenstream.data.download import fetch
from evenstream.data.known import Download
from evenstream.errors import DataError

CONTENT = bytes(range(256)) * 1000
NAME = "file.bin"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "downloads"


@pytest.fixture
def server(mirror):
    mirror.files[f"/{NAME}"] = CONTENT
    return mirror


def accept(path):
    """No check: for a file whose checksum nobody knows."""


def check_content(path):
    if path.read_bytes() != CONTENT:
        raise AlteredFile("wrong content")


def fetch_from(server, folder, check=accept, progress=None, **changes):
    download = Download(NAME, **{"size": len(CONTENT), "checksum": None, **changes})
    return fetch(download, (f"{server.url}/",), folder, check, progress)


def interrupted_fetch(server, folder, at):
    """A first call, broken off for good after `at` bytes."""
    server.break_after = [at] + [0] * 10
    with pytest.raises(DataError, match=rf"{at} bytes are kept"):
        fetch_from(server, folder)
    server.break_after = []
    server.ranges.clear()


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_broken_download_goes_on_by_itself(server, folder):
    server.break_after = [1000, 70_000, 5]
    seen = []
    path = fetch_from(server, folder, progress=lambda *args: seen.append(args))
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=71000-", "bytes=71005-"]
    assert left_in(folder) == [NAME]
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == (NAME, len(CONTENT), len(CONTENT))


def test_a_stopped_download_goes_on_in_the_next_call(server, folder):
    interrupted_fetch(server, folder, at=100_000)
    assert left_in(folder) == [f"{NAME}.part", f"{NAME}.part.json"]
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert server.ranges == ["bytes=100000-"]


def test_a_killed_download_goes_on_in_the_next_process(server, folder):
    code = (
        "import sys, time; from pathlib import Path; from evenstream.data import download as d; "
        f"fetch = lambda progress: d.fetch(d.Download({NAME!r}, {len(CONTENT)}, None), "
        "(sys.argv[1] + '/',), Path(sys.argv[2]), print, progress); "
        "fetch(lambda name, done, total: done >= total // 2 and time.sleep(60))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, server.url, str(folder)], env=environment
    )
    part = folder / f"{NAME}.part"
    give_up = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size >= len(CONTENT) // 2 - 2**16):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    arrived = part.stat().st_size
    assert 0 < arrived < len(CONTENT)
    server.ranges.clear()
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={arrived}-"]


def test_a_server_without_ranges_begins_anew(server, folder):
    server.supports_ranges = False
    server.break_after = [1000, 2000]
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert len(server.ranges) == 3


def test_a_file_that_changed_meanwhile_is_not_stitched_together(server, folder):
    interrupted_fetch(server, folder, at=5000)
    new = bytes(len(CONTENT))
    server.files[f"/{NAME}"], server.tag = new, '"second"'
    assert fetch_from(server, folder).read_bytes() == new
    assert server.ranges == ["bytes=5000-"]


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_a_strong_tag_nothing_is_continued(server, folder, tag):
    server.tag = tag
    server.break_after = [5000]
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert server.ranges == [None, None]
    server.break_after = [0] * 5
    with pytest.raises(DataError) as caught:
        fetch_from(server, folder / "other")
    assert "kept" not in str(caught.value)


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_the_date_of_a_file_tells_its_versions_apart_as_well(server, folder, tag):
    server.tag, server.headers = tag, {"Last-Modified": "Sat, 15 Nov 2025 08:00:00 GMT"}
    interrupted_fetch(server, folder, at=5000)
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert server.ranges == ["bytes=5000-"]


def test_a_part_from_another_address_is_not_continued(server, folder):
    interrupted_fetch(server, folder, at=5000)
    origin = folder / f"{NAME}.part.json"
    origin.write_text(json.dumps({**json.loads(origin.read_text()), "url": "http://elsewhere/"}))
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert server.ranges == [None]


@pytest.mark.parametrize("note", ["{", "[]", "[" * 100_000, '{"url": 1}'])
def test_a_damaged_note_on_the_part_begins_anew(server, folder, note):
    interrupted_fetch(server, folder, at=5000)
    (folder / f"{NAME}.part.json").write_text(note)
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert server.ranges == [None]


def test_a_part_longer_than_the_file_is_thrown_away(server, folder):
    interrupted_fetch(server, folder, at=5000)
    with (folder / f"{NAME}.part").open("ab") as part:
        part.write(bytes(len(CONTENT)))
    assert fetch_from(server, folder, size=10**6).read_bytes() == CONTENT


def test_a_part_that_was_complete_is_only_checked(server, folder):
    interrupted_fetch(server, folder, at=5000)
    (folder / f"{NAME}.part").write_bytes(CONTENT)
    assert fetch_from(server, folder, check=check_content).read_bytes() == CONTENT
    assert server.ranges == []


def test_a_complete_download_is_used_again_if_it_is_right(server, folder):
    fetch_from(server, folder)
    fetch_from(server, folder, check=check_content)
    assert len(server.asked) == 1
    (folder / NAME).write_bytes(b"altered")
    assert fetch_from(server, folder, check=check_content).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_part_of_a_wrong_file_is_thrown_away_after_the_check(server, folder):
    interrupted_fetch(server, folder, at=5000)
    (folder / f"{NAME}.part").write_bytes(bytes(5000))
    with pytest.raises(DataError, match="wrong content"):
        fetch_from(server, folder, check=check_content)
    assert left_in(folder) == []
    assert fetch_from(server, folder, check=check_content).read_bytes() == CONTENT


def test_tries_are_bounded(server, folder):
    server.break_after = [10] * 100
    with pytest.raises(DataError, match="50 bytes are kept; run the command again"):
        fetch_from(server, folder)
    assert len(server.asked) == 5


def test_tries_begin_anew_whenever_much_has_come(server, folder, monkeypatch):
    monkeypatch.setattr(download_module, "WORTHWHILE", 1000)
    server.break_after = [1000] * 100
    assert fetch_from(server, folder).read_bytes() == CONTENT
    assert len(server.asked) == 101


def test_trouble_of_the_server_is_waited_out_but_a_refusal_is_final(server, folder):
    server.errors = [503, 500]
    assert fetch_from(server, folder).read_bytes() == CONTENT
    server.asked.clear()
    server.errors = [403, 403]
    with pytest.raises(DataError, match="403"):
        fetch_from(server, folder / "other")
    assert len(server.asked) == 1


def test_an_address_that_is_none_is_not_tried_again(folder, monkeypatch):
    monkeypatch.setattr(download_module.time, "sleep", lambda seconds: pytest.fail("waited"))
    with pytest.raises(DataError, match="could not download"):
        fetch(Download(NAME, 5, None), ("nonsense/",), folder, accept)


def test_an_unreachable_address_keeps_what_has_arrived(server, folder):
    interrupted_fetch(server, folder, at=5000)
    download = Download(NAME, len(CONTENT), None)
    urls = ("http://127.0.0.1:9/", f"{server.url}/")
    assert fetch(download, urls, folder, accept).read_bytes() == CONTENT
    assert server.ranges == ["bytes=5000-"]


def test_a_rounded_size_leaves_some_room(server, folder):
    size = len(CONTENT) * 10 // 11 + 1
    assert fetch_from(server, folder, size=size, approximate=True).read_bytes() == CONTENT
    with pytest.raises(DataError, match="more than the expected"):
        fetch_from(server, folder / "other", size=size)


def test_a_compressed_file_is_kept_as_it_is_sent(server, folder):
    """Some servers call a `.gz` file compressed for the transfer only; it is to stay compressed."""
    server.files[f"/{NAME}"] = compressed = gzip.compress(CONTENT)
    server.headers = {"Content-Encoding": "gzip"}
    assert fetch_from(server, folder).read_bytes() == compressed


def test_a_server_that_is_too_slow_is_given_up_and_the_part_kept(server, folder, monkeypatch):
    monkeypatch.setattr(download_module, "WINDOW_SECONDS", 0.3)
    server.drip = 0.02
    with pytest.raises(DataError, match=r"too slow: \d+ bytes in .* are kept; run the command aga"):
        fetch_from(server, folder)
    assert len(server.asked) == 1
    server.drip = 0
    assert fetch_from(server, folder, check_content).read_bytes() == CONTENT
    assert server.ranges[-1] is not None


def test_headers_that_come_byte_by_byte_are_not_waited_for(server, folder, monkeypatch):
    monkeypatch.setattr(download_module, "WINDOW_SECONDS", 0.3)
    server.drip_headers = 0.02
    with pytest.raises(DataError, match="too slow: no answer in"):
        fetch_from(server, folder)
    assert len(server.asked) == 1


def test_lengths_of_chunks_that_come_byte_by_byte_are_not_waited_for(server, folder, monkeypatch):
    monkeypatch.setattr(download_module, "WINDOW_SECONDS", 0.3)
    server.headers = {"Transfer-Encoding": "chunked"}
    server.files[f"/{NAME}"] = b"5;" + bytes(1000)
    server.drip = 0.02
    with pytest.raises(DataError, match="broke off at 0 bytes"):
        fetch_from(server, folder)


def test_a_server_that_is_slow_but_not_too_slow_is_waited_for(server, folder, monkeypatch):
    monkeypatch.setattr(download_module, "WINDOW_SECONDS", 0.05)
    monkeypatch.setattr(download_module, "LEAST_RATE", 1)
    server.files[f"/{NAME}"] = CONTENT[:50]
    server.drip = 0.005
    assert fetch_from(server, folder, size=50).stat().st_size == 50


def test_addresses_that_lead_on_are_followed_without_reading_what_they_hold(server, folder):
    server.moved = [f"/{NAME}", f"{server.url}/{NAME}"]
    assert fetch_from(server, folder, check_content).read_bytes() == CONTENT
    server.moved = [f"/{NAME}"] * 100
    with pytest.raises(DataError, match="redirects"):
        fetch_from(server, folder / "again")
    assert len(server.asked) < 50


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "http://[::1", "http://" + "a" * 300, "http://\xff/", "/\xff"]
)
def test_an_address_that_makes_no_sense_is_refused(server, folder, address):
    server.moved = [address] * 5
    with pytest.raises(DataError, match="could not download"):
        fetch_from(server, folder)


@pytest.mark.parametrize("length", ["9" * 5000, "many", "-5"])
def test_a_length_that_makes_no_sense_is_not_believed(server, folder, length):
    server.headers["Content-Length"] = length
    assert fetch_from(server, folder, check_content).read_bytes() == CONTENT


def test_a_file_that_is_said_to_be_too_large_is_not_asked_for_its_content(server, folder):
    server.headers["Content-Length"] = "9" * 15
    with pytest.raises(DataError, match=f"has {'9' * 15} bytes, more than the expected"):
        fetch_from(server, folder)
    assert left_in(folder) == []


def test_a_part_of_another_version_is_not_taken_even_if_the_server_does_not_care(server, folder):
    interrupted_fetch(server, folder, 100_000)
    server.headers["ETag"] = '"second"'  # but If-Range is still answered as if nothing had changed
    server.files[f"/{NAME}"] = bytes(len(CONTENT))
    assert fetch_from(server, folder).read_bytes() == bytes(len(CONTENT))


def test_a_server_that_begins_anew_each_time_does_not_go_on_for_ever(server, folder, monkeypatch):
    monkeypatch.setattr(download_module, "WORTHWHILE", 1000)
    server.tag, server.break_after = "", [5000, 1000] * 50
    with pytest.raises(DataError, match="broke off"):
        fetch_from(server, folder)
    assert len(server.asked) < 20
