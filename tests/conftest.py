import gc
import logging
import os
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from evenstream.core.heads import HEADS
from evenstream.core.optimizers import OPTIMIZERS
from evenstream.data import DATASETS
from evenstream.live.sources import SOURCES
from evenstream.measures import ENTRIES
from evenstream.methods import METHODS
from evenstream.networks import NETWORKS
from evenstream.policies.rules import RULES
from evenstream.streams import SCENARIOS

REGISTRIES = (DATASETS, ENTRIES, HEADS, METHODS, NETWORKS, OPTIMIZERS, RULES, SCENARIOS, SOURCES)

# Saves wait for the disk, which is not what is tested: in memory they need not.
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# pytest attaches its handlers to each logger that does not propagate, three times a test: PyTorch
# has 43 of them.
for logger in list(logging.root.manager.loggerDict.values()):
    if isinstance(logger, logging.Logger) and logger.name.startswith("torch"):
        logger.propagate = True

# Examples are the same at every run, so that a failure on one machine fails on all of them.
settings.register_profile("evenstream", deadline=None, derandomize=True)
settings.load_profile("evenstream")


def pytest_collection_finish():
    """What was imported stays, and full collections need not visit it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(autouse=True, scope="session")
def ctrl_c():
    """A shell's `&` and some CI systems ignore Ctrl-C, which tests and their processes send."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread():
    """Bit-for-bit claims hold on one thread; tests that change the number put it back here."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_names():
    """What a test registers is gone after it."""
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(registry.temporary())
        yield
