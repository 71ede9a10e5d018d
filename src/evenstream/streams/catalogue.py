"""Streams by name, scenarios by prefix. Listing them imports neither PyTorch nor data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from evenstream.registry import Registry
from evenstream.streams.blurry import Blurry
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.domain_incremental import DomainIncremental
from evenstream.streams.gradual import Gradual
from evenstream.streams.initial_letter import InitialLetter
from evenstream.streams.long_tailed import LongTailed
from evenstream.streams.mix_class_domain import MixClassDomain
from evenstream.streams.recurring import Recurring
from evenstream.streams.scenario import Scenario
from evenstream.streams.stream import Protocol
from evenstream.streams.sum_class_domain import SumClassDomain

S = TypeVar("S", bound=type[Scenario])

_OURS: dict[str, type[Scenario]] = {
    "c": ClassIncremental,
    "b": Blurry,
    "s": SumClassDomain,
    "m": MixClassDomain,
    "d": DomainIncremental,
    "lt": LongTailed,
    "g": Gradual,
    "r": Recurring,
}
SCENARIOS: Registry[type[Scenario]] = Registry("scenario", _OURS, form="[a-z0-9]+")
"""The scenarios by prefix of a data set's name, as in `b-cifar100`."""


def register_scenario(prefix: str) -> Callable[[S], S]:
    """Register a scenario by prefix: PREFIX-DATASET.

    Decorate a frozen dataclass derived from `Scenario`; its fields are the options.
    """
    return SCENARIOS.register_class(prefix, Scenario)


_SMALL_COLOUR = Protocol(network="resnet18", augment="crop+flip")


def _large(side: int) -> Protocol:
    return Protocol(
        network="resnet18-imagenet",
        batch=128,
        replay_batch=128,
        memory=20_000,
        augment=f"resized-crop0.75@{side}+flip",
    )


PROTOCOLS: dict[str, Protocol] = {
    "digits": Protocol(batch=10, replay_batch=10, memory=100, lr=0.1),
    "mnist": Protocol(),
    "fashion-mnist": Protocol(),
    "cifar10": _SMALL_COLOUR,
    "cifar100": _SMALL_COLOUR,
    "tinyimagenet": _SMALL_COLOUR,
    "imagenet": _large(224),
    "inaturalist2017": _large(299),
}
"""The usual defaults for a data set."""

DROP_LAST = frozenset({"imagenet", "inaturalist2017"})
"""Data sets whose streams drop the short batch at the end of a task, as the public code does."""


@dataclass(frozen=True)
class StreamInfo:
    """A named stream: a data set, a scenario and its options."""

    dataset: str
    scenario: Scenario
    tasks: int
    """The number of tasks that the scenario makes of the data set."""
    description: str

    @property
    def protocol(self) -> Protocol:
        """The defaults that go with the data set and the scenario."""
        return self.scenario.protocol(PROTOCOLS[self.dataset])


STREAMS: dict[str, StreamInfo] = {
    "c-digits": StreamInfo(
        "digits",
        ClassIncremental(),
        5,
        "scikit-learn's 8x8 digits, 5 tasks of 2 classes; embedded, needs no download",
    ),
    "c-mnist": StreamInfo(
        "mnist", ClassIncremental(), 5, "handwritten digits, 5 tasks of 2 classes"
    ),
    "c-fashion-mnist": StreamInfo(
        "fashion-mnist", ClassIncremental(), 5, "articles of clothing, 5 tasks of 2 classes"
    ),
    "c-cifar10": StreamInfo(
        "cifar10", ClassIncremental(), 5, "the paper's C-CIFAR10, 5 tasks of 2 classes"
    ),
    "c-cifar100": StreamInfo(
        "cifar100", ClassIncremental(), 10, "the paper's C-CIFAR100, 10 tasks of 10 classes"
    ),
    "c-tinyimagenet": StreamInfo(
        "tinyimagenet", ClassIncremental(), 10, "the paper's C-TinyImageNet, 10 tasks of 20 classes"
    ),
    "c-imagenet": StreamInfo(
        "imagenet",
        ClassIncremental(tasks=90, reserve=100),
        90,
        "the paper's C-ImageNet: 100 classes to pre-train on, then 90 tasks of 10",
    ),
    "c-inaturalist": StreamInfo(
        "inaturalist2017",
        InitialLetter(),
        26,
        "the paper's C-iNaturalist: 5,089 species in 26 tasks by first letter",
    ),
    "b-cifar100": StreamInfo(
        "cifar100",
        Blurry(),
        10,
        "the paper's B-CIFAR100: 50 classes in one task, 50 in all (its tables: memory 2000)",
    ),
    "b-tinyimagenet": StreamInfo(
        "tinyimagenet",
        Blurry(),
        10,
        "the paper's B-TinyImageNet: 100 classes in one task, 100 in all (tables: memory 2000)",
    ),
    "s-cifar100": StreamInfo(
        "cifar100",
        SumClassDomain(),
        20,
        "the paper's S-CIFAR100: 20 tasks of 5 subclasses, 20 superclasses to predict",
    ),
    "m-cifar100": StreamInfo(
        "cifar100", MixClassDomain(), 20, "s-cifar100 with class and domain coupled (a part of it)"
    ),
    "d-digits": StreamInfo("digits", DomainIncremental(), 4, "digits rotated by 0 to 270 degrees"),
    "d-mnist": StreamInfo("mnist", DomainIncremental(), 4, "MNIST turned by 0 to 270 degrees"),
    "d-fashion-mnist": StreamInfo(
        "fashion-mnist", DomainIncremental(), 4, "Fashion-MNIST rotated by 0 to 270 degrees"
    ),
    "d-cifar100": StreamInfo(
        "cifar100", DomainIncremental(), 5, "20 superclasses, a subclass of each in every task"
    ),
    "lt-digits": StreamInfo(
        "digits",
        LongTailed(imbalance=0.1),
        5,
        "c-digits, the last class 10 times rarer than the first",
    ),
    "lt-cifar10": StreamInfo(
        "cifar10", LongTailed(), 5, "c-cifar10, the last class 100 times rarer than the first"
    ),
    "lt-cifar100": StreamInfo(
        "cifar100", LongTailed(), 10, "c-cifar100, the last class 100 times rarer than the first"
    ),
    "g-digits": StreamInfo("digits", Gradual(), 5, "c-digits, tasks fading into each other"),
    "g-cifar100": StreamInfo("cifar100", Gradual(), 10, "c-cifar100, tasks fading into each other"),
    "r-digits": StreamInfo("digits", Recurring(), 15, "c-digits in three rounds"),
    "r-cifar100": StreamInfo("cifar100", Recurring(), 30, "c-cifar100 in three rounds"),
}
