"""The composition of a learner, as objects and as text.

`mir-las:subsample=64,tau=2@ema` is the method MIR with its options, Logit Adjusted Softmax in
place of cross-entropy, and predictions by a moving average. `compose` creates the objects from text
or takes them as given; `Composition.text` turns them into canonical text again, whatever was typed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any, Literal, get_args

from torch import nn

from evenstream.choosing import ALIASES, meant_by
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
from evenstream.policies.storing import STORING, Reservoir, Storing
from evenstream.text import (
    LAS,
    MethodText,
    join_options,
    las_form,
    option_types,
    read_options,
    split_options,
    write_options,
)


@dataclass(frozen=True)
class LogitAdjustment:
    """The options of `-las` forms: Logit Adjusted Softmax in text."""

    tau: float = 1.0
    """Strength of the adjustment; 0 is plain cross-entropy, inf the paper's ablation."""
    window: int = 1
    """Number of batches over which the class prior is counted (prior=window)."""
    prior: Literal["window", "exponential", "random", "macro"] = "window"
    """Estimator of the class prior; random and macro are the paper's ablations."""
    decay: float = 0.9
    """Share of the counts kept at each batch (prior=exponential)."""
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
        """The text form of a criterion; None if it is of another kind and has none."""
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
    """The parts of a learner that determine how it learns and predicts."""

    method: Method
    criterion: CrossEntropy
    head: Head
    rule: InferenceRule
    retrieval: Retrieval
    storing: Storing

    @property
    def parts(self) -> list[Part]:
        """Everything with state: the method, its rule, its teacher, and their sub-parts."""
        teacher = self.method.teacher
        own: list[Part] = [self.method, self.rule, *([teacher] if teacher else [])]
        return [*own, *(inner for part in own for inner in part.inner)]

    @property
    def needs(self) -> frozenset[Need]:
        """What they need from the stream."""
        return self.criterion.needs.union(*(part.needs for part in self.parts))

    def check(self) -> None:
        """Reject unknown needs, and parts that do not go together."""
        for need in self.needs:
            if need not in get_args(Need):
                raise UnknownName(f"need of {self.text}", need, get_args(Need))
        exits = self.method.why_not_exits if self.head.with_exits else None
        reason = exits or self.method.why_not(self.head, self.rule)
        reason = reason or self.rule.why_not_with(self.criterion, self.head)
        reason = reason or _why_not_storing(self.method, self.storing)
        if reason is not None:
            raise InputError(f"{self.text} makes no sense: {reason}")
        own, adjustment = self.method.make_criterion(), LogitAdjustment.of(self.criterion)
        same = adjustment is not None and adjustment == LogitAdjustment.of(own)
        if isinstance(self.criterion, LogitAdjustedSoftmax) and not same:
            _check_las(self.method, has_text=adjustment is not None)

    @property
    def text(self) -> str:
        """NAME[:key=value,...][@RULE] with everything that is not default and has a text form."""
        method, name = self.method, self.method.name
        own_criterion, own_rule = method.make_criterion(), method.make_rule()
        adjustment = LogitAdjustment.of(self.criterion)
        written = [write_options(method)]
        if adjustment is not None and adjustment != LogitAdjustment.of(own_criterion):
            name = las_form(name)
            written.append(write_options(adjustment))
        written.append(_head_text(self.head, method.make_head()))
        if type(self.storing) is not type(method.storing) and storing_name(self.storing):
            written.append(f"storing={storing_name(self.storing)}")
        rule = None
        if rule_text(self.rule) not in ("", rule_text(own_rule)):
            rule = rule_text(self.rule)
        return str(MethodText(name, ",".join(filter(None, written)), rule))

    @property
    def unwritten(self) -> dict[str, object]:
        """Parts that the text cannot express.

        They are never saved and must be passed again when loading the learner.
        """
        own = self.method
        found: dict[str, object] = {}
        if METHODS.get(own.name) is not type(own):
            found["method"] = own
        plain = _is_plain(self.criterion) and _is_plain(own.make_criterion())
        if not plain and LogitAdjustment.of(self.criterion) is None:
            found["criterion"] = self.criterion
        if HEADS.get(getattr(self.head, "name", "")) is not type(self.head):
            found["head"] = self.head
        rule = own.make_rule()
        as_own = type(self.rule) is type(rule) and settings_of(self.rule) == settings_of(rule)
        if not rule_text(self.rule) and not as_own:
            found["predict"] = self.rule
        if not _alike(self.retrieval, own.retrieval):
            found["retrieval"] = self.retrieval
        if not _alike(self.storing, own.storing) and not storing_name(self.storing):
            found["storing"] = self.storing
        return found


