"""Methods and networks that users bring: found, checked early, and treated like our own."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner, Method
from evenstream.composition import compose
from evenstream.core.labels import plain_labels
from evenstream.errors import InputError, NonFiniteLoss, UnknownName
from evenstream.methods import register
from evenstream.methods.er import ER, Replay
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.rules import ArgMax
from evenstream.testing import check_las_form_differs
from tests.helpers.small_streams import DIM, blobs, class_stream, feed, images, small

# ---- networks ------------------------------------------------------------------------------------


class Viewing(nn.Module):
    """A network as in many tutorials: `view` takes no other layout than the usual one."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        out = F.max_pool2d(self.conv(x).relu(), 2)
        return out.view(out.size(0), -1)


def test_a_users_network_keeps_its_layout():
    x = images(6, channels=3)
    learner = small("er-las", Viewing())
    learner.learn(x, [0, 1] * 3)
    assert learner.predict_proba(x).shape[0] == 6
    assert learner.network.layout == torch.contiguous_format
    own = Viewing().to(memory_format=torch.channels_last)
    with pytest.raises(InputError, match="view size is not compatible"):  # as it asked for
        small("er-las", own).learn(x, [0, 1] * 3)


class Annotated(nn.Module):
    """A network with state that is no tensor."""

    def __init__(self, note="none"):
        super().__init__()
        self.linear, self.note = nn.Linear(DIM, 5), note

    def forward(self, x):
        return self.linear(x)

    def get_extra_state(self):
        return {"note": self.note}

    def set_extra_state(self, state):
        self.note = state["note"]


@pytest.mark.parametrize("method", ["er-las", "er@ema", "lwf"])
def test_state_of_a_network_that_is_no_tensor(method, tmp_path):
    learner = small(method, Annotated("mine"))
    if "boundaries" in learner.needs:
        learner.start_task()
    feed(learner, class_stream(4))
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, Annotated())
    assert loaded.network.backbone.note == "mine"
    assert loaded.fingerprint() == learner.fingerprint()


# ---- methods -------------------------------------------------------------------------------------


def test_a_method_need_not_be_registered(tmp_path):
    @dataclass
    class Halved(ER):
        def loss(self, step):
            return super().loss(step) / 2

    learner = feed(small(Halved()), class_stream(3))
    assert learner.text == "Halved"
    learner.save(tmp_path)
    assert Learner.load(tmp_path, method=Halved()).fingerprint() == learner.fingerprint()
    assert compose("er").text == "er"


def test_a_method_is_of_one_learner():
    for part in ({"method": ER()}, {"criterion": LogitAdjustedSoftmax()}, {"predict": ArgMax()}):
        part = {"method": "er"} | part
        small(**part)
        with pytest.raises(InputError, match="belongs to another learner"):
            small(**part)


@pytest.mark.parametrize("name", ["my-las", "my:method", "my method", "", "My"])
def test_names_that_could_not_be_written(name):
    with pytest.raises(InputError, match="a method cannot be called"):
        register(name)


def options(**fields):
    """A method with these options."""
    body = {"__annotations__": dict.fromkeys(fields, float)}
    body |= {name: value for name, value in fields.items() if value is not None}
    return dataclass(type("Own", (Replay,), body))


def test_options_that_are_taken():
    with pytest.raises(InputError, match="'head_scale' of method own is taken by its head"):
        register("own")(options(head_scale=1.0))
    register("own")(options(tau=4.0))
    assert compose("own:tau=2").method.tau == 2  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="option 'tau' of method own is also one of its -las form"):
        compose("own-las:tau=2")


def test_a_need_that_there_is_not():
    @dataclass
    class Misspelled(ER):
        needs = frozenset({"boundary"})

    with pytest.raises(UnknownName, match="unknown need of Misspelled 'boundary'; did you mean"):
        small(Misspelled())


def test_options_need_a_default():
    with pytest.raises(InputError, match="option 'weight' of method own needs a default"):
        register("own")(options(weight=None))


def test_weights_that_a_method_moves_are_put_back():
    @dataclass
    class Moving(ER):
        moves_weights = True

        def on_setup(self, learner):
            self.modules["own"] = nn.Linear(2, 2)

        def after_step(self, step):
            with torch.no_grad():
                self.modules["own"].weight += 1
            if step.number == 3:
                raise NonFiniteLoss("no luck")

    learner = feed(small(Moving()), class_stream(2))
    before = learner.fingerprint()
    with pytest.raises(NonFiniteLoss):
        learner.learn(*blobs(4))
    assert learner.fingerprint() == before


def test_a_loss_that_las_cannot_reach_is_found():
    @register("deaf")
    @dataclass
    class Deaf(Method):
        def loss(self, step):
            x, y = step.joint()
            return F.cross_entropy(step.net(x), y)

    with pytest.raises(AssertionError, match="deaf and its -las form learn the same"):
        check_las_form_differs("deaf")


# ---- what they pass ------------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers(tmp_path):
    learner = small(memory=np.int64(5), lr=np.float32(0.5), seed=np.uint8(3))
    assert (learner.options.memory, learner.options.lr, learner.options.seed) == (5, 0.5, 3)
    feed(learner, class_stream(2)).save(tmp_path)
    assert Learner.load(tmp_path).fingerprint() == learner.fingerprint()
    with pytest.raises(InputError, match="lr must be a finite number"):
        small(lr=True)


def test_a_number_too_large_to_be_written_is_no_label():
    assert plain_labels([10**1000]) == [10**1000]
    with pytest.raises(InputError, match="too large; use a text"):
        plain_labels([10**5000])


def test_the_window_counts_no_labels_of_a_refused_call():
    criterion = LogitAdjustedSoftmax(window=3)
    criterion(torch.zeros(2, 3), torch.tensor([0, 1]))
    before = criterion.prior.weights().tolist()
    with pytest.raises(InputError, match=r"\(8, 3\) are not of 4 labels"):
        criterion(torch.zeros(8, 3), torch.tensor([0, 1, 1, 2]))
    assert criterion.prior.weights().tolist() == before
