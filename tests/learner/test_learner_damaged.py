"""Saves whose checksums are right and whose content is not: named, and passed over."""

import copy
import re

import pytest
import torch

from evenstream import Learner
from evenstream.checkpoint import flatten, unflatten
from evenstream.errors import CheckpointError, DamagedCheckpoint, EvenstreamError
from evenstream.live import follow
from tests.helpers.damage import alter_newest
from tests.helpers.odd_values import nested
from tests.helpers.small_streams import Noisy, class_stream, feed, small

GONE = object()
VALUES = [GONE, None, 3, -1, "x", [], {}, 1e308, 2**70, True, float("nan"), nested(300, list)]
LEARNERS = {
    "er-las@ema": {"optimizer": "adam", "lr": 0.01},
    "mkd-las": {"momentum": 0.5, "accumulate": 5},
    "er-las:prior=random": {},
}


def saved(method):
    learner = small(method, **LEARNERS[method])
    learner.start_task({f"class {c}": 9 for c in range(4)})
    feed(learner, class_stream(6))
    learner.end_task()
    feed(learner, class_stream(1))
    return flatten(learner.state())


def places(tree, at=()):
    """The entries of a tree; deep inside and in lists only the first few, which stand for all."""
    if at:
        yield at
    if isinstance(tree, dict) and "__tensor__" not in tree:
        for key in list(tree)[: 3 if len(at) > 1 else None]:
            yield from places(tree[key], (*at, key))
    elif isinstance(tree, list) and tree:
        yield from places(tree[0], (*at, 0))


def altered(tree, at, value):
    tree = copy.deepcopy(tree)
    *path, last = at
    inner = tree
    for key in path:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return tree


def loaded(tensors, tree, about):
    """A learner that was loaded can predict; one that was not says which entry is wrong."""
    try:
        learner = Learner.from_state(unflatten(tensors, tree))
    except DamagedCheckpoint as error:
        assert re.match("its entry '.*' cannot be used: .", str(error))
        return None
    except EvenstreamError:  # what there is not, or is not given here
        assert about[0] in ("kind", "method", "model", "weights") or about[-1] in (
            "device",
            "augment",
            "optimizer",
        )
        return None
    learner.predict(class_stream(1)[0][0])
    return learner


@pytest.mark.parametrize("method", LEARNERS)
def test_any_entry_may_be_missing_or_wrong(method):
    tensors, tree = saved(method)
    assert loaded(tensors, tree, ("nothing",)).step
    for number, at in enumerate(places(tree)):
        for value in VALUES[number % 4 :: 4]:
            loaded(tensors, altered(tree, at, value), at)


def wrong_tensors(value):
    yield value.double() if value.is_floating_point() else value.float()
    yield value != 0
    yield value[:0] if value.ndim else value.expand(2)
    yield torch.cat([value, value]) if value.ndim else torch.zeros(3, 3)
    yield value[None]


@pytest.mark.parametrize("method", LEARNERS)
def test_any_tensor_may_be_of_another_kind(method):
    tensors, tree = saved(method)
    for number, (name, value) in enumerate(tensors.items()):
        for wrong in list(wrong_tensors(value))[number % 2 :: 2]:
            loaded({**tensors, name: wrong}, tree, name.split("/"))


def change(tree, entry, value):
    """Put a value in place of an entry; a dictionary's into the one that is there."""
    if value is GONE:
        del tree[entry]
    elif isinstance(value, dict) and value and isinstance(tree[entry], dict):
        for name, inner in value.items():
            change(tree[entry], name, inner)
    else:
        tree[entry] = value


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("labels", ["class 0"], "'memory' cannot be used: it holds classes that have no label"),
        ("labels", ["a", "a"], "'labels' cannot be used: a label occurs twice"),
        ("progress", {"step": "7"}, "'progress' cannot be used: step is '7', not a whole number"),
        ("network", None, "'network' cannot be used: it is empty, though something was learned"),
        ("network", {"input": {"shape": [4], "dtype": "float32"}}, "'network' cannot be used"),
        ("network", {"optimizer": GONE}, "'network' cannot be used: it lacks 'optimizer'"),
        ("memory", {}, "'memory' cannot be used: it lacks 'seen'"),
        ("part0", GONE, "'part0' cannot be used"),
        ("options", {"memory": 10**12}, "'network' cannot be used: .* would need"),
    ],
)
def test_the_entry_is_named(entry, value, message):
    state = feed(small("er"), class_stream(6)).state()
    change(state, entry, value)
    changed = state
    with pytest.raises(DamagedCheckpoint, match=message):
        Learner.from_state(changed)


