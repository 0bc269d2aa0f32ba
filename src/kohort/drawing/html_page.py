"""The parts of a page: one HTML file that refers to nothing outside of it, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files

from kohort.drawing.markup import Content, Markup, tag
from kohort.drawing.ownership_drawing import style

Card = tuple[str, str, str]
"""A figure, what it is, and "good", "bad" or nothing."""


def page_style() -> str:
    """Return the style of pages and of the drawings in them."""
    return files("kohort.drawing").joinpath("page.css").read_text(encoding="utf-8") + style()


def document(title: str, body: str) -> str:
    """Return a page; `body` is HTML, `title` is text."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(page_style())),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', Markup(body)), lang='en')}\n"


def cards(figures: Iterable[Card]) -> Markup:
    """Return large figures beside each other."""
    each = [tag("div", tag("b", number), tag("span", label), class_=kind or None) for number, label, kind in figures]
    return tag("div", each, class_="figures")


def table(headings: Sequence[str], rows: Iterable[Sequence[Content]], numeric: Collection[str] = ()) -> Markup:
    """Return a table that scrolls where the page is narrow; columns whose headings are `numeric` are right-aligned."""
    kinds = ["n" if heading in numeric else None for heading in headings]
    head = tag("tr", [tag("th", name, class_=kind, scope="col") for name, kind in zip(headings, kinds, strict=True)])
    body = [
        tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)])
        for row in rows
    ]  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="scrolls", tabindex=0)
