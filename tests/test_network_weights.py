"""Weights from files: torchvision's names, safe reading, and a learner that starts from them."""

import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from evenstream import Learner
from evenstream.errors import InputError
from evenstream.networks import build
from evenstream.networks.weights import load_weights, pack_weights, read_metadata, read_weights
from tests.helpers.small_streams import class_stream, feed, images, parameters, same, small

SHAPE = (3, 32, 32)
BLOCKS = {"resnet18-imagenet": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}


def torchvision_shapes(blocks: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The state_dict of torchvision's ResNet with basic blocks: every name and shape."""

    def norm(name, width):
        vectors = {f"{name}.{part}": (width,) for part in ("weight", "bias")}
        vectors |= {f"{name}.running_{part}": (width,) for part in ("mean", "var")}
        return vectors | {f"{name}.num_batches_tracked": ()}

    shapes = {"conv1.weight": (64, 3, 7, 7), **norm("bn1", 64)}
    inputs = 64
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 1):
        for block in range(count):
            name = f"layer{stage}.{block}"
            shapes[f"{name}.conv1.weight"] = (width, inputs, 3, 3)
            shapes |= norm(f"{name}.bn1", width)
            shapes[f"{name}.conv2.weight"] = (width, width, 3, 3)
            shapes |= norm(f"{name}.bn2", width)
            if inputs != width:
                shapes[f"{name}.downsample.0.weight"] = (width, inputs, 1, 1)
                shapes |= norm(f"{name}.downsample.1", width)
            inputs = width
    return {**shapes, "fc.weight": (1000, 512), "fc.bias": (1000,)}


def torchvision_state(blocks: tuple[int, ...], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights under these names, of a size that keeps the features finite."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: torch.tensor(7)
        if name.endswith("tracked")
        else torch.rand(shape, generator=draw) + 0.5
        if name.endswith("var")
        else torch.randn(shape, generator=draw) * 0.05
        for name, shape in torchvision_shapes(blocks).items()
    }


def torchvision_features(state, blocks, x):
    """What torchvision's network computes, written out."""

    def norm(name, x):
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, state[f"{name}.weight"], state[f"{name}.bias"])

    x = norm("bn1", F.conv2d(x, state["conv1.weight"], stride=2, padding=3)).relu()
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    for stage, count in enumerate(blocks, 1):
        for block in range(count):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            out = F.conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            out = F.conv2d(
                norm(f"{name}.bn1", out).relu(), state[f"{name}.conv2.weight"], padding=1
            )
            if stride == 2:
                down = F.conv2d(x, state[f"{name}.downsample.0.weight"], stride=2)
                x = norm(f"{name}.downsample.1", down)
            x = (norm(f"{name}.bn2", out) + x).relu()
    return F.adaptive_avg_pool2d(x, 1).flatten(1)


@pytest.fixture(scope="module")
def state():
    """Weights of a small network under torchvision's names, to be quick."""
    torch.manual_seed(0)
    network = build("slim-resnet18", SHAPE).state_dict()
    named = {name.replace("shortcut", "downsample"): value for name, value in network.items()}
    return {**named, "fc.weight": torch.ones(10, 160), "fc.bias": torch.ones(10)}


@pytest.mark.parametrize(
    ("name", "entries", "total"),
    [("resnet18-imagenet", 122, 11_689_512), ("resnet34", 218, 21_797_672)],
)
def test_written_names_and_shapes_are_torchvisions(name, entries, total, tmp_path):
    network = build(name, (3, 224, 224))
    head = torch.nn.Linear(512, 1000).state_dict()
    file = tmp_path / "weights.safetensors"
    file.write_bytes(pack_weights(network.state_dict(), head, {"made": "here"}))
    written = {key: tuple(value.shape) for key, value in load_file(file).items()}
    assert written == torchvision_shapes(BLOCKS[name])
    assert len(written) == entries
    counted = (s for n, s in written.items() if n.endswith(("weight", "bias")))
    assert sum(int(np.prod(shape)) for shape in counted) == total
    assert read_metadata(file) == {"made": "here"}


