import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Frozen, Learner
from evenstream.encoders import ENCODERS, build_encoder, register_encoder
from evenstream.encoders.efficientnet_lite import EfficientNetLite0, resized
from evenstream.encoders.hugging_face import HuggingFaceText
from evenstream.errors import InputError, UnknownName
from evenstream.live.learner_folder import read_learner
from evenstream.run.runner import start_run
from tests.helpers.small_runs import save_table, small_config


@pytest.fixture(scope="module")
def lite():
    return build_encoder("efficientnet-lite0:size=64")[1]


@pytest.fixture(scope="module")
def wordllama():
    return build_encoder("wordllama")[1]


def synthetic(kind, count, side=64, seed=0):
    """Stripes, dots or a gradient, in random colours and places."""
    draw = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    pictures = []
    for _ in range(count):
        phase, width = draw.integers(0, side), draw.integers(6, 10)
        pattern = {
            "stripes": (rows + phase) // width % 2,
            "dots": ((rows + phase) % (2 * width) < width) & ((columns + phase) % (2 * width) < 6),
            "gradient": ((columns + phase) % side) / side,
        }[kind]
        colours = draw.integers(0, 256, (2, 3, 1, 1))
        picture = colours[0] * (1 - pattern) + colours[1] * pattern
        pictures.append(picture + draw.normal(0, 5, (3, side, side)))
    return np.clip(np.array(pictures), 0, 255).astype(np.uint8)


