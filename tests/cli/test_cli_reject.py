"""`evenstream predict --reject`, as from the shell."""

import numpy as np

from evenstream import Learner
from tests.helpers.live_tables import read_csv, rows, write


def test_labels_of_what_looks_unknown_are_empty(learn, run):
    learn("--from", write("t.csv", *rows(300)))
    learned = Learner.load("dir")
    x, labels = rows(40, seed=2)
    x[:5] += np.array([9, -9e3, 9e-3, -90, 9])
    status, out, err = run("predict", "dir", write("new.csv", x, labels), "--reject", "0.05")
    found, wanted = read_csv(out), learned.predict(x, reject=0.05)
    assert status == 0
    assert [row["label"] or None for row in found] == wanted.tolist()
    shown = [float(row["familiarity"]) for row in found]
    np.testing.assert_allclose(shown, learned.familiarity(x), rtol=1e-4)
    rejected = wanted == np.array(None)
    assert rejected[:5].all() and not rejected.all()
    answered = [a == b for a, b in zip(wanted, labels, strict=True) if a is not None]
    assert err.splitlines() == [
        f"like no known class: {rejected.sum()} of 40 rows",
        f"accuracy {100 * np.mean(answered):.1f} % of {len(answered)} labelled rows",
    ]
    assert float(found[0]["probability"]) > 0


def test_a_share_that_is_none_is_refused(learn, run):
    table = write("t.csv", *rows(30))
    learn("--from", table)
    status, out, err = run("predict", "dir", table, "--reject", "5")
    assert (status, out) == (2, "") and "between 0 and 1" in err
