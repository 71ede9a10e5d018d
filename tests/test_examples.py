"""The programs in examples/, on small data made here."""

import csv
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenstream import Learner

EXAMPLES = Path(__file__).parent.parent / "examples"
IMAGES = EXAMPLES.parent / "docs" / "images"
RESULTS = Path(__file__).parent.parent / "docs" / "results"


@pytest.fixture
def run(monkeypatch, capsys):
    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def stored(name):
    return IMAGES / f"tutorial_{name}.png"


def data_in(picture):
    """What a program has drawn, as numbers: pixels differ with the version of matplotlib."""
    with Image.open(picture) as image:
        return json.loads(image.info["Data"])


def is_drawn(picture):
    with Image.open(picture) as image:
        return image.width > 800 and len(image.convert("L").getcolors()) > 10


def draw_pictures(folder, kinds, count=15, side=48):
    draw = np.random.default_rng(0)
    rows, columns = np.mgrid[:side, :side]
    patterns = {
        "bars": lambda phase: (columns + phase) // 8 % 2,
        "boards": lambda phase: ((columns + phase) // 8 + rows // 8) % 2,
        "discs": lambda phase: (columns - 24) ** 2 + (rows - 24) ** 2 < 100 + 10 * phase,
    }
    for kind in kinds:
        (folder / kind).mkdir(parents=True)
        for index in range(count):
            pattern = patterns[kind](draw.integers(0, 16))[..., None]
            dark, bright = draw.integers(0, 100, 3), draw.integers(150, 256, 3)
            image = Image.fromarray(np.where(pattern, dark, bright).astype(np.uint8))
            image.save(folder / kind / f"{index}.png")


def test_frozen_images(run, tmp_path):
    draw_pictures(tmp_path / "first", ["bars", "boards"])
    draw_pictures(tmp_path / "later", ["discs"])
    size = ("--side", 48, "--batch", 6)
    out = run("frozen_images.py", tmp_path / "first", tmp_path / "save", *size)
    assert float(re.search(r"mean of classes +([\d.]+)%", out)[1]) >= 75, out
    picture = tmp_path / "classes.png"
    run("frozen_images.py", tmp_path / "later", tmp_path / "save", *size, "--picture", picture)
    assert is_drawn(picture)
    learner = Learner.load(tmp_path / "save")
    assert learner.labels == ["bars", "boards", "discs"] and learner.step == 6
    assert learner.memory.field("x").shape == (36, 1280)
    held_out = np.array(Image.open(tmp_path / "first" / "bars" / "0.png")).transpose(2, 0, 1)
    assert learner.predict(held_out[None]) == ["bars"]  # with discs learned since


WORDS = {
    "card": ["my {} card", "is lost", "has not arrived", "does not work", "was swallowed"],
    "transfer": ["my {} transfer", "is still pending", "went to the wrong person", "is too slow"],
    "rate": ["the {} exchange rate", "changed today", "looks wrong", "is bad", "is unfair"],
}


def test_text_intents(run, tmp_path):
    draw, rows = np.random.default_rng(0), []
    for intents in (["card", "transfer"], ["card", "transfer", "rate"]):
        for _ in range(60):
            label = str(draw.choice(intents))
            start, *ends = WORDS[label]
            adjective = draw.choice(["new", "old", "last", "second"])
            rows.append((f"{start.format(adjective)} {draw.choice(ends)}", label))
    with (tmp_path / "asked.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    picture = tmp_path / "right.png"
    out = run("text_intents.py", tmp_path / "asked.csv", tmp_path / "save", "--picture", picture)
    right, new = map(int, re.search(r"(\d+) of 120 right.*, (\d+) new intents", out).groups())
    assert right >= 70 and new == 3, out
    assert is_drawn(picture)
    learner = Learner.load(tmp_path / "save")
    assert sorted(learner.labels) == ["card", "rate", "transfer"]


def test_own_table(run, tmp_path):
    picture = tmp_path / "table.png"
    run("own_table.py", tmp_path, "--picture", picture)
    assert is_drawn(picture)
    assert data_in(picture) == pytest.approx(data_in(stored("own-table")), abs=1.1)


def test_dark_replay(run, tmp_path):
    picture = tmp_path / "remembered.png"
    run("dark_replay.py", "--picture", picture)
    drawn, kept = data_in(picture), data_in(stored("add-a-method"))
    assert is_drawn(picture) and list(drawn) == list(kept)
    for name, values in drawn.items():
        assert values == pytest.approx(kept[name], abs=3), name  # sums differ between machines


def test_the_program_has_the_method_of_the_tutorial():
    page = (EXAMPLES.parent / "docs" / "tutorials" / "add-a-method.md").read_text(encoding="utf-8")
    method = re.search(r"^@register.*?^```$", page, re.DOTALL | re.MULTILINE)[0].removesuffix("```")
    assert method.strip() in (EXAMPLES / "dark_replay.py").read_text(encoding="utf-8")


def test_compare_methods(run, tmp_path):
    picture = tmp_path / "differences.png"
    options = ("--batch", 100, "--seeds", 2, "--jobs", 1, "--picture", picture)
    out = run("compare_methods.py", tmp_path / "out", "fine-tune", "er-las", *options)
    assert re.search(r"er-las minus fine-tune: \+\d+\.\d points", out), out
    picture.unlink()
    again = run("compare_methods.py", tmp_path / "out", "fine-tune", "er-las", *options)
    assert again in out and picture.exists()  # drawn from the runs that are there


@pytest.mark.skipif(not RESULTS.is_dir(), reason="source distributions have no results")
def test_reproduce_table(run, tmp_path):
    picture = tmp_path / "table.png"
    runs = RESULTS / "c-mnist_paper.runs.jsonl"
    out = run("reproduce_table.py", "mnist", runs, tmp_path / "out", "--picture", picture)
    assert "er-las, 500: 88.1 here, 91.7 in the paper" in out and out.count("here,") == 18
    assert data_in(picture) == pytest.approx(data_in(stored("table")), abs=0.05)
    assert is_drawn(picture)


def test_embeddings(run, tmp_path):
    draw = np.random.default_rng(0)
    y = np.sort(draw.integers(0, 6, 200))  # class after class
    x = draw.normal(size=(6, 24))[y] + 0.7 * draw.normal(size=(200, 24))
    test = np.arange(200) % 4 == 0
    names = np.array([f"intent {label}" for label in y])
    arrays = {"x": x[~test], "y": names[~test], "x_test": x[test], "y_test": names[test]}
    np.savez(tmp_path / "made.npz", **arrays)
    out = run("embeddings.py", tmp_path / "made.npz")
    assert float(re.search(r"test rows: ([\d.]+)% right", out)[1]) > 90, out


def test_posts_by_date(run, tmp_path):
    draw = np.random.default_rng(0)
    about = {"autos": "engine wheel car brake road", "space": "orbit moon rocket star launch"}
    for group, words in about.items():
        (tmp_path / group).mkdir()
        for number in range(30):
            date = f"Date: {draw.integers(1, 29)} Apr 1993 12:00:00 GMT\n" if number else ""
            body = " ".join(draw.choice(words.split(), 4))
            text = f"Newsgroups: {group}\nSubject: question\n{date}\nI ask about {body}\n"
            (tmp_path / group / str(number)).write_text(text)
    out = run("posts_by_date.py", tmp_path)
    days = re.findall(r"1993-04-(\d+) +(\d+) messages +([\d.]+)%", out)
    assert days[-1][1] == "58" and float(days[-1][2]) > 85, out  # two have no date


def test_table_beside_river(run):
    out = run("table_beside_river.py", "Phishing", 200)
    shares = re.findall(r"([\d.]+)% of all rows, +([\d.]+)% class by class", out)
    assert len(shares) == 3 and float(shares[0][0]) > 75, out
