"""Fold of a classic group's records: each has the whole group, so events are the differences to the one before.

WHAT IS KNOWN. Kafka writes a record when the leader's assignment is stored, when a static member is replaced, when the
group becomes empty, and when it is deleted. The record has the time at which the generation formed
(`currentStateTimestamp`), so the time from there to the record is what the leader took. A missing generation number
formed and never got an assignment: compaction leaves the newest record of a key before the first uncompacted one, so
between two records that one reader saw none was removed. After a gap (`is_gap`) nothing is concluded.

WHAT IS ESTIMATED. A member missing from a generation left or was evicted, and the log does not distinguish them. A
static member sends no LeaveGroup, so it is `evicted` (or was removed by an administrator); all others are `left`.
"""

from __future__ import annotations

from typing import Any

from kohort.fleet.fold.folded_group import LOG_BEGINS, NOTHING, FoldedMember, Group, Partitions
from kohort.fleet.schema import HOUR_MS
from kohort.model.ids import TopicPartition

CLASSIC = "classic"
Fields = dict[str, Any]


def fold_group_metadata(group: Group, value: Fields | None, at_ms: int, *, is_gap: bool) -> None:
    """Fold a record of type 2; `at_ms` is its time, at or after the group's clock."""
    if value is None:
        _delete(group, at_ms)
        return
    members = {member.member_id: member for member in map(_member, value.get("members") or ())}
    generation = int(value.get("generation") or 0)
    formed_ms = _formed_ms(group, value, at_ms)
    if group.kind not in ("", CLASSIC):
        _convert(group, members, formed_ms)
    is_first = not group.kind or group.is_deleted
    group.kind, group.is_deleted = CLASSIC, False
    group.protocol = value.get("protocolType") or None
    group.strategy = value.get("protocol") or group.strategy
    group.advance_clock(formed_ms)
    _replace_static(group, members, formed_ms)
    gone = [member for member_id, member in sorted(group.members.items()) if member_id not in members]
    came = [member for member_id, member in sorted(members.items()) if member_id not in group.members]
    awaits_sync = bool(value.get("awaitsSync"))
    if generation != group.epoch or is_first:
        _form(group, generation, members, value, formed_ms, is_known=not is_first and not is_gap)
    for member in gone:
        _part(group, member, formed_ms)
    group.record_joins(came, formed_ms, is_new=not is_first or generation <= 1)
    _take_members(group, members)
    group.advance_clock(at_ms)
    if not members:
        group.awaits_sync = False
        if generation:
            group.record_emptied(at_ms)
        elif group.emptied_ms is None:
            group.emptied_ms = at_ms
        return
    if value.get("leader") != group.leader and group.leader is not None:
        leader = members.get(str(value.get("leader")))
        group.add_event("leader_changed", epoch=generation, member=leader)
    group.leader = value.get("leader")
    group.awaits_sync = awaits_sync
    if not awaits_sync:
        _synchronize(group, value, at_ms)


def _member(fields: Fields) -> FoldedMember:
    subscription = fields.get("subscription") or {}
    return FoldedMember(
        member_id=str(fields.get("memberId") or ""),
        instance=fields.get("groupInstanceId"),
        client_id=str(fields.get("clientId") or ""),
        host=str(fields.get("clientHost") or ""),
        topics=tuple(sorted(subscription.get("topics") or ())),
        version=subscription.get("version"),
        rebalance_timeout_ms=int(fields.get("rebalanceTimeout") or fields.get("sessionTimeout") or -1),
    )


def _formed_ms(group: Group, value: Fields, at_ms: int) -> int:
    """Return when the generation formed: the record's own timestamp, where it is plausible."""
    fields = int(value.get("currentStateTimestamp") or -1)
    if not 0 < fields <= at_ms or at_ms - fields > HOUR_MS or not value.get("members"):
        return at_ms
    return min(at_ms, max(fields, group.clock_ms))


def _claims(fields: Fields) -> Partitions:
    """Return a member's `ownedPartitions` when it joined; empty for eager members and old versions."""
    subscription = fields.get("subscription") or {}
    return partitions_of(subscription.get("ownedPartitions"), str)


def partitions_of(topics: Any, name_of: Any) -> Partitions:
    """Return the partitions of a record's list by topic; topic ids are named by `name_of`."""
    return frozenset(
        TopicPartition(name_of(topic["topicId"]) if "topicId" in topic else str(topic["topic"]), int(number))
        for topic in topics or ()
        for number in topic["partitions"]
    )


