"""JSON of a group's folded state, from which the next run continues.

It has the current group without history; partitions are written as numbers by topic. `LAYOUT` of `fleet/tables.py` is
its version.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from typing import Any

from kohort.fleet.fold.folded_group import FoldedMember, Group, Partitions, Rebalancing, Violations
from kohort.fleet.load_check import LogCheck
from kohort.model.assignment import by_topic
from kohort.model.ids import TopicPartition

_PLAIN = (
    "kind", "epoch", "target_epoch", "strategy", "protocol", "leader", "awaits_sync", "has_user_data", "is_deleted",
    "has_commits", "departed_ms", "rebalances", "clock_ms", "first_seen_ms", "last_seen_ms", "emptied_ms", "records",
    "partition", "last_offset", "newcomers", "strangers", "last_record", "is_committed",
)  # fmt: skip
_OF_MEMBER = tuple(field.name for field in fields(FoldedMember) if field.name not in ("target", "pending"))


def group_to_json(group: Group) -> str:
    """Return a group as JSON. Its hours and events must have been collected."""
    running: list[Any] | None = None
    if (rebalance := group.running) is not None:
        before = [[member_id, topics] for member_id, topics in _gather(rebalance.before)]
        running = [rebalance.since_ms, rebalance.failed, rebalance.target_ms, rebalance.slowest, before]
    state = {
        **{name: getattr(group, name) for name in _PLAIN},
        "members": [_member_to_json(member) for member in group.members.values()],
        "departed": [_member_to_json(member) for member in group.departed.values()],
        "unsettled": sorted(group.unreconciled),
        "owners": [[*owned, topics] for owned, topics in _gather(group.ownership.owners)],
        "unowned": [[*owned, topics] for owned, topics in _gather(group.ownership.unowned)],
        "strategies": sorted(group.protocols),
        "running": running,
        "subscriptions": sorted({f"{list(each.topics)} {each.regex or ''}" for each in group.members.values()}),
        "check": group.check.to_json(),
        "violations": asdict(group.violations),
    }
    return json.dumps(state, separators=(",", ":"))


def group_from_json(source: str, group_id: str, text: str, name_of: Callable[[str], str] = str) -> Group:
    """Return the group that an earlier run left; `name_of` names topics whose names were not known then."""
    state: dict[str, Any] = json.loads(text)
    group = Group(source, group_id)
    group.name_of = name_of
    for name in _PLAIN:
        setattr(group, name, state[name])
    for each in state["members"]:
        group.add_member(_member_from_json(each, name_of))
    for each in state["departed"]:
        member = _member_from_json(each, name_of)
        group.departed[member.member_id] = member
    group.check = LogCheck.from_json(state["check"])
    group.violations = Violations.from_json(state["violations"])
    group.emptied_ms = state["emptied_ms"]
    group.unreconciled = set(state["unsettled"])
    group.protocols = group.protocols or Counter(state["strategies"])
    for member_id, since_ms, topics in state["owners"]:
        group.ownership.assign(member_id, _partitions(topics, name_of), since_ms, None)
    for member_id, since_ms, topics in state["unowned"]:
        for partition in _partitions(topics, name_of):
            group.ownership.unowned[partition] = member_id, since_ms
    if state["running"] is not None:
        since_ms, failed, target_ms, slowest, before = state["running"]
        group.running = Rebalancing(since_ms, {}, failed, target_ms, slowest)
        for member_id, topics in before:
            for partition in _partitions(topics, name_of):
                group.running.before[partition] = member_id
    return group


def _member_to_json(member: FoldedMember) -> list[Any]:
    return [*(getattr(member, name) for name in _OF_MEMBER), by_topic(member.target), by_topic(member.pending)]


def _member_from_json(state: list[Any], name_of: Callable[[str], str]) -> FoldedMember:
    *plain, target, pending = state
    member = FoldedMember(**dict(zip(_OF_MEMBER, plain, strict=True)))
    member.topics, member.protocols = tuple(member.topics), tuple(member.protocols)
    member.target, member.pending = _partitions(target, name_of), _partitions(pending, name_of)
    return member


def _gather(partitions: dict[TopicPartition, Any]) -> Iterable[tuple[Any, dict[str, list[int]]]]:
    """Return partitions grouped by their value."""
    found: dict[Any, list[TopicPartition]] = {}
    for partition, state in partitions.items():
        found.setdefault(state, []).append(partition)
    return [(state, by_topic(found[state])) for state in sorted(found, key=str)]


def _partitions(topics: dict[str, list[int]], name_of: Callable[[str], str]) -> Partitions:
    return frozenset(TopicPartition(name_of(topic), number) for topic, numbers in topics.items() for number in numbers)
