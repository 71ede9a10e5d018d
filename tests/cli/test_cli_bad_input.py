"""Bad input: exit status 2, a message on standard error, nothing left behind."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from evenstream.methods import register
from evenstream.methods.er import ER
from tests.helpers.live_tables import rows, write


@pytest.fixture
def files(table):
    """Files that cannot be used, beside one that can, in a folder of their own."""
    folder = Path("files")
    folder.mkdir()
    good = {name: np.array(array) for name, array in np.load(table).items()}
    (folder / "good.npz").write_bytes(Path(table).read_bytes())
    (folder / "cut.npz").write_bytes(Path(table).read_bytes()[:-40])
    (folder / "text.npz").write_text("not a zip file")
    (folder / "empty.npz").write_bytes(b"")
    bad = good["x_train"].copy()
    bad[3, 1] = np.nan
    np.savez(folder / "nan.npz", **{**good, "x_train": bad})
    bad[3, 1] = np.inf
    np.savez(folder / "inf.npz", **{**good, "x_train": bad})
    np.savez(folder / "short.npz", **{**good, "y_train": good["y_train"][:-1]})
    np.savez(folder / "narrow.npz", **{**good, "x_test": good["x_test"][:, :-1]})
    np.savez(folder / "floats.npz", **{**good, "y_train": np.linspace(0, 1, len(bad))})
    np.savez(folder / "none.npz", **{**good, "x_train": bad[:0], "y_train": good["y_train"][:0]})
    np.savez(folder / "other.npz", a=np.zeros(3))
    pickled = np.array([{"a": 1}, {}], dtype=object)
    np.savez(folder / "pickle.npz", x=pickled, y=np.zeros(2))
    return folder


RUNS = {
    # words after `evenstream run`, and what the message must say
    "er-lass": ["unknown method 'er-lass'", "did you mean er-las"],
    "zzz": ["unknown method 'zzz'", "known: ", "er-las"],
    "er:tau=2": ["no option 'tau'", "tau is an option of er-las"],
    "er-las:taau=2": ["no option 'taau'", "tau"],
    "er-las:tau": ["needs a value"],
    "er-las:tau=-1": ["tau"],
    "er-las:tau=much": ["must be a number"],
    "er-las:window=0": ["window"],
    "er-las:prior=guess": ["one of window, exponential, random, macro"],
    "er --stream c-digit": ["unknown stream 'c-digit'", "did you mean c-digits"],
    "er --stream nothing": ["unknown stream"],
    "er --stream absent.npz": ["there is no file"],
    "er --stream files/cut.npz": ["cut.npz is not a readable .npz file"],
    "er --stream files/text.npz": ["text.npz is not a readable .npz file"],
    "er --stream files/empty.npz": ["empty.npz is not a readable .npz file"],
    "er --stream files/nan.npz": ["NaN or infinite", "index 3"],
    "er --stream files/inf.npz": ["NaN or infinite", "index 3"],
    "er --stream files/short.npz": ["79 labels for 80 samples"],
    "er --stream files/narrow.npz": ["they must agree"],
    "er --stream files/floats.npz": ["integers, strings or booleans"],
    "er --stream files/none.npz": ["x_train is empty"],
    "er --stream files/other.npz": ["holds a"],
    "er --stream files/pickle.npz": ["array of Python objects"],
    "er --stream c-mnist": ["evenstream data get mnist", "Offline: put", "no-data/mnist"],
    "er --stream files/good.npz --memory -1": ["memory must be"],
    "er --stream files/good.npz --memory x": ["--memory"],
    "er --stream files/good.npz --batch 0": ["batch must be"],
    "er --stream files/good.npz --replay-batch -4": ["replay_batch must be"],
    "er --stream files/good.npz --lr -1": ["lr must be"],
    "er --stream files/good.npz --lr nan": ["lr must be"],
    "er --stream files/good.npz --lr inf": ["lr must be"],
    "er --stream files/good.npz --momentum -1": ["momentum must be"],
    "er --stream files/good.npz --weight-decay -1": ["weight_decay must be"],
    "er --stream files/good.npz --network resnt18": ["unknown network", "did you mean"],
    "er --stream files/good.npz --network resnet18": ["resnet18", "takes images"],
    "er --stream files/good.npz --network convnet": ["convnet", "takes images"],
    "er --stream files/good.npz --augment crop": ["takes images"],
    "er --stream files/good.npz --augment crob": ["unknown augmentation 'crob'", "crop"],
    "er --stream files/good.npz --device abacus": ["device 'abacus' cannot be used here"],
    "er --stream files/good.npz --device meta": ["device 'meta' cannot be used here"],
    f"er --stream files/good.npz --memory {10**30}": ["memory must be", "at most"],
    f"er --stream files/good.npz --memory {10**12}": ["a memory of", "keep fewer"],
    f"er --stream files/good.npz --batch {2**64}": ["batch must be", "at most"],
    f"er --stream files/good.npz --threads {2**64}": ["threads must be", "at most"],
    "er --stream ~nouser/x.csv": ["~nouser/x.csv: No such file"],
    "er --stream files/good.npz --weights ~nouser/w.pth": ["~nouser/w.pth"],
    "er --stream files/good.npz --optimizer adma": ["optimizer", "adam"],
    "er --stream files/good.npz --dtype int8": ["--dtype", "bfloat16"],
    "er --stream files/good.npz --class-order up": ["--class-order", "label"],
    "er --stream files/good.npz --threads 0": ["threads must be 1 or more"],
    "er --stream files/good.npz --checkpoint-every 0": ["checkpoint_every must be 1 or more"],
    "er --stream files/good.npz --tasks 0": ["--tasks must be 1 or more"],
    "er --stream files/good.npz --tasks 5": ["number of classes, 4"],
    "er --stream files/good.npz --test-fraction 2": ["--test-fraction must lie between 0 and 1"],
    "er --stream files/good.npz --test-fraction 0.5": ["has its own test samples"],
    "er --stream c-digits --test-fraction 0.5": ["digits has its own test samples"],
    "er --stream files/good.npz --seed one": ["--seed"],
    "er --stream files/good.npz --seed 1_0": ["--seed", "digits are 0 to 9"],
    "er --stream files/good.npz --memory 1_000": ["--memory", "digits are 0 to 9"],
    "er --stream files/good.npz --memory ١٠": ["--memory", "digits are 0 to 9"],
    "er --stream files/good.npz --lr 0_1.5": ["--lr", "digits are 0 to 9"],
    "er --stream files/good.npz --lrr 1": ["--lrr", "Perhaps you meant", "--lr FLOAT"],
    "": ["METHOD"],
    "er er-las": ["er-las"],
    "needs-memory --stream files/good.npz --memory 0": ["cannot do without a memory"],
    "needs-twice --stream c-files/good.npz:boundaries=false": ["a second time", "boundaries"],
    "er@nearest": ["unknown inference rule 'nearest'"],
    "er --inference post-hoc:beta=1": ["no option 'beta'"],
    "er --stream files/good.npz --epochs 0": ["epochs must be 1 or more"],
    "er --stream c-files/good.npz:boundaries=false --epochs 2": ["one epoch only"],
    "er:head_scale=3": ["head=cosine"],
}
COMPARISONS = {
    "": ["name at least one method"],
    "er er": ["named twice"],
    "er nosuch": ["unknown method 'nosuch'"],
    "er er-las:tau=-1": ["tau"],
    "er er-las --seeds 0": ["seeds must be 1 or more"],
    "er er-las --jobs -1": ["--jobs must be"],
    f"er er-las --jobs {10**30}": ["open files", "ulimit -n"],
    "er er-las --stream c-mnist": ["evenstream data get mnist"],
    "er er-las --stream files/nan.npz": ["NaN"],
    "er er-las --stream files/good.npz --lr -1": ["lr must be"],
    "er er-las --stream files/good.npz --network resnet18": ["takes images"],
    "er needs-twice --stream c-files/good.npz:boundaries=false": ["a second time", "boundaries"],
    "er needs-memory --stream files/good.npz --memory 0": ["cannot do without a memory"],
    "er er-las --stream files/good.npz --checkpoint-every 0": ["checkpoint_every"],
}
OTHERS = {
    "ruun er": ["ruun", "run, compare"],
    "resume": ["DIR"],
    "resume absent": ["absent holds no run"],
    "resume files": ["files holds no run"],
    "resume files/good.npz": ["holds no run"],
    "report": ["DIR"],
    "report absent": ["absent is not a directory"],
    "report files": ["files holds no runs"],
    "methods er-lass": ["did you mean er-las"],
    "streams c-digit": ["did you mean c-digits"],
    "streams c-cifar10": ["evenstream data get cifar10"],
    "streams files/good.npz --picture files": ["give the name of a PNG file"],
    "streams files/good.npz --picture /": ["give the name of a PNG file"],
    "streams files/good.npz --picture files/good.csv": ["give the name of a PNG file"],
    "streams files/good.npz --picture files/good.npz": ["is the data itself"],
    "learn new --from ~nouser/x.csv": ["there is no file or folder ~nouser/x.csv"],
    "predict new ~nouser/x.csv": ["new does not exist"],
    "data import mnist ~nouser": ["there is no folder", "~nouser"],
    "report nul\0byte": ["contains a NUL character"],
    "data frobnicate": ["frobnicate", "list, get, verify, import"],
    "data get": ["NAME"],
    "data get minst": ["did you mean mnist"],
    "data verify minst": ["did you mean mnist"],
    "data import minst files": ["did you mean mnist"],
    "data import mnist absent": ["absent"],
}


@pytest.fixture
def needy():
    """Methods that need what not every run has."""
    for name, need in (("needs-memory", "memory"), ("needs-twice", "second_pass")):

        @dataclass
        class Needy(ER):
            """Needs something."""

        Needy.needs = frozenset({need})
        register(name)(Needy)


def refused(run, words, parts):
    before = sorted(str(path) for path in Path().rglob("*"))
    status, out, err = run(*words)
    assert status == 2, err
    assert out == "", "nothing is said before everything was checked"
    for part in parts:
        assert part in err
    assert "Traceback" not in err
    assert sorted(str(path) for path in Path().rglob("*")) == before


@pytest.mark.parametrize("words", RUNS)
def test_run(run, files, needy, words):
    refused(run, ["run", *words.split(), "--out", "new/run"], RUNS[words])


@pytest.mark.parametrize("words", COMPARISONS)
def test_compare(run, files, needy, words, monkeypatch):
    monkeypatch.setattr("evenstream.run.compare.work_off", None)  # no process is started
    refused(run, ["compare", *words.split(), "--out", "new/comparison"], COMPARISONS[words])


@pytest.mark.parametrize("words", OTHERS)
def test_others(run, files, words):
    refused(run, words.split(), OTHERS[words])


@pytest.mark.parametrize("command", [["run", "er"], ["compare", "er", "er-las"]])
def test_output_folders(run, files, command):
    Path("taken").mkdir()
    Path("taken/letter.txt").write_text("dear")
    Path("run").mkdir()
    Path("run/config.toml").write_text("method = 'er'")
    Path("comparison").mkdir()
    Path("comparison/comparison.toml").write_text("")
    words = [*command, "--stream", "files/good.npz", "--out"]
    refused(run, [*words, "taken"], ["taken is not empty; choose another --out"])
    refused(run, [*words, "run"], ["run already holds a run", "`evenstream resume run`"])
    refused(run, [*words, "comparison"], ["already holds a comparison"])
    refused(run, [*words, "taken/letter.txt"], ["cannot write to taken/letter.txt"])
    refused(run, [*words, "taken/letter.txt/run"], ["cannot write to taken/letter.txt/run"])
    refused(run, [*words, "/proc/nothing"], ["cannot write to /proc/nothing"])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--network nonsense", "nonsense"),
        ("--network mlp:x=1", "x"),
        ("--optimizer nonsense", "nonsense"),
        ("--method er-las:tua=1", "tau"),
        ("--method lwf", "boundaries"),
        ("--augment nonsense", "nonsense"),
        ("--lr nan", "lr"),
        ("--batch 0", "batch"),
        ("--device nonsense", "nonsense"),
        ("--size 0", "size"),
        ("--patience nan", "patience"),
        ("--checkpoint-every 0", "checkpoint_every"),
    ],
)
def test_a_wrong_option_of_learn_is_noticed_before_the_data_is_read(learn, options, word):
    status, _, err = learn("--from", "missing.csv", *options.split())
    assert status == 2 and word in err and "missing.csv" not in err
    assert not Path("dir").exists()


def test_a_folder_of_something_else_is_noticed_before_the_data_is_read(learn):
    Path("dir").mkdir()
    (Path("dir") / "note.txt").touch()
    status, _, err = learn("--from", "missing.csv")
    assert status == 2 and "holds no learner" in err


@pytest.mark.parametrize(("options", "word"), [("--top 0", "top"), ("--reject 2", "reject")])
def test_a_wrong_option_of_predict_is_noticed_before_the_data_is_read(learn, run, options, word):
    learn("--from", write("table.csv", *rows()))
    status, _, err = run("predict", "dir", "missing.csv", *options.split())
    assert status == 2 and word in err and "missing.csv" not in err


@pytest.mark.parametrize("command", [["run", "er"], ["compare", "er", "er-las"]])
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--network nonsense", "nonsense"),
        ("--optimizer nonsense", "nonsense"),
        ("--augment nonsense", "nonsense"),
        ("--device nonsense", "nonsense"),
        ("--lr -1", "lr"),
        ("--epochs 0", "epochs"),
        ("--weights missing.pth", "missing.pth"),
    ],
)
def test_a_wrong_option_of_runs_is_noticed_before_the_data_is_read(run, command, options, word):
    status, _, err = run(*command, "--stream", "missing.csv", *options.split())
    assert status == 2 and word in err and "missing.csv" not in err
