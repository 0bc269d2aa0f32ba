"""The parts of a page: one HTML file that refers to nothing outside of it, light and dark, on a desk and on a phone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from importlib.resources import files

from kohort.drawing.markup import Content, Markup, tag
from kohort.drawing.ownership_drawing import style

Card = tuple[str, str, str]
"""A figure, what it is, and "good", "bad" or nothing."""


def page_style() -> str:
    """Return the style of pages and of the drawings in them."""
    return files("kohort.drawing").joinpath("page.css").read_text(encoding="utf-8") + style()


def document(title: str, body: Content, *, style: str = "", script: Markup | None = None) -> str:
    """Return a page; `title` is text, `style` what it has of its own. It fetches nothing, and runs only `script`."""
    digest = "" if script is None else b64encode(sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if digest else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; img-src data:; base-uri 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(page_style() + style)),
    )
    shown = tag("body", body, None if script is None else tag("script", script))
    return f"<!doctype html>\n{tag('html', head, shown, lang='en')}\n"


def navigation(sections: Iterable[tuple[str, str]], label: str) -> Markup:
    """Return links to the parts of a page, by their ids and texts; they stay in sight."""
    return tag("nav", [tag("a", text, href=f"#{name}") for name, text in sections], aria_label=label, class_="top")


def section(name: str, heading: str, *content: Content) -> Markup:
    """Return a part of a page with its heading and its address."""
    shown = tag("h2", heading, id=f"{name}-heading")
    return tag("section", shown, *content, id=name, aria_labelledby=f"{name}-heading")


def note(*content: Content) -> Markup | None:
    """Return a paragraph beside the matter, None where there is nothing to note."""
    return tag("p", *content, class_="note") if any(content) else None


def cards(figures: Iterable[Card]) -> Markup:
    """Return large figures beside each other."""
    each = [tag("div", tag("b", number), tag("span", label), class_=kind or None) for number, label, kind in figures]
    return tag("div", each, class_="figures")


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Content]], numeric: Collection[str] = (), label: str | None = None
) -> Markup:
    """Return a table that scrolls where the page is narrow; columns whose headings are `numeric` are right-aligned.

    `label` names it to screen readers where no heading does.
    """
    kinds = ["n" if heading in numeric else None for heading in headings]
    head = tag("tr", [tag("th", name, class_=kind, scope="col") for name, kind in zip(headings, kinds, strict=True)])
    body = [
        tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)])
        for row in rows
    ]  # fmt: skip
    role = "region" if label else None
    shown = tag("table", tag("thead", head), tag("tbody", body))
    return tag("div", shown, class_="scrolls", tabindex=0, role=role, aria_label=label)
