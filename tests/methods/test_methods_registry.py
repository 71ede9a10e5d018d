"""Names, options and specs of methods."""

import dataclasses
import math
import re
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream import methods
from evenstream.bounds import Positive, Share, check_options
from evenstream.choosing import ALIASES
from evenstream.composition import LogitAdjustment, compose, method_names
from evenstream.core.criterion import Need
from evenstream.core.heads import HEADS
from evenstream.errors import EvenstreamError, InputError, UnknownName
from evenstream.methods import METHODS, Method, register
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.priors import ExponentialWindow, MacroPrior, RandomPrior, SlidingWindow
from evenstream.policies.rules.rule import RULES
from evenstream.streams.catalogue import SCENARIOS
from evenstream.text import MethodText

NEEDS = typing.get_args(Need)


@pytest.fixture
def registered():
    """Register a class under a name for one test."""
    return lambda name, cls: register(name)(cls)


@dataclass
class Options(Method):
    alpha: float = 0.5
    count: int = 3
    plain: bool = False
    kind: Literal["fast", "slow"] = "fast"


@dataclass
class NoCrossEntropy(Method):
    why_not_las = "it has no cross-entropy term"


def test_the_methods_of_this_version_are_there():
    assert {"er", "fine-tune", "joint", "er-las", "fine-tune-las", "joint-las"} <= set(
        method_names()
    )
    for name in method_names():
        composition, full = compose(name), MethodText.read(ALIASES.get(name, name))
        method = composition.method
        assert composition.text == str(full) and method.name == full.plain_name
        has_las = full.adjusted or name in ("pcr", "auto")
        assert isinstance(composition.criterion, LogitAdjustedSoftmax) == has_las
        assert method.citation and method.cost and type(method).__doc__


def test_every_instance_has_its_own_state():
    one, two = compose("er").method, compose("er").method
    one.tensors["a"] = None
    assert two.tensors == {} and one.retrieval is not two.retrieval


@pytest.mark.parametrize(
    "spec",
    [
        "er",
        "er-las",
        "er-las:tau=inf",
        "er-las:tau=0.0",
        "er-las:tau=1e-07",
        "er-las:window=5",
        "er-las:prior=macro",
        "joint-las:tau=0.3333333333333333,window=2",
        "er-las:tau=2.5,prior=exponential,decay=0.25",
    ],
)
def test_specs_round_trip(spec):
    assert compose(spec).text == spec


@given(
    tau=st.floats(0, allow_nan=False),
    window=st.integers(1, 10**6),
    decay=st.floats(0, 1, exclude_max=True),
    prior=st.sampled_from(["window", "exponential", "random", "macro"]),
)
def test_any_adjustment_round_trips(tau, window, decay, prior):
    composition = compose(f"er-las:tau={tau},window={window},decay={decay},prior={prior}")
    written = LogitAdjustment.of(composition.criterion)
    assert (written.tau, written.prior) == (tau, prior)
    assert prior != "window" or written.window == window
    assert prior != "exponential" or written.decay == decay
    again = compose(composition.text)
    assert again.text == composition.text and LogitAdjustment.of(again.criterion) == written


def test_options_of_a_method_and_its_adjustment(registered):
    registered("opt", Options)
    composition = compose("opt-las:alpha=2,plain=true,kind=slow,tau=3,count=-1")
    method = composition.method
    assert (method.alpha, method.count, method.plain, method.kind) == (2.0, -1, True, "slow")  # type: ignore[attr-defined]
    assert composition.criterion.tau == 3
    again = compose(composition.text)
    assert again.method == method and again.text == composition.text
    assert compose("opt:alpha=0.5,plain=false").text == "opt"
    assert compose("opt:").text == "opt"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("opt:alpha=much", r"opt:alpha must be a number \(float\), got 'much'"),
        ("opt:alpha=1_0", r"opt:alpha must be a number \(float\), got '1_0'"),
        ("opt:alpha=٣", r"opt:alpha must be a number \(float\), got '٣'"),
        ("opt:count=1.5", r"number \(int\)"),
        ("opt:plain=yes", "true or false"),
        ("opt:kind=medium", "fast, slow"),
        ("opt:beta=1", "no option 'beta'.*alpha, count, plain, kind"),
        ("opt:alpha", "alpha=..."),
        ("opt:tau=1", "tau is an option of opt-las"),
        ("opt-las:beta=1", "alpha.*tau"),
        ("er:beta=1", "head, storing, head_scale"),
    ],
)
def test_bad_options(registered, spec, message):
    registered("opt", Options)
    with pytest.raises(InputError, match=message):
        compose(spec)


@pytest.mark.parametrize(
    ("name", "near"), [("er-la", "er-las"), ("fine-tuned", "fine-tune"), ("er-las-las", "er-las")]
)
def test_unknown_methods_have_near_misses(name, near):
    with pytest.raises(UnknownName, match=f"unknown method '{name}'.*{near}") as caught:
        compose(name)
    assert isinstance(caught.value, EvenstreamError)


def test_nothing_near_lists_everything():
    with pytest.raises(UnknownName) as caught:
        compose("zzzzzz")
    known = ", ".join(sorted(method_names()))
    assert f"unknown method 'zzzzzz'; known: {known} (" in str(caught.value)
    with pytest.raises(UnknownName):
        compose("")