def compose(
    method: str | Method,
    *,
    criterion: CrossEntropy | None = None,
    head: Head | None = None,
    predict: InferenceRule | str | None = None,
    retrieval: Retrieval | None = None,
    storing: Storing | None = None,
) -> Composition:
    """Put parts together; those not given default to the method's own.

    Raises:
        UnknownName: no method or rule has that name.
        InputError: an option cannot be used, a part is given twice, or parts do not go together.
    """
    if not isinstance(method, (str, Method)):
        raise InputError(
            f"method must be a name such as 'er-las' or a method such as methods.ER(), "
            f"got {shown(method)}"
        )
    _check_kind("criterion", criterion, CrossEntropy, "LogitAdjustedSoftmax()")
    _check_kind("head", head, Head, "heads.Cosine()")
    _check_kind("retrieval", retrieval, Retrieval, "retrieval.Uniform()")
    _check_kind("storing", storing, Storing, "storing.Reservoir()")
    if not isinstance(predict, str):
        _check_kind("predict", predict, InferenceRule, "rules.MovingAverage(), or a rule's name")
    read = read_method(method) if isinstance(method, str) else _own(method)
    if isinstance(method, str):
        text = MethodText.read(method)
        for given, said, what in (
            (criterion, text.adjusted, "-las"),
            (predict, text.rule is not None, f"@{text.rule}"),
            (head, isinstance(method, str) and read.head != read.method.make_head(), "head="),
        ):
            if given is not None and said:
                raise InputError(f"{method} already sets {what}; leave one of the two out")
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
    """A method with its own parts."""
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
        text: the text to read.
        cls: the class that the name refers to, for an unregistered method.
    """
    said = meant_by(MethodText.read(text))
    adjusted = said.name not in METHODS and said.adjusted
    cls = cls or METHODS.get(said.plain_name if adjusted else said.name)
    if cls is None:
        raise UnknownName("method", said.name, method_names(), METHODS.hint)
    own, las, head = option_types(cls), option_types(LogitAdjustment), shared_options()
    types = own | las | head if adjusted else own | head
    hints = dict.fromkeys(las, las_form(said.name))
    values = read_options("method", said.name, said.options, types, hints)
    composition = _own(cls(**_taken(values, own)))
    shared = _taken(values, head)
    storing = shared.pop("storing", None)
    composition = replace(composition, head=_other_head(composition.head, shared))
    if storing is not None:
        made = STORING[storing]()
        if type(made) is not type(composition.storing):
            composition = replace(composition, storing=made)
    if adjusted:
        _check_las(composition.method)
        composition = replace(composition, criterion=LogitAdjustment(**values).build())
    if said.rule is not None:
        composition = replace(composition, rule=read_rule(said.rule))
    return composition


def method_names() -> list[str]:
    """All names that `compose` knows, including `-las` forms and aliases."""
    plain = sorted(METHODS)
    adjusted = [las_form(name) for name in plain if METHODS[name]().why_not_las is None]
    return [*plain, *adjusted, *ALIASES]


# ---- rules and heads ----------------------------------------------------------------------------


def read_rule(text: str) -> InferenceRule:
    """A rule from `NAME[:key=value,...]`."""
    name, options = split_options(text)
    if name not in RULES:
        raise UnknownName("inference rule", name, RULES)
    return RULES[name](**read_options("inference rule", name, options, option_types(RULES[name])))


def rule_text(rule: InferenceRule) -> str:
    """The text form of a rule; empty if it is not registered."""
    return join_options(rule.name, write_options(rule)) if rule.name else ""


def shared_options() -> dict[str, Any]:
    """Options of every method: its head, with the options of all heads, and how it stores."""
    every: dict[str, Any] = {"head": Literal[tuple(HEADS)], "storing": Literal[tuple(STORING)]}
    for cls in HEADS.values():
        every |= {f"head_{option}": kind for option, kind in option_types(cls).items()}
    return every


def _other_head(own: Head, options: dict[str, Any]) -> Head:
    """A method's own head with other options; a different head starts with its defaults."""
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
    """What differs from the method's own head; empty for a head without a text form."""
    if HEADS.get(getattr(head, "name", "")) is not type(head) or head == own:
        return ""
    same = type(head) is type(own)
    options = write_options(head, own if same else None, prefix="head_")
    return ",".join(filter(None, ["" if same else f"head={head.name}", options]))


