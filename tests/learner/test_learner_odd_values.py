"""Whatever is passed is taken or refused by an `EvenstreamError`; a refusal leaves no trace."""

import inspect
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Learner
from evenstream.core import room
from evenstream.core.heads import HEADS, Cosine
from evenstream.errors import CheckpointError, InputError, UnknownName
from evenstream.methods import ER, METHODS
from evenstream.policies.rules import RULES, MovingAverage
from evenstream.streams.catalogue import SCENARIOS
from evenstream.text import option_types
from tests.helpers.odd_values import ODD, refused_or_taken
from tests.helpers.small_streams import DIM, Noisy, blobs, class_stream, feed, images, small

PARTS = [*METHODS.values(), *RULES.values(), *HEADS.values(), *SCENARIOS.values()]


@pytest.mark.parametrize("argument", inspect.signature(Learner).parameters)
def test_arguments_of_the_constructor(argument):
    x = images(2, channels=2) if argument in ("augment", "mean", "std") else blobs(2)[0]
    for value in ODD.values():

        def use(value=value):
            learner = Learner(**{"memory": 12, argument: value})
            learner.learn(x, [0, 1])
            learner.predict(x)
            learner.fingerprint()

        refused_or_taken(use)


@pytest.mark.parametrize("part", [part for part in PARTS if option_types(part)])
def test_options_of_parts(part):
    for option, kind in option_types(part).items():
        for value in ODD.values():
            taken = []
            refused_or_taken(lambda o=option, v=value, t=taken: t.append(part(**{o: v})))
            if taken and kind in (bool, int, float):  # it can be written down
                assert type(getattr(taken[0], option)) is kind


@pytest.mark.parametrize("number", [np.float32(0.5), Fraction(1, 2), torch.tensor(0.5)])
def test_a_number_of_any_kind_is_a_number(number):
    texts = {
        Learner(ER(), head=Cosine(half), predict=MovingAverage(decay=half)).text
        for half in (number, 0.5)
    }
    assert texts == {"er:head=cosine,head_scale=0.5@ema:decay=0.5"}


def test_wrong_parts_are_named(tmp_path):
    feed(small("er"), class_stream(2)).save(tmp_path)
    for name in ("criterion", "head", "predict", "retrieval", "storing"):
        with pytest.raises(InputError, match=f"{name} must derive from the class"):
            Learner("er", **{name: ER()})
        with pytest.raises(CheckpointError, match=f"leave {name}= out"):
            Learner.load(tmp_path, **{name: ER()})
    with pytest.raises(UnknownName, match="'lr'"):
        Learner.load(tmp_path, **{"lr": 0.1})


