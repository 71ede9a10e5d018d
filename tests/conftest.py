import pytest
import torch
from hypothesis import settings

# Examples are the same at every run, so that a failure on one machine fails on all of them.
settings.register_profile("evenstream", deadline=None, derandomize=True)
settings.load_profile("evenstream")


@pytest.fixture(autouse=True)
def one_thread():
    """Bit-for-bit claims hold on one thread; tests that change the number put it back here."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
