"""Assignors that a gateway of the interop tests runs."""

from __future__ import annotations

from kohort import TopicPartition
from kohort.assign import GroupSpec


def staircase(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    """Give the second member twice as much as the first, the third three times as much, by their instance ids."""
    order = sorted(spec.members, key=lambda name: spec.members[name].instance_id or "")
    given: dict[str, list[TopicPartition]] = {name: [] for name in order}
    for topic, each in sorted(spec.topics.items()):
        for number in range(each.partitions):
            step = max(range(len(order)), key=lambda at: ((at + 1) / (len(given[order[at]]) + 1), at))
            given[order[step]].append(TopicPartition(topic, number))
    return given


def failing(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    """Fail."""
    raise LookupError(f"no weights for {len(spec.members)} members")
