"""Processes that have loaded PyTorch when they begin: forked from one that does nothing else.

A fresh interpreter takes seconds to get there, which is most of what a test of a killed or piped
command costs. Tests of starting up itself, and of process groups, use `subprocess`.
"""

import multiprocessing
import os
import sys
import tempfile
from contextlib import ExitStack
from multiprocessing import reduction
from pathlib import Path
from subprocess import CompletedProcess

from evenstream.cli.main import main

CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = ["__main__", "evenstream.run.runner"]
"""As in `run/workers.py`, whose workers then come from the same process."""


class File:
    """A file descriptor on its way to another process."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return _received, (reduction.DupFd(self.number),)


def _received(duplicate):
    return duplicate.detach()


def _live(files, folder, program, arguments):
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(folder)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
    )
    sys.stderr.reconfigure(line_buffering=True)
    sys.exit(program(*arguments))


def start(program, *arguments, files=(os.devnull,) * 3):
    """`program(*arguments)` in a process of its own, whose standard files are descriptors."""
    CONTEXT.set_forkserver_preload(PRELOADED)
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        given = [File(nothing if file == os.devnull else file) for file in files]
        process = CONTEXT.Process(target=_live, args=(given, Path.cwd(), program, arguments))
        process.start()
    finally:
        os.close(nothing)
    return process


def run(program, *arguments, stdin=b"", stdout=None):
    """The same to its end, as `subprocess.run`; `stdout` is a descriptor if it is not wanted."""
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        where = out.fileno() if stdout is None else stdout
        process = start(program, *arguments, files=(given.fileno(), where, err.fileno()))
        process.join()
        said = [os.pread(file.fileno(), 2**20, 0) for file in (out, err)]
    return CompletedProcess(arguments, process.exitcode, *said)


def evenstream(*words, stdin=b"", stdout=None):
    """A command of the command line, to its end."""
    return run(main, list(words), stdin=stdin, stdout=stdout)
