"""All state of a learner and the ways to change it, as passed to the hooks of its parts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from evenstream.augment import Preprocess
from evenstream.core.calibration import Calibration
from evenstream.core.classifier import Classifier, frozen_copy
from evenstream.core.criterion import Criterion
from evenstream.core.drift import Drifting
from evenstream.core.edits import Follows
from evenstream.core.heads import Head
from evenstream.core.inputs import InputKind
from evenstream.core.known_table import KnownTable
from evenstream.core.labels import Label, LabelMap
from evenstream.core.memory import Memory
from evenstream.core.optimizers import OPTIMIZERS, OptimizerFactory, Scheduler, checked
from evenstream.core.passes import Passes
from evenstream.core.progress import Progress
from evenstream.core.randomness import Randomness
from evenstream.core.stateful import Stateful
from evenstream.core.tickets import Tickets
from evenstream.core.trained import Trained
from evenstream.errors import (
    InputError,
    LearningWarning,
    NonFiniteLoss,
    UnknownName,
    calling,
    shown,
)
from evenstream.interruption import let_through
from evenstream.numerals import LARGEST_FLOAT32
from evenstream.options import Options

FOLLOWS = "follows"
"""Marks an optimiser group that uses the learner's learning rate."""
RATIO = "ratio"
"""The learning rate of any other group of a named optimiser, as a multiple of the learner's."""


class PartState(Stateful, Protocol):
    """A method, teacher or rule, reduced to its state."""

    optimizers: dict[str, torch.optim.Optimizer]


