"""The examples with pretrained encoders, on small excerpts made here."""

import csv
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenstream import Learner

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


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
    run("frozen_images.py", tmp_path / "later", tmp_path / "save", *size)
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
    out = run("text_intents.py", tmp_path / "asked.csv", tmp_path / "save")
    right, known = map(int, re.search(r"(\d+) of 120 right.*; (\d+) had", out).groups())
    assert right >= 0.7 * known > 70, out
    learner = Learner.load(tmp_path / "save")
    assert sorted(learner.labels) == ["card", "rate", "transfer"]
