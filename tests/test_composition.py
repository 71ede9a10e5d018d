"""Text to objects and back, for every method that is written down anywhere in this repository."""

import copy
import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from evenstream import CrossEntropy, Learner, LogitAdjustedSoftmax, methods, priors, rules
from evenstream.choosing import ALIASES
from evenstream.composition import compose, settings_of
from evenstream.core.heads import HEADS
from evenstream.errors import EvenstreamError, InputError
from evenstream.methods import METHODS
from evenstream.paper import experiments
from evenstream.policies.rules import RULES
from evenstream.policies.storing import STORING
from evenstream.text import MethodText, option_types

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
needs_results = pytest.mark.skipif(not RESULTS.is_dir(), reason="not in source distributions")


def in_tests():
    for path in (ROOT / "tests").rglob("*.py"):
        yield from re.findall(r'"([a-z0-9+-]+(?:[:@][^"\s]+)?)"', path.read_text())


def in_documents():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text()
        yield from re.findall(r"[a-z0-9+-]+(?:-las|:[a-z_]+=\S+?|@[a-z]+)+(?=[`\"\s])", text)


def in_results():
    for path in RESULTS.glob("*.runs.jsonl"):
        yield from re.findall(r'"method":"([^"]+)"', path.read_text())


def in_experiments():
    for experiment in experiments().values():
        for cell in experiment.cells():
            yield experiment.configs(cell, seeds=1)[0].method


@pytest.mark.parametrize(
    ("written", "least"),
    [
        (in_tests, 150),
        (in_documents, 20),
        pytest.param(in_results, 50, marks=needs_results),
        (in_experiments, 50),
    ],
)
def test_text_to_objects_to_text(written, least):
    forms = {}
    for text in set(written()):
        name = MethodText.read(text).plain_name
        if name in METHODS or name in ALIASES:
            try:
                forms[text] = compose(text)
            except EvenstreamError:
                assert written in (in_tests, in_documents), text  # an example of a mistake
    for found in forms.values():
        again = compose(found.text)
        assert again.text == found.text
        assert parts(again) == parts(found)
    assert len(forms) >= least


def parts(composition):
    every = [*composition.parts, composition.head, composition.criterion]
    prior = getattr(composition.criterion, "prior", None)
    plain = [plain_values(each) for each in (composition.criterion, prior)]
    kinds = [type(each) for each in (prior, composition.storing, composition.retrieval)]
    return [(type(part), settings_of(part)) for part in every], kinds, plain


def plain_values(thing):
    return {k: v for k, v in vars(thing or object).items() if type(v) in (int, float, str)}


# ---- objects to text to objects ------------------------------------------------------------------


def with_any_options(cls, draw):
    """An instance with some options drawn."""
    taken = {name: kind for name, kind in option_types(cls).items() if draw.random() < 0.4}
    return cls(**{name: any_value(kind, draw) for name, kind in taken.items()})


def any_value(kind, draw):
    if get_origin(kind) is Literal:
        return draw.choice(get_args(kind))
    values = {bool: (True, False), int: range(6), float: (0.1, 1, 2, 1e-7, 1 / 3, 3e10, 0.5)}
    return draw.choice(values[kind])


def any_criterion(draw):
    prior = draw.choice(
        [
            priors.SlidingWindow(draw.randint(1, 4)),
            priors.ExponentialWindow(0.3),
            priors.RandomPrior(redraw=2),
            priors.RandomPrior(seed=3),
            priors.MacroPrior(),
        ]
    )
    tau, reduction = draw.choice([0, 1, 2, math.inf, 0.3]), draw.choice(["mean", "mean", "sum"])
    kinds = [CrossEntropy(reduction), LogitAdjustedSoftmax(tau, reduction=reduction, prior=prior)]
    return draw.choice(kinds + kinds[1:])


def any_parts(draw):
    yield "method", with_any_options(draw.choice(list(METHODS.values())), draw)
    if draw.random() < 0.4:
        yield "criterion", any_criterion(draw)
    if draw.random() < 0.4:
        yield "head", with_any_options(draw.choice(list(HEADS.values())), draw)
    if draw.random() < 0.4:
        yield "predict", with_any_options(draw.choice(list(RULES.values())), draw)
    if draw.random() < 0.2:
        yield "storing", draw.choice(list(STORING.values()))()


def test_whatever_is_accepted_as_objects_survives_text_and_a_save():
    """Anything else must be refused when it is composed, not when it is read again."""
    draw, tried = random.Random(0), Counter()
    for _ in range(500):
        try:
            given = dict(any_parts(draw))
            before = copy.deepcopy(given)
            learner = Learner(model="mlp", **given)
        except InputError:
            tried["refused"] += 1
            continue
        composition = learner.composition
        again = {name: before[name] for name in composition.unwritten}
        assert parts(compose(composition.text, **copy.deepcopy(again))) == parts(composition)
        loaded = Learner.from_bytes(learner.to_bytes(), **again)
        assert loaded.text == learner.text
        assert parts(loaded.composition) == parts(composition)
        tried["again" if again else "text alone"] += 1
    assert all(tried[kind] > 40 for kind in ("refused", "again", "text alone")), tried


@pytest.mark.parametrize("name", sorted(METHODS))
def test_las_is_refused_in_an_object_as_it_is_in_text(name):
    method = METHODS[name]()
    if method.why_not_las is not None:
        with pytest.raises(InputError, match=rf"{name}-las\S* makes no sense"):
            Learner(method, criterion=LogitAdjustedSoftmax(tau=2))
    else:
        assert compose(method, criterion=LogitAdjustedSoftmax(tau=2)).text.startswith(f"{name}-las")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("er-las:tua=2", "tau"),
        ("er:tua=2", "tau"),
        ("er-las:TAU=2", "tau"),
        ("er@ema:deccay=0.5", "decay"),
        ("er:hed=cosine", "head"),
    ],
)
def test_a_misspelt_option_is_recognised(text, near):
    with pytest.raises(InputError, match=rf"no option .*did you mean {near}\?"):
        Learner(text)


def test_las_is_refused_where_an_option_would_have_two_owners():
    las = LogitAdjustedSoftmax(tau=0)
    with pytest.raises(InputError, match=r"er-posthoc-las.* makes no sense"):
        Learner(methods.ERPostHoc(tau=2), criterion=las, predict=rules.ArgMax())

    @dataclass
    class Own(methods.ER):
        tau: float = 3.0

    with pytest.raises(InputError, match="option 'tau' of method Own is also one of its -las form"):
        Learner(Own(), criterion=LogitAdjustedSoftmax(tau=0))


def test_plain_cross_entropy_in_place_of_a_methods_own_las_must_be_given_again():
    learner = Learner("auto", criterion=CrossEntropy())
    assert set(learner.unwritten) == {"criterion"}
    loaded = Learner.from_bytes(learner.to_bytes(), criterion=CrossEntropy())
    assert type(loaded.criterion) is CrossEntropy


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("even", "er-las@ema:warmup=true,measure_every=16"),
        ("even:tau=0.5,window=4", "er-las:tau=0.5,window=4@ema:warmup=true,measure_every=16"),
        ("even@argmax", "er-las"),
        ("even:storing=balanced@ema:decay=0.9", "er-las:storing=balanced@ema:decay=0.9"),
        ("las:tau=2@ema", "fine-tune-las:tau=2.0@ema"),
    ],
)
def test_what_follows_an_alias_replaces_what_it_stands_for(text, meaning):
    assert compose(text).text == meaning
