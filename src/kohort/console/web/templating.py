"""Templates of the pages. Every value is escaped; what is drawing's Markup is not escaped twice."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlencode

from kohort.drawing import display_text
from kohort.model.extras import install_command

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
except ImportError as cause:
    raise ImportError(f"kohort console needs Jinja: {install_command('console')}") from cause


@cache
def environment() -> Any:
    """Return the environment of the templates, which are compiled once."""
    made = Environment(
        loader=PackageLoader("kohort.console.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "name": display_text.display_name,
        "sentence": display_text.display_sentence,
        "counted": display_text.counted,
        "lasting": display_text.duration,
        "moment": display_text.moment,
        "clock": display_text.clock,
        "number": number,
        "in_bytes": in_bytes,
        "in_seconds": in_seconds,
        "query": query,
    }
    return made


def number(value: float | None, unknown: str = "–") -> str:
    """Return a number with commas, and one decimal where it is small and broken."""
    if value is None:
        return unknown
    return f"{value:,.1f}" if abs(value) < 10 and value != round(value) else f"{value:,.0f}"


def in_bytes(value: float | None, unknown: str = "unknown") -> str:
    """Return a number of bytes with its unit."""
    if value is None:
        return unknown
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{number(value)} {unit}"
        value /= 1024
    return f"{number(value)} TiB"


def in_seconds(value: float | None) -> str:
    """Return a short duration, which may be below a millisecond."""
    if value is None:
        return "–"
    if value == float("inf"):
        return "more than 1 s"
    return f"{value * 1e6:,.0f} µs" if value < 0.001 else f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.1f} s"


def query(values: dict[str, object]) -> str:
    """Return the query of an address, of values that are neither empty nor 0."""
    return urlencode({name: value for name, value in values.items() if value not in ("", 0, None)}, errors="replace")


def render(template: str, **values: Any) -> str:
    """Return a page, or a part of one."""
    text: str = environment().get_template(template).render(values)
    return text
