"""What is chosen where nothing is said, for learners, runs, sweeps and live learning alike."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from evenstream import Learner, NotLearning
from evenstream.choosing import MADE_FOR, choose
from evenstream.cli.live_commands import FOR_IMAGES, FOR_TABLES
from evenstream.core.step import StepResult
from evenstream.errors import EvenstreamError
from evenstream.learner.watching import ENOUGH, Watch
from evenstream.streams import open_stream
from evenstream.sweep.experiment import resolved
from tests.helpers.small_streams import blobs, images

WINE = load_wine()
X, Y = WINE.data.astype(np.float32), WINE.target


@pytest.mark.parametrize(
    ("shape", "network"),
    [
        ((5,), "normalised-mlp"),
        ((768,), "normalised-mlp"),
        ((20, 3), "normalised-mlp"),
        ((3, 4, 4), "normalised-mlp"),
        ((1, 8, 8), "convnet"),
        ((3, 64, 64), "convnet"),
        ((3, 224, 224), "resnet18-imagenet"),
    ],
)
def test_the_shape_of_inputs_decides(shape, network):
    assert choose(shape).network == network


@pytest.mark.parametrize("x", [X[:4], images(4, side=8)], ids=["table", "images"])
def test_a_learner_chooses_with_its_first_batch(x):
    learner = Learner()
    assert learner.model == "auto" and "auto" in str(learner)
    learner.learn(x, [0, 1, 0, 1])
    choice = choose(x.shape[1:])
    assert learner.model == choice.network and choice.why in str(learner)
    for name, value in choice.training().items():
        assert getattr(learner.options, name) == value
    assert learner.lr == choice.lr


def test_what_is_given_is_kept():
    learner = Learner(lr=0.5, batch=7)
    learner.learn(X[:4], Y[:4])
    assert (learner.lr, learner.options.batch) == (0.5, 7)
    assert (learner.options.optimizer, learner.options.replay_batch) == ("adamw", 32)
    learner = Learner(optimizer="sgd")
    learner.learn(X[:4], Y[:4])
    assert (learner.options.optimizer, learner.lr) == ("sgd", 0.03)


@pytest.mark.parametrize("model", ["mlp", "convnet"])
def test_a_named_network_has_the_fixed_defaults(model):
    learner = Learner("er-las", model)
    options = learner.options
    assert (options.optimizer, options.lr, options.batch, options.replay_batch) == (
        "sgd",
        0.03,
        32,
        32,
    )


def test_closed_forms_take_the_inputs_as_they_are():
    learner = Learner("slda")
    learner.learn(X, Y)
    assert learner.model == "identity"


def test_a_refused_first_batch_decides_nothing():
    learner = Learner()
    before = learner.fingerprint()
    with pytest.raises(EvenstreamError):
        learner.learn(np.full((2, 3), 1e30), [0, 1])
    assert learner.fingerprint() == before and learner.model == "auto"
    learner.learn(images(2), [0, 1])
    assert learner.model == "convnet"


def test_an_undecided_learner_is_saved_undecided(tmp_path):
    learner = Learner(lr=0.5)
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    for each in (learner, loaded):
        each.learn(X[:10], Y[:10])
    assert loaded.fingerprint() == learner.fingerprint() and loaded.lr == 0.5
    loaded.save(tmp_path)
    assert Learner.load(tmp_path).fingerprint() == learner.fingerprint()


def test_all_commands_ask_the_same_place(tmp_path):
    table = tmp_path / "wine.csv"
    rows = [",".join(map(str, [*x, y])) for x, y in zip(X, Y, strict=True)]
    table.write_text("\n".join([",".join([*"abcdefghijklm", "label"]), *rows]) + "\n")
    chosen = choose((13,))
    protocol = open_stream(str(table)).protocol
    swept = resolved({"method": "er", "stream": str(table)})
    for name, value in {"network": chosen.network, **chosen.training()}.items():
        assert getattr(protocol, name) == swept[name] == FOR_TABLES[name] == value
    assert FOR_IMAGES["network"] == choose((3, 64, 64)).network
    assert resolved({"method": "slda", "stream": str(table)})["network"] == "identity"


def test_named_streams_keep_their_protocols():
    protocol = open_stream("c-digits").protocol
    assert (protocol.network, protocol.lr, protocol.optimizer) == ("mlp", 0.1, "sgd")


# ---- first contact ------------------------------------------------------------------------------


@pytest.mark.parametrize("by_class", [False, True])
def test_wine_without_a_setting(by_class):
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:125], order[125:]
    if by_class:
        train = train[np.argsort(Y[train], kind="stable")]
    learner = Learner()
    for start in range(0, len(train), 10):
        rows = train[start : start + 10]
        learner.learn(X[rows], Y[rows])
    assert np.mean(learner.predict(X[test]) == Y[test]) > 0.93


# ---- a learner that learns nothing ------------------------------------------------------------


def test_a_learner_that_learns_nothing_says_so_once():
    draw = np.random.default_rng(0)
    learner = Learner("er", "mlp", lr=0.0)
    with pytest.warns(NotLearning, match="no more than chance") as told:
        for _ in range(30):
            learner.learn(draw.normal(size=(32, 4)), draw.integers(0, 4, 32))
    assert len(told) == 1


def test_a_loss_that_does_not_fall_is_noticed_where_nothing_is_predicted():
    draw = np.random.default_rng(0)
    learner = Learner("er@ncm", "mlp", lr=1e-9)
    with pytest.warns(NotLearning, match="the loss is"):
        for _ in range(20):
            learner.learn(draw.normal(size=(32, 4)), draw.integers(0, 4, 32))


def test_a_few_measured_rows_are_no_reason_to_warn():
    """With `measure_every=16`, one batch in sixteen says how many are right."""
    watch = Watch()
    told = []
    for number in range(1, 400):
        right = 0.0 if number % 16 == 0 else None
        told.append(watch.trouble(StepResult(number, 1.0, right, 64), rows=32, classes=4))
    first = next(number for number, words in enumerate(told, 1) if words)
    assert first // 16 * 32 >= ENOUGH and "no more than chance" in told[first - 1]


@pytest.mark.filterwarnings("error")
def test_a_learner_that_learns_is_left_alone():
    learner = Learner("er", "mlp", lr=0.1)
    steps = [learner.learn(*blobs(32, seed=seed)) for seed in range(20)]
    assert steps[-1].loss < steps[0].loss


def test_a_method_brings_the_settings_that_it_is_made_for(monkeypatch):
    own = {"optimizer": "adamw", "lr": 0.002, "weight_decay": 0.1, "steps": 2}
    monkeypatch.setitem(MADE_FOR, "er", own)
    chosen = Learner("er", "mlp").options
    assert (chosen.optimizer, chosen.lr, chosen.weight_decay, chosen.steps) == tuple(own.values())
    other = Learner("er", "mlp", optimizer="sgd", steps=1).options
    assert (other.optimizer, other.lr, other.weight_decay, other.steps) == ("sgd", 0.03, 0.0, 1)
    by_network = Learner("er", weight_decay=0.0)
    by_network.learn(X, Y)
    assert (by_network.options.lr, by_network.options.weight_decay) == (0.002, 0.0)
    assert by_network.options.batch == 10  # as chosen for the shape
    assert Learner("er-las", "mlp").options.steps == 1
