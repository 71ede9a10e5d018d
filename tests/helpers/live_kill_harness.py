"""Kills followers of a stream with SIGKILL, between batches and in saves, and lets them go on.

For a process of its own (`warm.run`), as kill_harness.py.
"""

import os
import random
import signal
import warnings

import torch

from campaign import cases
from campaign.kinds import kill_warm, labels
from evenstream import Learner, follow
from tests.helpers.kill_harness import die_at
from tests.helpers.live_samples import fresh, outcome, stream


def deadly(batches, at):
    for number, batch in enumerate(batches):
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def live(folder, at=None, prepare=None):
    """Follow the stream in a child process; returns whether it was killed."""
    child = os.fork()
    if child == 0:
        if prepare is not None:
            prepare()
        follow(fresh(), deadly(stream(), at), folder, checkpoint_every=3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def main(folder):
    torch.set_num_threads(1)
    follow(fresh(), stream(), folder / "whole", checkpoint_every=3)  # here: PyTorch wakes up once
    expected, killed = outcome(folder / "whole"), 0
    draw = random.Random(0)
    for number in range(3):
        out = folder / f"between-{number}"
        killed += live(out, at=draw.randrange(24))
        live(out)
        assert outcome(out) == expected, f"{out} differs"
    for number in range(3):
        out = folder / f"saving-{number}"
        killed += live(out, prepare=die_at(draw.randrange(1, 60)))
        live(out)
        assert outcome(out) == expected, f"{out} differs"
    print(f"killed: {killed}")


def late_labels(folder):
    """Kills while labels come late, change and go."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    labels.attack(2, folder)


def owners(folder):
    """Kills of commands that correct or export a learner, before or while they change files."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    (folder / "references").mkdir()
    cases.prepare(folder)
    Learner.load(folder / "samples" / "keyed").export(folder / "here.pt2")  # PyTorch wakes up once
    for number, case in enumerate(cases.owner_cases(folder)):
        kill_warm.hit([case], number, folder / "work" / str(number), times=1)
