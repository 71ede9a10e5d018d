"""The contract between the learner and a method, and the table of methods by name.

A simple method writes `loss` and nothing else. Everything else has a default: hooks for the rows
it trains on and stores, for what happens after the step and at task boundaries, and the slots
(retrieval, update, inference rule, criterion) that are written once and composed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from evenstream.errors import InputError, UnknownName
from evenstream.learner.classifier import Classifier
from evenstream.learner.optimizers import load_optimizer_state, optimizer_state
from evenstream.learner.rows import Rows
from evenstream.methods.adjustment import LogitAdjustment
from evenstream.methods.bounds import check_bounds
from evenstream.options_text import option_types, read_options, write_options
from evenstream.slots.inference import ArgMax, InferenceRule
from evenstream.slots.retrieval import Retrieval, Uniform
from evenstream.slots.updates import Reservoir, Update

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner
    from evenstream.learner.step import Step

Need = Literal["boundaries", "label_counts", "memory", "second_pass", "shuffled"]
"""What a method may need: `boundaries`, start_task and end_task are called; `label_counts`,
start_task gets the task's label counts; `memory`, a capacity above 0; `second_pass`, the task
hooks get the task's data; `shuffled`, the stream arrives in random order."""

M = TypeVar("M", bound="type[Method]")


@dataclass(frozen=True)
class TaskData:
    """A task's training data, handed to task hooks only by protocols that may look twice."""

    raw: Tensor
    y: Tensor


@dataclass
class Method:
    """Base of all methods. Typed fields of a subclass are its hyper-parameters."""

    name: ClassVar[str]
    citation: ClassVar[str] = ""
    cost: ClassVar[str] = ""
    """Forwards F(n) and backwards G(n) of how many images a step, b incoming and m replayed."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    uses_memory: ClassVar[bool] = True
    trains_on_incoming: ClassVar[bool] = True
    """Whether the incoming rows are trained on before they are stored (not so for MRO, CLIB)."""
    memory_first: ClassVar[bool] = False
    """Whether the memory takes in the batch before the step trains (CLIB)."""
    trained_groups: ClassVar[tuple[str, ...]] = ("network",)
    """What `loss` is minimised over: the network, and optimisers of the method's own by name."""
    why_not_las: ClassVar[str | None] = None
    """Why a `-las` form makes no sense; None if there is one."""
    logits_follow_criterion: ClassVar[bool] = True
    """Whether the logits are what the criterion makes them; False if another loss shapes them."""

    def __post_init__(self) -> None:
        check_bounds(self)
        self.adjustment: LogitAdjustment | None = None
        self.retrieval: Retrieval = self.make_retrieval()
        self.update: Update = self.make_update()
        self.inference: InferenceRule = self.make_inference()
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.tensors: dict[str, Tensor] = {}

    # ---- slots -------------------------------------------------------------------------------

    def make_retrieval(self) -> Retrieval:
        """The retrieval rule (default: uniform)."""
        return Uniform()

    def make_update(self) -> Update:
        """The memory's update rule (default: reservoir)."""
        return Reservoir()

    def make_inference(self) -> InferenceRule:
        """The inference rule (default: argmax of the logits)."""
        return ArgMax()

    # ---- the step ----------------------------------------------------------------------------

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The groups of rows this step trains on; default: the batch and one replayed batch.

        The criterion observes their labels, all of them, once, right after this call.
        """
        return [step.incoming, step.retrieve()]

    def loss(self, step: Step) -> Tensor | None:
        """The loss to minimise; None makes no update. The one thing a method must write."""
        raise NotImplementedError

    def stored_rows(self, step: Step) -> Tensor | None:
        """Which incoming rows are offered to the memory (indices); None means all."""
        return None

    def after_step(self, step: Step) -> None:
        """After the update, before the memory takes in the batch (second steps, averages)."""

    # ---- the stream --------------------------------------------------------------------------

    def on_setup(self, learner: Learner) -> None:
        """Once, when the network exists: make modules and optimisers of the method's own."""

    def on_new_classes(self, learner: Learner, first: int) -> None:
        """Classes `first`, `first + 1`, ... have just been added to the head."""

    def on_task_start(self, learner: Learner, data: TaskData | None) -> Tensor | None:
        """A task begins; data only in protocols that may look ahead.

        May return the rows of `data` to train on (the others are held out); None means all.
        """
        return None

    def on_task_end(self, learner: Learner, data: TaskData | None) -> None:
        """A task is over; data only in protocols that may look twice."""

    # ---- the method's own state --------------------------------------------------------------

    def rebuild_module(self, learner: Learner, name: str) -> nn.Module:
        """An empty module to load a saved one into, if `on_setup` did not make it (teachers)."""
        return learner.copy_network()

    def state(self) -> dict[str, Any]:
        """Modules, optimisers and tensors: saved and restored with the learner."""
        return {
            "modules": {name: dict(m.state_dict()) for name, m in self.modules.items()},
            "widths": {n: m.width for n, m in self.modules.items() if isinstance(m, Classifier)},
            "optimizers": {name: optimizer_state(o) for name, o in self.optimizers.items()},
            "tensors": dict(self.tensors),
        }

    def load_state(self, state: dict[str, Any], learner: Learner) -> None:
        """Put modules, optimisers and tensors back."""
        for name, saved in state["modules"].items():
            if name not in self.modules:
                self.modules[name] = self.rebuild_module(learner, name)
            self.modules[name].load_state_dict(saved)
        for name, width in state.get("widths", {}).items():
            self.modules[name].width = width
        for name, saved in state["optimizers"].items():
            load_optimizer_state(self.optimizers[name], saved)
        self.tensors = {n: t.to(learner.device, copy=True) for n, t in state["tensors"].items()}

    # ---- names -------------------------------------------------------------------------------

    @property
    def spec(self) -> str:
        """How the method is written: NAME[:key=value,...] with everything that is not default."""
        written = [write_options(self)]
        name = self.name
        if self.adjustment is not None:
            name += "-las"
            written.append(write_options(self.adjustment))
        options = ",".join(filter(None, written))
        return f"{name}:{options}" if options else name


METHODS: dict[str, type[Method]] = {}


def register(name: str) -> Callable[[M], M]:
    """Make a method known by name; its `-las` form comes with it."""

    def add(cls: M) -> M:
        if name in METHODS and METHODS[name].__qualname__ != cls.__qualname__:
            raise InputError(f"a method named {name!r} is registered already")
        cls.name = name
        METHODS[name] = cls
        return cls

    return add


def method_names() -> list[str]:
    """All names that `make_method` knows, `-las` forms included."""
    plain = sorted(METHODS)
    return plain + [f"{name}-las" for name in plain if METHODS[name]().why_not_las is None]


def make_method(spec: str) -> Method:
    """Build a method from `NAME[:key=value,...]`, as in `er-las:tau=inf,window=5`."""
    name, _, text = spec.partition(":")
    adjusted = name not in METHODS and name.endswith("-las")
    cls = METHODS.get(name.removesuffix("-las") if adjusted else name)
    if cls is None:
        raise UnknownName("method", name, method_names())
    own, las = option_types(cls), option_types(LogitAdjustment)
    types = own | las if adjusted else own
    values = read_options("method", name, text, types, dict.fromkeys(las, f"{name}-las"))
    method = cls(**{key: values.pop(key) for key in own if key in values})
    if adjusted:
        if method.why_not_las is not None:
            raise InputError(f"{name} makes no sense: {method.why_not_las}")
        method.adjustment = LogitAdjustment(**values)
    return method
