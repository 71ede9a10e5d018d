"""The script that takes numbers out of LaTeX, on small tables of every kind that the paper has."""

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "tools/extract_paper_tables.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("extract_paper_tables", SCRIPT)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def table(body, caption="Final average accuracy on C-MNIST. $M=1k$.", columns="l|c"):
    return (
        rf"\caption{{{caption}}} \label{{tab:x}} \begin{{tabular}}{{@{{}}{columns}@{{}}}}"
        rf" \toprule {body} \bottomrule \end{{tabular}}"
    )


def rows(tool, tex, **names):
    found = tool.table_rows(tool.Table("tab:x", "x", names), tex)
    return [tuple(row.values()) for row in found]


def test_headers_over_several_columns(tool):
    body = r"""
    \textbf{Dataset} & \multicolumn{2}{c|}{C-CIFAR10} & \multicolumn{1}{c}{{S-CIFAR100}} \\
    \midrule
    \textbf{Method} & $M=0.5k$ & $M=100$ & $M=20k$ \\ \midrule
    ER & $40.9$\tiny{$\pm1.2$} & {$5.4$\tiny{$\pm0.8$}} & $\mathbf{60.5}$\tiny{$\mathbf{\pm0.8}$}\\
    \rowcolor{myblue}
    ASER$_\mu$-LAS & $\bf8.11$\tiny{$\bf\pm0.01$} & $4$ & $1.0\pm2.0$ \\
    """
    assert rows(tool, table(body)) == [
        ("c-cifar10", "500", "er", "A_T", "40.9", "1.2", "Table 1"),
        ("c-cifar10", "100", "er", "A_T", "5.4", "0.8", "Table 1"),
        ("s-cifar100", "20000", "er", "A_T", "60.5", "0.8", "Table 1"),
        ("c-cifar10", "500", "aser-las", "A_T", "8.11", "0.01", "Table 1"),
        ("c-cifar10", "100", "aser-las", "A_T", "4", "", "Table 1"),
        ("s-cifar100", "20000", "aser-las", "A_T", "1.0", "2.0", "Table 1"),
    ]


def test_two_metrics_in_a_cell(tool):
    body = r"""
    Dataset & B-TinyImageNet \\
    \textbf{Method} & $A_{T}\uparrow$ / $A_{\text{AUC}}\uparrow$ \\
    ER-LAS & \small$\mathbf{24.9}$\tiny{$\mathbf{\pm0.5}$}\small{$/$}\small$20.3$\tiny{$\pm0.0$} \\
    """
    assert [row[3:6] for row in rows(tool, table(body))] == [
        ("A_T", "24.9", "0.5"), ("A_AUC", "20.3", "0.0")
    ]  # fmt: skip


def test_methods_in_columns_and_metrics_in_rows(tool):
    body = r"""
    \textbf{Method} & $\tau=\infty$ & LAS \\
    $A_T\uparrow$ & $22.7$\tiny{$\pm0.2$} & $\bf{27.0}$\tiny{$\bf{\pm0.3}$}\\
    $A_T^{\text{cbl}} \uparrow$ & $2.7$ & $10.7$ \\
    Training Time (s) & $77.4$ ($\times 0.94$) & $82.6$ ($\times 1.00$)\\
    """
    found = rows(tool, table(body), **{r"\tau=\infty": "er-las:tau=inf", "LAS": "er-las"})
    assert [row[2:6] for row in found] == [
        ("er-las:tau=inf", "A_T", "22.7", "0.2"),
        ("er-las", "A_T", "27.0", "0.3"),
        ("er-las:tau=inf", "A_T_cbl", "2.7", ""),
        ("er-las", "A_T_cbl", "10.7", ""),
        ("er-las:tau=inf", "train_seconds", "77.4", ""),
        ("er-las:tau=inf", "train_seconds_ratio", "0.94", ""),
        ("er-las", "train_seconds", "82.6", ""),
        ("er-las", "train_seconds_ratio", "1.00", ""),
    ]


