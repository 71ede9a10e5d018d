"""Fine-tuning: no memory, and it forgets."""

from collections import Counter

import numpy as np

from evenstream.composition import compose
from tests.helpers.small_streams import class_stream, feed, parameters, same, small


def test_fine_tuning_has_no_memory_and_starts_as_er():
    tuned, er = small("fine-tune", memory=500), small("er")
    x, labels = class_stream(1)[0]
    tuned.learn(x, labels)
    er.learn(x, labels)
    assert tuned.memory.capacity == 0 and tuned.memory.fields == ()
    assert same(parameters(tuned), parameters(er))
    assert not compose("fine-tune").method.uses_memory


def test_fine_tuning_predicts_the_last_tasks_classes():
    learner = feed(small("fine-tune", lr=0.3), class_stream(60, batch=8))
    x, _ = zip(*class_stream(20, seed=1), strict=True)
    guesses = Counter(learner.predict(np.concatenate(x)))
    assert guesses["class 2"] + guesses["class 3"] >= 0.9 * sum(guesses.values())
