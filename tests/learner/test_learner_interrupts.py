"""Signals that arrive inside a step: it is made or not made, never torn."""

import contextlib
import copy
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import evenstream
from evenstream.interruption import stop_on_signal
from evenstream.methods.er import ER
from tests.helpers.interrupts import SPECS, Alarm, campaign, raise_alarm
from tests.helpers.small_streams import (
    DIM,
    Noisy,
    blobs,
    class_stream,
    feed,
    parameters,
    same,
    small,
)

WHOLE = {"made", "not made"}


@pytest.mark.parametrize("spec", SPECS)
def test_interrupted_steps_are_made_or_not_made(spec):
    assert campaign(spec, 8).keys() <= WHOLE
    assert campaign(spec, 4, again=3e-4).keys() <= WHOLE
    assert campaign(spec, 3, handler=raise_alarm).keys() <= WHOLE


@pytest.mark.slow
@pytest.mark.parametrize("handler", [signal.default_int_handler, raise_alarm])
@pytest.mark.parametrize("again", [0.0, 3e-4])
@pytest.mark.parametrize("spec", SPECS)
def test_a_thousand_interrupted_steps_on_two_threads(spec, again, handler):
    torch.set_num_threads(2)
    for model in (None, "mlp-norm"):
        found = campaign(spec, 16, handler=handler, again=again, model=model)
        assert found.keys() <= WHOLE and sum(found.values()) == 16


OWN_CODE = (str(Path(evenstream.__file__).parent), contextlib.__file__)


class CtrlCAtLine:
    """Ctrl-C before the line of our own code, in the order of running, that has this number."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(OWN_CODE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self

    def interrupts(self, action):
        """Whether it came to that line."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            action()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        return self.left <= 0


@pytest.mark.parametrize(
    "stride", [pytest.param(13), pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"]
)
@pytest.mark.parametrize("spec", ["er-las", "er-obc@ncm"])
def test_ctrl_c_at_every_line_of_a_step(spec, stride):
    stream, outcomes = class_stream(8), set()
    before = feed(small(spec, Noisy()), stream[:5])
    after = feed(copy.deepcopy(before), stream[5:6])
    states = {learner.step: learner.fingerprint() for learner in (before, after)}
    outside, line = torch.get_rng_state(), 1
    while True:
        learner = copy.deepcopy(before)
        if not CtrlCAtLine(line).interrupts(lambda: learner.learn(*stream[5])):  # noqa: B023
            break
        assert learner.fingerprint() == states[learner.step], line
        assert all(module.training for module in learner.network.modules()), line
        assert torch.equal(torch.get_rng_state(), outside), line
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, line
        outcomes.add(learner.step)
        line += stride
    assert outcomes == states.keys() and line > 300


class Signalling(nn.Module):
    """Gets signals in its forward pass, once."""

    def __init__(self, *numbers):
        super().__init__()
        self.linear, self.numbers, self.armed = nn.Linear(DIM, 5), numbers, False

    def forward(self, x):
        out = self.linear(x)
        if self.armed:
            self.armed = False
            for number in self.numbers:
                signal.raise_signal(number)
        return out


@pytest.fixture
def handle():
    """Sets handlers of signals that are put back after the test."""
    before = {}

    def set_handler(number, handler):
        before.setdefault(number, signal.signal(number, handler))

    yield set_handler
    for number, handler in before.items():
        signal.signal(number, handler)


def armed(*numbers):
    learner = feed(small("er-las", Signalling(*numbers)), class_stream(4))
    learner.model.armed = True
    return learner


def test_ctrl_c_before_the_update_leaves_the_step_unmade():
    learner = armed(signal.SIGINT)
    before = learner.fingerprint()
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*class_stream(5)[4])
    assert learner.fingerprint() == before


