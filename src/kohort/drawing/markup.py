"""HTML and SVG, safe by construction: a text is escaped when it becomes Markup, and only Markup enters a page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

VOID = frozenset({"meta", "link", "input", "br", "hr", "rect", "line", "path", "circle"})
"""Elements that may have no content."""

_OF_SCRIPTS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it as it is: templates call this, and escape what has no such method."""
        return self


Content = str | int | float | Iterable["Content"] | None
"""What an element may have inside: text, which is escaped; Markup, which is not; a number; or several of these."""


def tag(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Markup:
    """Return one element. `class_` loses its underscore, others become hyphens; None and False are left out."""
    written = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(attribute if value is True else f'{attribute}="{escape(str(value))}"')
    opened = " ".join(written)
    return Markup(f"<{opened}/>") if name in VOID and not content else Markup(f"<{opened}>{joined(content)}</{name}>")


def joined(content: Content) -> Markup:
    """Return content as Markup; text in it is escaped."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return Markup(escape(str(content)))
    return Markup("".join(joined(each) for each in content))


def script_json(value: Any) -> Markup:
    """Return JSON that can stand in a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_OF_SCRIPTS))