@pytest.mark.parametrize("name", BLOCKS)
def test_torchvision_weights_give_torchvisions_features(name, tmp_path):
    state = torchvision_state(BLOCKS[name])
    torch.save(state, tmp_path / "w.pth")
    network = build(name, SHAPE)
    load_weights(network, tmp_path / "w.pth")
    x = torch.randn(2, *SHAPE)
    with torch.no_grad():
        features = network.eval()(x)
    torch.testing.assert_close(features, torchvision_features(state, BLOCKS[name], x))
    assert features.std() > 0.01
    assert network.layer1[0].bn1.num_batches_tracked == 7


FORMS = {
    "plain.pth": lambda s: s,
    "plain.pt": lambda s: s,
    "nested.pth": lambda s: {"state_dict": s, "epoch": 3, "best": 0.5},
    "model.pth": lambda s: {"model": s},
    "wrapped.pth": lambda s: {"state_dict": {f"module.{k}": v for k, v in s.items()}},
    "twice.pth": lambda s: {f"module.backbone.{k}": v for k, v in s.items()},
    "head.pth": lambda s: {k.replace("fc.", "head."): v for k, v in s.items()},
    "old.pth": lambda s: {k: v for k, v in s.items() if "num_batches" not in k},
    "half.pth": lambda s: {k: v.half() if v.is_floating_point() else v for k, v in s.items()},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_in_which_weights_come(form, state, tmp_path):
    torch.save(FORMS[form](state), tmp_path / form)
    network = build("slim-resnet18", SHAPE)
    load_weights(network, tmp_path / form)
    found = network.state_dict()["layer2.0.shortcut.0.weight"]
    exact = state["layer2.0.downsample.0.weight"]
    assert found.dtype == torch.float32
    assert torch.equal(found, exact.half().float() if form == "half.pth" else exact)
    assert not {n for n in read_weights(tmp_path / form) if n.startswith(("fc", "head"))}


def test_safetensors_and_the_old_file_format(state, tmp_path):
    save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "b.pth", _use_new_zipfile_serialization=False)
    assert same(read_weights(tmp_path / "a.safetensors"), read_weights(tmp_path / "b.pth"))


class RunsCode:
    ran = False

    def __reduce__(self):
        return (setattr, (RunsCode, "ran", True))


def test_files_that_cannot_be_used(state, tmp_path):
    torch.save({"a": RunsCode()}, tmp_path / "code.pth")
    (tmp_path / "pickle.pth").write_bytes(pickle.dumps(RunsCode(), protocol=2))
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pth")
    torch.save([state], tmp_path / "list.pth")
    torch.save({"a": 3}, tmp_path / "number.pth")
    torch.save(state, tmp_path / "good.pth")
    (tmp_path / "cut.pth").write_bytes((tmp_path / "good.pth").read_bytes()[:-5000])
    (tmp_path / "empty.pth").write_bytes(b"")
    (tmp_path / "text.safetensors").write_text("nothing of the kind")
    (tmp_path / "good.bin").write_bytes((tmp_path / "good.pth").read_bytes())
    (tmp_path / "folder.pth").mkdir()
    troubles = {
        "code.pth": "could run code when it is opened",
        "pickle.pth": "could run code when it is opened",
        "module.pth": "could run code when it is opened",
        "list.pth": "must hold a state_dict, got a list",
        "number.pth": "'a' is not a tensor",
        "cut.pth": "is damaged or not a file of weights",
        "empty.pth": "is damaged or not a file of weights",
        "text.safetensors": "is damaged or not a file of weights",
        "good.bin": r"are read from \.safetensors, \.pth or \.pt",
        "folder.pth": "there is no file",
        "absent.pth": "there is no file",
    }
    for name, trouble in troubles.items():
        with pytest.raises(InputError, match=trouble):
            read_weights(tmp_path / name)
    assert not RunsCode.ran


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        (lambda s: s.pop("layer3.1.conv2.weight"), r"they lack layer3\.1\.conv2\.weight \("),
        (lambda s: [s.pop(k) for k in list(s) if "layer4" in k], r"and 2[0-9] more"),
        (lambda s: s.update({"layer5.weight": torch.ones(1)}), r"have besides layer5\.weight"),
        (lambda s: s.update({"bn1.bias": torch.ones(3)}), r"bn1\.bias has shape \(3,\) .* \(20,\)"),
        (lambda s: s["bn1.bias"].fill_(torch.nan), r"bn1\.bias has NaN or infinite"),
        (lambda s: s["layer1.0.conv1.weight"].view(-1)[5:6].fill_(torch.inf), "NaN or infinite"),
    ],
)
def test_weights_that_do_not_fit_leave_the_network_alone(change, trouble, state, tmp_path):
    changed = {name: value.clone() for name, value in state.items()}
    change(changed)
    save_file(changed, tmp_path / "w.safetensors")
    network = build("slim-resnet18", SHAPE)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(InputError, match=trouble):
        load_weights(network, tmp_path / "w.safetensors")
    assert same(before, dict(network.state_dict()))


