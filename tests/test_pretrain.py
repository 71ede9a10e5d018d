"""`evenstream pretrain`, and runs that start from what it makes."""

import itertools
import json
import math
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_pre_hook

from evenstream import Learner
from evenstream.cli.main import main
from evenstream.errors import CheckpointError, DamageWarning, EvenstreamError, InputError
from evenstream.interruption import Interrupted
from evenstream.networks.weights import file_digest
from evenstream.pretrain import PretrainConfig, pretrain, resume_pretraining
from evenstream.run.announcing import Silent
from evenstream.run.config import RunConfig
from evenstream.run.initial_weights import reserved_classes
from evenstream.run.preparation import make_learner, prepare
from evenstream.run.runner import resume_run, start_run
from evenstream.streams import open_stream
from tests.helpers.small_runs import StopAfter, outcome, save_table, small_config

DIGITS = "c-digits:reserve=4"


def small(stream=DIGITS, **options):
    options = {"network": "mlp", "augment": "none", "dtype": "float32", "batch": 64, **options}
    return PretrainConfig(stream, **{"epochs": 3, **options})


def make(config, out, **options):
    return pretrain(config, open_stream(config.stream), out, **options)


def leftovers(out):
    """What a pre-training leaves behind that does not tell the time."""
    results = json.loads((out / "pretrain.json").read_text())
    del results["train_seconds"]
    return (out / "weights.safetensors").read_bytes(), results


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished pre-training, with BatchNorm and augmentation."""
    out = tmp_path_factory.mktemp("made") / "base"
    config = small(network="convnet", augment="crop1", checkpoint_every=3)
    return config, out, make(config, out)


# ---- the recipe ----------------------------------------------------------------------------------


def test_learning_rate_rises_then_falls_along_a_cosine():
    config = small(lr=0.8, warmup=0.2)
    rates = [config.lr_at(step, 20) for step in range(20)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])
    assert rates[12] == pytest.approx(0.4)  # half of the way down
    assert rates[-1] == pytest.approx(0.4 * (1 + math.cos(math.pi * 15 / 16)))


@given(steps=st.integers(1, 300), warmup=st.floats(0, 0.99), lr=st.floats(1e-6, 10))
def test_learning_rate_of_any_length(steps, warmup, lr):
    config = small(lr=lr, warmup=warmup)
    rates = [config.lr_at(step, steps) for step in range(steps)]
    assert all(0 <= rate <= lr for rate in rates) and max(rates) == pytest.approx(lr)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)


def test_every_step_uses_its_learning_rate_and_every_epoch_all_base_samples(tmp_path, monkeypatch):
    rates, labels = [], []
    learn = Learner.learn

    def note_step(optimizer, *_):
        assert (optimizer.defaults["momentum"], optimizer.defaults["weight_decay"]) == (0.9, 1e-4)
        rates.append(optimizer.param_groups[0]["lr"])

    def noted_learn(learner, x, y):
        labels.append(y)
        return learn(learner, x, y)

    monkeypatch.setattr(Learner, "learn", noted_learn)
    stream = open_stream(DIGITS)
    config = small(batch=100, warmup=0.3)
    hook = register_optimizer_step_pre_hook(note_step)
    try:
        found = pretrain(config, stream, tmp_path / "out")
    finally:
        hook.remove()
    rates, labels = rates[1:], labels[1:]  # the first is the rehearsal
    assert rates == pytest.approx([config.lr_at(number, 18) for number in range(18)])
    base = {stream.dataset.classes[index] for index in reserved_classes(stream)}
    counts = [stream.dataset.y_train.tolist().count(label) for label in sorted(base)]
    for epoch in range(3):
        seen = list(itertools.chain(*labels[6 * epoch : 6 * epoch + 6]))
        assert [seen.count(label) for label in sorted(base)] == counts
        assert len(seen) == sum(counts)
    assert labels[0] != labels[6]
    assert set(found["classes"]) == base and len(base) == 4


def test_it_learns_and_says_what_it_made(tmp_path):
    found = make(small(epochs=12), tmp_path / "out")
    assert found["status"] == "finished" and found["dataset"] == "digits"
    assert len(found["accuracy"]) == 12 and found["accuracy"][-1] > 95
    assert found == json.loads((tmp_path / "out" / "pretrain.json").read_text())
    file = tmp_path / "out" / "weights.safetensors"
    tensors = load_file(file)
    assert tensors["fc.weight"].shape == (4, 100) and tensors["fc1.weight"].shape == (100, 64)
    stream = open_stream(DIGITS)
    rows = np.flatnonzero(np.isin(stream.dataset.y_test, reserved_classes(stream)))
    learner = Learner("er", "mlp", weights=file, lr=0.0, dtype="float32")
    learner.learn(stream.dataset.x_test[:2], [0, 1])
    with torch.no_grad():
        features = learner.network.features(learner.preprocess.plain(
            torch.from_numpy(stream.dataset.x_test[rows])
        ))  # fmt: skip
    guess = (features @ tensors["fc.weight"].T + tensors["fc.bias"]).argmax(1)
    truth = [found["classes"].index(label) for label in stream.dataset.y_test[rows]]
    right = float((guess == torch.tensor(truth)).float().mean() * 100)
    assert right == pytest.approx(found["accuracy"][-1], abs=1e-3)


# ---- stopping and going on -----------------------------------------------------------------------


@pytest.mark.parametrize("steps", [4, 10])
def test_stopped_and_resumed_equals_uninterrupted(steps, made, tmp_path):
    config, whole, _ = made
    out = tmp_path / "out"
    with pytest.raises(Interrupted, match=r"stopped in epoch \d and saved; continue with `"):
        make(config, out, stop=StopAfter(steps))
    assert not (out / "weights.safetensors").exists()
    resume_pretraining(out)
    assert leftovers(out) == leftovers(whole)


class Crash(Silent):
    """Dies at a moment at which nothing has been saved for some steps."""

    def __init__(self, epoch):
        self.epoch = epoch

    def evaluated(self, task, average):
        if task == self.epoch:
            raise MemoryError


def test_crashed_and_resumed_equals_uninterrupted(made, tmp_path):
    config, whole, _ = made
    out = tmp_path / "out"
    with pytest.raises(MemoryError):
        make(config, out, progress=Crash(0))
    with pytest.raises(MemoryError):
        resume_pretraining(out, progress=Crash(1))
    resume_pretraining(out)
    assert leftovers(out) == leftovers(whole)


def test_a_finished_one_is_left_alone(made):
    _, out, found = made
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
    assert resume_pretraining(out) == found
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == before


@pytest.mark.parametrize("content", ['{"status": "finished"}', "[]", "[" * 20_000])
def test_damaged_results_are_made_again(made, tmp_path, content):
    _, whole, _ = made
    out = shutil.copytree(whole, tmp_path / "out")
    (out / "pretrain.json").write_text(content)
    assert resume_pretraining(out)["status"] == "finished"
    assert leftovers(out) == leftovers(whole)


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: content + b"x"])
def test_damaged_weights_are_written_again(made, tmp_path, damage):
    _, whole, _ = made
    out = shutil.copytree(whole, tmp_path / "out")
    weights = out / "weights.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    with pytest.warns(DamageWarning, match="written again"):
        assert resume_pretraining(out)["status"] == "finished"
    assert leftovers(out) == leftovers(whole)


def test_changed_settings_and_data_are_refused(tmp_path):
    config = small(str(save_table(tmp_path / "table.npz")) + ":reserve=2", batch=8)
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        make(config, out, stop=StopAfter(2))
    replace(config, lr=0.5).write(out)
    with pytest.raises(CheckpointError, match=r"pretraining\.toml was changed: lr"):
        resume_pretraining(out)
    config.write(out)
    save_table(tmp_path / "table.npz", per_class=21)
    with pytest.raises(CheckpointError, match="data behind the stream has changed"):
        resume_pretraining(out)


def test_bad_input_is_refused_before_anything_is_written(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"sets no classes aside.* c-digits:reserve=5"):
        make(small("c-digits"), out)
    with pytest.raises(InputError, match="takes images"):
        make(small(network="resnet34"), out)
    for options in ({"epochs": 0}, {"batch": 0}, {"lr": -1.0}, {"lr": math.inf}, {"warmup": 1.0}):
        with pytest.raises(InputError, match=next(iter(options))):
            make(small(**options), out)
    assert not out.exists()
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    with pytest.raises(EvenstreamError, match="is not empty"):
        make(small(), out)
    assert [file.name for file in out.iterdir()] == ["mine.txt"]


def test_images_are_read_as_they_are_needed_and_unreadable_ones_left_out(tmp_path):
    draw = np.random.default_rng(0)
    for number in range(4):
        folder = tmp_path / "pictures" / f"kind {number}"
        folder.mkdir(parents=True)
        for name in range(6):
            pixels = draw.integers(0, 256, (12, 12, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{name}.png")
    config = small(
        f"c-{tmp_path / 'pictures'}:reserve=2,size=12,tasks=2", network="convnet", batch=4,
        epochs=2, augment="resized-crop0.75@8+flip", corrupt="skip",
    )  # fmt: skip
    stream = open_stream(config.stream, corrupt="skip")
    rows = np.flatnonzero(np.isin(stream.dataset.y_train, reserved_classes(stream)))
    damaged = stream.dataset.x_train.path(rows[3])
    damaged.write_bytes(b"not a picture")
    with pytest.warns(UserWarning, match="1 training samples could not be read"):
        found = pretrain(config, stream, tmp_path / "out")
    assert found["skipped"]["count"] == 1 and damaged.name in found["skipped"]["first"][0]
    assert found["samples"] == 2 * (len(rows) - 1) and len(found["classes"]) == 2


# ---- runs that start from the weights ------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """A table of six classes, two of them set aside, and weights for it."""
    stream = f"{save_table(tmp_path / 'table.npz', classes=6)}:reserve=2"
    make(small(stream, batch=8), tmp_path / "base")
    return stream, tmp_path / "base" / "weights.safetensors"


def starting_from(weights, stream):
    return small_config(stream, weights=str(weights), weights_sha256=file_digest(weights))


def test_a_run_starts_from_the_weights_and_is_resumed_without_them(table, tmp_path):
    stream, weights = table
    config = starting_from(weights, stream)
    start_run(config, tmp_path / "whole")
    start_run(small_config(stream), tmp_path / "scratch")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "cut", stop=StopAfter(9))
    weights.unlink()
    resume_run(tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    assert outcome(tmp_path / "whole")["learner"] != outcome(tmp_path / "scratch")["learner"]
    assert RunConfig.read(tmp_path / "cut") == config


def test_forward_transfer_is_left_out_of_a_run_from_weights(table, tmp_path):
    stream, weights = table
    found = start_run(replace(starting_from(weights, stream), eval_future=True), tmp_path / "run")
    assert found["FWT"] is None and found["F_T_literal"] is not None
    scratch = start_run(small_config(stream, eval_future=True), tmp_path / "scratch")
    assert scratch["FWT"] is not None


def test_a_run_that_starts_over_wants_the_same_file(table, tmp_path):
    stream, weights = table
    out = tmp_path / "out"
    out.mkdir()
    starting_from(weights, stream).write(out)
    make(small(stream, batch=8, seed=5), tmp_path / "other")
    weights.write_bytes((tmp_path / "other" / "weights.safetensors").read_bytes())
    with pytest.raises(InputError, match="has changed since the run was started"):
        resume_run(out)


def call(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return main([str(word) for word in words])


def test_from_the_shell(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("pretrain", "--stream", DIGITS, "--epochs", 2, "--out", "base") == 0
    said = capsys.readouterr().out
    assert "after epoch 2: average accuracy" in said and "--weights base/weights.safe" in said
    assert call("resume", "base") == 0
    weights = tmp_path / "base" / "weights.safetensors"
    run = ("run", "er-las", "--tasks", 2, "--lr", 0.01, "--weights", "base/weights.safetensors")
    assert call(*run, "--stream", DIGITS, "--out", "run") == 0
    said = capsys.readouterr().out
    assert f"network mlp from {weights}" in said and "note:" not in said
    assert RunConfig.read(tmp_path / "run").weights == str(weights)
    assert call("run", "er", "--tasks", 2, "--stream", DIGITS, "--out", "scratch") == 0
    assert "note: c-digits:reserve=4 sets 4 classes aside" in capsys.readouterr().out
    for stream, trouble in {
        "c-digits": "know 4 of the classes that c-digits teaches; they are for c-digits:reserve=4",
        "c-digits:reserve=6": "know 4 of the 6 classes that c-digits:reserve=6 sets aside",
        "c-digits:reserve=4,base_seed=1": "of the classes that c-digits:reserve=4,base_seed=1",
    }.items():
        assert call(*run, "--stream", stream, "--out", "refused") == 2
        assert trouble in capsys.readouterr().err
    assert call("pretrain", "--stream", DIGITS, "--out", "base") == 2
    assert "already holds a pre-training; continue it" in capsys.readouterr().err
    assert call("run", "er", "--weights", "none.pth", "--out", "refused") == 2
    assert "none.pth" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()


def test_weights_of_another_data_set_or_unknown_origin_are_taken(table, tmp_path):
    _, weights = table
    other = save_table(tmp_path / "other.npz", classes=6)
    torch.save(load_file(weights), tmp_path / "unknown.pth")
    for file, data in ((weights, other), (tmp_path / "unknown.pth", tmp_path / "table.npz")):
        config = replace(starting_from(file, data), lr=0.0)
        stream = prepare(config)
        learner = make_learner(config, stream)
        learner.learn(stream.dataset.x_train[:1], stream.dataset.classes[:1])
        found = learner.network.backbone.state_dict()
        given = {name: value for name, value in load_file(weights).items() if name in found}
        assert len(given) > 1
        assert all(torch.equal(found[name], value) for name, value in given.items())
