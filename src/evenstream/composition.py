"""What a learner is composed of, as objects and as text.

`mir-las:subsample=64,tau=2@ema` is the method MIR with its options, Logit Adjusted Softmax in
place of cross-entropy, and predictions by a moving average. `compose` makes the objects from text
or takes them as they are, `Composition.text` writes them down again: in one way only, whatever
was typed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from evenstream.core.criterion import Need
from evenstream.core.heads import HEADS, Head
from evenstream.core.part import Part
from evenstream.errors import InputError, UnknownName, shown
from evenstream.methods import METHODS, Method
from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
from evenstream.policies.priors import (
    ExponentialWindow,
    MacroPrior,
    PriorEstimator,
    RandomPrior,
    SlidingWindow,
)
from evenstream.policies.retrieval import Retrieval
from evenstream.policies.rules import RULES, InferenceRule
from evenstream.policies.storing import Storing
from evenstream.text import (
    LAS,
    MethodText,
    join_options,
    option_types,
    read_options,
    split_options,
    write_options,
)

ALIASES = {"las": "fine-tune-las"}
"""Other names of methods: the paper calls Logit Adjusted Softmax without memory LAS."""


@dataclass(frozen=True)
class LogitAdjustment:
    """The options behind `-las`: Logit Adjusted Softmax as it is written."""

    tau: float = 1.0
    """Strength of the adjustment; 0 is plain cross-entropy, inf the paper's ablation."""
    window: int = 1
    """Batches that the class prior is counted over (prior=window)."""
    prior: Literal["window", "exponential", "random", "macro"] = "window"
    """Estimator of the class prior; random and macro are the paper's ablations."""
    decay: float = 0.9
    """How much of the counts is kept at each batch (prior=exponential)."""
    redraw: int = 1
    """Steps between two draws of the prior (prior=random); the paper does not say how many."""

    def build(self) -> LogitAdjustedSoftmax:
        """The criterion."""
        estimators: dict[str, PriorEstimator] = {
            "window": SlidingWindow(self.window),
            "exponential": ExponentialWindow(self.decay),
            "random": RandomPrior(redraw=self.redraw),
            "macro": MacroPrior(),
        }
        return LogitAdjustedSoftmax(tau=self.tau, prior=estimators[self.prior])

    @classmethod
    def of(cls, criterion: CrossEntropy) -> LogitAdjustment | None:
        """How a criterion is written; None if it cannot be, as it is of another kind."""
        if type(criterion) is not LogitAdjustedSoftmax or criterion.reduction != "mean":
            return None
        prior, tau = criterion.prior, criterion.tau
        if type(prior) is SlidingWindow:
            return cls(tau, prior.window)
        if type(prior) is ExponentialWindow:
            return cls(tau, prior="exponential", decay=prior.decay)
        if type(prior) is RandomPrior and prior.seed is None:
            return cls(tau, prior="random", redraw=prior.redraw)
        return cls(tau, prior="macro") if type(prior) is MacroPrior else None


@dataclass(frozen=True)
class Composition:
    """The parts of a learner that decide how it learns and predicts."""

    method: Method
    criterion: CrossEntropy
    head: Head
    rule: InferenceRule
    retrieval: Retrieval
    storing: Storing

    @property
    def parts(self) -> list[Part]:
        """Everything with hooks: the method, its rule, its teacher."""
        teacher = self.method.teacher
        return [self.method, self.rule, *([teacher] if teacher else [])]

    @property
    def needs(self) -> frozenset[Need]:
        """What the stream must provide."""
        return self.criterion.needs.union(*(part.needs for part in self.parts))

    def check(self) -> None:
        """Reject unknown needs, and parts that do not go together."""
        for need in self.needs:
            if need not in get_args(Need):
                raise UnknownName(f"need of {self.text}", need, get_args(Need))
        reason = self.method.why_not(self.head, self.rule)
        reason = reason or self.rule.why_not_with(self.criterion, self.head)
        if reason is not None:
            raise InputError(f"{self.text} makes no sense: {reason}")

    @property
    def text(self) -> str:
        """NAME[:key=value,...][@RULE] with all that is not default and can be written."""
        method, name = self.method, self.method.name
        own_criterion, own_rule = method.make_criterion(), method.make_rule()
        adjustment = LogitAdjustment.of(self.criterion)
        written = [write_options(method)]
        if adjustment is not None and adjustment != LogitAdjustment.of(own_criterion):
            name += LAS
            written.append(write_options(adjustment))
        written.append(_head_text(self.head, method.make_head()))
        rule = None
        if rule_text(self.rule) not in ("", rule_text(own_rule)):
            rule = rule_text(self.rule)
        return str(MethodText(name, ",".join(filter(None, written)), rule))

    @property
    def unwritten(self) -> dict[str, str]:
        """Parts that the text cannot express, each by where its class is defined.

        They are never saved: whoever loads the learner gives them again.
        """
        own = self.method
        found: dict[str, object] = {}
        if METHODS.get(own.name) is not type(own):
            found["method"] = own
        plain = type(self.criterion) is CrossEntropy and self.criterion.reduction == "mean"
        if not plain and LogitAdjustment.of(self.criterion) is None:
            found["criterion"] = self.criterion
        if HEADS.get(getattr(self.head, "name", "")) is not type(self.head):
            found["head"] = self.head
        if not rule_text(self.rule) and type(self.rule) is not type(own.make_rule()):
            found["predict"] = self.rule
        if self.retrieval is not own.retrieval:
            found["retrieval"] = self.retrieval
        if self.storing is not own.storing:
            found["storing"] = self.storing
        return {name: import_path(type(part)) for name, part in found.items()}