def test_a_programs_own_handler_finds_a_whole_learner(handle, tmp_path):
    """It may save: it runs when the step is made."""
    learner = armed(signal.SIGTERM)
    x, labels = class_stream(5)[4]

    def save_and_exit(number, frame):
        learner.save(tmp_path)
        sys.exit(3)

    handle(signal.SIGTERM, save_and_exit)
    with pytest.raises(SystemExit):
        learner.learn(x, labels)
    saved = evenstream.Learner.load(tmp_path, Signalling())
    assert saved.step == learner.step == 5
    assert saved.fingerprint() == learner.fingerprint()
    assert signal.getsignal(signal.SIGTERM) is save_and_exit


def test_every_signal_is_delivered_even_if_another_raises(handle):
    came = []

    def note(number, frame):
        came.append(number)
        raise Alarm

    def only_note(number, frame):
        came.append(number)

    handle(signal.SIGUSR1, note)
    handle(signal.SIGUSR2, only_note)
    numbers = [signal.SIGUSR1, signal.SIGUSR1, *[signal.SIGUSR2] * 3000]
    learner = armed(*numbers)
    with pytest.raises(Alarm):
        learner.learn(*class_stream(5)[4])
    assert came == numbers and learner.step == 5


def test_the_handler_that_a_step_sets_stays(handle):
    handle(signal.SIGUSR1, raise_alarm)

    class Setting(Signalling):
        def forward(self, x):
            if self.armed:
                signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            return self.linear(x)

    learner = small("er", Setting())
    learner.model.armed = True
    learner.learn(*blobs(4))
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


@pytest.mark.parametrize(("signals", "steps"), [(1, 5), (2, 4)])
def test_a_request_to_stop_lets_the_step_be_made_and_two_do_not(signals, steps):
    learner = armed(*[signal.SIGTERM] * signals)
    insists = pytest.raises(KeyboardInterrupt) if signals == 2 else contextlib.nullcontext()
    with insists, stop_on_signal() as stop:
        learner.learn(*class_stream(5)[4])
    assert stop.is_set() and learner.step == steps


def test_ctrl_c_in_a_prediction_leaves_the_network_in_training_mode():
    learner = armed(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        learner.predict(blobs(600)[0])
    assert all(module.training for module in learner.network.modules())


class LongEnd(ER):
    """Trains on and on at the end of a task, and is stopped after three steps of it."""

    steps = 0

    def on_task_end(self, learner, data):
        for self.steps in range(1, 100):
            if self.steps == 3:
                signal.raise_signal(signal.SIGINT)
            learner.update(learner.network.head.weight.square().sum(), "head")


def test_ctrl_c_stops_a_long_end_of_a_task_at_its_next_update():
    method = LongEnd()
    learner = small(method, Noisy())
    learner.start_task()
    feed(learner, class_stream(4))
    before = parameters(learner)
    with pytest.raises(KeyboardInterrupt):
        learner.end_task()
    assert method.steps == 3 and learner.in_task
    assert same(parameters(learner), before)


KERNEL = """
import sys
sys.path[:0] = {path!r}
import torch
from evenstream.testing import make_learner, toy_stream
torch.set_num_threads(2)
stream = toy_stream(12)
new = lambda: make_learner("er-las", model="mlp-norm")
whole, states = new(), []
for x, labels in [(None, None), *stream]:
    if labels:
        whole.learn(x, labels)
    states.append(whole.fingerprint())
learner = new()
"""
LEARN = """
while True:
    if learner.step == len(stream):
        learner = new()
    learner.learn(*stream[learner.step])
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_interrupts_of_a_jupyter_kernel():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120)

    def answer(sent):
        while True:
            reply = client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == sent:
                return reply["content"]

    def runs(code):
        return answer(client.execute(code))["status"] == "ok"

    try:
        assert runs(KERNEL.format(path=[str(Path(evenstream.__file__).parents[1])]))
        draw = random.Random(0)
        for _ in range(200):
            sent = client.execute(LEARN, stop_on_error=False)
            time.sleep(draw.uniform(0.02, 0.1))
            manager.interrupt_kernel()
            assert answer(sent)["ename"] == "KeyboardInterrupt"
            assert runs("assert learner.fingerprint() == states[learner.step]")
            assert runs("assert not learner.built or learner.network.training")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
