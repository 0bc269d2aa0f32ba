"""The manual: each page has its place in the menu, each public name its entry, and the link checker finds faults."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from scripts.site import faults
from scripts.site_pages import relinked
from tests.tidy.tree import Tree

PUBLIC = (
    "kohort",
    "kohort.sync",
    "kohort.testing",
    "kohort.schemas",
    "kohort.spark",
    "kohort.sim",
    "kohort.faststream",
)

OF_ANOTHER_PAGE = {"kohort.sim", "kohort.sync.RebalanceListener"}
"""Names that the reference leads to, and does not describe twice."""


def test_every_page_is_in_the_menu_of_the_manual(tree: Tree) -> None:
    menu = tree.text("mkdocs.yml").split("\nnav:\n", 1)[1]
    named = set(re.findall(r"([\w./-]+\.md)$", menu, re.MULTILINE))
    pages = {path.removeprefix("docs/") for path in tree.under("docs/", suffix=".md")}
    pages = {page for page in pages if not re.match(r"decisions/\d", page)}
    assert pages - named == set(), "add them to nav in mkdocs.yml"
    assert named - pages == set(), "there are no such pages: remove them from nav in mkdocs.yml"


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_is_in_the_reference(tree: Tree, package: str) -> None:
    described = {
        name
        for path in tree.under("docs/reference/", suffix=".md")
        for name in re.findall(r"^::: ([\w.]+)$", tree.text(path), re.MULTILINE)
    }
    exported = {f"{package}.{name}" for name in import_module(package).__all__} - OF_ANOTHER_PAGE
    assert exported - described == set(), "add `::: NAME` to a page of docs/reference"
    mine = {name for name in described if name.rpartition(".")[0] == package}
    assert mine - exported == set(), "these names are not exported: remove them from docs/reference"


@pytest.mark.parametrize(
    ("markup", "fault"),
    [
        ('<a href="gone.html">', "there is no such file"),
        ('<a href="other.html#gone">', "there is no such heading"),
        ('<a href="#gone">', "there is no such heading"),
        ('<img src="pictures/gone.svg">', "there is no such file"),
        ('<script src="https://cdn.example/x.js">', "fetches https://cdn.example/x.js from another server"),
        ('<link href="//fonts.example/x.css">', "fetches //fonts.example/x.css from another server"),
        ('<a href="other.html#here"><a href="https://example.org"><img src="data:,">', None),
    ],
)
def test_a_fault_of_the_built_site_is_found(markup: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(markup, encoding="utf-8")
    (tmp_path / "other.html").write_text('<h1 id="here">', encoding="utf-8")
    found = list(faults(tmp_path))
    assert len(found) == (fault is not None)
    assert all(str(fault) in each for each in found)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("![a](docs/pictures/a.png)", "![a](../pictures/a.png)"),
        ('<img src="docs/pictures/a.png" alt="a">', '<img src="../pictures/a.png" alt="a">'),
        ('<source srcset="docs/pictures/a.png">', '<source srcset="../pictures/a.png">'),
        ('<img src="https://example.org/a.png">', '<img src="https://example.org/a.png">'),
        ("`[a](docs/pictures/a.png)`", "`[a](docs/pictures/a.png)`"),
    ],
)
def test_links_and_pictures_of_the_readme_lead_where_they_are_in_the_site(written: str, shown: str) -> None:
    assert relinked(written, "README.md") == shown