def _replace_static(group: Group, members: dict[str, FoldedMember], at_ms: int) -> None:
    """Match new members with missing static members of the same instance id."""
    missing = {
        member.instance: member
        for member_id, member in group.members.items()
        if member.instance is not None and member_id not in members
    }
    for member_id, member in sorted(members.items()):
        if member.instance is None or member_id in group.members or member.instance not in missing:
            continue
        old = missing[member.instance]
        group.replace(old.member_id, member_id, at_ms)
        member.target = old.target
        group.drop_member(old.member_id)
        group.add_member(member)
        if group.leader == old.member_id:
            group.leader = member_id
        group.add_event("rejoined", at_ms=at_ms, epoch=group.epoch, member=member, replaced=old.member_id)


def _form(
    group: Group, generation: int, members: dict[str, FoldedMember], value: Fields, at_ms: int, *, is_known: bool
) -> None:
    """A generation formed: partitions that their owner does not claim are revoked."""
    skipped = generation - group.epoch - 1 if is_known else 0
    if group.awaits_sync:
        group.add_event("generation_failed", at_ms=at_ms, epoch=group.epoch)
        skipped += 1
    group.epoch = generation
    if not members and not group.members:
        return
    running = group.begin_rebalance(at_ms)
    if skipped > 0:
        running.failed += skipped
    claimed = {str(fields.get("memberId")): _claims(fields) for fields in value.get("members") or ()}
    for member_id in sorted(group.members.keys() & members.keys()):
        owned = group.ownership.owned_by(member_id)
        group.revoke(member_id, sorted(owned - claimed[member_id]), at_ms)
    if members:
        owning = sum(1 for each in claimed.values() if each)
        group.add_event("generation_formed", at_ms=at_ms, epoch=generation, members=len(members), owning=owning)


def _part(group: Group, member: FoldedMember, at_ms: int) -> None:
    is_static = member.instance is not None
    group.record_departure(
        member, "evicted" if is_static else "left", "session_timeout" if is_static else None, at_ms=at_ms
    )


def _take_members(group: Group, members: dict[str, FoldedMember]) -> None:
    """Update each member from the record; record changed subscriptions as events."""
    for member_id in group.members.keys() - members.keys():
        group.drop_member(member_id)
    for member_id, member in sorted(members.items()):
        known = group.members.get(member_id)
        if known is not None:
            member.target = known.target
            if known.topics != member.topics:
                group.add_event(
                    "subscription_changed", epoch=group.epoch, member=member, topics=list(member.topics)[:100]
                )
        group.add_member(member)
    group.protocols.clear()
    if group.strategy:
        group.protocols[group.strategy] = 1


def _synchronize(group: Group, value: Fields, at_ms: int) -> None:
    """The assignment was stored: each member owns its part of it."""
    assigned: dict[str, Partitions] = {}
    group.has_user_data = False
    for fields in value.get("members") or ():
        assignment = fields.get("assignment") or {}
        assigned[str(fields.get("memberId"))] = partitions_of(assignment.get("assignedPartitions"), str)
        group.has_user_data |= bool(assignment.get("userData"))
    is_same = all(group.members[member_id].target == owned for member_id, owned in assigned.items())
    if group.running is None and is_same:
        return
    group.begin_rebalance(at_ms)
    group.add_event("generation_synced", epoch=group.epoch)
    revoked = False
    for member_id, owned in sorted(assigned.items()):
        surplus = group.ownership.owned_by(member_id) - owned
        revoked |= bool(surplus)
        group.revoke(member_id, sorted(surplus), at_ms)
    for member_id, owned in sorted(assigned.items()):
        member = group.members[member_id]
        group.assign(member_id, sorted(owned), at_ms)
        if member.target - owned:
            group.add_event("revoked", epoch=group.epoch, member=member, partitions=member.target - owned)
        if owned - member.target:
            cause = LOG_BEGINS if group.is_first_assignment(member_id) else None
            group.add_event("assigned", epoch=group.epoch, member=member, partitions=owned - member.target, cause=cause)
        member.target = owned
    # Partitions that a cooperative member revokes are assigned in the next round, which belongs to this rebalance.
    if not revoked or not group.ownership.unowned:
        group.end_rebalance()


def _convert(group: Group, members: dict[str, FoldedMember], at_ms: int) -> None:
    """The group had another type: remaining members still own their partitions."""
    for member_id, member in sorted(group.departed.items()):
        if member_id in members:
            group.add_member(member)
        else:
            _part(group, member, at_ms)
    group.departed.clear()
    group.newcomers.clear()
    if group.members:
        group.add_event("converted", at_ms=at_ms, epoch=group.epoch, to=CLASSIC, before=group.kind)
    for member in group.members.values():
        member.pending = NOTHING
    group.unreconciled.clear()


def _delete(group: Group, at_ms: int) -> None:
    """A tombstone: the end of an empty group, or the beginning of a conversion."""
    if group.kind != CLASSIC:
        return
    if group.members:
        group.is_deleted = True
        group.departed_ms = at_ms
        return
    group.end_rebalance()
    group.is_deleted = True
    group.add_event("deleted", epoch=group.epoch)