def compose(
    method: str | Method,
    *,
    criterion: CrossEntropy | None = None,
    head: Head | None = None,
    predict: InferenceRule | str | None = None,
    retrieval: Retrieval | None = None,
    storing: Storing | None = None,
) -> Composition:
    """Put parts together; those that are not given are the method's own.

    Raises:
        UnknownName: no method or rule has that name.
        InputError: an option cannot be used, a part is given twice, or parts do not go together.
    """
    if not isinstance(method, (str, Method)):
        raise InputError(
            f"method must be a name such as 'er-las' or a method such as methods.ER(), "
            f"got {shown(method)}"
        )
    read = read_method(method) if isinstance(method, str) else _own(method)
    if isinstance(method, str):
        text = MethodText.read(method)
        for given, said, what in (
            (criterion, text.adjusted, "-las"),
            (predict, text.rule is not None, f"@{text.rule}"),
            (head, isinstance(method, str) and read.head != read.method.make_head(), "head="),
        ):
            if given is not None and said:
                raise InputError(f"{method} says {what} already; leave one of the two out")
    given_parts: dict[str, Any] = {
        "criterion": criterion,
        "head": head,
        "rule": read_rule(predict) if isinstance(predict, str) else predict,
        "retrieval": retrieval,
        "storing": storing,
    }
    composition = replace(read, **{k: part for k, part in given_parts.items() if part is not None})
    composition.check()
    return composition


def _own(method: Method) -> Composition:
    """A method with nothing but its own parts."""
    return Composition(
        method,
        method.make_criterion(),
        method.make_head(),
        method.make_rule(),
        method.retrieval,
        method.storing,
    )


def read_method(text: str, cls: type[Method] | None = None) -> Composition:
    """`NAME[:key=value,...][@RULE]`, as in `er-las:tau=inf,window=5@ncm`.

    Options are the method's own, those of its head, and with `-las` those of the adjustment.

    Args:
        text: what to read.
        cls: what the name means, if it is a method that is not registered.
    """
    said = MethodText.read(text)
    said = replace(said, name=ALIASES.get(said.name, said.name))
    adjusted = said.name not in METHODS and said.adjusted
    cls = cls or METHODS.get(said.plain_name if adjusted else said.name)
    if cls is None:
        raise UnknownName("method", said.name, method_names(), METHODS.hint)
    own, las, head = option_types(cls), option_types(LogitAdjustment), head_options()
    types = own | las | head if adjusted else own | head
    hints = dict.fromkeys(las, f"{said.name}{LAS}")
    values = read_options("method", said.name, said.options, types, hints)
    composition = _own(cls(**_taken(values, own)))
    composition = replace(composition, head=_other_head(composition.head, _taken(values, head)))
    if adjusted:
        if composition.method.why_not_las is not None:
            raise InputError(f"{said.name} makes no sense: {composition.method.why_not_las}")
        refuse_shared(said.plain_name, own, las, f"its {LAS} form")
        composition = replace(composition, criterion=LogitAdjustment(**values).build())
    if said.rule is not None:
        composition = replace(composition, rule=read_rule(said.rule))
    return composition


def method_names() -> list[str]:
    """All names that `compose` knows, `-las` forms and other names included."""
    plain = sorted(METHODS)
    adjusted = [name + LAS for name in plain if METHODS[name]().why_not_las is None]
    return [*plain, *adjusted, *ALIASES]


# ---- rules and heads ----------------------------------------------------------------------------


def read_rule(text: str) -> InferenceRule:
    """A rule from `NAME[:key=value,...]`."""
    name, options = split_options(text)
    if name not in RULES:
        raise UnknownName("inference rule", name, RULES)
    return RULES[name](**read_options("inference rule", name, options, option_types(RULES[name])))


def rule_text(rule: InferenceRule) -> str:
    """How a rule is written; nothing if it is not registered."""
    return join_options(rule.name, write_options(rule)) if rule.name else ""


def head_options() -> dict[str, Any]:
    """Options of every method that say which head it has: `head`, and those of all heads."""
    every: dict[str, Any] = {"head": Literal[tuple(HEADS)]}
    for cls in HEADS.values():
        every |= {f"head_{option}": kind for option, kind in option_types(cls).items()}
    return every


def _other_head(own: Head, options: dict[str, Any]) -> Head:
    """A method's own head with other options; a head of another kind begins with its defaults."""
    name = options.pop("head", own.name)
    head = own if name == own.name else HEADS[name]()
    known = option_types(type(head))
    values = {option.removeprefix("head_"): value for option, value in options.items()}
    for option in values:
        if option not in known:
            owners = [n for n, cls in HEADS.items() if option in option_types(cls)]
            raise InputError(f"head_{option} is an option of head={' or head='.join(owners)}")
    return replace(head, **values)


def _head_text(head: Head, own: Head) -> str:
    """What is not as in the method's own head; nothing for a head that cannot be written."""
    if HEADS.get(getattr(head, "name", "")) is not type(head) or head == own:
        return ""
    same = type(head) is type(own)
    written = write_options(head, own if same else None)
    options = ",".join(f"head_{option}" for option in written.split(",") if option)
    return ",".join(filter(None, ["" if same else f"head={head.name}", options]))


# ---- helpers ------------------------------------------------------------------------------------


def refuse_shared(name: str, own: Iterable[str], other: Iterable[str], whose: str) -> None:
    """Refuse an option that two owners would have under one name."""
    for option in own:
        if option in other:
            raise InputError(
                f"option {option!r} of method {name} is one of {whose}, too; give it another name"
            )


def import_path(thing: Any) -> str:
    """Where a class or function is defined: MODULE:NAME."""
    named = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


def _taken(values: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Take the values of these names out."""
    return {name: values.pop(name) for name in names if name in values}
