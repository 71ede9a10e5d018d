"""Mix-Class-Domain streams: the domain of a sample depends on its class.

The paper writes a stream with domains as p(x, y, z, t) = p(x | z, y, t) p(z, y, t). In its
Sum-Class-Domain streams the domain z and the class y are separable: every class has every domain in
equal parts. It leaves open the case where they are not, and says that no standard benchmark exists.
Here is one: each class has a home domain, and other domains are rare in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenstream.data import Dataset
from evenstream.errors import InputError
from evenstream.streams.profile import profile
from evenstream.streams.scenario import Layout, thinned
from evenstream.streams.stream import Stream, stream_generator
from evenstream.streams.sum_class_domain import SumClassDomain


@dataclass(frozen=True, kw_only=True)
class MixClassDomain(SumClassDomain):
    """A Sum-Class-Domain stream in which each class comes mostly from its own home domain.

    Class y keeps all training samples of its home domain, y modulo the number of domains, and a
    share of the others, drawn by the seed: part of the data set by design, each sample at most
    once. The test sets keep all domains in equal parts.
    """

    coupling: float = 0.8
    """Share of the samples outside the home domain that are left out; 0 is the Sum case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.coupling <= 1:
            raise InputError(f"coupling must lie between 0 and 1, got {self.coupling}")

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """The tasks of the Sum-Class-Domain stream, thinned outside the home domains."""
        layout = super().arrange(dataset, seed)
        assert layout.domains is not None
        y, z = layout.dataset.y_train, layout.domains.train
        n_domains = len(layout.domains.names)
        draw = stream_generator(seed, "mix")
        kept = z == y % n_domains
        for label in range(layout.dataset.n_classes):
            for domain in range(n_domains):
                if domain != label % n_domains:
                    rows = draw.permutation(np.flatnonzero((y == label) & (z == domain)))
                    kept[rows[: round((1 - self.coupling) * len(rows))]] = True
        return thinned(layout, kept)


def coupling(stream: Stream) -> float | None:
    """How strongly class and domain depend on each other: I(Z;Y) / min(H(Z), H(Y)).

    Counted over all training samples. 0: independent, as in Sum-Class-Domain streams; 1: one
    determines the other. None for a stream without domains.
    """
    by_task = profile(stream, bins=1).domains_in_task
    if by_task is None:
        return None
    counts = by_task.sum(axis=0).astype(np.float64)
    of_class, of_domain = counts.sum(axis=1), counts.sum(axis=0)
    smaller = min(_entropy(of_class), _entropy(of_domain))
    if smaller == 0:
        return 0.0
    both = counts > 0
    ratio = counts[both] * counts.sum() / np.outer(of_class, of_domain)[both]
    return float((counts[both] * np.log(ratio)).sum() / counts.sum() / smaller)


def _entropy(counts: NDArray[np.float64]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
