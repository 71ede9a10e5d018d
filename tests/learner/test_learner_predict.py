"""What `predict` answers, and that it changes nothing."""

import numpy as np
import pytest

from evenstream.errors import InputError
from tests.helpers.small_streams import Noisy, blobs, class_stream, feed, small


def test_predict_before_any_learn():
    learner = small()
    x, _ = blobs(3)
    assert learner.predict(x).tolist() == [None] * 3
    assert learner.predict_proba(x).shape == (3, 0)
    assert learner.predict_indices(x).tolist() == [-1] * 3
    assert learner.labels == [] and learner.step == 0


def test_predict_proba_is_a_distribution_whose_top_is_predict():
    learner = feed(small(), class_stream())
    x = np.concatenate([batch for batch, _ in class_stream()])
    proba = learner.predict_proba(x)
    assert proba.dtype == np.float32 and (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert learner.predict(x).tolist() == [learner.labels[i] for i in proba.argmax(1)]
    assert learner.predict_indices(x).tolist() == proba.argmax(1).tolist()


def test_predict_in_parts_equals_predict_at_once(monkeypatch):
    learner = feed(small(), class_stream())
    x, _ = blobs(10)
    whole = learner.predict_proba(x)
    monkeypatch.setattr("evenstream.core.outputs.PREDICT_BATCH", 3)
    sizes, features = [], learner.network.features
    learner.network.features = lambda x: sizes.append(len(x)) or features(x)
    np.testing.assert_allclose(learner.predict_proba(x), whole, rtol=1e-5)
    assert sizes == [3, 3, 3, 1]


@pytest.mark.parametrize("model", ["mlp", Noisy()], ids=["named", "own"])
def test_predict_changes_no_state(model):
    learner = feed(small("er-las", model), class_stream())
    before, modes = learner.fingerprint(), [m.training for m in learner.network.modules()]
    x, _ = blobs(5)
    first = learner.predict_proba(x)
    learner.predict(x, priors=dict.fromkeys(learner.labels, 0.25))
    assert learner.fingerprint() == before
    assert [m.training for m in learner.network.modules()] == modes
    assert np.array_equal(learner.predict_proba(x), first)
    with pytest.raises(InputError):
        learner.predict(x[:, :2])
    assert learner.fingerprint() == before


def test_predict_between_steps_changes_nothing_later():
    stream = class_stream()
    one, two = small("er-las", Noisy()), small("er-las", Noisy())
    for x, labels in stream:
        one.learn(x, labels)
        two.predict(x)
        two.learn(x, labels)
        two.predict_proba(x)
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["b", "a"], "U"),
        ([3, -1], "i"),
        ([True, False], "b"),
        (["b", 1], "O"),
        ([True, 1], "O"),
        ([("a", 1), ("b", 2)], "O"),
        ([2**70, 1], "O"),
        (["a\0", "a"], "O"),
    ],
)
def test_labels_come_back_in_an_array_as_they_were(labels, kind):
    learner = small("er")
    x = blobs(4)[0]
    learner.learn(x, [*labels, *labels])
    found = learner.predict(x)
    assert found.shape == (4,) and found.dtype.kind == kind
    expected = [learner.labels[index] for index in learner.predict_indices(x)]
    assert found.tolist() == expected and list(map(type, found.tolist())) == list(
        map(type, expected)
    )
