"""Kills runs with SIGKILL, at random moments and at each moment of a save, and resumes them.

For a process of its own (`warm.run`): it forks a child for every life of a run, which a test
process with threads must not do. Prints one line a case and fails if a resumed run differs from an
uninterrupted one.
"""

import os
import random
import signal
import time
from pathlib import Path

import torch

from evenstream import checkpoint
from evenstream.run import environment
from evenstream.run.environment import describe_environment
from evenstream.run.folder import finished_metrics
from evenstream.run.runner import resume_run, start_run
from tests.helpers.small_runs import outcome, save_table, small_config

ALIVE = 1000.0


def live(config, out, seconds=ALIVE, prepare=None):
    """One life of a run in a child process; returns whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if prepare is not None:
                prepare()
            (resume_run(out) if (out / "config.toml").exists() else start_run(config, out))
            code = 0
        finally:
            os._exit(code)
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.001)
    else:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the run failed"
    return False


def die_at(number):
    """Let this process kill itself at the n-th thing it does to the disk in a checkpoint."""
    left = number

    def mortal(real, halfway=None):
        def call(*arguments, **options):
            nonlocal left
            left -= 1
            if left == 0 and halfway is not None:
                halfway(real, *arguments)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    def half_saved(real, tensors, path):
        real(tensors, path)
        os.truncate(path, path.stat().st_size // 2)

    def patch():
        checkpoint.save_file = mortal(checkpoint.save_file, half_saved)
        checkpoint.sync = mortal(checkpoint.sync)
        Path.replace = mortal(Path.replace)
        Path.unlink = mortal(Path.unlink)
        checkpoint.shutil.rmtree = mortal(checkpoint.shutil.rmtree)

    return patch


def main(folder, kills, seed=0, method="er-las:window=3"):
    torch.set_num_threads(1)
    known = describe_environment()
    environment.describe_environment = lambda: known
    # 40 steps and a checkpoint after every third: a good part of the time is spent on saving.
    table = save_table(folder / "table.npz", per_class=40)
    config = small_config(table, method, checkpoint_every=3, momentum=0.9, eval_every=2)
    start_run(config, folder / "whole")
    expected = outcome(folder / "whole")
    began = time.monotonic()
    live(config, folder / "timed")
    seconds = time.monotonic() - began
    assert outcome(folder / "timed") == expected
    draw = random.Random(seed)

    killed, lives = 0, 0
    while killed < kills and lives < 20 * kills:
        out, lives = folder / f"random-{lives}", lives + 1
        while finished_metrics(out) is None and killed < kills:
            killed += live(config, out, draw.uniform(0.1, 0.9) * seconds)
        live(config, out)
        assert outcome(out) == expected, f"{out} differs from the uninterrupted run"
    print(f"killed at random: {killed}")

    saving = 0
    for number in draw.sample(range(1, 120), k=kills):
        out = folder / f"saving-{number}"
        if not live(config, out, prepare=die_at(number)):
            continue
        saving += 1
        live(config, out, prepare=die_at(draw.randrange(1, 60)))  # and once more, on the way
        live(config, out)
        assert outcome(out) == expected, f"{out} differs from the uninterrupted run"
        left = sorted(path.name for path in (out / "checkpoint").iterdir())
        assert len(left) == 4, left
    print(f"killed while saving: {saving}")
