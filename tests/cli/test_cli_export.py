"""`evenstream export`, as from the shell."""

from pathlib import Path

import numpy as np

from evenstream import Learner
from evenstream.tabular import TableEncoder
from tests.helpers.exported import loaded, metadata
from tests.helpers.live_tables import rows, write


def test_a_saved_learner_becomes_a_file_that_predicts(learn, run):
    learn("--from", write("t.csv", *rows(100)), "--dtype", "float32")
    status, out, err = run("export", "dir", "plant.pt2")
    assert (status, err) == (0, "") and out.startswith("plant.pt2: ")
    learner, x = Learner.load("dir"), np.asarray(rows(20, seed=2)[0], np.float32)
    found = loaded(Path("plant.pt2"))(x)
    np.testing.assert_allclose(found, learner.predict_proba(x), rtol=0, atol=1e-5)
    assert metadata(Path("plant.pt2"))["labels"] == learner.labels


def test_no_learner_and_no_format(learn, run):
    assert run("export", "nothing", "plant.onnx")[0] == 2
    learn("--from", write("t.csv", *rows(20)))
    status, _, err = run("export", "dir", "plant.tflite")
    assert status == 2 and ".onnx and .pt2" in err


def test_encoded_columns_are_pointed_out(learn, run):
    x, labels = rows(60)
    Path("t.csv").write_text(
        "a,colour,label\n"
        + "".join(f"{x[n][0]},{('red', 'blue')[n % 2]},{labels[n]}\n" for n in range(60))
    )
    learn("--from", "t.csv")
    table = Learner.load("dir").table
    assert table is not None and table.width > 2
    out = run("export", "dir", "plant.pt2")[1]
    assert f"takes {table.width} inputs, made of 2 columns" in out and "encode_frame" in out
    assert TableEncoder.from_state(metadata(Path("plant.pt2"))["table"]) == table