class MethodState(PartState, Protocol):
    """A method, reduced to what its optimisers need."""

    modules: dict[str, nn.Module]

    @property
    def trained_groups(self) -> tuple[str, ...]:
        """What its loss is minimised over."""
        ...

    def on_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Called with every optimiser that the learner makes."""
        ...


class LearnerState:
    """The state of a learner. Everything that a save must hold is one of its `pieces`."""

    optional: ClassVar[frozenset[str]] = frozenset({"table", "tickets", "calibration", "drift"})
    """Pieces that a save lacks if their state is None, as saves before they existed do."""

    def __init__(
        self,
        options: Options,
        device: torch.device,
        *,
        method: MethodState,
        parts: Sequence[PartState],
        criterion: Criterion,
        head: Head,
        retrieval: object,
        capacity: int,
        stored: Mapping[str, Follows],
        if_not_finite: str,
        module: nn.Module | None,
        preprocess: Preprocess,
        optimizer_factory: OptimizerFactory | None,
    ) -> None:
        self.options, self.device = options, device
        self.optimizer_factory = optimizer_factory
        """The user's own factory, in place of a named optimiser."""
        self.method = method
        self.parts: Sequence[PartState] = parts
        """The method, its inference rule, its teacher if it has one."""
        self.criterion, self.head, self.retrieval = criterion, head, retrieval
        self.if_not_finite = if_not_finite
        """What to do first when the loss is not finite."""
        self.preprocess = preprocess
        self.memory = Memory(capacity, device, stored)
        self.randomness = Randomness(options.seed, device)
        self.label_map = LabelMap()
        self.progress = Progress()
        self.trained = Trained(module)
        self.passes = Passes()
        """Image passes since the learner was created or loaded, or since they were reset."""
        self.known_table = KnownTable()
        self.tickets = Tickets()
        """Inputs that were predicted and are waiting for their labels, with counts."""
        self.calibration = Calibration()
        """How familiar rows looked before they were learned."""
        self.drifting = Drifting()

    @property
    def pieces(self) -> dict[str, Stateful]:
        """All state, declared once: undone, saved, compared and loaded under these names.

        Loaded in this order: randomness comes after everything that may draw random numbers.
        """
        parts = {f"part{index}": part for index, part in enumerate(self.parts)}
        return {
            "labels": self.label_map,
            "progress": self.progress,
            "network": self.trained,
            "memory": self.memory,
            "table": self.known_table,
            "tickets": self.tickets,
            "calibration": self.calibration,
            "drift": self.drifting,
            "criterion": self.criterion,
            **parts,
            "randomness": self.randomness,
        }

    # ---- reading -------------------------------------------------------------------------------

    @property
    def built(self) -> bool:
        """Whether the network exists; it is created with the first batch."""
        return self.trained.exists

    @property
    def network(self) -> Classifier:
        """The classifier; raises an error before the first batch."""
        return self.trained.network

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The network's optimiser; raises an error before the first batch."""
        return self.trained.optimizer

    @property
    def input_kind(self) -> InputKind | None:
        """Shape and type of the inputs; None before the first batch."""
        return self.trained.input_kind

    @property
    def kind_of_inputs(self) -> InputKind:
        """The same, for parts that are set up once there is a network."""
        return self.trained.kind

    @property
    def rule(self) -> PartState:
        """The inference rule."""
        return self.parts[1]

    @property
    def labels(self) -> list[Label]:
        """Labels seen so far, in order of arrival: the columns of `predict_proba`."""
        return list(self.label_map)

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self.progress.step

    @property
    def task(self) -> int:
        """Index of the current task; -1 before the first `start_task`."""
        return self.progress.task

    @property
    def in_task(self) -> bool:
        """Whether a task is in progress."""
        return self.progress.in_task

    @property
    def task_counts(self) -> Mapping[Label, int] | None:
        """How often each label will occur in the task, if that was announced."""
        return self.progress.task_counts

    @property
    def softmax_over_all(self) -> bool:
        """Whether classes not seen yet are in the softmax."""
        return self.options.scope == "all"

    def copy_network(self) -> Classifier:
        """A frozen copy of the network in eval mode (teachers, averages)."""
        return frozen_copy(self.network)

    @property
    def decided(self) -> tuple[Any, ...]:
        """What the first batch may decide."""
        return ()

    def undecide(self, before: tuple[Any, ...]) -> None:
        """Restore what was `decided` before a batch that was rejected."""

    def before_change(self) -> None:
        """Called when a change of the state begins, which may be rejected."""

    def after_change(self) -> None:
        """Called when it is complete and can no longer be undone."""

    # ---- changing ------------------------------------------------------------------------------

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """An optimiser for a method's own modules, as configured."""
        own = {"backbone": [], "head": [], "method": list(parameters)}
        optimizer, scheduler = self._make_optimizer(own)
        if scheduler is not None:
            raise InputError(
                f"{type(scheduler).__name__} cannot be used for the modules of a method: return "
                'the optimizer alone if groups["method"] has parameters'
            )
        return optimizer

    def network_optimizer(
        self, network: Classifier
    ) -> tuple[torch.optim.Optimizer, Scheduler | None]:
        """The optimiser of the network, as configured."""
        backbone, head = list(network.backbone.parameters()), list(network.head.parameters())
        return self._make_optimizer({"backbone": backbone, "head": head, "method": []})

    def renew_optimizers(self) -> None:
        """New optimisers, without momentum or moments, for all that the method's loss trains.

        What a method trains otherwise, with an optimiser of its own choice, keeps it: the adaptor
        of ER-CBA and the students of PEC, as in their public codes.
        """
        optimizer, scheduler = self.network_optimizer(self.network)
        own = self.method.optimizers
        renewed = {
            name: self._renewed(own[name]) for name in self.method.trained_groups if name in own
        }
        self.trained.set(self.network, optimizer, self.kind_of_inputs, scheduler)
        own.update(renewed)

    def _renewed(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """A new optimiser for the same modules of the method, in the order of `on_setup`."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        modules = self.method.modules.values()
        every = (parameter for module in modules for parameter in module.parameters())
        return self.make_optimizer([each for each in every if id(each) in held])

    def _make_optimizer(
        self, groups: dict[str, list[nn.Parameter]]
    ) -> tuple[torch.optim.Optimizer, Scheduler | None]:
        chosen, own = self.options, self.optimizer_factory
        what = f"what makes the optimizer {chosen.optimizer!r}"
        with calling(what if own is None else "the function that makes the optimizer"):
            made = (
                own(groups)
                if own
                else OPTIMIZERS.find(chosen.optimizer)(
                    groups, lr=chosen.lr, momentum=chosen.momentum, weight_decay=chosen.weight_decay
                )
            )
        optimizer, scheduler = checked(made)
        self.method.on_optimizer(optimizer)
        if own is not None:
            _warn_of_left_out(groups, optimizer)
            return optimizer, scheduler
        for group in optimizer.param_groups:
            group[FOLLOWS] = scheduler is None and group["lr"] == chosen.lr
            ratio = group["lr"] / chosen.lr if chosen.lr else math.inf
            if scheduler is None and not group[FOLLOWS] and ratio <= LARGEST_FLOAT32:
                group[RATIO] = ratio
        return optimizer, scheduler

    def grow_head(self, rows: int) -> None:
        """Grow the head to at least `rows` rows, and the softmax to the classes seen so far."""
        self.trained.grow(rows, None if self.softmax_over_all else len(self.label_map))

    def about_to_change(
        self, parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer | None = None
    ) -> None:
        """Record weights, so that they can be restored if the current change is rejected.

        A method that changes weights other than through `update` must call this first; the
        optimiser defaults to the network's.
        """
        self.trained.about_to_change(parameters, optimizer or self.optimizer)

    def update(self, loss: Tensor, *groups: str, undoable: bool = True) -> float:
        """One backward pass and a step of each group's optimiser; the only place that does so.

        Args:
            loss: what to minimise; neither it nor its gradient may be infinite or NaN.
            groups: "network" (the default), "head", or names of the method's own optimisers.
            undoable: whether something may still reject the learner's step afterwards.

        Returns:
            The loss.
        """
        if not (isinstance(loss, Tensor) and loss.numel() == 1):
            raise InputError(f"a loss must be a tensor with one number in it, got {shown(loss)}")
        parts = [self._group(name) for name in groups or ("network",)]
        for optimizer, parameters in parts:
            if undoable:
                self.about_to_change(parameters, optimizer)
            for group in optimizer.param_groups:  # `zero_grad` goes through PyTorch's compiler
                for parameter in group["params"]:
                    parameter.grad = None
        trained = [p for _, parameters in parts for p in parameters]
        torch.autograd.backward(loss, inputs=trained)
        gradients = [p.grad for p in trained if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        value, size = torch.stack([loss.detach(), norm.to(loss)]).tolist()  # one device wait
        self._check_finite("loss", value)
        self._check_finite("gradient's norm", size)
        let_through()
        with calling("the optimizer"):
            for optimizer, _ in parts:
                optimizer.step()
        for parameter in trained:
            parameter.grad = None
        return float(value)

    def _check_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise NonFiniteLoss(
                f"the {what} is {value} at step {self.step + 1}; the step was not made. "
                f"{self.if_not_finite}, normalise the inputs, or go back to a checkpoint"
            )

    def _group(self, name: str) -> tuple[torch.optim.Optimizer, list[nn.Parameter]]:
        """The optimiser and the trainable parameters of a named group."""
        if name == "head":
            head = self.network.head
            return self.optimizer, [p for p in head.parameters() if p.requires_grad]
        own = self.method.optimizers
        if name != "network" and name not in own:
            raise UnknownName("group", name, ["network", "head", *own])
        optimizer = self.optimizer if name == "network" else own[name]
        parameters = [p for part in optimizer.param_groups for p in part["params"]]
        return optimizer, [p for p in parameters if p.requires_grad]


def _warn_of_left_out(groups: dict[str, list[nn.Parameter]], made: torch.optim.Optimizer) -> None:
    """Say which groups an optimiser of the user's own does not train completely."""
    held = {id(parameter) for group in made.param_groups for parameter in group["params"]}
    left_out = [
        repr(name)
        for name, parameters in groups.items()
        if any(each.requires_grad and id(each) not in held for each in parameters)
    ]
    if left_out:
        warnings.warn(
            f"the optimizer leaves out parameters of {' and '.join(left_out)}, which are not "
            "trained; if that is intended, set their requires_grad to False",
            LearningWarning,
            stacklevel=2,
        )
