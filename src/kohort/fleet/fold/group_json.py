"""What was folded of a group, as JSON: how the next run goes on where this one stopped.

It holds the group as it is, no history; partitions are written as numbers by topic. A state of another version cannot
be gone on with, and says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from kohort.fleet.fold.folded_group import Group, Member, Partitions, Rebalancing
from kohort.model.assignment import by_topic
from kohort.model.ids import TopicPartition

VERSION = 1

_PLAIN = (
    "kind",
    "epoch",
    "target_epoch",
    "strategy",
    "protocol",
    "leader",
    "awaits_sync",
    "has_user_data",
    "is_deleted",
    "has_commits",
    "departed_ms",
    "rebalances",
    "clock_ms",
    "first_seen_ms",
    "last_seen_ms",
    "emptied_ms",
    "records",
    "partition",
    "last_offset",
    "newcomers",
    "strangers",
)
_OF_MEMBER = (
    "member_id",
    "instance",
    "client_id",
    "host",
    "topics",
    "regex",
    "protocols",
    "version",
    "rebalance_timeout_ms",
    "epoch",
    "state",
    "state_ms",
    "is_told",
)


def group_to_json(group: Group) -> str:
    """Return a group as JSON. Its hours and events must have been taken out."""
    owners = [[member, since, each] for (member, since), each in _gather(group.ownership.owners)]
    unowned = [[member, since, each] for (member, since), each in _gather(group.ownership.unowned)]
    running = group.running
    said = {
        "version": VERSION,
        **{name: getattr(group, name) for name in _PLAIN},
        "members": [_member_to_json(member) for member in group.members.values()],
        "departed": [_member_to_json(member) for member in group.departed.values()],
        "unsettled": sorted(group.unsettled),
        "owners": owners,
        "unowned": unowned,
        "strategies": sorted(group.protocols),
        "running": None
        if running is None
        else [
            running.since_ms,
            running.failed,
            running.target_ms,
            running.slowest,
            [[member, each] for (member, _), each in _gather({key: (m, 0) for key, m in running.before.items()})],
        ],
    }
    return json.dumps(said, separators=(",", ":"))


def group_from_json(source: str, group_id: str, text: str, name_of: Callable[[str], str] = str) -> Group:
    """Return the group that an earlier run left; `name_of` names topics whose names were not known then."""
    said: dict[str, Any] = json.loads(text)
    if said.get("version") != VERSION:
        raise ValueError(f"the state of group {group_id!r} has version {said.get('version')}, not {VERSION}")
    group = Group(source, group_id)
    group.name_of = name_of
    for name in _PLAIN:
        setattr(group, name, said[name])
    for each in said["members"]:
        group.add_member(_member_from_json(each, name_of))
    for each in said["departed"]:
        member = _member_from_json(each, name_of)
        group.departed[member.member_id] = member
    group.emptied_ms = said["emptied_ms"]
    group.unsettled = set(said["unsettled"])
    group.protocols = group.protocols or Counter(said["strategies"])
    for member_id, since_ms, topics in said["owners"]:
        group.ownership.take(member_id, _partitions(topics, name_of), since_ms, None)
    for member_id, since_ms, topics in said["unowned"]:
        for partition in _partitions(topics, name_of):
            group.ownership.unowned[partition] = member_id, since_ms
    if said["running"] is not None:
        since_ms, failed, target_ms, slowest, before = said["running"]
        group.running = Rebalancing(since_ms, {}, failed, target_ms, slowest)
        for member_id, topics in before:
            for partition in _partitions(topics, name_of):
                group.running.before[partition] = member_id
    return group


def _member_to_json(member: Member) -> list[Any]:
    return [
        *(getattr(member, name) for name in _OF_MEMBER),
        by_topic(member.target),
        by_topic(member.pending),
    ]


def _member_from_json(said: list[Any], name_of: Callable[[str], str]) -> Member:
    *plain, target, pending = said
    member = Member(**dict(zip(_OF_MEMBER, plain, strict=True)))
    member.topics, member.protocols = tuple(member.topics), tuple(member.protocols)
    member.target, member.pending = _partitions(target, name_of), _partitions(pending, name_of)
    return member


def _gather(
    held: dict[TopicPartition, Any],
) -> Iterable[tuple[tuple[Any, int], dict[str, list[int]]]]:
    """Return partitions by what is said of them."""
    found: dict[Any, list[TopicPartition]] = {}
    for partition, said in held.items():
        found.setdefault(said, []).append(partition)
    return [(said, by_topic(found[said])) for said in sorted(found, key=str)]


def _partitions(topics: dict[str, list[int]], name_of: Callable[[str], str]) -> Partitions:
    return frozenset(TopicPartition(name_of(topic), number) for topic, numbers in topics.items() for number in numbers)
