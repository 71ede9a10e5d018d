"""A classifier after each stage of the network, each trained by the method's own loss."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.heads import Exits, ExitsHead, GrowingHead
from evenstream.errors import InputError
from evenstream.methods import METHODS
from evenstream.networks import build, canonical_name
from evenstream.testing import DIM, make_learner, toy_stream
from evenstream.testing import feed as feed_tasks
from tests.helpers.small_streams import images, refused, small
from tests.helpers.stages import SIZES, Stages


def parts(features, weight, bias):
    """The logits of each exit, written out."""
    return [
        features[:, :3] @ weight[:, :3].T + bias[:, 0],
        features[:, 3:] @ weight[:, 3:].T + bias[:, 1],
    ]


def test_the_head_is_a_layer_for_each_stage():
    head = ExitsHead(SIZES, seed=3, size=4)
    features = torch.randn(6, 8)
    one, two = parts(features, head.weight, head.bias)
    torch.testing.assert_close(head.exit_logits(0, features), one)
    torch.testing.assert_close(head.exit_logits(1, features, 2), two[:, :2])
    torch.testing.assert_close(head(features), (one.log_softmax(1) + two.log_softmax(1)) / 2)


def test_rows_do_not_depend_on_when_they_were_made():
    grown, made = ExitsHead(SIZES, seed=3), ExitsHead(SIZES, seed=3, size=5)
    for size in (1, 2, 5):
        grown.grow(size)
    assert torch.equal(grown.weight, made.weight) and torch.equal(grown.bias, made.bias)
    assert made.weight[:, :3].abs().max() <= 3**-0.5 and made.weight[:, 3:].abs().max() <= 5**-0.5
    # a single stage is a linear head
    one, plain = ExitsHead((8,), seed=1, size=3), GrowingHead(8, seed=1, size=3)
    assert torch.equal(one.weight, plain.weight) and torch.equal(one.bias[:, 0], plain.bias)


@pytest.mark.parametrize("early", [1.0, 0.25])
def test_a_step_of_er_las_trains_each_exit(early):
    """Against a step written by hand: the adjusted loss of each exit, one backward, SGD."""
    module = Stages()
    learner = Learner(
        f"er-las:head=exits,head_early={early}", module, memory=0, lr=0.1, dtype="float32",
        head_size=3,
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(6, DIM)).astype(np.float32)
    labels = [0, 1, 2, 0, 0, 1]
    by_hand = Stages()
    by_hand.use_exits()
    head = ExitsHead(SIZES, seed=0, size=3)
    with learner.randomness.owned_global():
        state = torch.get_rng_state()
    result = learner.learn(x, labels)
    torch.set_rng_state(state)
    y = torch.tensor(labels)
    prior = torch.log(torch.tensor([3.0, 2.0, 1.0]))
    features = by_hand(torch.from_numpy(x))
    losses = [F.cross_entropy(z + prior, y) for z in parts(features, head.weight, head.bias)]
    loss = early * losses[0] + losses[1]
    loss.backward()
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    for mine, theirs in zip(
        [*by_hand.parameters(), head.weight, head.bias], learner.network.parameters(), strict=True
    ):
        torch.testing.assert_close(mine - 0.1 * mine.grad, theirs, rtol=1e-4, atol=1e-6)


def test_the_backbone_is_asked_once_for_all_exits():
    learner = make_learner("er-las:head=exits", model=Stages())
    asked = []
    learner.model.register_forward_hook(lambda module, args, out: asked.append(len(args[0])))
    for x, labels in toy_stream(3):
        learner.learn(x, labels)
    assert asked[-2:] == [12, 12]
    assert learner.passes.count == pytest.approx(3 * sum(asked[1:]), rel=1e-6)


EVERY = [*METHODS, "er-las@ema", "mir-las@ncm", "ocs:gradients=full"]


@pytest.mark.parametrize("method", EVERY)
def test_every_method_resumes_exactly_or_says_why_not(method):
    name, _, rule = method.partition("@")
    spec = f"{name}{',' if ':' in name else ':'}head=exits{'@' + rule if rule else ''}"
    try:
        compose(spec)
    except InputError as error:
        assert "makes no sense" in str(error)
        return
    stream = toy_stream(6)
    learner = feed_tasks(make_learner(spec, model=Stages(), momentum=0.9), stream[:4])
    resumed = Learner.from_state(learner.state(), Stages())
    assert (
        feed_tasks(resumed, stream[4:]).fingerprint()
        == feed_tasks(learner, stream[4:]).fingerprint()
    )
    assert learner.network.head.bias.shape == (4, 2)


def test_growth_is_undone_with_a_refused_step():
    learner = make_learner("er-las:head=exits@ema", model=Stages(), optimizer="adamw")
    feed_tasks(learner, toy_stream(4))
    loss = learner.method.loss
    learner.method.loss = lambda step: loss(step) * float("inf")
    refused(learner, lambda: learner.learn(np.zeros((3, DIM), np.float32), ["new", "new", 7]))


def test_resnets_have_four_exits():
    raw = images(4, side=16, channels=3)
    learner = small("er-las:head=exits", "slim-resnet18", memory=4)
    learner.learn(raw, [0, 1, 2, 3])
    assert learner.network.head.sizes == (20, 40, 80, 160)
    network = copy.deepcopy(learner.network.backbone).eval()
    x = torch.randn(2, 3, 16, 16)
    found = network(x)
    network.exits = ()
    torch.testing.assert_close(found[:, -160:], network(x))


@pytest.mark.parametrize("model", ["mlp", nn.Identity()])
def test_a_network_without_stages_is_refused(model):
    learner = small("er:head=exits", model)
    with pytest.raises(InputError, match="stages to exit after"):
        learner.learn(np.zeros((2, DIM), np.float32), [0, 1])


def test_the_option_is_written_and_bounded():
    assert compose("er-las:head=exits,head_early=0.5").text == "er-las:head=exits,head_early=0.5"
    assert compose("er:head=exits").text == "er:head=exits"
    with pytest.raises(InputError, match="early must be"):
        Exits(early=-1)


# ---- zero-initialised scales ---------------------------------------------------------------------


def test_blocks_can_begin_as_their_shortcut():
    torch.manual_seed(0)
    plain = build("slim-resnet18", (3, 9, 9))
    torch.manual_seed(0)
    zeroed = build("slim-resnet18:zero_init=true", (3, 9, 9))
    assert not zeroed.layer3[1].bn2.weight.any()
    block, x = zeroed.layer1[0].eval(), torch.rand(2, 20, 9, 9)
    torch.testing.assert_close(block(x), x)
    # all else is drawn as before
    assert torch.equal(plain.layer2[0].conv1.weight, zeroed.layer2[0].conv1.weight)


def test_networks_with_options_are_named_in_one_way():
    assert canonical_name("resnet18:zero_init=false") == "resnet18"
    assert canonical_name("resnet34:zero_init=true") == "resnet34:zero_init=true"
    with pytest.raises(InputError, match="no option 'zero_init'"):
        small(model="mlp:zero_init=true")
    learner = small("er", "slim-resnet18:zero_init=true")
    learner.learn(images(2, side=9), [0, 1])
    assert Learner.from_state(learner.state()).fingerprint() == learner.fingerprint()