def test_without_cross_entropy_there_is_no_las(registered):
    registered("no-ce", NoCrossEntropy)
    assert "no-ce" in method_names() and "no-ce-las" not in method_names()
    with pytest.raises(InputError, match="no-ce-las makes no sense: it has no cross-entropy term"):
        compose("no-ce-las")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("clib:period=0", "period must lie in 1..inf, got 0"),
        ("clib:keep=1.5", "keep must lie in 0..1"),
        ("mro:rows=-1", "rows must lie in 0..inf"),
        ("mir:subsample=-1", "subsample"),
        ("aser:neighbours=0", "neighbours"),
        ("er-cbl:beta=1", "beta"),
        ("er-cba:period=0", "period"),
        ("der++:alpha=nan", "alpha must be a number, got nan"),
        ("ss-il:temperature=0", "temperature"),
        ("er-posthoc:tau=-1", "tau"),
        ("er-las:prior=random,redraw=0", "redraw must be a whole number of steps"),
    ],
)
def test_options_out_of_bounds_are_refused(spec, message):
    with pytest.raises(InputError, match=message):
        compose(spec)


@pytest.mark.parametrize("table", [METHODS, RULES, HEADS, SCENARIOS])
def test_every_default_fits_its_type_and_bounds(table):
    for name in table:
        check_options(table[name]())


@pytest.mark.parametrize(
    ("kind", "default", "message"),
    [
        (Share, 2.0, r"default of Mine.option must lie in 0..1, got 2.0"),
        (Positive, 0, r"default of Mine.option must lie in 1..inf, got 0"),
        (int, 0.5, r"default of Mine.option must be a whole number"),
        (typing.Literal["a", "b"], "c", r"default of Mine.option must be one of a, b, got 'c'"),
    ],
)
def test_a_default_that_does_not_fit_is_refused(kind, default, message):
    options = [("option", kind, dataclasses.field(default=default))]
    mine = dataclasses.make_dataclass("Mine", options, bases=(METHODS["er"],))
    with pytest.raises(InputError, match=message):
        compose(mine())


def options_of(name):
    return dataclasses.fields(METHODS[name])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_choice_is_an_option_that_is_logged(name):
    """Each choice can be written, is part of the spec, and comes back from it."""
    for field in options_of(name):
        kind = typing.get_type_hints(METHODS[name])[field.name]
        choices = typing.get_args(kind) or ((True, False) if kind is bool else ())
        for choice in set(choices) - {field.default}:
            text = str(choice).lower() if kind is bool else choice
            composition = compose(f"{name}:{field.name}={text}")
            assert composition.text == f"{name}:{field.name}={text}"
            assert getattr(composition.method, field.name) == choice


def test_the_overview_of_methods_has_each_once_with_what_it_needs():
    text = (Path(__file__).parents[2] / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    named, needs = [], {}
    for row in re.findall(r"^\| `(.*) \|$", text, re.MULTILINE):
        name, _, last = row.split(" | ")
        named.append(name.removesuffix("`"))
        needs[named[-1]] = {word for word in NEEDS if word in last.replace(" ", "_")}
    own = [name for name, cls in METHODS.items() if cls.__module__.startswith("evenstream.")]
    assert sorted(named) == sorted(own)
    for name in own:
        assert needs[name] == compose(name).needs, name
    for field in dataclasses.fields(LogitAdjustment):
        assert f"`{field.name}`" in text


def test_a_name_is_taken_once(registered):
    registered("opt", Options)
    with pytest.raises(InputError, match="already registered"):
        register("opt")(NoCrossEntropy)
    assert METHODS["opt"] is Options
    register("opt")(Options)  # a module imported twice


def test_a_class_of_ones_own_takes_no_name_of_ours_by_chance(registered):
    """A class `ER` of a user's is not evenstream's; a notebook's cell that runs twice is itself."""
    ours = METHODS["er"]
    with pytest.raises(
        InputError, match=r"'er' is already registered \(evenstream.methods.er.ER\)"
    ):
        register("er")(type("ER", (Method,), {"__module__": "__main__"}))
    assert METHODS["er"] is ours
    first, again = (type("Mine", (Method,), {"__module__": "__main__"}) for _ in range(2))
    registered("mine", first)
    register("mine")(again)
    assert METHODS["mine"] is again


def test_every_method_is_exported_by_its_class():
    own = [cls for cls in METHODS.values() if cls.__module__.startswith("evenstream.methods.")]
    assert len(own) > 30
    for cls in own:
        assert getattr(methods, cls.__name__) is cls and cls.__name__ in methods.__all__


def test_a_method_must_write_a_loss():
    with pytest.raises(NotImplementedError):
        Options().loss(None)


@pytest.mark.parametrize(
    ("prior", "kind"),
    [
        ("window", SlidingWindow),
        ("exponential", ExponentialWindow),
        ("random", RandomPrior),
        ("macro", MacroPrior),
    ],
)
def test_adjustments_build_their_criterion(prior, kind):
    criterion = LogitAdjustment(tau=2, window=3, prior=prior, decay=0.5).build()
    assert isinstance(criterion, LogitAdjustedSoftmax) and isinstance(criterion.prior, kind)
    assert criterion.tau == 2
    if prior == "window":
        assert criterion.prior.window == 3
    if prior == "exponential":
        assert criterion.prior.decay == 0.5


@pytest.mark.parametrize(
    "options", [{"tau": -1}, {"tau": math.nan}, {"window": 0}, {"decay": 2.0, "prior": "macro"}]
)
def test_bad_adjustments_are_refused(options):
    with pytest.raises(InputError):
        LogitAdjustment(**options).build()
