"""Fuzzed calls of a learner: a refused call says why and changes nothing."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from datetime import datetime
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from campaign.cases import methods
from campaign.processes import Failure
from evenstream import EvenstreamError, Learner
from evenstream.core.heads import HEADS
from evenstream.core.optimizers import Groups, every
from evenstream.learner.persistence import OwnParts
from evenstream.methods import METHODS
from evenstream.policies.rules import RULES
from evenstream.text import option_types

EACH, FULL = 100, 20_000
_X = np.linspace(-2, 2, 40, dtype=np.float32).reshape(8, 5)
_LABELS = ["a", "b", 1, 2, True, ("a", 1), "__tensor__", "\x1b[31m", "é\u202e", ""]
_LOOP: list[Any] = []
_LOOP.append(_LOOP)
_DEEP: list[Any] = []
for _ in range(300):
    _DEEP = [_DEEP]

_ODD: list[Any] = [
    None, True, 0, -1, 3, 1.5, float("nan"), float("inf"), 10**30, 2**63, 1e300, 1j, "", "a", b"x",
    "\udc80", "x" * 100_000, "mlp", "adam", "er-las:tau=nan", "er@nothing", Path("x"), object(),
    len, int, Ellipsis, [], {}, (), {1, 2}, range(4), iter([1, 2]), _LOOP, _DEEP, [[1, 2], [3]],
    [None] * 4, ["a", 1], {"a": 1}, {"a": "b"}, {"a": float("nan")}, datetime(2020, 1, 1),
    np.float32(0.1), np.float64("nan"), np.int8(-3), np.bool_(True), np.str_("a"), np.void(b"abc"),
    np.array([]), np.array(3.0), np.zeros((0, 5)), np.zeros((3, 0)), np.zeros((2,) * 20),
    np.array(["a", "b"]), np.array([None, 1]), np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]),
    np.ma.masked_array([1.0, 2.0], mask=[True, False]), np.array([1, 2], dtype="timedelta64[s]"),
    np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), torch.tensor(1.0), torch.tensor([]),
    torch.zeros(2, 5, requires_grad=True), torch.zeros(2, 5, device="meta"), torch.float32,
    torch.zeros(2, 5).to_sparse(), torch.zeros(2, 5, dtype=torch.complex64), nn.Linear(5, 2),
    torch.zeros(2, 5, dtype=torch.float16), torch.zeros(2, 5, dtype=torch.bool),
]  # fmt: skip
_FORMS: list[Callable[[np.ndarray[Any, Any]], Any]] = [
    lambda x: x, lambda x: x, lambda x: x, lambda x: x.tolist(), lambda x: x[::-1], lambda x: x.T,
    lambda x: x[:, :3], lambda x: x[:0], lambda x: x[0], lambda x: x[None], lambda x: iter(x),
    lambda x: x.astype(np.float64) * 1e300, lambda x: x * np.float32(1e38), lambda x: x.data,
    lambda x: np.where(x > 1, np.nan, x), lambda x: np.ma.masked_greater(x, 1), torch.tensor,
    lambda x: list(map(torch.tensor, x)), lambda x: torch.tensor(x, requires_grad=True),
    lambda x: torch.tensor(x).to(torch.bfloat16), lambda x: np.repeat(x, 300, 0), np.asmatrix,
    *(lambda x, to=to: x.astype(to) for to in (">f4", "u1", "c16", "O", "U", "g", "M8[s]")),
]  # fmt: skip
_BETWEEN = ["start_epoch", "flush", "discard", "reset_optimizer"]
_OPTIONS = [name for name in signature(Learner).parameters if name not in ("method", "model")]


def attack(seed: int, folder: Path) -> None:
    """Make a learner and call it with good and bad arguments."""
    warnings.simplefilter("ignore")
    fuzz = _Fuzz(random.Random(seed), folder)
    for number in range(EACH):
        fuzz.call(number)


class _Fuzz:
    def __init__(self, draw: random.Random, folder: Path) -> None:
        self.draw, self.folder, self.given = draw, folder, list[Any]()
        scope: Any = draw.choice(["seen", "seen", "all"])
        optimizer: Any = draw.choice(["sgd", "sgd", "adam", "adamw", _one_cycle])
        self.learner = Learner(
            draw.choice(methods()),
            draw.choice(["mlp", "mlp-norm"]) if draw.random() < 0.8 else _module(),
            memory=draw.choice([8, 40]),
            accumulate=draw.choice([1, 1, 10]),
            optimizer=optimizer,
            head_size=8 if scope == "all" else draw.choice([0, 8]),
            scope=scope,
        )
        self.before = self.learner.fingerprint()
        self.changes = [self.learn, self.start_task, self.end_task, self.between, self.set_lr]
        others = [self.predict, self.save, self.make, self.load, self.from_state]
        self.calls = [self.learn, self.learn, self.learn, *self.changes, *others]

    def call(self, number: int) -> None:
        call, before, refused, problem = self.draw.choice(self.calls), self.before, "", ""
        self.given.clear()
        try:
            try:
                call()
            except (EvenstreamError, TypeError, ValueError) as error:
                refused = str(error).strip() or "without a word"
            self.before = self.learner.fingerprint()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if refused == "without a word":
            problem = f"refused {refused}"
        if self.before != before and (refused or call not in self.changes):
            problem = f"the learner changed ({refused or 'although it was not asked to'})"
        if problem:
            given = ", ".join(repr(v)[:200] for v in self.given)
            what = f"call {number} of {self.learner.text}, {call.__name__}({given})"
            raise Failure(f"{problem[:1000]}: {what}")

    def odd(self, *good: Any, rate: float = 0.5) -> Any:
        """One of the good values, or a bad one."""
        value = self.draw.choice(good if good and self.draw.random() > rate else _ODD)
        self.given.append(value)
        return value

    def x(self) -> Any:
        return self.odd(self.draw.choice(_FORMS)(_X), rate=0.15)

    def y(self) -> Any:
        rare = self.draw.random() < 0.3
        labels = [self.draw.choice(_LABELS if rare else "abcd") for _ in _X]
        if self.draw.random() < 0.1:
            labels[self.draw.randrange(8)] = self.draw.choice(_ODD)
        return self.odd(labels, rate=0.1)

    def counts(self) -> Any:
        one = {self.draw.choice(_LABELS): self.draw.choice(_ODD)}
        return self.odd(None, dict.fromkeys("abcd", 3), one, rate=0.2)

    def data(self) -> Any:
        return self.odd(None, (self.x(), self.y()), rate=0.2)

    def learn(self) -> None:
        self.learner.learn(self.x(), self.y(), store=self.odd(True, rate=0.05))

    def predict(self) -> None:
        name = self.draw.choice(["predict", "predict_indices", "predict_proba", "scores"])
        getattr(self.learner, name)(self.x(), self.counts())

    def start_task(self) -> None:
        self.learner.start_task(self.counts(), self.data())

    def end_task(self) -> None:
        self.learner.end_task(self.data())

    def between(self) -> None:
        getattr(self.learner, self.draw.choice(_BETWEEN))()

    def set_lr(self) -> None:
        self.learner.lr = self.odd(0.1, 0.01, 1e-5)

    def make(self) -> None:
        options = {self.draw.choice(_OPTIONS): self.odd() for _ in range(self.draw.randint(0, 2))}
        made = Learner(self.method(), self.odd("mlp", rate=0.2), **options)
        made.learn(self.x(), self.y())

    def method(self) -> Any:
        if self.draw.random() < 0.5:
            return self.odd("er-las", rate=0.4)
        parts = [*METHODS.values(), *RULES.values(), *HEADS.values()]
        chosen = self.draw.choice([part for part in parts if option_types(part)])
        return chosen(**{self.draw.choice(list(option_types(chosen))): self.odd()})

    def save(self) -> None:
        self.learner.save(self.folder / "save")
        own = None if isinstance(self.learner.model, str) else _module()
        given: OwnParts = {"optimizer": _one_cycle} if self.learner.optimizer_factory else {}
        self.learner = Learner.load(self.folder / "save", own, **given)

    def load(self) -> None:
        Learner.load(self.odd(), self.odd(None))

    def from_state(self) -> None:
        state = self.learner.state()
        Learner.from_state({**state, self.draw.choice(list(state)): self.odd()}, self.odd(None))


def _one_cycle(groups: Groups) -> Any:
    """An optimiser with NumPy's numbers, whose steps come to an end."""
    made = torch.optim.SGD(every(groups), np.float32(0.1))  # type: ignore[arg-type]
    if groups["method"]:
        return made
    steps = torch.optim.lr_scheduler.OneCycleLR
    return made, steps(made, 0.1, total_steps=12, cycle_momentum=False)


def _module() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.2))
