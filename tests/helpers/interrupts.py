"""Steps that are interrupted at random moments, compared with steps that are not."""

import random
import signal
import sys
import time
from collections import Counter

import torch

from evenstream.testing import Backbone, make_learner, toy_stream

SPECS = ("er", "er-las", "er-obc", "mkd", "clib", "er@ncm", "er-las@ema", "der++")


class Alarm(Exception):
    """What a program's own handler raises."""


def raise_alarm(number, frame):
    raise Alarm


def campaign(spec, interrupts, *, handler=signal.default_int_handler, again=0.0, model=None):
    """Interrupt steps until it has happened so often; returns how often what came of it.

    `torn`: the learner is neither as it was before the step nor as it is after it; `mode`,
    `generator`, `handler`: it is whole, but these are not as they were. A signal comes once, or
    `again` after so many seconds until the step has ended.
    """
    draw, stream = random.Random(spec), toy_stream(12)

    def new():
        return make_learner(spec, model=model or Backbone())

    new().learn(*stream[0])  # what is slow only once
    whole = new()
    states, seconds = [whole.fingerprint()], []
    for x, labels in stream:
        began = time.perf_counter()
        whole.learn(x, labels)
        seconds.append(time.perf_counter() - began)
        states.append(whole.fingerprint())
    found, outside = Counter(), torch.get_rng_state()
    before = signal.getsignal(signal.SIGALRM)
    try:
        learner = new()
        while found["made"] + found["not made"] + found["torn"] < interrupts:
            if learner.step == len(stream):
                learner = new()
            step, batch = learner.step, stream[learner.step]
            delay = draw.uniform(0, 1.2 * seconds[step])
            came, after = interrupted(lambda: learner.learn(*batch), handler, delay, again)  # noqa: B023
            if not came:
                continue
            if learner.fingerprint() != states[learner.step] or learner.step - step not in (0, 1):
                found["torn"] += 1
                learner = new()
                continue
            found["made" if learner.step > step else "not made"] += 1
            modules = learner.network.modules() if learner.built else ()
            found["mode"] += not all(module.training for module in modules)
            found["generator"] += not torch.equal(torch.get_rng_state(), outside)
            found["handler"] += after is not handler
        new().learn(*stream[0])
        found["handler"] += signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGALRM, before)
    return dict(+found)


def interrupted(action, handler, delay, again=0.0):
    """Whether a signal after `delay` seconds, and `again` after those, came out of an action.

    And the handler that was there in the end.
    """
    came, after = False, None
    hook, sys.unraisablehook = sys.unraisablehook, ignore  # one may come while something is freed
    try:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6), again)
        action()
    except (KeyboardInterrupt, Alarm):
        came = True
    while after is None:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            after = signal.signal(signal.SIGALRM, ignore)  # another thread may get one yet
        except (KeyboardInterrupt, Alarm):
            came = True
    sys.unraisablehook = hook
    return came, after


def ignore(*_):
    pass