def test_torchvision_weights_in_a_small_resnet_are_refused_with_a_hint(tmp_path):
    save_file(torchvision_state((2, 2, 2, 2)), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="torchvision's resnet18 is resnet18-imagenet here"):
        load_weights(build("resnet18", SHAPE), tmp_path / "w.safetensors")


# ---- a learner that starts from them -------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """Weights of the mlp, trained a little."""
    network = feed(small("fine-tune"), class_stream()).network
    path = tmp_path / "mlp.safetensors"
    path.write_bytes(pack_weights(network.backbone.state_dict(), network.head.state_dict(), {}))
    return path


def backbone(learner):
    return {n: v for n, v in parameters(learner).items() if n.startswith("backbone.")}


def test_a_learner_starts_from_the_file_with_a_new_head(file):
    started, fresh = small(weights=file, lr=0.0), small(lr=0.0)
    for learner in (started, fresh):
        feed(learner, class_stream(1))
    trained = {f"backbone.{name}": value for name, value in load_file(file).items()}
    assert all(torch.equal(value, trained[name]) for name, value in backbone(started).items())
    assert not same(backbone(started), backbone(fresh))
    for name in ("head.weight", "head.bias"):
        assert torch.equal(parameters(started)[name], parameters(fresh)[name])


def test_a_saved_learner_does_without_the_file(file, tmp_path):
    whole = feed(small(weights=file), class_stream())
    halfway = feed(small(weights=str(file)), class_stream()[:6])
    halfway.save(tmp_path / "saved")
    file.unlink()
    resumed = feed(Learner.load(tmp_path / "saved"), class_stream()[6:])
    assert resumed.fingerprint() == whole.fingerprint()


def test_a_learner_saved_before_its_first_batch_remembers_the_file(file, tmp_path, monkeypatch):
    monkeypatch.chdir(file.parent)
    small(weights=file.name).save(tmp_path / "saved")
    monkeypatch.chdir("/")
    resumed = feed(Learner.load(tmp_path / "saved"), class_stream())
    assert resumed.fingerprint() == feed(small(weights=file), class_stream()).fingerprint()


def test_weights_that_do_not_fit_leave_no_trace_in_the_learner(file):
    learner = small(model="convnet", weights=file)
    before = learner.fingerprint()
    with pytest.raises(InputError, match="another network"):
        learner.learn(images(4), list("abab"))
    assert learner.fingerprint() == before and learner.labels == []


def test_weights_are_refused_at_once_where_they_make_no_sense(file, tmp_path):
    with pytest.raises(InputError, match="load them into your module yourself"):
        small(model=torch.nn.Linear(5, 3), weights=file)
    with pytest.raises(InputError, match="there is no weights file"):
        small(weights=tmp_path / "absent.pth")


def test_the_network_is_built_for_what_the_augmentation_makes_of_the_images():
    learner = small(model="mlp", augment="resized-crop0.75@6")
    learner.learn(images(4, side=9), list("abab"))
    assert learner.network.backbone.fc1.in_features == 36
    with pytest.raises(InputError, match=r"not inputs of shape \(1, 6, 6\)"):
        small(model="convnet", augment="resized-crop0.75@6").learn(images(4, side=9), list("abab"))


def test_an_imagenet_resnet_learns_from_32_pixels_and_from_a_single_row():
    learner = small(model="resnet18-imagenet", memory=0)
    for rows in (4, 1):
        result = learner.learn(images(rows, 32, 3), list("abab")[:rows])
        assert np.isfinite(result.loss)
