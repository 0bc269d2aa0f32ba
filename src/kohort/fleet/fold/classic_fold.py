"""A classic group's records: each holds the whole group, so what happened is what differs from the one before.

WHAT IS KNOWN. Kafka writes a record when the leader's assignment is stored, when a static member is replaced, when the
group is empty, and when it is deleted. It tells the moment the generation formed (`currentStateTimestamp`), so the time
from there to the record is what the leader took. Numbers of generations that are missing formed and never got an
assignment: compaction leaves the newest record of a key before the first that it did not reach, so between two records
that one reader saw none has vanished. Where a reader came back later (`is_gap`) nothing is concluded.

WHAT IS ESTIMATED. Whoever is missing from a generation left or was evicted, the log does not say which. A static member
does not say goodbye, so it was evicted (or removed by an administrator); all others are told as having left.
"""

from __future__ import annotations

from typing import Any

from kohort.fleet.fold.folded_group import LOG_BEGINS, NOTHING, Group, Member, Partitions
from kohort.fleet.fold.hours import HOUR_MS
from kohort.model.ids import TopicPartition

CLASSIC = "classic"
Fields = dict[str, Any]


def fold_group_metadata(group: Group, value: Fields | None, at_ms: int, *, is_gap: bool) -> None:
    """Take a record of type 2; `at_ms` is its time, which the group's clock has reached or is about to."""
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
    group.pass_time(formed_ms)
    _replace_static(group, members, formed_ms)
    gone = [member for member_id, member in sorted(group.members.items()) if member_id not in members]
    came = [member for member_id, member in sorted(members.items()) if member_id not in group.members]
    awaits_sync = bool(value.get("awaitsSync"))
    if generation != group.epoch or is_first:
        _form(group, generation, members, value, formed_ms, is_known=not is_first and not is_gap)
    for member in gone:
        _part(group, member, formed_ms)
    group.welcome(came, formed_ms, is_new=not is_first or generation <= 1)
    _take_members(group, members)
    group.pass_time(at_ms)
    if not members:
        group.awaits_sync = False
        if generation:
            group.empty(at_ms)
        elif group.emptied_ms is None:
            group.emptied_ms = at_ms
        return
    if value.get("leader") != group.leader and group.leader is not None:
        leader = members.get(str(value.get("leader")))
        group.tell("leader_changed", epoch=generation, member=leader)
    group.leader = value.get("leader")
    group.awaits_sync = awaits_sync
    if not awaits_sync:
        _synchronize(group, value, at_ms)


def _member(said: Fields) -> Member:
    subscription = said.get("subscription") or {}
    return Member(
        member_id=str(said.get("memberId") or ""),
        instance=said.get("groupInstanceId"),
        client_id=str(said.get("clientId") or ""),
        host=str(said.get("clientHost") or ""),
        topics=tuple(sorted(subscription.get("topics") or ())),
        version=subscription.get("version"),
        rebalance_timeout_ms=int(said.get("rebalanceTimeout") or said.get("sessionTimeout") or -1),
    )


def _formed_ms(group: Group, value: Fields, at_ms: int) -> int:
    """Return when the generation formed: what the record says, where that can be."""
    said = int(value.get("currentStateTimestamp") or -1)
    if not 0 < said <= at_ms or at_ms - said > HOUR_MS or not value.get("members"):
        return at_ms
    return min(at_ms, max(said, group.clock_ms))


def _claims(said: Fields) -> Partitions:
    """Return what a member claimed to own when it joined; an eager one, and one that cannot say, claims nothing."""
    subscription = said.get("subscription") or {}
    return partitions_of(subscription.get("ownedPartitions"), str)


def partitions_of(topics: Any, name_of: Any) -> Partitions:
    """Return partitions that a record tells by topic; an id of a topic is named by `name_of`."""
    return frozenset(
        TopicPartition(name_of(topic["topicId"]) if "topicId" in topic else str(topic["topic"]), int(number))
        for topic in topics or ()
        for number in topic["partitions"]
    )


def _replace_static(group: Group, members: dict[str, Member], at_ms: int) -> None:
    """A member that has the instance of one that is missing took its place."""
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
        group.tell("rejoined", at_ms=at_ms, epoch=group.epoch, member=member, replaced=old.member_id)


