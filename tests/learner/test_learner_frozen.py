import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Frozen, Learner, follow
from evenstream.checkpoint import fingerprint
from evenstream.choosing import choose
from evenstream.errors import CheckpointError, DamagedCheckpoint, EvenstreamError, InputError
from evenstream.methods import METHODS
from evenstream.testing import LABEL_COUNTS, NEEDS_TASKS, Backbone, feed, toy_stream, toy_task

SETTINGS = {"memory": 20, "batch": 6, "replay_batch": 6, "lr": 0.05, "dtype": "float32"}


class Counting(nn.Module):
    """A backbone that counts the rows it has seen, and would show any change of mode."""

    def __init__(self):
        super().__init__()
        self.net, self.rows = Backbone(dropout=0.5), []

    def forward(self, x):
        assert not self.training and not torch.is_grad_enabled()
        self.rows.append(len(x))
        return self.net(x)


def warmed(module):
    """With statistics of BatchNorm that are not those it begins with."""
    module.train()
    with torch.no_grad():
        for x, _ in toy_stream(5, seed=3):
            (module.net if isinstance(module, Counting) else module)(torch.from_numpy(x))
    return module


def learner(model, method="er-las", **options):
    made = Learner(method, model, **{**SETTINGS, **options})
    if made.needs & NEEDS_TASKS:
        made.start_task(LABEL_COUNTS, toy_task(made, 0))
    return made


def without_front(state):
    return {
        name: value for name, value in state.items() if name not in ("front", "model", "options")
    }


class Features:
    """A stand-in for a learner that is given features extracted by hand."""

    def __init__(self, learner, net):
        self.learner, self.net = learner, net.eval()

    def __getattr__(self, name):
        return getattr(self.learner, name)

    def by_hand(self, data):
        if data is None:
            return None
        with torch.no_grad():
            return self.net(torch.from_numpy(data[0])), data[1]

    def learn(self, x, labels):
        return self.learner.learn(*self.by_hand((x, labels)))

    def start_task(self, counts, data):
        return self.learner.start_task(counts, self.by_hand(data))

    def end_task(self, data):
        return self.learner.end_task(self.by_hand(data))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_is_the_same_on_features_extracted_by_hand(method):
    net = warmed(Backbone())
    frozen = learner(Frozen(net), method)
    hand = Features(Learner(method, **SETTINGS), net)
    if hand.needs & NEEDS_TASKS:
        hand.start_task(LABEL_COUNTS, toy_task(hand, 0))
    stream = toy_stream(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single classes in the window
        feed(frozen, stream)
        feed(hand, stream)
    other = hand.learner
    assert fingerprint(without_front(frozen.state())) == fingerprint(without_front(other.state()))
    x = stream[0][0]
    assert np.array_equal(
        frozen.predict_proba(x), other.predict_proba(hand.by_hand((x, []))[0]), equal_nan=True
    )


def test_each_arriving_row_is_seen_once_and_nothing_moves():
    backbone = warmed(Counting())
    frozen = Frozen(backbone, then="identity")
    made = learner(frozen)
    before = {name: value.clone() for name, value in frozen.encoder.state_dict().items()}
    feed(made, toy_stream(10))
    assert sum(frozen.encoder.rows) == 60 and len(frozen.encoder.rows) == 10
    assert len(made.memory) == 20
    made.predict(toy_stream()[0][0])
    assert sum(frozen.encoder.rows) == 66
    after = frozen.encoder.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in frozen.encoder.parameters())
    assert {p.shape[0] for p in made.network.parameters()} == {4}  # of the head, and no other


def test_what_happens_to_the_original_changes_nothing():
    net = warmed(Backbone())
    one, other = learner(Frozen(net)), learner(Frozen(net))
    stream = toy_stream(4)
    feed(one, stream)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    net.train()(torch.randn(9, 6))
    feed(other, stream)
    assert one.fingerprint() == other.fingerprint()


def test_a_trained_part_behind_it():
    net, second = warmed(Backbone()), nn.Linear(24, 7)
    before = second.weight.clone()
    made = feed(learner(Frozen(net, then=second)), toy_stream(5))
    assert made.network.head.weight.shape == (4, 7)
    assert not torch.equal(made.network.backbone.weight, before)
    named = feed(learner(Frozen(net, then="mlp")), toy_stream(5))
    assert named.network.head.weight.shape == (4, 100)


