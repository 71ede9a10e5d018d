"""`Learner.export`: a file that predicts as the learner does, run by other programs."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from torch import nn

from evenstream import Frozen, Learner
from evenstream.data import load_dataset
from evenstream.errors import EvenstreamError, InputError
from evenstream.learner import export
from evenstream.networks import NETWORKS
from evenstream.networks.convolution import Convolution
from evenstream.policies.rules import RULES, Contest
from evenstream.tabular import TableEncoder
from tests.helpers.exported import CLOSE, agrees, loaded, metadata
from tests.helpers.small_streams import blobs, class_stream, feed, images, small

FORMS = [
    *("class-means", "class-means:distance=cosine", "slda", "randumb:width=40"),
    *("ranpac:width=40", "ranpac:width=40,scaling=columns", "ranpac:width=40,scaling=rows"),
]
COMPOSED = [*FORMS, *(f"er@{name}" for name in RULES), "er-las:head=cosine", "er-las@ema:mix=0.5"]
COMPOSED += ["pec:schedule=constant", "bic", "il2m", "scr"]
FAST = ["class-means", "ranpac:width=40,scaling=columns", "er@ncm", "er@normalised", "er@post-hoc"]
FAST += ["er-las@ema:mix=0.5", "pec:schedule=constant", "auto"]


def learned(text, model=None, **options):
    """A learner after two tasks, the second of which has just ended."""
    learner = small(text, model or ("identity" if text in FORMS else "mlp"), **options)
    stream = class_stream(steps=8)
    for part in (stream[:4], stream[4:]):
        data = tuple(np.concatenate(each) for each in zip(*part, strict=True))
        data = data if "second_pass" in learner.needs else None
        if learner.needs & {"boundaries", "second_pass"}:
            learner.start_task(data=data)
        feed(learner, part)
        if learner.in_task:
            learner.end_task(data=data)
    return learner


@pytest.mark.parametrize("text", FAST)
def test_the_file_predicts_as_the_learner_does(text, tmp_path):
    agrees(learned(text), class_stream(seed=5)[0][0], tmp_path / "learner.pt2")


REAL = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}


def real(text, name):
    """A learner of three quarters of a real table, and the rows that it has not seen."""
    x, y = REAL[name](return_X_y=True)
    x, order = x.astype(np.float32), np.random.default_rng(0).permutation(len(y))[:600]
    learner, new = Learner(text, dtype="float32", memory=100, seed=0), order[::4]
    for rows in np.array_split(np.setdiff1d(order, new, assume_unique=True), 12):
        learner.learn(x[rows], y[rows])
    return learner, x[new]


@pytest.mark.parametrize(
    ("text", "name"),
    [("class-means", "digits"), ("slda", "wine"), ("ranpac:scaling=columns", "breast cancer")],
)
def test_closed_forms_on_real_tables(text, name, tmp_path):
    learner, x = real(text, name)
    agrees(learner, x, tmp_path / "learner.pt2")


SLOW_ONNX = [pytest.param(t, marks=pytest.mark.slow) for t in ("er-las", "class-means", "ranpac")]


@pytest.mark.parametrize("text", ["slda", *SLOW_ONNX])
def test_a_network_and_closed_forms_for_onnx_on_real_rows(text, tmp_path):
    learner, x = real(text, "wine")
    agrees(learner, x, tmp_path / "learner.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("text", [*FORMS, "ranpac:scaling=columns", "auto"])
def test_every_closed_form_on_real_tables(text, name, suffix, tmp_path):
    learner, x = real(text, name)
    # cosines of large numbers: columns reach 4,000 here, and ONNX Runtime rounds differently
    short = text.startswith("randumb") and name == "breast cancer" and suffix == ".onnx"
    agrees(learner, x, tmp_path / f"learner{suffix}", 3e-5 if short else CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize("text", COMPOSED)
def test_every_rule_and_closed_form_does(text, suffix, tmp_path):
    agrees(learned(text), class_stream(seed=5)[0][0], tmp_path / f"learner{suffix}")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_on_real_images(network, suffix, tmp_path):
    digits = load_dataset("digits")
    side = max(4, (NETWORKS.find(network).min_side or 8) // 8 + 1)
    larger = np.ones((1, 1, side, side), np.uint8)
    learner = small("er-las", network, lr=0.01, mean=(0.3,), std=(0.4,))
    for first in range(0, 64, 16):
        rows = slice(first, first + 16)
        learner.learn(np.kron(digits.x_train[rows], larger), digits.y_train[rows])
    x = np.kron(digits.x_test[:50], larger)
    assert learner.predict_proba(x).max(1).mean() < 0.9  # nothing is saturated
    agrees(learner, x, tmp_path / f"learner{suffix}")


@pytest.mark.parametrize("suffix", [".pt2", pytest.param(".onnx", marks=pytest.mark.slow)])
@pytest.mark.parametrize("asked", ["network", "slda", "ranpac"])
def test_the_default_learner_on_real_rows_whoever_is_asked(asked, suffix, tmp_path, monkeypatch):
    digits = load_dataset("digits")
    x = digits.x_train[:400].reshape(400, -1).astype(np.float32)
    learner = Learner("er-las@contest:width=150", dtype="float32")
    for first in range(0, 400, 50):
        learner.learn(x[first : first + 50], digits.y_train[first : first + 50])
    monkeypatch.setattr(Contest, "best", lambda rule: asked)
    new = digits.x_test[:50].reshape(50, -1).astype(np.float32)
    agrees(learner, new, tmp_path / f"learner{suffix}")


@pytest.mark.parametrize("text", ["er-las", "slda"])
def test_the_default_for_tables_normalises_columns_of_any_scale(text, tmp_path):
    learner = small(text, "mlp-norm")
    x, y = blobs(60)
    scales = np.float32([1e6, 1e-3, 1, 10, 100])
    for first in range(0, 60, 10):
        learner.learn(x[first : first + 10] * scales + scales, y[first : first + 10])
    agrees(learner, blobs(9, seed=3)[0] * scales + scales, tmp_path / "table.pt2")


def test_the_network_of_tables_goes_through_torch_export_by_itself():
    network = learned("er-las", "mlp-norm").network.eval()
    x = torch.from_numpy(class_stream(seed=5)[0][0])
    rows = ({0: torch.export.Dim("rows", min=1)},)
    traced = torch.export.export(network, (x,), dynamic_shapes=rows, strict=False).module()
    assert torch.equal(traced(x[:1]), network(x[:1]))


def test_raw_images_are_scaled_normalised_and_cropped_inside_the_file(tmp_path):
    channels = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.25)}
    learner = small("er-las", "convnet", augment="resized-crop@8+flip", lr=0.01, **channels)
    for seed in range(3):
        learner.learn(images(6, 12, 3, seed), ["a", "b", "c"] * 2)
    agrees(learner, images(5, 12, 3, seed=9), tmp_path / "cropped.pt2")


def test_convolutions_of_our_own_become_plain_ones(tmp_path):
    wide = nn.Sequential(Convolution(64, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    learner = small("er-las", wide)
    learner.learn(images(10, 8, 64), ["a", "b"] * 5)
    agrees(learner, images(10, 8, 64, seed=1), tmp_path / "images.pt2")


def test_the_labels_are_in_the_file(tmp_path):
    learner = small("class-means", "identity")
    learner.learn(blobs(4)[0], ["größer", 3, True, ("a", 1)])
    said = metadata(learner.export(tmp_path / "labels.pt2"))
    assert said["labels"] == ["größer", 3, True, ["a", 1]]
    assert (said["method"], said["steps"]) == ("class-means", 1)


def weights_in(file):
    program = torch.export.load(file)
    tensors = [*program.state_dict.values(), *program.constants.values()]
    return [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]


def test_the_file_holds_no_rows_of_the_stream(tmp_path):
    learner = small("randumb:width=40,scaling=columns", "identity")
    x, y = blobs(13)  # they wait for the scale of the columns
    learner.learn(x, y)
    agrees(learner, blobs(5, seed=1)[0], tmp_path / "learner.pt2")
    sizes = [tensor.shape[0] for tensor in weights_in(tmp_path / "learner.pt2") if tensor.ndim]
    assert sizes and 13 not in sizes


def test_the_file_holds_only_the_weights_that_predict(tmp_path):
    one, average = (learned(text).export(tmp_path / f"{text}.pt2") for text in ("er", "er@ema"))
    sizes = [sum(tensor.numel() for tensor in weights_in(file)) for file in (one, average)]
    assert sizes[0] == sizes[1]


def test_a_learner_in_bfloat16_is_exported_in_float32(tmp_path):
    learner = learned("er-las", dtype="bfloat16")
    file = learner.export(tmp_path / "learner.pt2")
    learner.network.dtype = torch.float32
    x = class_stream(seed=5)[0][0]
    np.testing.assert_allclose(loaded(file)(x), learner.predict_proba(x), rtol=0, atol=1e-6)


class Picky(nn.Module):
    """Looks at values to decide what to do."""

    def forward(self, x):
        return x if float(x.sum()) > 0 else -x


def test_a_module_of_ones_own_is_exported_or_refused_by_name(tmp_path):
    own = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Dropout())
    x = class_stream(seed=5)[0][0]
    agrees(learned("er-las", own), x, tmp_path / "own.pt2")
    learner = learned("er-las", Picky())
    with pytest.raises(EvenstreamError, match="er-las with the network Picky cannot be exported"):
        learner.export(tmp_path / "picky.pt2")
    assert [file.name for file in tmp_path.iterdir()] == ["own.pt2"]


@pytest.mark.parametrize("options", [{}, {"views": 2, "dtype": "float16"}])
def test_a_frozen_network_is_part_of_the_file(options, tmp_path):
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten())
    model = Frozen(backbone, then="mlp", **options)
    learner = small("er-las", model, augment="flip" if options else "none", std=(0.2, 0.3, 0.4))
    learner.learn(images(8, 8, 3), ["a", "b"] * 4)
    agrees(learner, images(5, 8, 3, seed=1), tmp_path / "frozen.pt2")


def lengths(texts):
    return [[len(text), text.count(" ")] for text in texts]


def doubled(x):
    return 2 * x


def test_frozen_functions_are_refused_by_name(tmp_path):
    reading, other = small("er-las", Frozen(lengths)), small("er-las", Frozen(doubled))
    reading.learn(["a b", "abc"], ["x", "y"])
    other.learn(*blobs(4))
    with pytest.raises(InputError, match=r"lengths cannot be exported: it reads texts"):
        reading.export(tmp_path / "texts.pt2")
    with pytest.raises(InputError, match=r"doubled cannot be exported: it is a function"):
        other.export(tmp_path / "other.pt2")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="before the first batch"):
        Learner().export(tmp_path / "early.pt2")
    learner = learned("er-las")
    with pytest.raises(InputError, match=r"\.onnx and \.pt2"):
        learner.export(tmp_path / "learner.bin")
    with pytest.raises(EvenstreamError, match=r"cannot write.*nowhere does not exist"):
        learner.export(tmp_path / "nowhere" / "learner.pt2")
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(EvenstreamError, match=r"evenstream\[onnx\]"):
        learner.export(tmp_path / "learner.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".pt2", pytest.param(".onnx", marks=pytest.mark.slow)])
def test_a_file_tells_how_rows_of_a_table_become_inputs(tmp_path, suffix):
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2026-01-05", "2026-01-06", None, "2026-01-08"] * 20),
            "machine": ["press", "saw", "press", "drill"] * 20,
            "heat": [61.5, None, 70.2, 64.0] * 20,
        }
    )
    learner = small("er-las", "mlp-norm")
    learner.learn(frame, ["ok", "jam", "leak", "ok"] * 20)
    file = learner.export(tmp_path / f"learner{suffix}")
    told = metadata(file)
    encoder = TableEncoder.from_state(told["table"])
    assert encoder == learner.table and told["columns"] == ["day", "machine", "heat"]
    x = encoder.encode_frame(frame[:5])
    np.testing.assert_allclose(loaded(file)(x), learner.predict_proba(frame[:5]), atol=CLOSE)
    assert len(told["inputs"]) == x.shape[1] == encoder.width
    assert told["inputs"][-2:] == ["heat: the number", "heat: 1 if it is missing, else 0"]
    assert "day: sin of the place in the week" in told["inputs"]
