"""Why a member that the group knows joins again: decided by what it wants, not by the bytes of its metadata.

A subscription carries the generation (KIP-792) and the owned partitions (KIP-429) of its sender, and sticky assignors
put them into the user data too, so its bytes differ after every round. The bytes decide whether a round starts, as in
Kafka (see `join`); this module only names the cause.
"""

from __future__ import annotations

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member
from kohort.group.commands import Join
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.cause import Cause, CauseKind
from kohort.model.reason import JoinReason, join_reason
from kohort.model.subscription import topic_difference

METADATA_TEXT = "cached metadata has changed"
"""How Java's client begins its reason when its leader saw topics change (KIP-800)."""


def rejoin_cause(group: ClassicGroup, member: Member, command: Join, now_ms: int, settings: GroupSettings) -> Cause:
    """Return why a known member joins again. Where it asks for a round by itself, this walks all members."""
    member_id, known, offered = member.member_id, member.protocols, command.protocols
    if member.is_restored:
        offered = tuple(entry for entry in offered if entry[0] == group.protocol_name)
    if [name for name, _ in known] != [name for name, _ in offered]:
        detail = f"{','.join(name for name, _ in offered)} in place of {','.join(name for name, _ in known)}"
        return Cause(CauseKind.PROTOCOL_CHANGED, now_ms, member_id, detail)
    if known != offered:
        changed = [
            wish
            for (name, ours), (_, theirs) in zip(known, offered, strict=True)
            if (wish := _other_wish(group, name, ours, theirs, settings)) is not None
        ]
        if changed:
            return Cause(CauseKind.SUBSCRIPTION_CHANGED, now_ms, member_id, changed[0])
        if member_id in group.revoking:
            return Cause(CauseKind.PARTITIONS_TO_REVOKE, now_ms, member_id, command.reason)
    if group.is_gathering:
        return Cause(CauseKind.MEMBER_REJOINED, now_ms, member_id, command.reason)
    return _own_cause(group, member_id, command.reason, now_ms, settings)


def _other_wish(group: ClassicGroup, name: str, ours: bytes, theirs: bytes, settings: GroupSettings) -> str | None:
    """Return in words what a member wants otherwise than before, by its metadata for one protocol; None if nothing."""
    if ours == theirs:
        return None
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    before, after = (settings.want_of(name, each) if is_consumer else None for each in (ours, theirs))
    if before is None or after is None:
        return f"other metadata for {name}"
    if before.topics != after.topics:
        return topic_difference(before.topics, after.topics)
    if before.rack != after.rack:
        return f"rack {after.rack} in place of {before.rack}"
    return None if before.user_data == after.user_data else f"other user data for {name}"


def _own_cause(group: ClassicGroup, member_id: str, reason: str, now_ms: int, settings: GroupSettings) -> Cause:
    """Return why a member that wants what it wanted asks for a round: its own words first, then what topics show.

    librdkafka and kafka-python send no reason. Partitions that no member was assigned, or that are assigned and do not
    exist, are what made their clients join again.
    """
    is_leader = group.leader == member_id
    says_topics = reason.startswith(METADATA_TEXT) or join_reason(reason) is JoinReason.TOPIC_METADATA_CHANGE
    found = changed_topics(group, settings) if says_topics or not reason else ""
    if found or (says_topics and is_leader):
        return Cause(CauseKind.TOPIC_METADATA_CHANGED, now_ms, member_id, found)
    kind = CauseKind.LEADER_REJOINED if is_leader else CauseKind.MEMBER_REJOINED
    return Cause(kind, now_ms, member_id, reason)


def changed_topics(group: ClassicGroup, settings: GroupSettings) -> str:
    """Return how the subscribed topics differ from those that were assigned, or "". Walks all members.

    While members must still revoke, partitions are unassigned for that reason, and nothing can be said.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.revoking:
        return ""
    assigned: dict[str, int] = {}
    for member in group.members.values():
        for topic in settings.topics_of(member.metadata(group.protocol_name)) or ():
            assigned.setdefault(topic, 0)
        for topic, number in settings.assigned_of(member.assignment) or ():
            assigned[topic] = max(assigned.get(topic, 0), number + 1)
    found = []
    for topic, count in sorted(assigned.items()):
        known = settings.image.topic(topic)
        now = 0 if known is None else known.partitions
        if now != count:
            found.append(f"{topic} has {now} partitions, {count} were assigned" if now else f"{topic} was deleted")
    return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more topics" if len(found) > NAMED else "")


NAMED = 3
"""How many topics a cause names before it only counts them."""