# ---- going back to the one before ----------------------------------------------------------------


def two_saves(folder, model="mlp", **options):
    """Two saves; the learner as it was at the first."""
    learner = feed(small("er", model, **options), class_stream()[:3])
    learner.save(folder)
    before = learner.fingerprint()
    learner.learn(*class_stream()[3])
    learner.save(folder)
    return before


DAMAGES = {
    "missing": lambda state: state.pop("memory"),
    "of another kind": lambda state: state["progress"].update(step=[]),
    "nested": lambda state: state.update(labels=nested(300, list)),
    "of another shape": lambda state: state["network"]["input"].update(shape=[3]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wrong_save_falls_back_to_the_one_before(tmp_path, damage):
    before = two_saves(tmp_path)
    alter_newest(tmp_path, DAMAGES[damage])
    with pytest.warns(UserWarning, match=r"step-4\.json: its entry .* continuing from the"):
        assert Learner.load(tmp_path).fingerprint() == before


def test_nesting_without_end_falls_back_to_the_one_before(tmp_path):
    before = two_saves(tmp_path)
    newest = sorted(tmp_path.glob("checkpoint-*.json"))[-1]
    for text in ("[" * 10**5, '{"state":' * 10**5 + "1" + "}" * 10**5):
        newest.write_text(text)
        with pytest.warns(UserWarning, match="continuing from the checkpoint before it"):
            learner = Learner.load(tmp_path)
        assert learner.fingerprint() == before
    learner.save(tmp_path)  # which looks at the others, to keep the last that is whole
    assert Learner.load(tmp_path).fingerprint() == before


def test_falling_back_with_a_module_of_ones_own(tmp_path):
    before = two_saves(tmp_path, Noisy())
    alter_newest(tmp_path, DAMAGES["missing"])
    with pytest.warns(UserWarning, match="lacks 'memory'"):
        assert Learner.load(tmp_path, Noisy()).fingerprint() == before
    with pytest.raises(CheckpointError, match="does not fit the saved one"):
        Learner.load(tmp_path, Noisy(width=9))


@pytest.mark.parametrize("new", [True, False])
def test_following_goes_on_from_the_one_before(tmp_path, new):
    stream, place, whole = class_stream(8), tmp_path / "cut", tmp_path / "whole"
    follow(small("er"), stream[:3], place)
    follow(small("er"), stream[:6], place)
    alter_newest(place, DAMAGES["missing"])
    with pytest.warns(UserWarning, match="continuing from the checkpoint before it"):
        learner = small("er") if new else Learner.load(place)
        follow(learner, stream, place)
    expected = small("er")
    follow(expected, stream, whole)
    assert learner.fingerprint() == expected.fingerprint()


def test_following_what_cannot_be_used_leaves_the_learner_new(tmp_path):
    follow(small("er"), class_stream(3), tmp_path)
    alter_newest(tmp_path, lambda state: state.update(randomness={}))
    learner = small("er")
    before = learner.fingerprint()
    with pytest.raises(CheckpointError, match="'randomness'"):
        follow(learner, class_stream(3), tmp_path)
    assert learner.fingerprint() == before
    alter_newest(tmp_path, lambda state: state.update(live={"batches": "x"}))
    with pytest.raises(CheckpointError, match="'live'"):
        follow(learner, class_stream(3), tmp_path)
