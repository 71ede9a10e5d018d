"""`evenstream data` on folders of images."""

import pytest

from evenstream.cli.main import main
from tests.helpers.generated_images import imagenet, tiny_imagenet


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command; gives exit status, output and errors, in lines that are not broken."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        status = main(["data", *map(str, words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_the_list_says_what_is_pinned_and_where_it_is(run, tmp_path):
    _, out, _ = run("list")
    lines = {line.split()[0]: line for line in out.splitlines() if line and line[0] != " "}
    assert lines["cifar10"].split() == ["cifar10", "not", "here", "verified", "170", "MB"]
    assert lines["imagenet"].split()[1:4] == ["not", "here", "unverified"]
    assert lines["imagenet"].endswith("155 GB, by hand")
    assert "https://github.com/visipedia/inat_comp" in out
    tree = imagenet(tmp_path / "images")
    run("import", "imagenet", tree)
    _, out, _ = run("list")
    assert "imagenet         here       unverified (pinned)" in out
    assert f"in: {tree}" in out


def test_verify_says_what_became_of_a_folder(run, tmp_path):
    tree = tiny_imagenet(tmp_path / "tiny-imagenet-200")
    assert run("verify", "tinyimagenet")[0] == 1
    status, out, _ = run("import", "tinyimagenet", tmp_path)
    assert status == 0
    assert f"ok (pinned) {tree}\n" in out
    (tree / "wnids.txt").unlink()
    status, out, _ = run("verify", "tinyimagenet")
    assert status == 1
    assert f"altered  {tree}" in out
    assert "19 files" in out
    assert "`evenstream data import tinyimagenet DIR` again" in out


def test_a_folder_put_there_by_hand_was_never_checked(run, data_folder):
    tree = imagenet(data_folder / "imagenet")
    status, out, _ = run("verify", "imagenet")
    assert status == 0
    assert f"`evenstream data import imagenet {tree}`" in out
    assert "imagenet: here, but never checked" in out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("get imagenet", ["needs an account", "image-net.org"]),
        ("import imagenet .", ["train and val", "needs an account"]),
        ("import tinyimagenet .", ["wnids.txt", "tiny-imagenet-200.zip"]),
        ("import inaturalist2017 absent", ["no folder", "absent"]),
    ],
)
def test_what_cannot_be_had_is_explained(run, tmp_path, monkeypatch, data_folder, words, parts):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    status, _, err = run(*words.split())
    assert status == 2
    assert err.startswith("error: ")
    for part in parts:
        assert part in err
    assert not data_folder.exists()
