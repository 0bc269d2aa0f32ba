"""A cause as an event told it: what the values of `explained.py` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

EventFields = Mapping[str, Any]
"""One event of a group as JSON says it."""


class Because(NamedTuple):
    """A cause as the event told it: its kind, the member behind it, a detail in words."""

    kind: str
    member_id: str | None = None
    detail: str = ""


UNTOLD = Because("untold")
"""The cause of what happened while no event could be written."""

CONVERTED = "group_converted"
"""The cause of what is written only because a group goes on as one of the other type; and the event that ends it."""


def because(event: EventFields) -> Because:
    """Return the cause of an event."""
    cause: Any = event.get("cause") or {}
    return Because(str(cause.get("kind") or UNTOLD.kind), cause.get("member"), str(cause.get("detail") or ""))


def cause_json(because: Because) -> dict[str, Any]:
    """Return a cause as JSON."""
    return {"kind": because.kind, "member": because.member_id, "detail": because.detail}
