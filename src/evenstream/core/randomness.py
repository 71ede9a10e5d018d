"""One generator for each source of randomness, all derived from the run's seed.

Separate generators let two methods that differ in one component be compared bit for bit, and let a
killed run continue exactly where it stopped: the state of every generator is saved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from evenstream.core.locks import GLOBAL_GENERATOR
from evenstream.core.stateful import WithoutClasses

SOURCES = ("augment", "retrieve", "reservoir", "method")


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends only on the run's seed and on its purpose."""
    text = "/".join(["evenstream", str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def make_generator(seed: int, *names: str | int) -> torch.Generator:
    """A CPU generator for one purpose; draws are made on the CPU so that devices agree."""
    return torch.Generator().manual_seed(derive_seed(seed, *names))


class Randomness(WithoutClasses):
    """The generators of one learner, and its own copy of PyTorch's global generator.

    The network's initialisation and each head row are seeded by `derive_seed` directly (they are
    drawn once, so there is no state to keep); stream order belongs to the stream.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.augment, self.retrieve, self.reservoir, self.method = (
            make_generator(seed, name) for name in SOURCES
        )
        self._cuda = device if device.type == "cuda" else None
        self._global = make_generator(seed, "global").get_state()
        self._global_cuda: Tensor | None = None
        if self._cuda is not None:
            cuda = torch.Generator(self._cuda).manual_seed(derive_seed(seed, "global-cuda"))
            self._global_cuda = cuda.get_state()

    @contextmanager
    def owned_global(self) -> Iterator[None]:
        """Run a block with the learner's own global generator (dropout in users' modules).

        What the program outside draws does not change the run, and the run does not change what
        the program outside draws. This covers CPU and CUDA; other devices keep their own generator.
        Other learners wait, since all threads of the process share this generator.
        """
        with GLOBAL_GENERATOR:
            outside = torch.get_rng_state()
            outside_cuda = torch.cuda.get_rng_state(self._cuda) if self._cuda else None
            torch.set_rng_state(self._global)
            if self._cuda and self._global_cuda is not None:
                torch.cuda.set_rng_state(self._global_cuda, self._cuda)
            try:
                yield
            finally:
                self._global = torch.get_rng_state()
                torch.set_rng_state(outside)
                if self._cuda and outside_cuda is not None:
                    self._global_cuda = torch.cuda.get_rng_state(self._cuda)
                    torch.cuda.set_rng_state(outside_cuda, self._cuda)

    def mark(self) -> dict[str, Tensor]:
        """All generator states."""
        return self.state()

    def restore(self, mark: dict[str, Tensor]) -> None:
        """Go back, so that the same numbers are drawn again."""
        self.load_state(mark)

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Tensor]:
        """All generator states."""
        state = {name: getattr(self, name).get_state() for name in SOURCES}
        state["global"] = self._global
        if self._global_cuda is not None:
            state["global_cuda"] = self._global_cuda
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore every generator; a CUDA state is ignored on a machine without CUDA."""
        torch.Generator().set_state(state["global"])  # rejects an invalid one; it is used later
        for name in SOURCES:
            getattr(self, name).set_state(state[name])
        self._global = state["global"].clone()
        if self._cuda is not None and "global_cuda" in state:
            self._global_cuda = state["global_cuda"].clone()