def storing_name(storing: Storing) -> str:
    """The text form of a storing policy; empty if it has none."""
    return next((name for name, cls in STORING.items() if type(storing) is cls), "")


def _why_not_storing(method: Method, storing: Storing) -> str | None:
    """Why a storing policy by name makes no sense for a method; None if it does."""
    if storing is method.storing or not storing_name(storing):
        return None
    if not method.uses_memory:
        return f"{method.name} uses no memory, so there is nothing to store"
    if type(method.storing) is not Reservoir:
        return f"{method.name} chooses what it stores in its own way"
    return None


# ---- helpers ------------------------------------------------------------------------------------


def _check_kind(name: str, part: Any, kind: type, example: str) -> None:
    """Reject anything that is not a part, or a part of the wrong kind."""
    if part is not None and not isinstance(part, kind):
        raise InputError(
            f"{name} must derive from the class {kind.__name__}, such as {example}, got "
            f"{shown(part)}"
        )


def _is_plain(criterion: CrossEntropy) -> bool:
    """Whether it is what a method has if nothing else is said."""
    return type(criterion) is CrossEntropy and criterion.reduction == "mean"


def _alike(part: Retrieval | Storing, own: Retrieval | Storing) -> bool:
    """Whether a policy is a method's own, or another of its kind that has no settings."""
    return part is own or (type(part) is type(own) and not vars(part) and not vars(own))


def _check_las(method: Method, has_text: bool = True) -> None:
    """Reject Logit Adjusted Softmax if the method has no `-las` form, or no text for it."""
    if method.why_not_las is not None:
        raise InputError(f"{las_form(method.name)} makes no sense: {method.why_not_las}")
    shared = option_types(type(method)).keys() & option_types(LogitAdjustment) if has_text else ()
    for option in sorted(shared):
        raise InputError(
            f"option {option!r} of method {method.name} is also one of its {LAS} form; choose "
            "another name"
        )


def import_path(thing: Any) -> str:
    """Where a function, or the class of an object, is defined: MODULE:NAME."""
    if isinstance(thing, partial):
        return import_path(thing.func)
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


def settings_of(thing: object) -> str:
    """The settings of a user's own part, as far as they can be compared as text."""
    if isinstance(thing, nn.Module):
        return thing.extra_repr()
    values: Mapping[str, Any] = {}
    if isinstance(thing, partial):
        values = thing.keywords
    elif is_dataclass(thing) and not isinstance(thing, type):
        values = {field.name: getattr(thing, field.name) for field in fields(thing)}
    plain = {name: v for name, v in values.items() if isinstance(v, (int, float, str, tuple))}
    return ", ".join(f"{name}={value!r}" for name, value in plain.items())


def held_by(thing: object) -> str:
    """The plain values that a function has from where it was defined, in order."""
    if isinstance(thing, partial):
        return _joined([*map(_plain_text, thing.args), held_by(thing.func)])
    if not isinstance(thing, FunctionType):
        return ""
    values = {n: p.default for n, p in inspect.signature(thing).parameters.items()}
    with suppress(ValueError):  # a variable without a value yet
        values |= inspect.getclosurevars(thing).nonlocals
    return _joined(f"{name}={said}" for name, v in values.items() if (said := _plain_text(v)))


def structure_of(module: nn.Module) -> dict[str, str]:
    """The classes of a module and its parts, with the settings of those from PyTorch itself."""
    return {name: _kind_of(part) for name, part in module.named_modules()}


def _kind_of(module: nn.Module) -> str:
    """`NAME(SETTINGS)`, without the settings where these follow from the first batch."""
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return (module.cls_to_become or type(module)).__name__
    own = type(module).__module__.startswith("torch.nn.")
    settings = module.extra_repr() if own else ""
    return type(module).__name__ + (f"({settings})" if settings else "")


def _plain_text(value: object) -> str:
    return repr(value) if isinstance(value, (int, float, str, tuple)) else ""


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(filter(None, texts))


def _taken(values: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Remove and return the values of these names."""
    return {name: values.pop(name) for name in names if name in values}