def test_efficientnet_has_the_features_of_its_weights(lite):
    """Against the layers written out with PyTorch's own BatchNorm and explicit padding."""
    from evenstream.encoders.efficientnet_lite import FILE, PACKAGE, STAGES, package_folder

    weights = torch.load(package_folder(PACKAGE, "images") / FILE, weights_only=True)

    def layer(x, conv, norm, kernel, stride=1, groups=1, relu=True):
        total = [max((-(-s // stride) - 1) * stride + kernel - s, 0) for s in x.shape[2:]]
        (top, left) = (t // 2 for t in total)
        x = nn.functional.pad(x, (left, total[1] - left, top, total[0] - top))
        x = nn.functional.conv2d(x, weights[f"{conv}.weight"], stride=stride, groups=groups)
        names = ("running_mean", "running_var", "weight", "bias")
        x = nn.functional.batch_norm(x, *(weights[f"{norm}.{n}"] for n in names), eps=1e-3)
        return nn.functional.relu6(x) if relu else x

    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    x, number = layer((images * 255 - 127) / 128, "_conv_stem", "_bn0", 3, 2), 0
    for repeats, kernel, stride, expansion, _ in STAGES:
        for index in range(repeats):
            name, before = f"_blocks.{number}", x
            if expansion > 1:
                x = layer(x, f"{name}._expand_conv", f"{name}._bn0", 1)
            step = stride if index == 0 else 1
            x = layer(x, f"{name}._depthwise_conv", f"{name}._bn1", kernel, step, x.shape[1])
            x = layer(x, f"{name}._project_conv", f"{name}._bn2", 1, relu=False)
            x = x + before if x.shape == before.shape else x
            number += 1
    expected = layer(x, "_conv_head", "_bn1", 1).mean((2, 3))
    assert torch.allclose(lite(images), expected, atol=2e-5)
    assert expected.shape == (2, 1280) and float(expected.std()) > 0.1


def test_images_are_brought_to_a_size_that_the_network_knows(lite):
    shapes = {(32, 32): (96, 96), (100, 150): (100, 150), (448, 224): (448, 224)}
    for before, after in {**shapes, (300, 600): (224, 448), (48, 24): (192, 96)}.items():
        assert resized(torch.rand(1, 3, *before), 0).shape[2:] == after
    assert resized(torch.rand(1, 3, 50, 80), 64).shape[2:] == (64, 64)
    gray = torch.rand(2, 1, 64, 64)
    assert torch.allclose(lite(gray), lite(gray.repeat(1, 3, 1, 1)), atol=1e-5)
    for bad in (torch.rand(2, 5, 64, 64), torch.rand(2, 64)):
        with pytest.raises(InputError, match="images"):
            lite(bad)


def test_a_learner_of_images_by_name(tmp_path):
    learner = Learner(model="efficientnet-lite0:size=64", lr=0.01, memory=30, replay_batch=6)
    kinds = ("stripes", "dots", "gradient")
    for seed in range(12):
        kind = kinds[seed // 4]
        learner.learn(synthetic(kind, 6, seed=seed), [kind] * 6)
    test = {kind: synthetic(kind, 8, seed=99) for kind in kinds}
    right = [(learner.predict(x) == kind).mean() for kind, x in test.items()]
    assert np.mean(right) > 0.8, right
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    assert loaded.model_text == "efficientnet-lite0:size=64,then=normalised-mlp"
    assert np.array_equal(loaded.predict_proba(test["dots"]), learner.predict_proba(test["dots"]))
    assert "efficientnet-lite0" in str(loaded)
    with pytest.raises(InputError, match="normalises"):
        Learner(model="efficientnet-lite0", mean=[0.5] * 3)


def test_text_forms():
    frozen = Frozen.read("wordllama:dtype=float16")
    assert frozen.dtype == "float16" and frozen.text == "wordllama:dtype=float16"
    assert Frozen("wordllama", then="mlp").text == "wordllama:then=mlp"
    assert Frozen("wordllama", then=nn.Linear(256, 2)).text is None
    full = "efficientnet-lite0:size=128,views=2,dtype=float16"
    assert Frozen.read(full).text == full
    with pytest.raises(InputError, match="has no option"):
        Frozen.read("wordllama:size=3")
    with pytest.raises(InputError, match="size"):
        Frozen("efficientnet-lite0:size=8")
    with pytest.raises(UnknownName, match="wordllama"):
        Learner(model="word-llama")
    with pytest.raises(UnknownName):
        Frozen("resnet18")


def test_wordllama_is_the_mean_of_the_vectors_of_tokens(wordllama):
    texts = ["where is my card?", "", "Où est ma carte ?", "word " * 3000]
    found = wordllama(texts)
    for text, row in zip(texts, found, strict=True):
        ids = wordllama._tokenizer.encode(text, add_special_tokens=False).ids
        expected = wordllama.table[ids].double().mean(0) if ids else torch.zeros(256)
        assert torch.allclose(row.double(), expected.double(), atol=1e-5)
    near, far = (
        torch.cosine_similarity(*wordllama([text, "my card has not arrived"]), dim=0)
        for text in ("I am still waiting for my new card", "what is the exchange rate of the euro")
    )
    assert near > far + 0.1


def test_a_learner_of_texts_by_name(tmp_path):
    learner = Learner(model="wordllama", lr=0.1, memory=50)
    texts = ["my card is lost", "I cannot find my card", "send money abroad", "transfer some cash"]
    labels = ["card", "card", "transfer", "transfer"]
    for _ in range(20):
        learner.learn(texts, labels)
    assert list(learner.predict(["where did my card go", "pay my friend some money"])) == [
        "card",
        "transfer",
    ]
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    for each in (learner, loaded):
        each.learn(["what is the weather"], ["weather"])
    assert learner.fingerprint() == loaded.fingerprint()
    with pytest.raises(InputError, match="list of texts"):
        Learner(model="wordllama").learn(np.zeros((2, 3)), [1, 2])
    with pytest.raises(InputError, match="mean"):
        Learner(model=Frozen(len), mean=[1.0]).learn(texts, labels)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr("evenstream.encoders.package.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"evenstream\[text\]"):
        Frozen("wordllama")
    with pytest.raises(InputError, match=r"evenstream\[images\]"):
        Learner(model="efficientnet-lite0")


def test_a_missing_package_is_no_damage(monkeypatch, tmp_path):
    learner = Learner(model="wordllama")
    learner.learn(["a", "b"], [1, 2])
    learner.save(tmp_path)
    monkeypatch.setattr("evenstream.encoders.package.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"evenstream\[text\]"):
        Learner.load(tmp_path)


def test_other_weights_of_a_package_are_refused(monkeypatch, tmp_path):
    learner = Learner(model="wordllama")
    learner.learn(["a", "b"], [1, 2])
    learner.save(tmp_path)
    own = Frozen("wordllama").encoder.table

    def other(file):
        return {"embedding": own.half() + 1}

    monkeypatch.setattr("evenstream.encoders.wordllama.load_file", other)
    with pytest.raises(Exception, match="fingerprint"):
        Learner.load(tmp_path)


def test_encoders_of_users():
    with ENCODERS.temporary():

        @register_encoder("sums")
        class Sums(nn.Module):
            """The sum of each row."""

            def forward(self, x):
                return x.flatten(1).sum(1, keepdim=True)

        assert ENCODERS["sums"].description == "The sum of each row."
        learner = Learner(model="sums")
        learner.learn(np.ones((2, 3)), [1, 2])
        assert learner.memory.field("x").tolist() == [[3.0], [3.0]]
        again = Learner.from_state(copy.deepcopy(learner.state()))
        assert again.fingerprint() == learner.fingerprint()


def test_runs_by_name_of_an_encoder(tmp_path):
    with ENCODERS.temporary():

        @register_encoder("halves")
        class Halves(nn.Module):
            """Each value halved."""

            def forward(self, x):
                return x / 2

        table = save_table(tmp_path / "table.npz")
        for network in ("halves", "identity"):
            start_run(small_config(f"c-{table}", network=network), tmp_path / network)
        halves, plain = (read_learner(tmp_path / name)[0] for name in ("halves", "identity"))
        assert halves.model_text == "halves:then=identity" and halves.step == plain.step == 20
        assert torch.equal(halves.memory.field("x") * 2, plain.memory.field("x"))


def characters(texts, padding, truncation, max_length, return_tensors):
    """A tokenizer as transformers has them: a token for each letter."""
    assert padding and truncation and return_tensors == "pt"
    cut = [text[:max_length] for text in texts]
    width = max(map(len, cut))
    ids = torch.tensor([[*map(ord, text), *[0] * (width - len(text))] for text in cut])
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


class Letters(nn.Module):
    """A model as transformers has them."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(256, 4)

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(last_hidden_state=self.table(input_ids))


def test_encoders_of_hugging_face():
    model = Letters()
    encoder = HuggingFaceText(characters, model, longest=5)
    rows = encoder(["ab", "hello world", "c"])
    expected = [model.table(torch.tensor(list(map(ord, t)))).mean(0) for t in ("ab", "hello", "c")]
    assert torch.allclose(rows, torch.stack(expected), atol=1e-6)
    learner = Learner(model=Frozen(encoder))
    learner.learn(["ab", "hello"], [1, 2])
    assert torch.allclose(learner.memory.field("x"), rows[:2], atol=1e-6)


@pytest.mark.parametrize("pooled", [True, False])
def test_outputs_of_hugging_face_models_of_images(pooled):
    class Vision(nn.Module):
        def forward(self, pixel_values):
            tokens = pixel_values.flatten(2).transpose(1, 2)
            return SimpleNamespace(
                pooler_output=tokens[:, 0] if pooled else None, last_hidden_state=tokens
            )

    learner = Learner(model=Frozen(Vision()))
    x = np.random.default_rng(0).random((2, 3, 4, 4)).astype(np.float32)
    learner.learn(x, [1, 2])
    expected = x[:, :, 0, 0] if pooled else x.mean((2, 3))
    assert np.allclose(learner.memory.field("x"), expected, atol=1e-6)


def test_a_size_is_part_of_what_is_compared(lite):
    assert Frozen(lite).fingerprint != Frozen(EfficientNetLite0(size=96)).fingerprint
