"""Logs as Kafka's cleaner may leave them, and the state that a replay of one gives, as values that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from kohort.group.consumer.group import ConsumerGroup
from kohort.group.invariants import violations
from kohort.group.settings import GroupSettings
from kohort.group.shard import Shard, apply
from kohort.log.offsets_topic import Replay
from kohort.wire.records import Record, encode_batch

Row = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""

SOFT = frozenset(
    {"awaiting_join", "epoch_cause", "failed_epoch", "is_dead", "target_cost_us", "target_failure", "target_failures",
     "target_retry_ms", "session"}
)  # fmt: skip
"""Fields of a consumer group and its members that no record holds."""


def compacted(rows: Sequence[Row], clean: int, horizon: int) -> list[Row]:
    """Return a log whose first `clean` records were cleaned: of each key only the last of them is left.

    Tombstones among the first `horizon` have been there so long that they are gone too.
    """
    last = {key: position for position, (key, _) in enumerate(rows[:clean])}
    return [
        (key, value)
        for position, (key, value) in enumerate(rows[:clean])
        if last[key] == position and (value is not None or position >= horizon)
    ] + list(rows[clean:])


def raced(rows: Sequence[Row], read: int) -> list[Row]:
    """Return a log as a loader sees it that had read the first `read` records when the cleaner put the rest in place.

    A later record has taken the place of some that the loader has not come to, a tombstone of what it has read among
    them (KAFKA-19862, KAFKA-21117). Tombstones that nothing has replaced are there: they outlive every loader.
    """
    last = {key: position for position, (key, _) in enumerate(rows)}
    return [*rows[:read], *(row for position, row in enumerate(rows) if position >= read and last[row[0]] == position)]


def replayed(rows: Sequence[Row], settings: GroupSettings, *, checked: bool = True) -> Shard:
    """Return the shard that a log gives; it keeps every rule that a live one does."""
    shard, replay = Shard(settings), Replay()
    for offset, (key, value) in enumerate(rows):
        for event in replay.read(encode_batch([Record(0, 0, key, value)], base_offset=offset)):
            apply(shard, event)
    if checked:
        assert not violations(shard), violations(shard)
    return shard


def hard_state(shard: Shard) -> dict[str, Any]:
    """Return everything of a shard that its log holds, for good: later events do not change it."""
    return deepcopy(
        {
            "groups": {group_id: _group(group) for group_id, group in shard.groups.items()},
            "offsets": {
                group_id: {key: committed._replace(member_id="") for key, committed in held.items()}
                for group_id, held in shard.offsets.items()
            },
            "followers": {topic: groups for topic, groups in shard.followers.items() if groups},
            "regex_followers": shard.regex_followers,
        }
    )


def _group(group: Any) -> Any:
    if not isinstance(group, ConsumerGroup):
        members = {}
        for member_id, member in group.members.items():
            metadata = member.metadata(group.protocol_name)
            members[member_id] = (member.instance_id, member.session_timeout_ms, metadata, member.assignment)
        return (group.phase, group.generation, group.protocol_type, group.protocol_name, group.leader, members)
    fields = _fields(group)
    fields["members"] = {member_id: _fields(member) for member_id, member in group.members.items()}
    fields["regexes"] = {regex: stored.topics for regex, stored in group.regexes.items()}
    return fields


def _fields(thing: Any) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in type(thing).__slots__ if name not in SOFT}
