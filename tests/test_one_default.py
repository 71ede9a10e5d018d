"""One file of embeddings by every way in, nothing set: the same answers."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from evenstream import Learner
from evenstream.cli.main import main
from evenstream.river import Classifier
from evenstream.run.folder import read_metrics
from evenstream.sklearn import OnlineClassifier
from evenstream.streams import open_stream

CLASSES, WIDTH = 8, 16


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory):
    """Rows of unit length, new classes two at a time; the stream that runs make of them."""
    path = tmp_path_factory.mktemp("embeddings") / "embeddings.npz"
    draw = np.random.default_rng(0)
    y = np.repeat(np.arange(CLASSES), 30)
    centres = draw.normal(size=(CLASSES, WIDTH))
    x = centres[y] + draw.normal(size=(len(y), WIDTH))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    test = np.arange(len(y)) % 3 == 0
    np.savez(path, x=x[~test], y=y[~test], x_test=x[test], y_test=y[test])
    stream = open_stream(str(path))
    batches = [
        (batch.x, batch.labels)
        for task in range(len(stream))
        for batch in stream.batches(task, stream.protocol.batch)
    ]
    return path, batches, x[test], y[test]


@pytest.fixture(scope="module")
def by_learner(embeddings):
    _, batches, x, y = embeddings
    learner = Learner()
    for rows, labels in batches:
        learner.learn(rows, labels)
    accuracy = np.mean(learner.predict(x) == y)
    assert accuracy > 0.8
    return accuracy


def a_t(folder):
    """The mean over tasks, which is that over rows: all classes have the same number."""
    return read_metrics(folder)["A_T"] / 100


def test_run(embeddings, by_learner, tmp_path):
    main(["run", "auto", "--stream", str(embeddings[0]), "--out", str(tmp_path / "run")])
    assert a_t(tmp_path / "run") == pytest.approx(by_learner)


@pytest.mark.slow
def test_compare_and_sweep(embeddings, by_learner, tmp_path):
    stream, out = str(embeddings[0]), tmp_path / "compared"
    main(["compare", "auto", "slda", "--stream", stream, "--seeds", "1", "--out", str(out)])
    grid = f'seeds = 1\n[grid]\nmethod = ["auto"]\nstream = [{json.dumps(stream)}]\n'
    (tmp_path / "one.toml").write_text(grid)
    main(["sweep", str(tmp_path / "one.toml"), "--out", str(tmp_path / "store")])
    (swept,) = (tmp_path / "store" / "runs").iterdir()
    for folder in (out / "runs" / "auto" / "seed-0", swept):
        assert a_t(folder) == pytest.approx(by_learner)


def test_learn_and_predict(embeddings, by_learner, tmp_path):
    _, batches, x, y = embeddings
    with (tmp_path / "stream.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*(f"e{i}" for i in range(WIDTH)), "label"])
        for rows, labels in batches:
            out.writerows([*row.tolist(), label] for row, label in zip(rows, labels, strict=True))
    np.savez(tmp_path / "test.npz", x=x)
    main(["learn", str(tmp_path / "saved"), "--from", str(tmp_path / "stream.csv")])
    answers = tmp_path / "answers.csv"
    main(["predict", str(tmp_path / "saved"), str(tmp_path / "test.npz"), "--out", str(answers)])
    with answers.open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    assert np.mean(np.array(found) == y.astype(str)) == by_learner


def test_adapters(embeddings, by_learner):
    _, batches, x, y = embeddings
    for_sklearn, for_river = OnlineClassifier(random_state=0), Classifier()
    for rows, labels in batches:
        for_sklearn.partial_fit(rows, labels)
        for_river.learn_many(pd.DataFrame(rows), pd.Series(labels))
    assert np.mean(for_sklearn.predict(x) == y) == by_learner
    assert np.mean(for_river.predict_many(pd.DataFrame(x)).to_numpy() == y) == by_learner
