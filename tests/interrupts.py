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

    `torn`: the learner is neither as it was before the step nor as it is after it; `hurt`: the
    learner is whole, but not all around it (modes of the network, generator, handler). A signal
    comes once, or `again` after so many seconds until the step has ended.
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
    before = signal.signal(signal.SIGALRM, handler)
    try:
        learner = new()
        while found["made"] + found["not made"] + found["torn"] < interrupts:
            if learner.step == len(stream):
                learner = new()
            step, batch = learner.step, stream[learner.step]
            delay = draw.uniform(0, 1.2 * seconds[step])
            if not interrupted(lambda: learner.learn(*batch), delay, again):  # noqa: B023
                continue
            if learner.fingerprint() != states[learner.step] or learner.step - step not in (0, 1):
                found["torn"] += 1
                learner = new()
                continue
            found["made" if learner.step > step else "not made"] += 1
            modules = learner.network.modules() if learner.network else ()
            for what, well in (
                ("mode", all(module.training for module in modules)),
                ("generator", torch.equal(torch.get_rng_state(), outside)),
                ("handler", signal.getsignal(signal.SIGALRM) is handler),
            ):
                if not well:
                    found[what] += 1
                    learner = new()
                    torch.set_rng_state(outside)
                    signal.signal(signal.SIGALRM, handler)
        new().learn(*stream[0])
        found["handler"] += signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGALRM, before)
    return dict(+found)


def interrupted(action, delay, again=0.0):
    """Whether a signal after `delay` seconds, and `again` after those, came out of an action."""
    came = False
    hook, sys.unraisablehook = sys.unraisablehook, ignore  # one may come while something is freed
    try:
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6), again)
        action()
    except (KeyboardInterrupt, Alarm):
        came = True
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.unraisablehook = hook
            return came
        except (KeyboardInterrupt, Alarm):
            came = True


def ignore(unraisable):
    pass
