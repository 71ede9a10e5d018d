"""Checkpoints: whole or absent, checked, and always one to fall back on."""

import contextlib
import json
import os
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import checkpoint
from evenstream.checkpoint import (
    flatten,
    has_checkpoint,
    read_checkpoint,
    unflatten,
    write_checkpoint,
)
from evenstream.errors import CheckpointError, DamagedCheckpoint
from evenstream.version import __version__


def tree(value):
    weights = torch.full((50,), float(value))  # 200 bytes; the text is longer than the tensors
    return {"kind": "test", "value": value, "note": "x" * 500, "weights": weights}


def value_of(found):
    assert found["kind"] == "test"
    assert torch.equal(found["weights"], torch.full((50,), float(found["value"])))
    return found["value"]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def pair(number, step):
    return [f"checkpoint-{number:06d}-step-{step}{end}" for end in (".json", ".safetensors")]


TENSORS = [
    torch.tensor(1.5),
    torch.zeros(0, 3),
    torch.arange(6).view(2, 3).t(),
    torch.tensor([True, False]),
    torch.tensor([1, 255], dtype=torch.uint8),
    torch.tensor([float("nan"), float("-inf")]),
    torch.randn(2, 3, 4, 5).to(torch.bfloat16).contiguous(memory_format=torch.channels_last),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(TENSORS)
)
KEYS = st.text(
    st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=4
) | st.sampled_from(["__tensor__", "~__tensor__", "~~__tensor__"])
TREES = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda t: st.lists(t, max_size=3) | st.dictionaries(KEYS, t)),
    max_size=4,
)  # fmt: skip


def equal(one, two):
    if isinstance(one, torch.Tensor):
        return (
            one.dtype == two.dtype
            and one.shape == two.shape
            and one.contiguous().view(-1).view(torch.uint8).tolist()
            == two.contiguous().view(-1).view(torch.uint8).tolist()
        )
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(equal, one, two))
    return type(one) is type(two) and one == two


@settings(max_examples=50)
@given(TREES)
def test_flatten_and_back(original):
    tensors, rest = flatten(original)
    json.dumps(rest)
    assert equal(original, unflatten(tensors, rest))