def _form(
    group: Group, generation: int, members: dict[str, Member], value: Fields, at_ms: int, *, is_known: bool
) -> None:
    """A generation formed: whoever does not claim what it owned has given it up."""
    skipped = generation - group.epoch - 1 if is_known else 0
    if group.awaits_sync:
        group.tell("generation_failed", at_ms=at_ms, epoch=group.epoch)
        skipped += 1
    group.epoch = generation
    if not members and not group.members:
        return
    running = group.begin(at_ms)
    if skipped > 0:
        running.failed += skipped
    claimed = {str(said.get("memberId")): _claims(said) for said in value.get("members") or ()}
    for member_id in sorted(group.members.keys() & members.keys()):
        owned = group.ownership.owned_by(member_id)
        group.disown(member_id, sorted(owned - claimed[member_id]), at_ms)
    if members:
        owning = sum(1 for each in claimed.values() if each)
        group.tell("generation_formed", at_ms=at_ms, epoch=generation, members=len(members), owning=owning)


def _part(group: Group, member: Member, at_ms: int) -> None:
    is_static = member.instance is not None
    group.part(member, "evicted" if is_static else "left", "session_timeout" if is_static else None, at_ms=at_ms)


def _take_members(group: Group, members: dict[str, Member]) -> None:
    """Take what the record says of each member; a subscription that changed is told."""
    for member_id in group.members.keys() - members.keys():
        group.drop_member(member_id)
    for member_id, member in sorted(members.items()):
        known = group.members.get(member_id)
        if known is not None:
            member.target = known.target
            if known.topics != member.topics:
                group.tell("subscription_changed", epoch=group.epoch, member=member, topics=list(member.topics)[:100])
        group.add_member(member)
    group.protocols.clear()
    if group.strategy:
        group.protocols[group.strategy] = 1


def _synchronize(group: Group, value: Fields, at_ms: int) -> None:
    """The assignment was stored: everybody owns what it says."""
    assigned: dict[str, Partitions] = {}
    group.has_user_data = False
    for said in value.get("members") or ():
        assignment = said.get("assignment") or {}
        assigned[str(said.get("memberId"))] = partitions_of(assignment.get("assignedPartitions"), str)
        group.has_user_data |= bool(assignment.get("userData"))
    is_same = all(group.members[member_id].target == held for member_id, held in assigned.items())
    if group.running is None and is_same:
        return
    group.begin(at_ms)
    group.tell("generation_synced", epoch=group.epoch)
    revoked = False
    for member_id, held in sorted(assigned.items()):
        surplus = group.ownership.owned_by(member_id) - held
        revoked |= bool(surplus)
        group.disown(member_id, sorted(surplus), at_ms)
    for member_id, held in sorted(assigned.items()):
        member = group.members[member_id]
        group.own(member_id, sorted(held), at_ms)
        if member.target - held:
            group.tell("revoked", epoch=group.epoch, member=member, partitions=member.target - held)
        if held - member.target:
            cause = LOG_BEGINS if group.knew_nothing_of(member_id) else None
            group.tell("assigned", epoch=group.epoch, member=member, partitions=held - member.target, cause=cause)
        member.target = held
    # What a cooperative member gives up goes to its next owner in the round that follows: the same rebalance.
    if not revoked or not group.ownership.unowned:
        group.settle()


def _convert(group: Group, members: dict[str, Member], at_ms: int) -> None:
    """It was a group of another kind: whoever is still there keeps what it has."""
    for member_id, member in sorted(group.departed.items()):
        if member_id in members:
            group.add_member(member)
        else:
            _part(group, member, at_ms)
    group.departed.clear()
    group.newcomers.clear()
    if group.members:
        group.tell("converted", at_ms=at_ms, epoch=group.epoch, to=CLASSIC, before=group.kind)
    for member in group.members.values():
        member.pending = NOTHING
    group.unsettled.clear()


def _delete(group: Group, at_ms: int) -> None:
    """A tombstone: of a group without members its end, of another one the beginning of its conversion."""
    if group.kind != CLASSIC:
        return
    if group.members:
        group.is_deleted = True
        group.departed_ms = at_ms
        return
    group.settle()
    group.is_deleted = True
    group.tell("deleted", epoch=group.epoch)
