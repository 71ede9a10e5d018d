"""Take the numbers that a paper prints out of its LaTeX, so that nobody has to type them.

    python tools/extract_paper_tables.py PAPER.tex [--out src/evenstream/paper/printed]

Writes one CSV file for each table of "Online Continual Learning via Logit Adjusted Softmax", and
one for each figure about which the text states a number. What a number belongs to (stream, memory,
metric) is read from the table's header and caption, and its own number ("Table 2") from its place
among all tables. A cell that is not understood is an error.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Row = dict[str, str]

OUT = Path(__file__).parent.parent / "src/evenstream/paper/printed"

METHODS = {
    "Fine-Tune": "fine-tune", "ER": "er", "DER++": "der++", "MRO": "mro", "SS-IL": "ss-il",
    "CLIB": "clib", "ER-ACE": "er-ace", "ER-OBC": "er-obc", "ER-CBA": "er-cba", "MIR": "mir",
    r"ASER_\mu": "aser", "OCS": "ocs", "LwF": "lwf", "LUCIR": "lucir", "GeoDL": "geodl",
    "EWC": "ewc", "Labels trick": "labels-trick", "PEC": "pec", "ER-CBL": "er-cbl",
    "ER-WN": "er-wn", "ER-Up": "er-up", "ER-Down": "er-down", "BiC": "bic", "E2E": "e2e",
    "IL2M": "il2m", "SCR": "scr", "OCM": "ocm",
}  # fmt: skip
"""The paper's names of the methods, and ours. Those with -LAS behind them follow."""

METRICS = {
    "A_T": "A_T",
    "F_T": "F_T",
    "A_AUC": "A_AUC",
    "A_T^cbl": "A_T_cbl",
    "Training Time (s)": "train_seconds",
    "final average accuracy": "A_T",
    "final average forgetting": "F_T",
}
"""How headers and captions name what is measured, and our names, as in metrics.json."""

DATASETS = {
    "CIFAR10": "cifar10",
    "CIFAR100": "cifar100",
    "TinyImageNet": "tinyimagenet",
    "ImageNet": "imagenet",
    "iNaturalist": "inaturalist2017",
}
DATASET_COLUMNS = ("image_size", "train", "test", "classes")

KINDS = {"tab": "Table", "fig": "Figure"}
"""What labels begin with; every table and figure has one, right behind its caption."""

COLUMN_KEYS = {
    "Method": "method",
    "Batch size": "batch",
    "Incoming batch size": "batch_schedule",
    "Buffer batch size": "replay_batch",
}
"""What the columns of a table differ in, by the words at the left end of its header."""


@dataclass(frozen=True)
class Table:
    """A table: where it is, what its file is called, and names that mean something else in it."""

    label: str
    name: str
    methods: Mapping[str, str] = field(default_factory=dict)


TABLES = (
    Table("tab:class cl", "class-incremental"),
    Table("tab:imagenet-inat", "long-sequences"),
    Table("tab:blurry cl", "blurry"),
    Table("tab:rehearsal gain", "replay-gains"),
    Table("tab:general gain", "distillation-gains"),
    Table(
        "tab:ablation study",
        "ablation",
        {
            r"\tau=0": "er-las:tau=0",
            r"\tau=\infty": "er-las:tau=inf",
            "Random": "er-las:prior=random",
            "Macro": "er-las:prior=macro",
            "LAS": "er-las",
        },
    ),
    Table("tab:training time", "training-time"),
    Table("tab:class cl mnist", "mnist"),
    Table("tab:rehearsal-free mnist", "rehearsal-free", {"LAS": "las"}),
    Table("tab:various bs", "batch-sizes"),
    Table("tab:varying bs", "batch-schedules"),
    Table("tab:one incoming", "single-samples"),
    Table("tab:imbalance mitigation", "imbalance-mitigation"),
    Table("tab:offline accuracy", "offline", {"LUCIR": "lucir-full"}),
    Table("tab:class cl forget", "class-incremental-forgetting"),
    Table("tab:inat cbl", "inaturalist-balanced"),
)
DATASET_TABLE = Table("tab:dataset", "data-sets")


@dataclass(frozen=True)
class Statement:
    """A sentence about a figure, with one number for each of the methods."""

    label: str
    name: str
    pattern: str
    methods: tuple[str, ...]
    metric: str


