"""What must be true of a shard between two commands, whatever happened before. Tests and simulations ask."""

from __future__ import annotations

from kohort.group.classic import invariants as classic
from kohort.group.classic.group import ClassicGroup
from kohort.group.consumer import invariants as consumer
from kohort.group.effects import Parked
from kohort.group.shard import Shard
from kohort.group.timers import Timer


def violations(shard: Shard) -> list[str]:
    """Return a sentence for each rule that the state of a shard breaks."""
    found = []
    for group in shard.groups.values():
        texts = classic.broken(group) if isinstance(group, ClassicGroup) else consumer.broken(group)
        found += [f"{group.group_id}: {text}" for text in texts]
    found += [f"{group_id}: offsets without a group" for group_id in shard.offsets if group_id not in shard.groups]
    return found + consumer.broken_index(shard)


def waiting(shard: Shard) -> set[Parked]:
    """Return the requests that must be parked: no more, no fewer."""
    return {
        place
        for group in shard.groups.values()
        for place in (classic.waiting(group) if isinstance(group, ClassicGroup) else consumer.waiting(group))
    }


def missing_timers(shard: Shard, armed: set[Timer]) -> list[Timer]:
    """Return the timers without which a group could wait for ever."""
    return [
        timer
        for group in shard.groups.values()
        for timer in (classic.needed(group) if isinstance(group, ClassicGroup) else consumer.needed(group))
        if timer not in armed
    ]
