"""The contract between the learner and a method, and the table of methods by name.

A simple method writes `loss` and nothing else. Everything else has a default: hooks for the rows
it trains on and stores, for what happens after the step and at task boundaries, and the slots
(retrieval, update, inference rule, criterion) that are written once and composed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from torch import Tensor

from evenstream.bounds import check_bounds
from evenstream.errors import InputError, UnknownName, shown
from evenstream.learner.heads import Head
from evenstream.learner.part import Need, Part
from evenstream.learner.rows import Rows
from evenstream.methods.adjustment import LogitAdjustment
from evenstream.options_text import named_in, option_types, read_options, write_options
from evenstream.slots.inference import ArgMax, InferenceRule, make_rule
from evenstream.slots.retrieval import Retrieval, Uniform
from evenstream.slots.teachers import Teacher
from evenstream.slots.updates import Reservoir, Update

if TYPE_CHECKING:
    from evenstream.learner.step import Step

M = TypeVar("M", bound="type[Method]")


@dataclass
class Method(Part):
    """Base of all methods. Typed fields of a subclass are its hyper-parameters."""

    name: ClassVar[str]
    citation: ClassVar[str] = ""
    cost: ClassVar[str] = ""
    """Forwards F(n) and backwards G(n) of how many images a step, b incoming and m replayed."""
    uses_memory: ClassVar[bool] = True
    trains_on_incoming: ClassVar[bool] = True
    """Whether the incoming rows are trained on before they are stored (not so for MRO, CLIB)."""
    logits_follow_criterion: ClassVar[bool] = True
    """Whether the logits are what the criterion makes them; False if another loss shapes them."""
    if_not_finite: ClassVar[str] = "Lower the learning rate"
    """What to do first when the loss is not finite."""

    def __init_subclass__(cls) -> None:
        """A method that is not registered is called like its class, not like the one it extends."""
        cls.name = cls.__dict__.get("name", cls.__name__)

    def __post_init__(self) -> None:
        super().__init__()
        check_bounds(self)
        self.in_use = False
        """Whether a learner has it, whose state it then holds a part of."""
        self.adjustment: LogitAdjustment | None = self.make_adjustment()
        self.head: Head = self.make_head()
        self.retrieval: Retrieval = self.make_retrieval()
        self.update: Update = self.make_update()
        self.teacher: Teacher | None = self.make_teacher()
        self.inference: InferenceRule = self.make_inference()

    # ---- slots -------------------------------------------------------------------------------

    def make_retrieval(self) -> Retrieval:
        """The retrieval rule (default: uniform)."""
        return Uniform()

    def make_update(self) -> Update:
        """The memory's update rule (default: reservoir)."""
        return Reservoir()

    def make_teacher(self) -> Teacher | None:
        """The network to distil from (default: none)."""
        return None

    def make_inference(self) -> InferenceRule:
        """The inference rule (default: argmax of the logits)."""
        return ArgMax()

    def make_head(self) -> Head:
        """The head on the features (default: linear)."""
        return Head()

    def make_adjustment(self) -> LogitAdjustment | None:
        """The logit adjustment that the method has without `-las` (default: none)."""
        return None

    # ---- properties that are constants in most methods ---------------------------------------

    @property
    def memory_first(self) -> bool:
        """Whether the memory takes in the batch before the step trains (CLIB)."""
        return False

    @property
    def trained_groups(self) -> tuple[str, ...]:
        """What `loss` is minimised over: the network, and the method's own optimisers by name."""
        return ("network",)

    @property
    def why_not_las(self) -> str | None:
        """Why a `-las` form makes no sense; None if there is one."""
        return None

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

    @property
    def all_needs(self) -> frozenset[Need]:
        """What the stream must provide for the method, its criterion, rule and teacher."""
        needs = self.needs | self.inference.needs
        if self.adjustment is not None:
            needs |= self.adjustment.needs
        return needs | self.teacher.needs if self.teacher else needs

    @property
    def why_not(self) -> str | None:
        """Why the method makes no sense with the head or rule that it was given; None if it does.

        A rule says by `why_not_with` which methods it makes no sense with.
        """
        return None

    def check(self) -> None:
        """Refuse needs that there are not, a head or rule that makes no sense, and a second use."""
        for need in self.all_needs:
            if need not in get_args(Need):
                raise UnknownName(f"need of {self.spec}", need, get_args(Need))
        reason = self.why_not or self.inference.why_not_with(self)
        if reason is not None:
            raise InputError(f"{self.spec} makes no sense: {reason}")
        if self.in_use:
            raise InputError(
                f"this {self.spec} belongs to another learner, and its state with it; make a new "
                "one for each learner"
            )

    # ---- names -------------------------------------------------------------------------------

    @property
    def spec(self) -> str:
        """How the method is written: NAME[:key=value,...][@RULE], all that is not default."""
        written = [write_options(self)]
        name = self.name
        if self.adjustment is not None and self.adjustment != self.make_adjustment():
            name += "-las"
            written.append(write_options(self.adjustment))
        written.append(write_options(self.head, self.make_head()))
        options = ",".join(filter(None, written))
        rule = self.inference.spec
        own = rule == self.make_inference().spec
        return name + (f":{options}" if options else "") + ("" if own else f"@{rule}")