STATEMENTS = (
    Statement(
        "fig:er-las",
        "prediction-share",
        r"categorizes (all) test samples into the most recently studied task classes",
        ("fine-tune",),
        "prediction_share_last",
    ),
    Statement(
        "fig:er-las",
        "prediction-share",
        r"still assigns about (\d+)\\% \(instead of the expected 10\\%\) test samples",
        ("er",),
        "prediction_share_last",
    ),
    Statement(
        "fig:sensitive",
        "sensitivity",
        r"the best accuracy result is achieved around ([\d.]+\d)",
        ("er-las",),
        "best_tau",
    ),
    Statement(
        "fig:contrast",
        "contrastive",
        r"SCR and OCM require (\d+)x and (\d+)x more computational time than our method",
        ("scr", "ocm"),
        "train_seconds_ratio",
    ),
)


class Unreadable(Exception):
    """The LaTeX is not what this script was written for."""


def extract(tex: str) -> dict[str, list[Row]]:
    """All printed numbers, by the name of the file they go into."""
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    found = {table.name: list(table_rows(table, tex)) for table in TABLES}
    found[DATASET_TABLE.name] = list(dataset_rows(tex))
    for statement in STATEMENTS:
        found.setdefault(statement.name, []).extend(statement_rows(statement, tex))
    return found


def table_rows(table: Table, tex: str) -> Iterator[Row]:
    """The numbers of a table, each with everything that it belongs to."""
    caption, lines = caption_of(table.label, tex), tabular(table.label, tex)
    methods = {**METHODS, **table.methods}
    columns = [_of_caption(caption) for _ in lines[0]]
    source = numbered(table.label, tex)
    key = ""
    for line in lines:
        if not any(map(_is_value, line)):
            key = COLUMN_KEYS.get(line[0], key)
            for column, text in zip(columns[1:], line[1:], strict=True):
                column |= _of_header(text, key, methods)
            continue
        left = _of_left(line[0], methods)
        for column, text in zip(columns[1:], line[1:], strict=True):
            belongs = {**column, **left}
            if not all(belongs.values()):
                raise Unreadable(f"{table.label} does not say what {text!r} is: {belongs}")
            metrics = belongs.pop("metric").split("/")
            for metric, part in zip(metrics, text.split("/"), strict=True):
                for suffix, mean, std in _numbers(part):
                    what = {"metric": metric + suffix, "mean": mean, "std": std}
                    yield {**belongs, **what, "source": source}


def dataset_rows(tex: str) -> Iterator[Row]:
    """The table that describes the data sets."""
    for line in tabular(DATASET_TABLE.label, tex)[1:]:
        numbers = [text.replace(r"\times", "x").replace(",", "") for text in line[1:]]
        yield {
            "dataset": DATASETS[line[0]],
            **dict(zip(DATASET_COLUMNS, numbers, strict=True)),
            "source": numbered(DATASET_TABLE.label, tex),
        }


def statement_rows(statement: Statement, tex: str) -> Iterator[Row]:
    """The numbers of a sentence about a figure."""
    found = re.search(statement.pattern, tex)
    if found is None:
        raise Unreadable(f"the text does not say {statement.pattern!r}")
    belongs = _of_caption(caption_of(statement.label, tex))
    for method, number in zip(statement.methods, found.groups(), strict=True):
        yield {
            "stream": belongs["stream"],
            "memory": belongs["memory"],
            "method": method,
            "metric": statement.metric,
            "mean": "100" if number == "all" else number,
            "std": "",
            "source": numbered(statement.label, tex),
        }


def caption_of(label: str, tex: str) -> str:
    r"""The caption in front of a \label."""
    before, found, _ = tex.partition(rf"\label{{{label}}}")
    if not found:
        raise Unreadable(f"there is no {label}")
    return plain(before.rpartition(r"\caption")[2])


def numbered(label: str, tex: str) -> str:
    r"""What a reader knows a table or figure by: LaTeX counts each kind in the source's order."""
    kind = label.partition(":")[0]
    labels = re.findall(rf"\\label\{{({kind}:.*?)\}}", tex)
    return f"{KINDS[kind]} {labels.index(label) + 1}"


