"""Whatever `follow` is given is taken or refused by an `EvenstreamError`."""

import pytest

from evenstream import follow
from tests.helpers.live_samples import fresh, stream
from tests.helpers.odd_values import ODD, refused_or_taken

ARGUMENTS = ["learner", "stream", "folder", "name", "checkpoint_every", "refused", "on_step"]


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_of_other_kinds(tmp_path, monkeypatch, argument):
    monkeypatch.chdir(tmp_path)
    for number, value in enumerate(ODD.values()):
        folder = tmp_path / f"{number}"
        given = {"learner": fresh(), "stream": stream()[:1], "folder": folder, argument: value}
        if not callable(value):  # which `on_step` may be
            refused_or_taken(lambda given=given: follow(**given))