class Deep(nn.Module):
    """A network whose forward does more than to chain its layers."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layer1 = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8))
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = self.layer1(torch.relu(self.stem(x)))
        return self.out(torch.relu(self.layer2(x) * 2).mean((2, 3)))


@pytest.mark.parametrize("layer", ["layer1", "layer1.1", "stem", "layer2"])
def test_a_network_frozen_up_to_a_layer(layer):
    net = Deep()
    x = torch.randint(0, 256, (6, 3, 10, 10), dtype=torch.uint8)
    expected = copy.deepcopy(net).eval()(x.float() / 255)
    frozen = Frozen(net, up_to=layer)
    made = learner(frozen)
    kept = {name: value.clone() for name, value in frozen.encoder.state_dict().items()}
    later = {name: value.clone() for name, value in frozen.then.state_dict().items()}
    first = frozen.encoder(x.float() / 255)
    assert torch.allclose(frozen.then.eval()(first), expected, atol=1e-6)
    assert kept.keys() | later.keys() == net.state_dict().keys()
    for _ in range(3):
        made.learn(x, ["a", "b", "c"] * 2)
    now, behind = frozen.encoder.state_dict(), made.network.backbone.state_dict()
    assert all(torch.equal(value, now[name]) for name, value in kept.items())
    assert not torch.equal(behind["out.weight"], later["out.weight"])
    assert made.memory.field("x").shape[1:] == first.shape[1:]
    assert made.predict_proba(x).shape == (6, 3)


class Around(Deep):
    def forward(self, x):
        x = torch.relu(self.stem(x))
        return self.out((self.layer2(self.layer1(x)).mean() + x.repeat(1, 2, 1, 1)).mean((2, 3)))


def test_a_cut_that_cannot_be_made_is_refused():
    for net, layer in ((Deep(), "layer9"), (Around(), "layer1"), (Deep(), "layer1.9")):
        with pytest.raises(InputError, match=layer):
            Frozen(net, up_to=layer)


@pytest.mark.parametrize("save", ["fingerprint", "value"])
@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"views": 2}])
def test_saved_and_resumed_is_as_if_never_stopped(tmp_path, save, options):
    net, stream = Deep(), image_stream()
    extra = {"augment": "crop+flip"} if "views" in options else {}
    frozen = Frozen(net, up_to="layer1", save=save, **options)
    same, made = copy.deepcopy(net), learner(frozen, **extra)
    for x, y in stream[:3]:
        made.learn(x, y)
    made.save(tmp_path)
    for x, y in stream[3:]:
        made.learn(x, y)
    again = Frozen(Deep() if save == "value" else same, up_to="layer1", save=save, **options)
    resumed = Learner.load(tmp_path, model=again)
    for x, y in stream[3:]:
        resumed.learn(x, y)
    assert resumed.fingerprint() == made.fingerprint()
    assert np.array_equal(resumed.predict_proba(x), made.predict_proba(x))


def image_stream(steps=6, side=10):
    draw = np.random.default_rng(0)
    return [
        (draw.integers(0, 256, (6, 3, side, side)).astype(np.uint8), [step // 2, 9] * 3)
        for step in range(steps)
    ]


def test_another_backbone_is_refused_by_name(tmp_path):
    net = warmed(Backbone())
    feed(learner(Frozen(net)), toy_stream(3)).save(tmp_path)
    other = warmed(Backbone())
    with torch.no_grad():
        next(other.parameters()).add_(1e-3)
    for wrong in (None, Frozen(other), Frozen(net, dtype="float16"), Frozen(net, then="mlp")):
        with pytest.raises(CheckpointError, match=r"Backbone|float16|mlp"):
            Learner.load(tmp_path, model=wrong)
    with pytest.raises(InputError, match="Frozen"):
        Learner.load(tmp_path, model=net)
    assert Learner.load(tmp_path, model=Frozen(net)).step == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda front: front.pop("title"),
        lambda front: front.update(views="two"),
        lambda front: front.update(values=3),
        lambda front: front.update(input={"shape": [0], "dtype": "float32"}),
        lambda front: front.update(input=7),
    ],
)
def test_a_damaged_entry_is_named(damage):
    net = Backbone()
    state = feed(learner(Frozen(net)), toy_stream(2)).state()
    damage(state["front"])
    with pytest.raises(DamagedCheckpoint, match="front"):
        Learner.from_state(state, model=Frozen(net))


def test_following_a_stream_goes_on_with_the_same_frozen_part_only(tmp_path):
    net, other, stream = Backbone(), Backbone(), toy_stream(4)
    with torch.no_grad():
        next(other.parameters()).add_(1)
    follow(learner(Frozen(net)), stream[:2], tmp_path)
    for wrong in (Frozen(other), Frozen(net, dtype="float16"), "identity"):
        with pytest.raises(InputError, match="other options"):
            follow(learner(wrong), stream, tmp_path)
    follow(gone_on := learner(Frozen(net)), stream, tmp_path)
    assert gone_on.step == 4


def test_following_a_stream_of_texts(tmp_path):
    stream = [([f"text {n}", "more"], ["a", "b"]) for n in range(4)]
    follow(learner(Frozen(length_and_vowels)), stream[:2], tmp_path)
    follow(gone_on := learner(Frozen(length_and_vowels)), stream, tmp_path)
    whole = learner(Frozen(length_and_vowels))
    for batch in stream:
        whole.learn(*batch)
    assert gone_on.fingerprint() == whole.fingerprint()


def test_bfloat16():
    made = feed(learner(Frozen(warmed(Backbone())), dtype="bfloat16"), toy_stream(4))
    stored = made.memory.field("x")
    assert stored.dtype == torch.float32 and torch.equal(stored, stored.bfloat16().float())


def test_a_save_without_a_frozen_part_takes_none(tmp_path):
    feed(learner("mlp"), toy_stream(2)).save(tmp_path)
    with pytest.raises(InputError):
        Learner.load(tmp_path, model=Frozen(Backbone()))


def test_halves_take_half_the_room():
    x, y = toy_stream(1)[0]
    made = learner(Frozen(Backbone(), dtype="float16"))
    made.learn(x, y)
    stored = made.memory.field("x")
    exact = Backbone().eval()(torch.from_numpy(x))
    assert stored.dtype == torch.float16 and torch.equal(stored, exact.half())
    with pytest.raises(InputError, match="float16"):
        learner(Frozen(lambda x: x * 1e6, dtype="float16")).learn(x + 1, y)


def test_views_are_made_once_and_drawn_from():
    def last_pixels(images):
        return images[:, :, -1, -1]

    frozen = Frozen(last_pixels, views=3)
    made = learner(frozen, augment=lambda images: images + torch.rand(len(images), 1, 1, 1))
    x = np.zeros((6, 1, 4, 4), dtype=np.float32)
    for _ in range(3):
        made.learn(x, ["a", "b"] * 3)
    stored = made.memory.field("x")
    assert stored.shape[1:] == (4, 1) and not stored[:, 0].any()
    assert len(stored[:, 1:].unique()) == 3 * len(stored)  # each view is another
    drawn = [made.preprocess.train(stored, torch.Generator().manual_seed(s)) for s in range(40)]
    seen = torch.stack(drawn, 1).squeeze(2)
    for row, views in zip(seen, stored.squeeze(2), strict=True):
        assert torch.equal(row.unique(), views.sort().values)
    assert torch.equal(made.preprocess.plain(stored), stored[:, 0])


def test_views_and_augmentation_need_each_other():
    with pytest.raises(InputError, match="views"):
        learner(Frozen(Deep()), augment="flip")
    with pytest.raises(InputError, match="augment"):
        learner(Frozen(Deep(), views=2))


def test_a_refused_batch_leaves_no_trace():
    made = learner(Frozen(Deep(), views=2), augment="crop+flip")
    before = made.fingerprint()
    x, y = image_stream(1)[0]
    for bad, labels in ((x[:0], []), (x, y[:-1]), (x.astype(float) * np.nan, y), (["text"], [1])):
        with pytest.raises(EvenstreamError):
            made.learn(bad, labels)
        assert made.fingerprint() == before
    made.learn(x, y)
    before = made.fingerprint()
    with torch.no_grad():
        made.network.head.weight[0, 0] = np.inf
    broken = made.fingerprint()
    with pytest.raises(EvenstreamError):
        made.learn(x, [*y[:-1], "new"])
    assert made.fingerprint() == broken != before


def test_an_encoder_that_fails_leaves_no_trace():
    calls = []

    def fickle(x):
        calls.append(len(x))
        if len(calls) == 3:
            raise OSError("no connection")
        return x[:, :3] if len(calls) == 4 else x * 2

    made = learner(Frozen(fickle))
    x, y = toy_stream(1)[0]
    made.learn(x, y)
    made.learn(x, y)
    before = made.fingerprint()
    for reason in ("no connection", r"\(3,\)"):
        with pytest.raises(InputError, match=reason):
            made.learn(x, y)
        assert made.fingerprint() == before


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x[:2], "2 rows"),
        (lambda x: x[:, 0], "batch"),
        (lambda x: x / 0, "NaN or infinite"),
        (lambda x: ["a"] * len(x), "texts"),
    ],
)
def test_what_an_encoder_must_not_return(function, reason):
    x, y = toy_stream(1)[0]
    with pytest.raises(InputError, match=reason):
        learner(Frozen(function)).learn(x, y)


def test_gathered_rows_are_encoded_when_they_arrive(tmp_path):
    net = warmed(Counting())
    frozen = Frozen(net)
    made = learner(frozen, accumulate=5)
    x, y = toy_stream(1)[0]
    for index in range(4):
        assert made.learn(x[index : index + 1], y[index : index + 1]).loss is None
    made.save(tmp_path)
    resumed = Learner.load(tmp_path, model=Frozen(net))
    for each in (made, resumed):
        assert each.learn(x[4:5], y[4:5]).rows == 5
    assert resumed.fingerprint() == made.fingerprint()
    assert frozen.encoder.rows == [1] * 5


def length_and_vowels(texts):
    return np.array([[len(text), sum(c in "aeiou" for c in text)] for text in texts])


def test_texts_through_a_function(tmp_path):
    made = learner(Frozen(length_and_vowels), "er", lr=0.01)
    words = np.array(["sky", "queue", "rhythm", "aoi"], dtype=object)
    for _ in range(30):
        made.learn(words, ["few", "many", "few", "many"])
    assert list(made.predict(["fly", "eau"])) == ["few", "many"]
    assert made.memory.field("x").shape == (20, 2)
    made.save(tmp_path)
    resumed = Learner.load(tmp_path, model=Frozen(length_and_vowels))
    for each in (made, resumed):
        each.learn(("a", "b"), [1, 2])
    assert resumed.fingerprint() == made.fingerprint()
    with pytest.raises(CheckpointError, match="length_and_vowels"):
        Learner.load(tmp_path, model=Frozen(len))
    for bad in ("one text", ["a", None], np.zeros((2, 2)), []):
        with pytest.raises(InputError):
            made.learn(bad, [1, 2])


def test_copies_share_what_is_frozen():
    frozen = Frozen(Backbone())
    made = feed(learner(frozen), toy_stream(3))
    twin = copy.deepcopy(made)
    assert twin.front.frozen is frozen
    feed(twin, toy_stream(1))
    assert twin.step == 4 and made.step == 3
    assert not torch.equal(twin.network.head.weight, made.network.head.weight)


def test_options_that_make_no_sense_are_refused():
    for make in (
        lambda: Frozen(3),
        lambda: Frozen(nn.LazyLinear(3)),
        lambda: Frozen(Deep(), up_to="layer1", then="mlp"),
        lambda: Frozen(len, up_to="layer1"),
        lambda: Frozen(len, save="value"),
        lambda: Frozen(Deep(), save="never"),
        lambda: Frozen(Deep(), dtype="int8"),
        lambda: Frozen(Deep(), views=-1),
        lambda: Frozen(Deep(), then=3),
        lambda: learner(Frozen(Deep(), then="no-such-network")),
        lambda: learner(Frozen(Deep()), weights="somewhere.pth"),
    ):
        with pytest.raises(EvenstreamError):
            make()


# ---- nothing said about what follows -------------------------------------------------------------


def test_what_follows_is_chosen_as_for_an_array_of_features(tmp_path):
    net, (x, y) = warmed(Backbone()), toy_stream()[0]
    made = Learner("er-las", Frozen(net))
    assert "chosen with the first batch" in str(made)
    made.learn(x, y)
    choice = choose((24,))
    assert made.model == choice.network and made.lr == choice.lr
    assert choice.why in str(made) and "adamw at 0.003, 10 + 32 rows" in str(made)
    made.save(tmp_path)
    loaded = Learner.load(tmp_path, model=Frozen(net))
    assert loaded.fingerprint() == made.fingerprint()
    closed = Learner("slda", Frozen(net))
    closed.learn(x, y)
    assert closed.model == "identity"


def test_an_earlier_save_keeps_the_head_alone(tmp_path):
    net, (x, y) = warmed(Backbone()), toy_stream()[0]
    earlier = learner(Frozen(net, then="identity"))
    earlier.learn(x, y)
    earlier.save(tmp_path)
    loaded = Learner.load(tmp_path, model=Frozen(net))
    assert loaded.model == "identity" and loaded.fingerprint() == earlier.fingerprint()


def test_print_says_who_is_asked_behind_a_frozen_network():
    made = Learner(model=Frozen(warmed(Backbone())))
    for x, y in toy_stream(12):
        made.learn(x, y)
    assert "predicts; right, class by class" in str(made)
