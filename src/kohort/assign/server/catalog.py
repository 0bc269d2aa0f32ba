"""The server-side assignors that come with kohort, by name; and those of users as some of them.

What is loaded from elsewhere, and how, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from kohort.assign.server.adapter import AdaptedAssignor, CheckedAssignor, adapted
from kohort.assign.server.range import ServerRangeAssignor
from kohort.assign.server.spec import ServerAssignor
from kohort.assign.server.standby import StandbyAssignor
from kohort.assign.server.uniform import UniformAssignor
from kohort.assign.spec import Assignor

BUILT_IN: dict[str, Callable[[], ServerAssignor]] = {
    "uniform": UniformAssignor,
    "range": ServerRangeAssignor,
    "standby": StandbyAssignor,
}

KAFKAS_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""What `group.consumer.assignors` may be on Apache Kafka."""


class UnknownAssignor(ValueError):
    """There is no server-side assignor of that name; the text lists which there are."""


def server_assignors(names: Iterable[str]) -> dict[str, ServerAssignor]:
    """Return the assignors of these names, in their order: the first is the default. Raises UnknownAssignor."""
    found: dict[str, ServerAssignor] = {}
    for name in names:
        name = KAFKAS_CLASSES.get(name, name)
        if name not in BUILT_IN:
            raise UnknownAssignor(f"there is no server-side assignor {name!r}; there are {', '.join(sorted(BUILT_IN))}")
        found.setdefault(name, BUILT_IN[name]())
    return found


def as_server_assignor(found: object) -> ServerAssignor:
    """Return a server-side or client-side assignor, an instance or its class, or a function of a GroupSpec, as one.

    What it returns is checked. Raises TypeError where it is none of these.
    """
    if isinstance(found, type):
        found = found()
    if isinstance(found, AdaptedAssignor | CheckedAssignor):
        return found
    if callable(getattr(found, "assign", None)):
        if not isinstance(getattr(found, "name", None), str):
            raise TypeError("it has no name: give it the attribute `name`, which members ask for")
        if hasattr(found, "protocols"):
            return adapted(cast("Assignor", found))
        return CheckedAssignor(cast("ServerAssignor", found))
    if callable(found):
        function = cast("Callable[..., Any]", found)
        return AdaptedAssignor(function.__name__.replace("_", "-"), function)
    raise TypeError(
        f"{type(found).__name__} is neither an assignor (with `name` and `assign`) nor a function of a GroupSpec"
    )