METHODS: dict[str, type[Method]] = {}


def register(name: str) -> Callable[[M], M]:
    """Make a method known by name; its `-las` form comes with it.

    Raises:
        InputError: the name could not be written on a command line, or an option has no default or
            the name of one that every head has.
    """
    known = isinstance(name, str) and re.fullmatch(r"[a-z0-9][a-z0-9_.+-]*", name)
    if not known or name.endswith("-las"):
        raise InputError(
            f"a method cannot be called {shown(name)}: use a-z, 0-9, - and +, and no -las at the "
            "end, which stands for Logit Adjusted Softmax"
        )

    def add(cls: M) -> M:
        if not (isinstance(cls, type) and issubclass(cls, Method)):
            raise InputError(f"a method must be a class made from Method, got {shown(cls)}")
        for field in fields(cls):
            if field.default is MISSING and field.default_factory is MISSING:
                raise InputError(f"option {field.name!r} of method {name} needs a default")
        _refuse_shared(name, option_types(cls), option_types(Head), "its head")
        return named_in(METHODS, "a method", name)(cls)

    return add


def _refuse_shared(name: str, own: Iterable[str], other: Iterable[str], whose: str) -> None:
    for option in own:
        if option in other:
            raise InputError(
                f"option {option!r} of method {name} is one of {whose}, too; give it another name"
            )


ALIASES = {"las": "fine-tune-las"}
"""Other names of methods: the paper calls Logit Adjusted Softmax without memory LAS."""


def method_names() -> list[str]:
    """All names that `make_method` knows, `-las` forms and other names included."""
    plain = sorted(METHODS)
    adjusted = [f"{name}-las" for name in plain if METHODS[name]().why_not_las is None]
    return [*plain, *adjusted, *ALIASES]


def make_method(spec: str | Method) -> Method:
    """Build a method from `NAME[:key=value,...][@RULE]`, as in `er-las:tau=inf,window=5@ncm`.

    Options are the method's own, those of its head, and with `-las` those of the adjustment. One
    that is made already is only checked.
    """
    if isinstance(spec, Method):
        spec.check()
        return spec
    if not isinstance(spec, str):
        raise InputError(f"method must be a method or its name, got {shown(spec)}")
    written, at, rule = spec.partition("@")
    name, _, text = written.partition(":")
    name = ALIASES.get(name, name)
    adjusted = name not in METHODS and name.endswith("-las")
    cls = METHODS.get(name.removesuffix("-las") if adjusted else name)
    if cls is None:
        raise UnknownName("method", name, method_names())
    own, las, head = option_types(cls), option_types(LogitAdjustment), option_types(Head)
    types = own | las | head if adjusted else own | head
    values = read_options("method", name, text, types, dict.fromkeys(las, f"{name}-las"))
    method = cls(**_taken(values, own))
    method.head = _other_head(method.head, **_taken(values, head))
    if adjusted:
        if method.why_not_las is not None:
            raise InputError(f"{name} makes no sense: {method.why_not_las}")
        _refuse_shared(method.name, own, las, "its -las form")
        method.adjustment = LogitAdjustment(**values)
    if at:
        method.inference = make_rule(rule)
    method.check()
    return method


def _other_head(own: Head, **options: Any) -> Head:
    """A method's own head with other options; a head of another kind begins with its defaults."""
    return replace(own if options.get("head", own.head) == own.head else Head(), **options)


def _taken(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Take the values of these names out."""
    return {name: values.pop(name) for name in names if name in values}
