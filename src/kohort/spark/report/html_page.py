"""The parts of a report: one HTML file that refers to nothing outside of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

_STYLE = """
:root { --ink: #22262a; --soft: #5d666e; --line: #dfe3e6; --good: #2e7d4f; --bad: #b3261e; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.1rem 4rem; max-width: 62rem; color: var(--ink); background: #fff;
  font: 16px/1.55 "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 2.6rem 0 .5rem; }
p { max-width: 42rem; } .lead { font-size: 1.1rem; color: var(--soft); margin-top: 0; }
.figures { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); margin: 1.6rem 0; }
.figures div { border-top: 3px solid var(--line); padding-top: .5rem; }
.figures b { display: block; font-size: 1.6rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); font-size: .9rem; } .good b { color: var(--good); } .bad b { color: var(--bad); }
.wide { overflow-x: auto; } .wide svg { width: 100%; min-width: 42rem; height: auto; display: block; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .32rem .8rem .32rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right; }
code { font: .88em ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
footer { margin-top: 3rem; color: var(--soft); font-size: .88rem; }
"""

Card = tuple[str, str, str]
"""A figure, what it is, and "good", "bad" or nothing."""


def document(title: str, body: str) -> str:
    """Return a page; `body` is HTML, `title` is text."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}</style></head><body>
{body}</body></html>
"""


def cards(figures: Iterable[Card]) -> str:
    """Return large figures beside each other."""
    each = (
        f'<div class="{kind}"><b>{escape(number)}</b><span>{escape(label)}</span></div>'
        for number, label, kind in figures
    )
    return f'<div class="figures">{"".join(each)}</div>'


def wide(content: str) -> str:
    """Return a picture or a table that scrolls where the page is narrow."""
    return f'<div class="wide">{content}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], numeric: Collection[str] = ()) -> str:
    """Return a table; the columns with the headings in `numeric` are right-aligned."""
    kinds = ["n" if heading in numeric else "" for heading in headings]
    head = "".join(f'<th class="{kind}">{escape(name)}</th>' for kind, name in zip(kinds, headings, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{escape(str(cell))}</td>' for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