def tabular(label: str, tex: str) -> list[list[str]]:
    r"""The cells of the innermost tabular that follows a \label, line by line, as plain text."""
    behind = tex.partition(rf"\label{{{label}}}")[2]
    found = re.search(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", behind, re.DOTALL)
    if found is None:
        raise Unreadable(f"{label} is no table")
    body = found[1].partition(r"\toprule")[2]
    body = re.sub(r"\\(toprule|midrule|bottomrule|rowcolor\{\w+\})", "", body)
    lines = [_cells(line) for line in body.split(r"\\") if line.strip()]
    if len({len(line) for line in lines}) != 1:
        raise Unreadable(f"{label} has lines of different length")
    return lines


def plain(text: str) -> str:
    """Text without the commands that only say how it looks."""
    text = re.sub(r"\\cite[pt]?\{.*?\}", "", text)
    looks = r"\\(textbf|mathbf|bf|tiny|small|normalsize|text|uparrow|downarrow)(?![a-z])"
    return " ".join(re.sub(r"[{}$]|" + looks, "", text).replace("~", " ").split())


def _cells(line: str) -> list[str]:
    """The cells of a line; one that spans several columns counts for each of them."""
    cells = []
    for text in line.split("&"):
        spanning = re.fullmatch(r"\s*\\multicolumn\{(\d+)\}\{[^}]*\}\{(.*)\}\s*", text, re.DOTALL)
        width, content = (int(spanning[1]), spanning[2]) if spanning else (1, text)
        cells += [plain(content)] * width
    return cells


_NUMBER = r"(\d+(?:\.\d+)?)"
_VALUE = re.compile(rf"{_NUMBER}(?:\\pm{_NUMBER})?(?: ?\((\\times )?{_NUMBER}\))?")


def _is_value(text: str) -> bool:
    """Whether a cell has results; a header may have whole numbers."""
    return re.match(r"\d+\.\d", text) is not None


def _numbers(text: str) -> Iterator[tuple[str, str, str]]:
    """What is added to the metric's name, mean and deviation, of a number and one in brackets."""
    found = _VALUE.fullmatch(text.strip())
    if found is None:
        raise Unreadable(f"the cell {text!r} is not a number")
    mean, std, times, more = found.groups()
    yield "", mean, std or ""
    if more:
        yield ("_ratio" if times else "_gain"), more, ""


def _of_caption(caption: str) -> Row:
    """What holds for all columns unless their header says something else."""
    phrase = next((words for words in METRICS if words in caption.lower()), "")
    memory = _memory(caption)
    if "without rehearsal" in caption:
        memory = "0"
    return {
        "stream": _stream(caption),
        "memory": memory,
        "method": "",
        "metric": METRICS.get(phrase, ""),
    }


def _of_header(text: str, key: str, methods: Mapping[str, str]) -> Row:
    """What a header's cell says of its column."""
    if stream := _stream(text):
        return {"stream": stream}
    if memory := _memory(text):
        return {"memory": memory}
    if all(part.strip() in METRICS for part in text.split("/")):
        return {"metric": "/".join(METRICS[part.strip()] for part in text.split("/"))}
    if key == "method":
        return {"method": _method(text, methods)}
    return {key: text.lower()}


def _of_left(text: str, methods: Mapping[str, str]) -> Row:
    """What the left end of a line says of all its numbers."""
    return {"metric": METRICS[text]} if text in METRICS else {"method": _method(text, methods)}


def _stream(text: str) -> str:
    found = re.search(r"\b(?:([CBS])-)?(MNIST|CIFAR100?|TinyImageNet|ImageNet|iNaturalist)\b", text)
    return f"{(found[1] or 'C').lower()}-{found[2].lower()}" if found else ""


def _memory(text: str) -> str:
    found = re.search(rf"\bM={_NUMBER}(k?)", text)
    return str(round(float(found[1]) * (1000 if found[2] else 1))) if found else ""


def _method(text: str, methods: Mapping[str, str]) -> str:
    name = text.removesuffix("-LAS")
    if text in methods:
        return methods[text]
    if name not in methods:
        raise Unreadable(f"there is no method {text!r}")
    return f"{methods[name]}-las"


def write(rows: Sequence[Row], path: Path) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the paper, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paper", type=Path, help="the LaTeX source, one file")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the CSV files")
    options = parser.parse_args(arguments)
    found = extract(options.paper.read_text(encoding="utf-8"))
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in found.items():
        write(rows, options.out / f"{name}.csv")
        print(f"{name}.csv: {len(rows)} rows")


if __name__ == "__main__":
    main()
