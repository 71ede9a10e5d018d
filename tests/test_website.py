"""What `make docs` does around the generator: pages made from code, navigation, checked links."""

import dataclasses
import inspect
import re
import shutil
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import evenstream
from evenstream.methods import METHODS
from tools.website.drawings import DRAWINGS, drawing_of
from tools.website.inspect_site import browser, check_page, open_page, page_names, served
from tools.website.las_figure import draw_las
from tools.website.links import broken_links
from tools.website.method_pages import link_methods, method_pages, slug
from tools.website.navigation import with_generated_pages
from tools.website.page import Page, table
from tools.website.reference_pages import reference_pages

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX = "methods/index.md"
needs_results = pytest.mark.skipif(
    not (DOCS / "results").is_dir(), reason="not in source distributions"
)


def entries(nav):
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from entries(value) if isinstance(value, list) else [value]


def test_every_page_is_in_the_navigation_once():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    completed = {page.path for page in method_pages(DOCS)}
    assert sorted(entries(nav)) == sorted(written - completed)
    assert {path for path in written if path.startswith("methods/")} <= completed | {INDEX}


def test_generated_pages_join_their_sections():
    config = """[project]
    nav = [{ "Methods" = ["methods/index.md"] }, { "Reference" = [] }]"""
    method = Page("methods/er.md", "er", "")
    reference = Page("reference/api/heads.md", "heads", "")
    nav = with_generated_pages(config, [method], [reference])["project"]["nav"]
    assert list(entries(nav)) == ["methods/index.md", method.path, reference.path]


@pytest.fixture(scope="module")
def pages():
    return {page.title: page.text for page in method_pages(DOCS)}


@needs_results
def test_every_method_has_a_page_with_its_options_and_class(pages):
    for name, cls in METHODS.items():
        if cls.__module__.startswith("evenstream."):
            assert f"::: {cls.__module__}.{cls.__qualname__}" in pages[name]
            for option in dataclasses.fields(cls):
                assert f"| `{option.name}` |" in pages[name]


@needs_results
def test_a_page_has_stored_results_and_differences_of_its_method_only(pages):
    mir = pages["mir"]
    assert "`mir-las`" in mir and "c-cifar100_slim_m500.runs.jsonl" in mir
    assert "`scoring=eval`" in mir and "correction_mode" not in mir
    assert "| `mir` | `c-cifar100` | slim-resnet18 | 500 | 0.03 | 1 | 10.8 | 25.1 | 1 |" in mir
    assert "`las`" in pages["fine-tune"]
    assert "`ties=oldest` (i-Blurry)" in pages["clib"]


@needs_results
def test_a_page_without_stored_runs_says_how_to_get_some(pages):
    assert "evenstream compare er gdumb --stream c-digits" in pages["gdumb"]
    assert "evenstream compare fine-tune lwf-lt --stream c-digits" in pages["lwf-lt"]
    assert "(../appendix/results.md#first-contact" in pages["auto"]


def test_what_is_written_about_a_method_begins_with_its_name(tmp_path):
    shutil.copytree(DOCS / "methods", tmp_path / "methods")
    (tmp_path / "methods" / "er.md").write_text("# ER\n\nReplay.\n")
    with pytest.raises(ValueError, match=r"er.md must begin with '# `er`"):
        method_pages(tmp_path)


def test_the_main_methods_are_drawn():
    recommended = {"auto", "ranpac", "slda", "er"}  # first, by docs/choose.md
    assert len(DRAWINGS) == 10 and recommended <= set(DRAWINGS) <= set(METHODS)
    assert drawing_of("fine-tune") == ""


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_whole(name):
    drawing = DRAWINGS[name]
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", drawing_of(name), re.S)[0])
    assert svg.get("aria-label") == drawing.words
    assert len(svg.findall("g")) == len(drawing.boxes)
    assert {arrow.start for arrow in drawing.arrows} <= set(drawing.boxes)
    places = [(box.column, box.row) for box in drawing.boxes.values()]
    assert len(set(places)) == len(places)
    for box in drawing.boxes.values():
        assert all(len(line) <= 20 for line in box.text.split("\n"))  # fits at 13 pixels


def own_methods():
    return {name for name, cls in METHODS.items() if cls.__module__.startswith("evenstream.")}


def test_every_method_has_a_formula():
    formulas = tomllib.loads((DOCS / "methods" / "formulas.toml").read_text(encoding="utf-8"))
    assert set(formulas) == own_methods()
    for formula in formulas.values():
        assert set(formula) == {"lines", "words"}
        assert "`" not in formula["lines"]  # they are shown as HTML, not as Markdown


def test_the_overview_links_to_the_pages():
    text = "| `der++` | x |\n| `nothing` | y |\n| `mro`, `clib` | z |"
    assert link_methods(text) == text.replace("`der++`", "[`der++`](derpp.md)")
    assert len({slug(name) for name in METHODS}) == len(METHODS)


def test_the_reference_has_every_public_name():
    text = "\n".join(page.text for page in reference_pages())
    documented = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", text, re.M)}
    modules = {name for name in evenstream.__all__ if inspect.ismodule(getattr(evenstream, name))}
    assert len(modules) > 7 and set(evenstream.__all__) - modules <= documented
    titles = {page.title.removeprefix("evenstream.") for page in reference_pages()}
    assert modules - {"methods"} <= titles
    assert {"MovingAverage", "Cosine", "SlidingWindow", "Uniform", "Reservoir"} <= documented


def test_bars_in_cells_do_not_make_columns():
    assert table(["a"], [["p(y|x)"]]).splitlines()[-1] == "| p(y\\|x) |"


def test_the_figure_is_the_same_each_time(tmp_path):
    first, again = (draw_las(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == again and b"softmax" in first


AXE_THAT_FINDS_NOTHING = "window.axe = {run: async () => ({violations: []})}"


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="no Chromium here")
def test_a_page_wider_than_the_screen_is_found(tmp_path):
    (tmp_path / "wide").mkdir()
    (tmp_path / "index.html").write_text("<!DOCTYPE html><p>narrow")
    (tmp_path / "wide" / "index.html").write_text('<!DOCTYPE html><p style="width:500px">wide')
    assert page_names(tmp_path) == ["", "wide/"] and page_names(tmp_path, ["/"]) == [""]
    with served(tmp_path) as address, browser() as chrome:
        found = []
        for page in page_names(tmp_path):
            open_page(chrome, f"{address}/{page}", 390, "dark")
            found += check_page(chrome, page, "390 dark", AXE_THAT_FINDS_NOTHING)
    assert [(finding.page, finding.rule, finding.serious) for finding in found] == [
        ("wide/", "width", True)
    ]


def test_a_quick_inspection_leaves_out_pages_that_are_alike(tmp_path):
    names = ["start", "methods", "methods/er", "methods/mir", "reference/api/rules"]
    for name in names:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "index.html").touch()
    assert len(page_names(tmp_path)) == 5
    assert page_names(tmp_path, quick=True) == ["methods/", "methods/er/", "start/"]


def test_broken_links_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top"></h1><a href="sub/#here"></a><a href="sub/#gone"></a><a href="#top"></a>'
        '<img src="lost.png"><a href="https://example.org/x"></a><a href="nowhere/"></a>'
    )
    (tmp_path / "sub" / "index.html").write_text('<a id="here" href="../#top"></a>')
    assert broken_links(tmp_path) == [
        "index.html: lost.png",
        "index.html: nowhere/",
        "index.html: sub/#gone",
    ]
