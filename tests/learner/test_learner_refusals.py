"""A refused call leaves no trace: equal fingerprints before and after, whatever went wrong."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream import EvenstreamError, Learner
from evenstream.core.memory import X
from evenstream.errors import InputError, NonFiniteLoss, UnknownName
from tests.helpers.small_streams import (
    DIM,
    Bomb,
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    refused,
    same,
    small,
)

OPTIONS = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "preallocated": {"head_size": 8},
}


# ---- inputs --------------------------------------------------------------------------------------

X4, Y4 = blobs(4)


def spoiled(value):
    x = X4.copy()
    x[2, 1] = value
    return x


BAD_BATCHES = {
    "NaN": (spoiled(math.nan), Y4, "row 2"),
    "infinite": (spoiled(math.inf), Y4, "row 2"),
    "minus infinity": (spoiled(-math.inf), Y4, "row 2"),
    "too large for float32": (np.full((4, DIM), 1e300), Y4, "infinite"),
    "another width": (X4[:, :3], Y4, r"\(3,\).*\(5,\)"),
    "another number of dimensions": (X4[:, None], Y4, "shape"),
    "a single row": (X4[0], [0], "batch of one"),
    "a number": (3.0, [0], "batch"),
    "uint8 after floats": ((X4 > 0).astype(np.uint8), Y4, "uint8"),
    "text": ([["a"] * DIM] * 4, Y4, "numbers"),
    "complex": (X4.astype(complex), Y4, "numbers"),
    "complex tensor": (torch.zeros(4, DIM, dtype=torch.complex64), Y4, "real numbers"),
    "sparse": (torch.eye(4, DIM).to_sparse(), Y4, "plain tensor"),
    "objects": ([None] * 4, Y4, "numbers"),
    "None": (None, Y4, "numbers"),
    "ragged": ([[1.0] * DIM, [2.0]], [0, 1], "array"),
    "a text": ("abc", [0, 1, 2], "numbers"),
    "empty": (X4[:0], [], "empty"),
    "without values": (np.zeros((4, 0), np.float32), Y4, "values"),
    "too few labels": (X4, Y4[:3], "4 rows but 3 labels"),
    "too many labels": (X4, [*Y4, 0], "4 rows but 5 labels"),
    "no labels": (X4, [], "0 labels"),
    "one label for all": (X4, "abcd", "sequence"),
    "a number as labels": (X4, 3, "sequence"),
    "no labels at all": (X4, None, "sequence"),
    "a set of labels": (X4, {0, 1, 2, 3}, "sequence"),
    "float labels": (X4, [0.5, 1.0, 0.0, 1.0], "label 0.5 of type float; convert labels to int"),
    "float array labels": (X4, np.zeros(4), "unsupported label"),
    "None label": (X4, [0, 1, None, 1], "a label is missing .None.; leave the row out"),
    "NaN label": (X4, [0, 1, math.nan, 1], "a label is missing .nan.; leave the row out"),
    "bytes label": (X4, [0, 1, b"a", 1], "bytes"),
    "list label": (X4, [[0]] * 4, "list"),
    "list in a tuple": (X4, [(0, [1])] * 4, "list"),
    "two-dimensional labels": (X4, np.zeros((4, 1), int), "one-dimensional"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
@pytest.mark.parametrize("method", ["er-las", "fine-tune"])
def test_bad_batches_are_refused(name, method):
    x, labels, message = BAD_BATCHES[name]
    learner = feed(small(method, accumulate=3), [blobs(4), blobs(2, seed=1)])  # two rows wait
    text = refused(learner, lambda: learner.learn(x, labels), InputError)
    assert re.search(message, text), text
    learner.learn(X4, Y4)


@pytest.mark.parametrize("name", [n for n in BAD_BATCHES if not n.startswith(("another", "uint8"))])
def test_bad_batches_are_refused_at_the_very_first_step(name):
    x, labels, _ = BAD_BATCHES[name]
    learner = small("er-las", Noisy())
    refused(learner, lambda: learner.learn(x, labels), InputError)
    learner.learn(X4, Y4)
    fresh = small("er-las", Noisy())
    fresh.learn(X4, Y4)
    assert learner.fingerprint() == fresh.fingerprint()


def test_a_rate_set_before_a_refused_first_batch_stays():
    learner, huge = Learner("er", "mlp", lr=0.5), np.full((4, 3), 3e38, np.float32)
    learner.lr = 0.1
    refused(learner, lambda: learner.learn(huge, Y4), NonFiniteLoss)
    assert learner.lr == 0.1


@pytest.mark.parametrize("name", ["NaN", "another width", "empty", "uint8 after floats", "text"])
def test_predict_refuses_the_same(name):
    learner = feed(small(), [blobs(4)])
    refused(learner, lambda: learner.predict(BAD_BATCHES[name][0]), InputError)
    refused(learner, lambda: learner.predict_proba(BAD_BATCHES[name][0]), InputError)


def test_inputs_the_network_cannot_take_are_refused():
    learner = small("er", "convnet")
    text = refused(learner, lambda: learner.learn(X4, Y4), InputError)
    assert "convnet" in text and "(5,)" in text
    own = small("er", nn.Linear(3, 4))
    text = refused(own, lambda: own.learn(X4, Y4), InputError, r"model cannot take.*\(5,\)")
    own.learn(X4[:, :3], Y4)  # and it can still be used


def test_a_module_that_gives_no_feature_vectors_is_refused():
    for module in (nn.Conv1d(4, 2, 1), nn.Flatten(0), nn.Unflatten(1, (5, 1)), nn.LSTM(DIM, 3)):
        learner = small("er", module)
        refused(learner, lambda learner=learner: learner.learn(X4, Y4), InputError, "model")


def test_augmentation_of_what_is_no_image_is_refused():
    learner = small("er", augment="crop")
    refused(learner, lambda: learner.learn(X4, Y4), InputError, "images")
    channels = small("er", mean=(0.5, 0.5), std=(1, 1))
    refused(channels, lambda: channels.learn(images(2), [0, 1]), InputError, "2 channels")
    columns = small("er", mean=[0.5] * DIM, std=[1.0] * DIM)
    refused(columns, lambda: columns.learn(X4, Y4), InputError, "mean and std are for images")


# ---- options -------------------------------------------------------------------------------------

BAD_OPTIONS = [
    ({"memory": -1}, "memory"),
    ({"memory": 1.5}, "memory"),
    ({"memory": "10"}, "memory"),
    ({"memory": True}, "memory"),
    ({"lr": -0.1}, "lr"),
    ({"lr": math.nan}, "lr"),
    ({"lr": math.inf}, "lr"),
    ({"lr": "fast"}, "lr"),
    ({"batch": 0}, "batch"),
    ({"replay_batch": -1}, "replay_batch"),
    ({"accumulate": 0}, "accumulate"),
    ({"head_size": -1}, "head_size"),
    ({"momentum": -1}, "momentum"),
    ({"weight_decay": -1}, "weight_decay"),
    ({"optimizer": "adamm"}, "adam"),
    ({"seed": 1.5}, "seed"),
    ({"dtype": "float8"}, "float32"),
    ({"dtype": "float16"}, "one of auto, float32, bfloat16"),
    ({"device": "quantum"}, "device"),
    ({"scope": "some"}, "scope"),
    ({"scope": "all"}, "head_size"),
    ({"augment": "crops"}, "crop"),
    ({"mean": ()}, "mean"),
    ({"std": (0.0,)}, "std"),
    ({"model": "resnet81"}, "resnet18"),
    ({"model": None}, "model"),
    ({"model": nn.Linear}, "model"),
    ({"method": "er-lass"}, "er-las"),
    ({"method": "er-las:tau=-1"}, "tau"),
    ({"method": "er-las:tau=nan"}, "tau"),
    ({"method": "er-las:tau=big"}, "tau"),
    ({"method": "er-las:window=0"}, "window"),
    ({"method": "er-las:window=1.5"}, "window"),
    ({"method": "er-las:prior=uniform"}, "macro"),
    ({"method": "er-las:decay=1,prior=exponential"}, "decay"),
    ({"method": "er-las:alpha=1"}, "tau"),
    ({"method": "er:tau=1"}, "er-las"),
    ({"method": "er-las:tau"}, "tau="),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=lambda v: str(v)[:40])
def test_bad_options_are_refused_with_a_hint(options, message):
    with pytest.raises(EvenstreamError, match=message):
        Learner(**options)


def test_unknown_names_are_of_one_family():
    for options in ({"method": "er-lass"}, {"model": "resnet81"}, {"augment": "crops"}):
        with pytest.raises(UnknownName) as caught:
            Learner(**options)
        assert isinstance(caught.value, EvenstreamError) and "'" in str(caught.value)


# ---- losses that are not finite ------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("method", ["er", "er-las", "fine-tune-las", "er-las:prior=random"])
@pytest.mark.parametrize("new_class", [False, True])
def test_a_loss_that_is_not_finite_leaves_no_trace(method, options, new_class):
    stream = class_stream(10)
    bomb, twin = Bomb(), Bomb()
    learner = feed(small(method, bomb, **options), stream[:4])
    x, labels = stream[3]
    bomb.armed = True
    refused(
        learner,
        lambda: learner.learn(x, ["new", *labels[1:]] if new_class else labels),
        NonFiniteLoss,
        r"nan.*step 5",
    )
    bomb.armed = False  # the next batch brings no new class: a softmax too wide would show
    untroubled = feed(small(method, twin, **options), stream)
    assert feed(learner, stream[4:]).fingerprint() == untroubled.fingerprint()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_gradient_that_is_not_finite_leaves_no_trace(options):
    class Cliff(nn.Module):
        """Right on the edge where the square root is finite and its slope is not."""

        armed = False

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(DIM, 6)

        def forward(self, x):
            made = self.layer(x)
            return made + torch.sqrt(made * 0) if self.armed else made

    stream = class_stream(10)
    cliff = Cliff()
    learner = feed(small("er-las", cliff, **options), stream[:4])
    cliff.armed = True
    refused(learner, lambda: learner.learn(*stream[4]), NonFiniteLoss, r"gradient.*nan.*step 5")
    cliff.armed = False
    untroubled = feed(small("er-las", Cliff(), **options), stream)
    assert feed(learner, stream[4:]).fingerprint() == untroubled.fingerprint()


def test_not_finite_at_the_very_first_step():
    learner, fresh = small("er-las", Bomb()), small("er-las", Bomb())
    weights = {name: value.clone() for name, value in learner.model.state_dict().items()}
    learner.model.armed = True
    refused(learner, lambda: learner.learn(X4, Y4), NonFiniteLoss, "step 1")
    assert same(dict(learner.model.state_dict()), weights)
    learner.model.armed = False
    assert not learner.built and learner.labels == [] and learner.predict(X4).tolist() == [None] * 4
    learner.learn(X4, Y4)
    fresh.learn(X4, Y4)
    assert learner.fingerprint() == fresh.fingerprint()


def test_not_finite_at_the_very_first_step_of_a_named_network():
    learner, fresh = small("er-las", "convnet"), small("er-las", "convnet")
    x = images(4).astype(np.float32)
    refused(learner, lambda: learner.learn(x * 1e36, Y4), NonFiniteLoss, "step 1")
    learner.learn(x, Y4)
    fresh.learn(x, Y4)
    assert learner.fingerprint() == fresh.fingerprint()


@pytest.mark.parametrize("options", [{"lr": 1e30}, {"lr": 1e30, "momentum": 0.9}])
def test_an_exploding_learning_rate_is_stopped(options):
    learner = small("er", **options)
    with pytest.raises(NonFiniteLoss, match="learning rate"):
        feed(learner, class_stream())
    refused(learner, lambda: learner.learn(*class_stream(1)[0]), NonFiniteLoss)


def test_not_finite_while_gathering_keeps_what_was_gathered():
    bomb = Bomb()
    learner = small("er-las", bomb, accumulate=4)
    learner.learn(X4[:3], Y4[:3])
    bomb.armed = True
    way_out = r"\(3\) stay gathered, and learner.discard\(\) drops them"
    refused(learner, lambda: learner.learn(X4[3:], Y4[3:]), NonFiniteLoss, way_out)
    refused(learner, learner.flush, NonFiniteLoss, way_out)
    learner.start_task()
    refused(learner, learner.end_task, NonFiniteLoss, way_out)
    bomb.armed = False
    assert learner.flush().rows == 3


def test_gathered_rows_can_be_dropped():
    learner, twin = small("er-las", Bomb(), accumulate=4), small("er-las", Bomb(), accumulate=4)
    feed(learner, [(X4, Y4), (X4[:3], Y4[:3])])
    learner.model.armed = True
    refused(learner, learner.flush, NonFiniteLoss)
    assert (learner.discard(), learner.discard()) == (3, 0)
    text = refused(learner, lambda: learner.learn(X4, Y4), NonFiniteLoss)
    assert "discard" not in text  # none were gathered before
    learner.model.armed = False
    assert learner.flush() is None
    assert learner.fingerprint() == feed(twin, [(X4, Y4)]).fingerprint()


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["good", "bad input", "not finite", "new class", "predict"])))
def test_any_mix_of_good_and_refused_calls_equals_the_good_ones(calls):
    stream = class_stream(30, batch=2, classes=6)
    learner = small("er-las:window=3", Bomb(), memory=5, momentum=0.9)
    expected = small("er-las:window=3", Bomb(), memory=5, momentum=0.9)
    for call, (x, labels) in zip(calls, stream, strict=False):
        if call == "good":
            learner.learn(x, labels)
            expected.learn(x, labels)
        elif call == "bad input":
            with pytest.raises(InputError):
                learner.learn(x, [*labels[:-1], 0.5])
        elif call == "predict":
            learner.predict(x)
        else:
            learner.model.armed = True
            with pytest.raises(NonFiniteLoss):
                learner.learn(x, labels if call == "not finite" else ["another", *labels[1:]])
            learner.model.armed = False
    assert learner.fingerprint() == expected.fingerprint()


class Interrupting(Noisy):
    """Fails in the middle of the forward pass in a way of its own."""

    error = None

    def forward(self, x):
        features = self.layers(x)
        if self.error:
            raise self.error
        return features


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_an_exception_of_the_users_module_passes_and_leaves_no_trace(error):
    module = Interrupting()
    learner = feed(small("er-las", module), class_stream()[:4])
    module.error = error
    refused(learner, lambda: learner.learn(X4, ["new", "class 0", "b", "c"]), type(error))


# ---- tasks ---------------------------------------------------------------------------------------


def test_start_and_end_task_misuse():
    learner = small()
    refused(learner, learner.end_task, InputError, "start_task first")
    learner.start_task()
    refused(learner, learner.start_task, InputError, "end_task first")
    learner.end_task()
    refused(learner, learner.end_task, InputError)
    learner.start_task()
    assert learner.task == 1 and learner.in_task


def test_the_macro_prior_needs_label_counts():
    learner = small("er-las:prior=macro")
    refused(learner, lambda: learner.learn(X4, Y4), InputError, "label_counts")
    refused(learner, learner.start_task, InputError, "label_counts")
    learner.start_task({0: 5, 1: 5, 2: 5})
    learner.learn(X4, Y4)
    refused(learner, lambda: learner.learn(X4, ["surprise", *Y4[1:]]), InputError, "surprise")
    bomb = small("er-las:prior=macro", Bomb())
    bomb.start_task({0: 5, 1: 5, 2: 5})
    bomb.learn(X4, Y4)
    bomb.model.armed = True
    refused(bomb, lambda: bomb.learn(X4, Y4), NonFiniteLoss)


@pytest.mark.parametrize(
    "counts", [{0: -1}, {0: 1.5}, {0: "many"}, {0: True}, {0.5: 3}, {None: 1}, [1, 2], 3]
)
def test_bad_label_counts_are_refused(counts):
    learner = small()
    refused(learner, lambda: learner.start_task(counts), InputError)
    learner.start_task({np.int64(3): np.int64(2), "a": 0})
    assert learner.task_counts == {3: 2, "a": 0}


# ---- odds and ends -------------------------------------------------------------------------------


def test_a_refused_step_does_not_shrink_or_stain_the_memory():
    learner = feed(small("er", Bomb(), memory=6), class_stream()[:6])
    before = learner.memory.field(X).clone()
    learner.model.armed = True
    for seed in range(5):
        with pytest.raises(NonFiniteLoss):
            learner.learn(*blobs(4, seed=seed))
    assert torch.equal(learner.memory.field(X), before) and len(learner.memory) == 6


def test_weights_are_not_replaced_by_a_refused_step():
    learner = feed(small("er", Bomb()), class_stream()[:4])
    before = parameters(learner)
    learner.model.armed = True
    with pytest.raises(NonFiniteLoss):
        learner.learn(X4, ["w", "x", "y", "z"])
    assert same(parameters(learner), before)
    assert learner.predict_proba(X4).shape == (4, len(learner.labels))
    heads = [p for g in learner.optimizer.param_groups for p in g["params"]]
    assert any(p is learner.network.head.weight for p in heads)