@settings(max_examples=25)
@given(original=TREES)
def test_what_is_read_is_what_was_written(original, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    write_checkpoint(folder, 1, original)
    assert equal(original, read_checkpoint(folder))


def test_trees_written_before_keys_were_escaped():
    tensors = {"w": torch.ones(2)}
    old = {"w": {"__tensor__": "w"}, "a": {"__tensor__": 1, "b": 2}, "c": {"__tensor__": {"d": 3}}}
    found = unflatten(tensors, old)
    assert torch.equal(found["w"], tensors["w"])
    assert (found["a"], found["c"]) == (old["a"], old["c"])


def test_tensors_that_share_memory(tmp_path):
    base = torch.arange(10.0)
    write_checkpoint(tmp_path, 0, {"all": base, "part": base[2:5], "same": base})
    found = read_checkpoint(tmp_path)
    assert found["part"].tolist() == [2, 3, 4]
    assert torch.equal(found["all"], found["same"])


def test_two_remain_after_every_write(tmp_path):
    folder = tmp_path / "deep" / "folder"
    for number in range(1, 6):
        path = write_checkpoint(folder, 10 * number, tree(number))
        assert path == folder / pair(number, 10 * number)[0]
        before = pair(number - 1, 10 * (number - 1)) if number > 1 else []
        assert files(folder) == [*before, *pair(number, 10 * number)]
        assert value_of(read_checkpoint(folder)) == number


def test_everybody_who_may_read_the_text_may_read_the_tensors(tmp_path):
    path = write_checkpoint(tmp_path, 1, tree(1))
    assert path.stat().st_mode == path.with_suffix(".safetensors").stat().st_mode


def test_two_checkpoints_of_the_same_step(tmp_path):
    """One after the last batch of a task and one after its end: the second must not harm the first.

    Names by step alone would put the new tensors under the old text for a moment.
    """
    write_checkpoint(tmp_path, 7, tree(1))
    newest = write_checkpoint(tmp_path, 7, tree(2))
    assert value_of(read_checkpoint(tmp_path)) == 2
    newest.unlink()
    assert value_of(read_checkpoint(tmp_path)) == 1


def test_a_learner_that_starts_again_in_the_same_folder(tmp_path):
    """The newest is the one written last, not the one with the highest step."""
    write_checkpoint(tmp_path, 1000, tree(1))
    write_checkpoint(tmp_path, 5, tree(2))
    assert value_of(read_checkpoint(tmp_path)) == 2
    write_checkpoint(tmp_path, 6, tree(3))
    assert value_of(read_checkpoint(tmp_path)) == 3
    assert len(files(tmp_path)) == 4


# ---- damage --------------------------------------------------------------------------------------


def shorten(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def change_value(path):
    path.write_text(path.read_text().replace('"kind": "test"', '"kind": "tent"'))


def bare_list(path):
    path.write_text("[]")


def binary(path):
    path.write_bytes(b"\xff\xfe\x00")


DAMAGES = [
    (".safetensors", shorten),
    (".safetensors", flip),
    (".safetensors", empty),
    (".safetensors", Path.unlink),
    (".json", shorten),
    (".json", flip),
    (".json", empty),
    (".json", change_value),
    (".json", bare_list),
    (".json", binary),
]


@pytest.mark.parametrize(("suffix", "damage"), DAMAGES)
def test_a_damaged_one_is_passed_over(tmp_path, suffix, damage):
    first = write_checkpoint(tmp_path, 1, tree(1))
    second = write_checkpoint(tmp_path, 2, tree(2))
    damage(second.with_suffix(suffix))
    with pytest.warns(UserWarning, match="continuing from the checkpoint before it"):
        assert value_of(read_checkpoint(tmp_path)) == 1
    # The next write keeps the good one rather than the damaged one.
    write_checkpoint(tmp_path, 3, tree(3))
    assert files(tmp_path) == [*pair(1, 1), *pair(3, 3)]
    # And if both are damaged, it says so.
    third = tmp_path / pair(3, 3)[0]
    damage(third.with_suffix(suffix))
    damage(first.with_suffix(suffix))
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(tmp_path)
    message = str(caught.value)
    assert "no usable checkpoint" in message
    for path in (first, third):
        assert path.with_suffix(suffix).name in message


def rewritten(path, **changes):
    """Give a checkpoint other entries, under a right checksum."""
    body = json.loads(path.read_text()) | changes
    del body["sha256"]
    path.write_text(json.dumps({**body, "sha256": checkpoint.text_digest(body)}))


@pytest.mark.parametrize("version", ["7.1.0", None])
def test_a_later_format_names_the_version_that_reads_it(tmp_path, version):
    write_checkpoint(tmp_path, 1, tree(1))
    later = write_checkpoint(tmp_path, 2, tree(2))
    rewritten(later, format=99, evenstream=version)
    with pytest.raises(CheckpointError, match="format 99") as caught:
        read_checkpoint(tmp_path)  # it is whole: going on from the one before would lose steps
    assert not isinstance(caught.value, DamagedCheckpoint)
    assert f"evenstream {__version__}" in str(caught.value)
    assert version is None or version in str(caught.value)
    write_checkpoint(tmp_path, 3, tree(3))
    assert later.exists()  # as the one before, which may be wanted


def test_a_checkpoint_says_which_version_wrote_it(tmp_path):
    body = json.loads(write_checkpoint(tmp_path, 1, tree(1)).read_text())
    assert (body["format"], body["evenstream"]) == (checkpoint.FORMAT, __version__)


def test_nothing_to_read(tmp_path):
    assert not has_checkpoint(tmp_path)
    assert not has_checkpoint(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="it has none"):
        read_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a folder"):
        read_checkpoint(tmp_path / "absent")


# ---- crashes -------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for kill -9: once it was raised, nothing more happens on the disk."""


class Disk:
    """Lets the process die at the n-th thing it does to the disk, before it or halfway."""

    def __init__(self, monkeypatch, dies_at, halfway):
        self.left, self.halfway, self.dead = dies_at, halfway, False
        for owner, name in (
            (checkpoint, "save_file"),
            (checkpoint, "sync"),
            (checkpoint.shutil, "rmtree"),
            (checkpoint.shutil, "copymode"),
            (Path, "mkdir"),
            (Path, "replace"),
            (Path, "write_text"),
            (Path, "unlink"),
        ):
            monkeypatch.setattr(owner, name, self.mortal(name, getattr(owner, name)))

    def mortal(self, name, real):
        def call(*arguments, **options):
            if self.dead:
                raise Killed
            self.left -= 1
            if self.left >= 0:
                return real(*arguments, **options)
            self.dead = True
            if self.halfway and name in ("save_file", "write_text"):
                real(*arguments, **options)
                path = Path(arguments[1] if name == "save_file" else arguments[0])
                os.truncate(path, path.stat().st_size // 2)
            raise Killed

        return call


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize("existing", [0, 1, 2, 3])
def test_death_at_any_moment_of_a_save(tmp_path, existing, halfway):
    dies_at, finished = 0, False
    while not finished:
        folder = tmp_path / str(dies_at)
        for value in range(1, existing + 1):
            write_checkpoint(folder, 4, tree(value))  # all of one step: the hardest case
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, dies_at, halfway)
            try:
                write_checkpoint(folder, 4, tree(existing + 1))
                finished = True
            except Killed:
                pass
        if has_checkpoint(folder):
            assert value_of(read_checkpoint(folder)) in (existing, existing + 1)
            assert value_of(read_checkpoint(folder)) > 0
        else:
            assert existing == 0
        # The next process cleans up.
        write_checkpoint(folder, 9, tree(77))
        assert value_of(read_checkpoint(folder)) == 77
        assert len(files(folder)) == (4 if len(files(folder)) > 2 else 2)
        assert all(name.endswith((".json", ".safetensors")) for name in files(folder))
        if existing:
            (folder / files(folder)[-2]).unlink()
            assert value_of(read_checkpoint(folder)) in (existing, existing + 1)
        dies_at += 1
    assert dies_at > 10


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    write_checkpoint(tmp_path, 3, tree(1))
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / ".tmpX8dk2s").write_bytes(b"half")
    (tmp_path / "checkpoint-000009-step-3.safetensors").write_bytes(b"orphan")
    (tmp_path / "checkpoint-000000000003.tmp-4711").write_bytes(b"half")
    write_checkpoint(tmp_path, 4, tree(2))
    assert files(tmp_path) == [*pair(1, 3), *pair(10, 4)]


def test_tidy_finishes_the_clean_up_of_a_killed_save(tmp_path):
    every = {}
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, tree(step))
        every |= {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path, content in every.items():  # as if it was killed before it removed any
        path.write_bytes(content)
    (tmp_path / "incoming").mkdir()
    checkpoint.tidy(tmp_path)
    assert files(tmp_path) == [*pair(2, 2), *pair(3, 3)]
    assert value_of(read_checkpoint(tmp_path)) == 3
    checkpoint.tidy(tmp_path / "nothing here")


@contextlib.contextmanager
def small_disk(room):
    """A limit on the size of a file: the system refuses to write more, as on a full disk.

    Only inside the block: pytest's own output may go to a file, too.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 100, 500], ids=["nothing", "no tensors", "no text"])
def test_full_disk(tmp_path, room):
    none = r"cannot write a checkpoint.*there is none"
    with pytest.raises(CheckpointError, match=none), small_disk(room):
        write_checkpoint(tmp_path, 1, tree(1))
    write_checkpoint(tmp_path, 1, tree(1))
    kept = r"cannot write.*the previous one is still there"
    with pytest.raises(CheckpointError, match=kept), small_disk(room):
        write_checkpoint(tmp_path, 2, tree(2))
    assert value_of(read_checkpoint(tmp_path)) == 1
    assert files(tmp_path) == pair(1, 1)


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="cannot write a checkpoint"):
        write_checkpoint(tmp_path / "file" / "folder", 1, tree(1))
