"""Groups at rest, as a cluster would describe them."""

from __future__ import annotations

from typing import Any

from kohort.group.migration.migration_plan import LiveGroup, LiveMember
from kohort.model.ids import TopicPartition
from kohort.what_if.change import PlannedChange
from kohort.what_if.forecast import Forecast
from kohort.what_if.group_facts import GroupFacts, Times, roster_of
from kohort.what_if.simulation import simulate

TOPIC_ID = b"o" * 16


def group(
    *names: str, each: int = 4, kind: str = "classic", assignor: str = "", is_static: bool = False, **changes: Any
) -> LiveGroup:
    """Return a group whose members own `each` partitions of `orders`, in order."""
    members = tuple(
        LiveMember(
            f"{name}-id",
            name,
            kind == "consumer",
            frozenset({"orders"}),
            frozenset(TopicPartition("orders", place * each + number) for number in range(each)),
            name if is_static else None,
            **changes,
        )
        for place, name in enumerate(names)
    )
    topics = {"orders": (TOPIC_ID, len(names) * each), "other": (b"x" * 16, 3)}
    in_force = assignor or ("uniform" if kind == "consumer" else "range")
    return LiveGroup("readers", kind, "Stable", "consumer", in_force, members, topics)


def forecast(
    found: LiveGroup, change: PlannedChange, *, is_ours: bool = True, rate: float | None = None, **times: Any
) -> Forecast:
    """Return what a change leads to; messages take a millisecond and callbacks none unless given."""
    rates = None
    if rate is not None:
        rates = {TopicPartition("orders", number): rate for number in range(found.topics["orders"][1])}
    facts = GroupFacts(found, is_ours=is_ours, rates=rates)
    return simulate(facts, roster_of(found), Times(**times), change, "", lambda _: None)
