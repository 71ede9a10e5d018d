"""Saved and loaded learners go on bit for bit, from any point."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream import Learner, LogitAdjustedSoftmax
from evenstream.errors import CheckpointError, EvenstreamError, NonFiniteLoss, UnknownName
from evenstream.methods import ER, MIR
from evenstream.policies.rules import ArgMax
from evenstream.policies.storing import Reservoir
from tests.helpers.small_streams import (
    Bomb,
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    same,
    small,
)

STEPS = 10
CONFIGURATIONS = {
    "er": ("er", {}),
    "fine-tune, momentum": ("fine-tune", {"momentum": 0.9}),
    "er-las, window": ("er-las:window=4", {}),
    "er-las, random": ("er-las:prior=random", {"optimizer": "adam", "lr": 0.01}),
    "er-las, exponential": ("er-las:prior=exponential,decay=0.5", {"weight_decay": 0.01}),
    "er-las, macro": ("er-las:prior=macro", {"optimizer": "adamw", "lr": 0.01}),
    "er-las, muon": ("er-las@ema", {"optimizer": "muon", "lr": 0.02}),
    "joint-las, infinite": ("joint-las:tau=inf", {}),
    "gathering": ("er-las", {"accumulate": 7}),
    "wide head": ("er-las", {"head_size": 8, "scope": "all"}),
}


def drive(learner, stream, start=0):
    """Feed a stream in tasks of five batches, from any batch on."""
    for index in range(start, len(stream)):
        if index % 5 == 0:
            if learner.in_task:
                learner.end_task()
            learner.start_task({f"class {c}": 10 for c in range(4)})
        learner.learn(*stream[index])
    return learner


def configured(name, own_module):
    """A new learner, and what makes another module like its own."""
    method, options = CONFIGURATIONS[name]
    module = Noisy if own_module else lambda: None
    return small(method, module() or "mlp", **options), module


@cache
def uninterrupted(name, own_module):
    return drive(configured(name, own_module)[0], class_stream(STEPS))


@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, STEPS), own_module=st.booleans())
def test_resumed_equals_uninterrupted(name, tmp_path_factory, cut, own_module):
    stream, folder = class_stream(STEPS), tmp_path_factory.mktemp("save")
    whole, (part, module) = uninterrupted(name, own_module), configured(name, own_module)
    drive(part, stream[:cut])
    before = part.fingerprint()
    torch.manual_seed(cut)  # what happens outside must not matter
    part.save(folder)
    assert part.fingerprint() == before
    loaded = Learner.load(folder, module())
    assert loaded.fingerprint() == before
    drive(loaded, stream, start=cut)
    assert loaded.fingerprint() == whole.fingerprint()
    if whole.built:
        assert same(parameters(loaded), parameters(whole))
    x, _ = blobs(5)
    assert loaded.predict_proba(x).tobytes() == whole.predict_proba(x).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_images_with_augmentation_go_on_exactly(tmp_path, dtype):
    options = {
        "augment": "crop1+flip",
        "mean": np.array([0.4], np.float32),
        "std": np.array([0.2], np.float32),
        "momentum": 0.9,
        "memory": 5,
        "dtype": dtype,
    }
    batches = [(images(3, seed=index), [0, 1, index // 2]) for index in range(6)]
    whole = feed(small("er-las", "convnet", **options), batches)
    feed(small("er-las", "convnet", **options), batches[:3]).save(tmp_path)
    assert feed(Learner.load(tmp_path), batches[3:]).fingerprint() == whole.fingerprint()


def test_labels_come_back_with_their_types(tmp_path):
    labels = ["a", 1, True, "1", (1, ("b", False)), 2**70, "", ()]
    learner = small(accumulate=20)
    learner.learn(blobs(8)[0], labels)
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    for each in (learner, loaded):
        each.flush()
        assert list(map(repr, each.labels)) == list(map(repr, labels))
    assert loaded.fingerprint() == learner.fingerprint()


def test_gathered_rows_are_kept(tmp_path):
    learner = small(accumulate=4)
    x, y = blobs(4)
    learner.learn(x[:3], y[:3])
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    assert loaded.learn(x[3:], y[3:]) == learner.learn(x[3:], y[3:])
    assert loaded.step == 1 and loaded.fingerprint() == learner.fingerprint()


def test_saving_a_learner_that_has_seen_nothing(tmp_path):
    learner = small(seed=4)
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    assert loaded.fingerprint() == learner.fingerprint()
    stream = class_stream()
    assert feed(loaded, stream).fingerprint() == feed(learner, stream).fingerprint()


def test_a_task_goes_on(tmp_path):
    learner = small("er-las:prior=macro")
    learner.start_task({"class 0": 3, "class 1": 5})
    learner.learn(*class_stream(1)[0])
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    assert loaded.in_task and loaded.task == 0
    assert loaded.learn(*class_stream(1)[0]) == learner.learn(*class_stream(1)[0])


def test_a_refused_step_after_loading_leaves_no_trace(tmp_path):
    stream = class_stream()
    feed(small("er-las:window=3", Bomb(), momentum=0.9), stream[:6]).save(tmp_path)
    loaded = Learner.load(tmp_path, Bomb())
    before = loaded.fingerprint()
    loaded.model.armed = True
    with pytest.raises(NonFiniteLoss):
        loaded.learn(stream[6][0], ["new"] * 4)
    assert loaded.fingerprint() == before


# ---- refusals ------------------------------------------------------------------------------------


def test_ones_own_module_must_be_passed_and_must_fit(tmp_path):
    feed(small("er", Noisy(width=7)), class_stream()[:2]).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"model=\.\.\."):
        Learner.load(tmp_path)
    with pytest.raises(CheckpointError, match=r"layers\.0 is .*features=8.* was .*features=7"):
        Learner.load(tmp_path, Noisy(width=8))
    with pytest.raises(CheckpointError, match=r"it is Linear\(.* was Noisy"):
        Learner.load(tmp_path, nn.Linear(5, 7))
    assert Learner.load(tmp_path, Noisy(width=7)).step == 2


def test_an_empty_container_is_a_module_too(tmp_path):
    learner = feed(small("er", nn.Sequential()), class_stream()[:2])
    learner.save(tmp_path)
    assert Learner.load(tmp_path, nn.Sequential()).fingerprint() == learner.fingerprint()


def test_another_method_is_refused(tmp_path):
    small("mir-las:subsample=9,window=2").save(tmp_path)
    for other in ("er-las", MIR(subsample=8), ER()):
        with pytest.raises(EvenstreamError, match=r"mir-las:subsample=9|subsample|got 'er-las'"):
            Learner.load(tmp_path, method=other)
    method = MIR(subsample=9)
    loaded = Learner.load(tmp_path, method=method)
    assert loaded.method is method and loaded.text == "mir-las:subsample=9,window=2"


class Halved(LogitAdjustedSoftmax):
    pass


class OtherReservoir(Reservoir):
    pass


@dataclass
class Doubled(ArgMax):
    name = ""
    factor: float = 2.0


@pytest.mark.parametrize(
    ("part", "same", "others"),
    [
        ("criterion", lambda: Halved(tau=2), [lambda: Halved(tau=3), LogitAdjustedSoftmax]),
        ("predict", lambda: Doubled(3.0), [Doubled, ArgMax]),
        ("storing", OtherReservoir, [Reservoir]),
    ],
)
def test_parts_of_ones_own_are_given_again(part, same, others, tmp_path):
    learner = small("er", **{part: same()})
    learner.save(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{part}=.*load\(path, {part}="):
        Learner.load(tmp_path)
    for other in others:
        with pytest.raises(CheckpointError, match=rf"made with {part}=.*, not with"):
            Learner.load(tmp_path, **{part: other()})
    assert Learner.load(tmp_path, **{part: same()}).fingerprint() == learner.fingerprint()


@pytest.mark.parametrize(
    "given",
    [
        {"criterion": LogitAdjustedSoftmax(tau=3)},
        {"predict": ArgMax()},
        {"optimizer": lambda groups: None},
        {"augment": lambda x: x},
        {"model": nn.Linear(5, 7)},
        {"memory": 3},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_was_saved_cannot_be_replaced(given, tmp_path):
    small("er-las", "mlp").save(tmp_path)
    with pytest.raises((CheckpointError, UnknownName), match=next(iter(given))):
        Learner.load(tmp_path, **given)


def test_what_is_no_learner_is_refused(tmp_path):
    with pytest.raises(CheckpointError):
        Learner.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError):
        Learner.load(tmp_path)
    with pytest.raises(CheckpointError, match="learner"):
        Learner.from_state({"kind": "something else"})


def test_a_damaged_save_falls_back_to_the_one_before(tmp_path):
    learner = feed(small(), class_stream()[:3])
    learner.save(tmp_path)
    before = learner.fingerprint()
    learner.learn(*class_stream()[3])
    learner.save(tmp_path)
    newest = sorted(tmp_path.glob("*.safetensors"))[-1]
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match="continuing from the checkpoint before it"):
        assert Learner.load(tmp_path).fingerprint() == before
    for file in tmp_path.glob("*.safetensors"):
        file.write_bytes(b"")
    with pytest.raises(EvenstreamError):
        Learner.load(tmp_path)
