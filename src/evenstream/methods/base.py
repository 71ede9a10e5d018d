"""The contract between the learner and a method, and the table of methods by name.

A simple method only implements `loss`. Everything else has a default: hooks for the rows it trains
on and stores, for the end of a step and task boundaries, and the policies (retrieval, storing,
teacher, rule, head, criterion) that are written once and composed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from evenstream.bounds import check_options
from evenstream.core.edits import Follows
from evenstream.core.heads import Head, Linear
from evenstream.core.part import Part, declare_late
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.errors import InputError, shown
from evenstream.options import StepRows
from evenstream.policies.criteria import CrossEntropy
from evenstream.policies.retrieval import Retrieval, Uniform
from evenstream.policies.rules import ArgMax, InferenceRule
from evenstream.policies.storing import Reservoir, Storing
from evenstream.policies.teachers import Teacher
from evenstream.registry import Registry, check_class
from evenstream.text import MethodText

M = TypeVar("M", bound="type[Method]")


@dataclass
class Method(Part):
    """Base of all methods. Typed fields of a subclass are its hyper-parameters."""

    name: ClassVar[str]
    citation: ClassVar[str] = ""
    cost: ClassVar[str] = ""
    """Cost of a step: forward F(n) and backward G(n) passes of n images, b incoming and m
    replayed."""
    uses_memory: ClassVar[bool] = True
    trains_on_incoming: ClassVar[bool] = True
    """Whether incoming rows are trained on before they are stored (not for MRO and CLIB)."""
    logits_follow_criterion: ClassVar[bool] = True
    """Whether the criterion alone shapes the logits; False if another loss does too."""
    if_not_finite: ClassVar[str] = "Lower the learning rate"
    """What to do first when the loss is not finite."""
    stored: ClassVar[Mapping[str, Follows]] = {}
    """The fields that it stores with rows (`follows` has its own tensors)."""
    may_refuse_late: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """An unregistered method is named after its class, not after the one it extends."""
        super().__init_subclass__()
        declare_late(cls, "stored_rows")
        cls.name = cls.__dict__.get("name", cls.__name__)

    def __post_init__(self) -> None:
        super().__init__()
        check_options(self)
        self.retrieval: Retrieval = self.make_retrieval()
        self.storing: Storing = self.make_storing()
        self.teacher: Teacher | None = self.make_teacher()

    # ---- policies that come with the method ----------------------------------------------------

    def make_retrieval(self) -> Retrieval:
        """Which stored rows a step replays (default: a uniform draw)."""
        return Uniform()

    def make_storing(self) -> Storing:
        """Which rows enter the memory (default: a reservoir)."""
        return Reservoir()

    def make_teacher(self) -> Teacher | None:
        """The network to distil from (default: none)."""
        return None

    def make_rule(self) -> InferenceRule:
        """How to predict (default: the highest logit)."""
        return ArgMax()

    def make_head(self) -> Head:
        """The head on the features (default: linear)."""
        return Linear()

    def make_criterion(self) -> CrossEntropy:
        """What `step.ce` computes without `-las` (default: cross-entropy)."""
        return CrossEntropy()

    # ---- properties that are constants in most methods ---------------------------------------

    @property
    def memory_first(self) -> bool:
        """Whether the memory takes in the batch before the step trains (CLIB)."""
        return False

    @property
    def trained_groups(self) -> tuple[str, ...]:
        """What `loss` is minimised over: the network and the method's own optimisers, by name."""
        return ("network",)

    @property
    def weighs_rows(self) -> bool:
        """Whether `learn(..., weights=...)` works: all of its loss goes through `step.ce`."""
        return False

    @property
    def why_not_las(self) -> str | None:
        """Why a `-las` form makes no sense; None if there is one."""
        return None

    @property
    def why_not_exits(self) -> str | None:
        """Why a head with several exits makes no sense; None if it does."""
        return None

    @property
    def own_steps(self) -> tuple[int, StepRows] | None:
        """Steps that the method makes for each batch, and their rows; None if the user decides."""
        return None

    def why_not_steps(self, rows: StepRows) -> str | None:
        """Why several steps per batch with such rows make no sense; None if they do."""
        return None

    def on_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Called with every optimiser that the learner makes: its settings may be changed."""

    # ---- the step ----------------------------------------------------------------------------

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The groups of rows this step trains on; default: the batch and one replayed batch.

        The criterion observes their labels, all of them, once, right after this call.
        """
        return [step.incoming, step.retrieve()]

    def loss(self, step: Step) -> Tensor | None:
        """The loss to minimise; None makes no update. The one thing a method must implement."""
        raise NotImplementedError

    def stored_rows(self, step: Step) -> Tensor | None:
        """Which incoming rows are offered to the memory (indices); None means all."""
        return None

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """Why the method makes no sense with this head or rule; None if it does.

        Rules declare in `why_not_with` which criteria and heads they do not work with.
        """
        return None


METHODS: Registry[type[Method]] = Registry("method")


def register(name: str) -> Callable[[M], M]:
    """Register a method by name; its `-las` form comes with it.

    Raises:
        InputError: the name could not be typed on a command line, or an option has no default or
            shares its name with an option of heads.
    """
    known = isinstance(name, str) and re.fullmatch(r"[a-z0-9][a-z0-9_.+-]*", name)
    if not known or MethodText.read(name).adjusted:
        raise InputError(
            f"a method cannot be called {shown(name)}: use a-z, 0-9, - and +, and no -las at the "
            "end, which stands for Logit Adjusted Softmax"
        )

    def add(cls: M) -> M:
        check_class("method", cls, Method)
        for field in fields(cls):
            if field.name == "head" or field.name.startswith("head_"):
                raise InputError(
                    f"option {field.name!r} of method {name} is taken by its head; choose "
                    "another name"
                )
            if field.name == "storing":
                raise InputError(
                    f"option 'storing' of method {name} exists for all methods; choose another name"
                )
        return METHODS.register_class(name, Method)(cls)

    return add