@pytest.mark.parametrize(
    ("left", "right", "key", "value"),
    [
        ("Batch size", "16", "batch", "16"),
        ("Buffer batch size", "1", "replay_batch", "1"),
        ("Incoming batch size", "Increase", "batch_schedule", "increase"),
    ],
)
def test_other_keys(tool, left, right, key, value):
    body = rf"\textbf{{{left}}} &{right} \\ ER &$1.5\pm2.5$ \\"
    (row,) = tool.table_rows(tool.Table("tab:x", "x"), table(body))
    assert row[key] == value and (row["mean"], row["std"]) == ("1.5", "2.5")


def test_the_caption_says_the_rest(tool):
    body = r"Method & $A_T$ \\ LwF-LAS & $10.7$\tiny{$\pm0.2$} \normalsize($4.2\uparrow$) \\"
    caption = r"{Final average forgetting $F_T$ on C-TinyImageNet (10 tasks) without rehearsal.}"
    assert rows(tool, table(body, caption)) == [
        ("c-tinyimagenet", "0", "lwf-las", "A_T", "10.7", "0.2", "Table 1"),
        ("c-tinyimagenet", "0", "lwf-las", "A_T_gain", "4.2", "", "Table 1"),
    ]


def test_tables_side_by_side_and_comments(tool):
    one = table(r"Method & $M=1k$ \\ % ER & $9.9$ \\" + "\n" + r"ER & $1.5$ \\")
    two = one.replace("tab:x", "tab:x two").replace("1.5", "2.5").replace("MNIST", "ImageNet")
    tex = rf"\begin{{tabular}}{{cc}} {one} & {two} \end{{tabular}} 100\% of it"
    tex = tool.re.sub(r"(?<!\\)%.*", "", tex)
    (first,) = tool.table_rows(tool.Table("tab:x", "x"), tex)
    (second,) = tool.table_rows(tool.Table("tab:x two", "x"), tex)
    assert (first["stream"], first["mean"]) == ("c-mnist", "1.5")
    assert (second["stream"], second["mean"]) == ("c-imagenet", "2.5")
    assert (first["source"], second["source"]) == ("Table 1", "Table 2")


@pytest.mark.parametrize(
    ("body", "caption", "message"),
    [
        (r"Method & $M=1k$ \\ NEW & $1.5$ \\", None, "no method 'NEW'"),
        (r"Method & $M=1k$ \\ ER & $1.5$ or so \\", None, "'1.5 or so' is not a number"),
        (r"Method & $M=1k$ \\ ER & $1.5$ & $2.5$ \\", None, "lines of different length"),
        (r"Method & $M=1k$ \\ ER & $1.5$ \\", "On C-MNIST.", "does not say what '1.5' is"),
        (r"Method & $A_T$ \\ ER & $1.5$ \\", "On C-MNIST.", "does not say what '1.5' is"),
    ],
)
def test_what_is_not_understood_is_an_error(tool, body, caption, message):
    tex = table(body) if caption is None else table(body, caption)
    with pytest.raises(tool.Unreadable, match=message):
        rows(tool, tex)
    with pytest.raises(tool.Unreadable, match="there is no tab:x"):
        rows(tool, "nothing")
    with pytest.raises(tool.Unreadable, match="tab:x is no table"):
        rows(tool, r"\label{tab:x}")


def test_a_sentence_about_a_figure(tool):
    statement = tool.Statement(
        "fig:x", "x", r"SCR needs (\d+)x, OCM (all) of it", ("scr", "ocm"), "time"
    )
    tex = r"SCR needs 2x, OCM all of it. \caption{On C-CIFAR10. $M=1k$.} \label{fig:x}"
    assert [tuple(row.values()) for row in tool.statement_rows(statement, tex)] == [
        ("c-cifar10", "1000", "scr", "time", "2", "", "Figure 1"),
        ("c-cifar10", "1000", "ocm", "time", "100", "", "Figure 1"),
    ]
    with pytest.raises(tool.Unreadable, match="the text does not say"):
        list(tool.statement_rows(statement, tex.replace("2x", "twice")))


def test_files_are_written_as_they_are_read(tool, tmp_path):
    found = list(
        tool.table_rows(tool.Table("tab:x", "x"), table(r"Method & $M=1k$ \\ ER & $1.50$ \\"))
    )
    tool.write(found, tmp_path / "x.csv")
    assert list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines())) == found
    assert found[0]["mean"] == "1.50"
