"""What of a shard its log has, as values: two shards of one log have the same, whichever process folded it and when.

Soft state is left out: who waits, which round gathers, why an epoch began, who committed. Of a classic group the log
knows generations, and nothing of a round before it is over: while one gathers, only the generation before it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.shard import Shard

SOFT = frozenset(
    {"awaiting_join", "epoch_cause", "failed_epoch", "followers", "is_dead", "target_cost_us", "target_failure",
     "target_failures", "target_retry_ms", "session"}
)  # fmt: skip
"""Fields of a consumer group and its members that no record stores."""


def hard_state(shard: Shard) -> dict[str, Any]:
    """Return everything of a shard that its log has, for good: later events do not change it."""
    return deepcopy(
        {
            "groups": {group_id: hard_group(group) for group_id, group in shard.groups.items()},
            "offsets": {group_id: _offsets(shard, group_id) for group_id in shard.offsets},
            "followers": {topic: groups for topic, groups in shard.followers.items() if groups},
            "regex_followers": shard.regex_followers,
        }
    )


def hard_group(group: ClassicGroup | ConsumerGroup) -> dict[str, Any]:
    """Return what the log has of one group, by the names of its fields."""
    if isinstance(group, ConsumerGroup):
        fields = _fields(group)
        fields["members"] = {member_id: _fields(member) for member_id, member in group.members.items()}
        fields["regexes"] = {regex: stored.topics for regex, stored in group.regexes.items()}
        return fields
    members = {
        member_id: (
            member.instance_id,
            member.client_id,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.metadata(group.protocol_name),
            member.assignment,
        )
        for member_id, member in group.members.items()
    }
    return {
        "phase": group.phase,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader,
        "members": members,
    }


def differences(live: Shard, loaded: Shard) -> list[str]:
    """Return a sentence for each thing in which a shard that was loaded is not what the live one's log must have."""
    found = []
    for group_id in sorted(live.groups.keys() | loaded.groups.keys()):
        found += [f"{group_id}: {text}" for text in _of_group(live.groups.get(group_id), loaded.groups.get(group_id))]
    for group_id in sorted(live.offsets.keys() | loaded.offsets.keys()):
        one, other = _offsets(live, group_id), _offsets(loaded, group_id)
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                found.append(
                    f"{group_id}: {key[0]}-{key[1]} is committed as {one.get(key)}, loaded as {other.get(key)}"
                )
    for topic in sorted(live.followers.keys() | loaded.followers.keys()):
        if live.followers.get(topic, set()) != loaded.followers.get(topic, set()):
            found.append(f"{topic} is followed by {live.followers.get(topic)}, loaded {loaded.followers.get(topic)}")
    if live.regex_followers != loaded.regex_followers:
        found.append(f"expressions are followed by {live.regex_followers}, loaded {loaded.regex_followers}")
    return found


def _of_group(live: ClassicGroup | ConsumerGroup | None, loaded: ClassicGroup | ConsumerGroup | None) -> Iterator[str]:
    if isinstance(live, ClassicGroup) and not (live.is_stored and live.phase is not Phase.DEAD):
        live = None  # it exists for its offsets, or for members that have no generation yet
    if isinstance(loaded, ClassicGroup) and not loaded.is_stored:
        loaded = None
    if type(live) is not type(loaded):
        yield f"it is {_kind(live)}, loaded {_kind(loaded)}"
    elif live is not None and loaded is not None:
        one, other = hard_group(live), hard_group(loaded)
        if isinstance(live, ClassicGroup) and live.phase is Phase.PREPARING_REBALANCE:
            one, other = {"generation": live.generation}, {"generation": other["generation"]}
        for name, value in one.items():
            if value != other[name]:
                yield f"{name} is {value}, loaded {other[name]}"


def _kind(group: ClassicGroup | ConsumerGroup | None) -> str:
    return "none" if group is None else "a consumer group" if isinstance(group, ConsumerGroup) else "a classic group"


def _offsets(shard: Shard, group_id: str) -> dict[tuple[str, int], Any]:
    offsets = shard.offsets.get(group_id, {})
    return {key: committed._replace(member_id="") for key, committed in offsets.items()}


def _fields(thing: Any) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in type(thing).__slots__ if name not in SOFT}