X2 = blobs(2)[0]
CALLS = {
    "learn: inputs": lambda learner, value: learner.learn(value, ["a", "b"]),
    "learn: labels": lambda learner, value: learner.learn(X2, value),
    "learn: a label": lambda learner, value: learner.learn(X2, ["a", value]),
    "learn: store": lambda learner, value: learner.learn(X2, ["a", "b"], store=value),
    "predict: inputs": lambda learner, value: learner.predict(value),
    "predict: priors": lambda learner, value: learner.predict(X2, value),
    "predict: a prior": lambda learner, value: learner.predict_proba(X2, {"class 0": value}),
    "start_task: counts": lambda learner, value: learner.start_task(value),
    "start_task: a count": lambda learner, value: learner.start_task({"a": value}),
    "start_task: data": lambda learner, value: learner.start_task(data=value),
    "start_task: inputs": lambda learner, value: learner.start_task(data=(value, ["a", "b"])),
    "start_task: labels": lambda learner, value: learner.start_task(data=(X2, value)),
    "lr": lambda learner, value: setattr(learner, "lr", value),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("learned", [False, True])
def test_arguments_of_methods(name, learned):
    def fresh():
        return feed(small("er-las", Noisy()), class_stream(2) if learned else [])

    learner = fresh()
    before = learner.fingerprint()
    for value in ODD.values():
        if refused_or_taken(lambda learner=learner, value=value: CALLS[name](learner, value)):
            assert learner.fingerprint() == before
        else:
            learner.predict(X2)
            learner.fingerprint()
            learner = fresh()


def test_what_end_task_is_given():
    learner = feed(small("er-las", Noisy()), class_stream(2))
    learner.start_task()
    before = learner.fingerprint()
    for value in ODD.values():
        if value is not None:
            with pytest.raises(InputError):
                learner.end_task(value)
    assert learner.fingerprint() == before
    assert learner.in_task


def test_places_to_save_and_to_load_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner = feed(small("er", Noisy()), class_stream(2))
    for value in ODD.values():
        refused_or_taken(lambda value=value: learner.save(value))
        refused_or_taken(lambda value=value: Learner.load(value, Noisy()))
        refused_or_taken(lambda value=value: Learner.from_state(value))
    for path in ("", "a\0b", "\ud800", None, 3, b"a"):
        with pytest.raises(InputError, match="path"):
            learner.save(path)


def test_what_load_is_given_beside_the_place(tmp_path):
    feed(small("er", Noisy()), class_stream(2)).save(tmp_path)
    for value in ODD.values():
        if value is not None:
            assert refused_or_taken(lambda value=value: Learner.load(tmp_path, value))
            assert refused_or_taken(lambda v=value: Learner.load(tmp_path, Noisy(), method=v))
            assert refused_or_taken(lambda v=value: Learner.load(tmp_path, Noisy(), device=v))
    with pytest.raises(InputError, match="leave it out for networks with a name"):
        Learner.load(tmp_path, "mlp")


def test_a_method_and_a_module_can_be_used_again_after_a_load_that_failed(tmp_path):
    learner = feed(small("er", Noisy()), class_stream(2))
    learner.save(tmp_path)
    method, module = ER(), Noisy()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(CheckpointError, match="out_features=9"):
        Learner.load(tmp_path, Noisy(width=9), method=method)
    state = learner.state()
    with pytest.raises(CheckpointError, match="'randomness'"):
        Learner.from_state({**state, "randomness": {}}, module, method=method)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert Learner.load(tmp_path, module, method=method).fingerprint() == learner.fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 10**12}, r"1,000,000,000,000 samples would need 28,000\.0 GB"),
        ({"head_size": 10**12}, r"head_size=1,000,000,000,000 would need .* GB"),
    ],
)
def test_what_there_is_no_room_for_is_refused_before_it_is_taken(options, message):
    learner = Learner("er", **options)
    before = learner.fingerprint()
    with pytest.raises(InputError, match=message):
        learner.learn(*blobs(4))
    assert learner.fingerprint() == before


def test_what_there_is_room_for_depends_on_the_machine(monkeypatch):
    row = 4 * DIM + 8
    monkeypatch.setattr(room, "bytes_left", lambda: 100 * row)
    with pytest.raises(InputError, match="keep fewer"):
        small(memory=101).learn(*blobs(4))
    small(memory=100).learn(*blobs(4))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["2020-01-01"] * 4, "M8[ns]"), r"astype\(str\)"),
        (np.ones(4, "m8[s]"), r"astype\(str\)"),
        (np.ma.array([1, 2, 1, 2], mask=[0, 1, 0, 0]), "masked"),
        (["a", "b", "\ud800", "a"], r"'\\ud800' is not valid text"),
        (torch.ones(4, device="meta"), "meta"),
    ],
)
def test_labels_that_would_be_learned_as_something_else(labels, message):
    learner = small()
    with pytest.raises(InputError, match=message):
        learner.learn(blobs(4)[0], labels)


def test_masks_without_a_masked_value_are_fine():
    x, y = blobs(4)
    masked, plain = small(), small()
    masked.learn(np.ma.array(x), np.ma.array(y))
    plain.learn(x, y)
    assert masked.fingerprint() == plain.fingerprint()
    rows = [np.ma.array(row, mask=[0, 0, 1, 0, 0]) for row in x]
    for inputs in (np.ma.array(x, mask=x > x.mean()), rows):
        with pytest.raises(InputError, match="masked"):
            masked.learn(inputs, y)
        with pytest.raises(InputError, match="masked"):
            masked.predict(inputs)


def test_a_module_is_no_name_of_a_method():
    with pytest.raises(InputError, match="method must be"):
        Learner(nn.Linear(2, 2))
