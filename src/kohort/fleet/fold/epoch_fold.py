"""Fold of the records of consumer, share and streams groups: group epoch, target assignment, members' assignments.

The three types write the same five records under types of their own; share groups have no exclusive owners, a streams
group's partitions are its active tasks. A rebalance begins when the group epoch increases or a static member leaves
temporarily (-2); it ends when every member is stable at the newest target. All of that is in the log, so only the
reason of a departure is estimated, since tombstones do not have it: a member was **evicted** if it had been revoking
partitions for longer than its rebalance timeout, or if it is static and had not left temporarily; else it left.

Tombstones of members are a departure or the conversion to a classic group. The record after them decides: a departure
bumps the epoch. Until then the members are in `departed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.fleet.fold.classic_fold import CLASSIC, partitions_of
from kohort.fleet.fold.folded_group import LOG_BEGINS, NOTHING, STREAMS, FoldedMember, FoldedRecord, Group, Partitions
from kohort.group.commands import LEAVE_STATIC_EPOCH
from kohort.group.events import MemberState
from kohort.group.streams.events import StreamsMemberState
from kohort.model.ids import TopicPartition

CONSUMER, SHARE = "consumer", "share"
Fields = dict[str, Any]

_OF_STREAMS: dict[int, MemberState] = {
    StreamsMemberState.STABLE: MemberState.STABLE,
    StreamsMemberState.UNREVOKED_TASKS: MemberState.UNREVOKED_PARTITIONS,
    StreamsMemberState.UNRELEASED_TASKS: MemberState.UNRELEASED_PARTITIONS,
}
"""Records of streams groups have other numbers for the same states."""
FIRST_EPOCHS = 2
"""A group's first epoch is 1, from Kafka 4.3 on 2: if the first one read is greater, the log's beginning is missing."""


def fold_epoch(group: Group, value: Fields | None, _: FoldedRecord) -> None:
    """Fold the group epoch (types 3, 11 and 17)."""
    at_ms = group.clock_ms
    if value is None:
        _delete(group)
        return
    epoch = int(value.get("epoch") or 0)
    is_fresh = group.epoch == 0
    is_new = epoch <= FIRST_EPOCHS or not is_fresh
    if epoch == group.epoch:
        return
    departed = _record_departures(group)
    existed = bool(group.members) or departed
    if is_new and existed:
        group.begin_rebalance(at_ms)
    group.epoch = epoch
    newcomers = [group.members[each] for each in group.newcomers if each in group.members]
    group.newcomers.clear()
    # A member with an assignment is not new, although its metadata was rewritten after its first epoch.
    group.record_joins((each for each in newcomers if each.state_ms), at_ms, is_new=False)
    newcomers = [each for each in newcomers if not each.state_ms]
    group.record_joins(newcomers, at_ms, is_new=is_new)
    if is_new:
        cause = "members_gone" if departed else "members_came" if newcomers else None
        group.add_event("epoch_bumped", epoch=epoch, cause=cause)
    if not group.members and departed:
        group.record_emptied(at_ms)


def fold_member(group: Group, value: Fields | None, record: FoldedRecord) -> None:
    """Fold a member's metadata (types 5, 10 and 19)."""
    member_id = str(record.member)
    if value is None:
        member = group.drop_member(member_id)
        if member is not None:
            group.departed[member_id] = member
            group.departed_ms = group.clock_ms
        return
    known = group.members.get(member_id) or group.departed.pop(member_id, None)
    member = _member(member_id, value, known)
    group.add_member(member)
    if known is None or not known.has_metadata:
        old = _departed_instance(group, member)
        if old is not None:
            _replace(group, old, member)
        else:
            group.unreconciled.add(member_id)
            group.newcomers.append(member_id)
    elif known.topics != member.topics or known.regex != member.regex:
        topics = list(member.topics)[:100]
        group.add_event("subscription_changed", epoch=group.epoch, member=member, topics=topics, regex=member.regex)


def _member(member_id: str, value: Fields, known: FoldedMember | None) -> FoldedMember:
    classic = value.get("classicMemberMetadata") or {}
    offered = classic.get("supportedProtocols") or ()
    versions = [each["metadata"].get("version") for each in offered if isinstance(each.get("metadata"), dict)]
    member = FoldedMember(
        member_id=member_id,
        instance=value.get("instanceId"),
        client_id=str(value.get("clientId") or ""),
        host=str(value.get("clientHost") or ""),
        topics=tuple(sorted(value.get("subscribedTopicNames") or ())),
        regex=value.get("subscribedTopicRegex") or None,
        protocols=tuple(str(each.get("name")) for each in offered)
        or ((str(value["serverAssignor"]),) if value.get("serverAssignor") else ()),
        version=next((version for version in versions if version is not None), None),
        rebalance_timeout_ms=int(value.get("rebalanceTimeoutMs") or -1),
    )
    if known is not None:
        member.epoch, member.state, member.state_ms = known.epoch, known.state, known.state_ms
        member.target, member.pending = known.target, known.pending
    return member


def _departed_instance(group: Group, member: FoldedMember) -> FoldedMember | None:
    """Return the member that this one replaces: of the same instance id, departed or not."""
    if member.instance is None:
        return None
    for each in (*group.departed.values(), *group.members.values()):
        if each.instance == member.instance and each.member_id != member.member_id:
            return each
    return None


def _replace(group: Group, old: FoldedMember, member: FoldedMember) -> None:
    group.departed.pop(old.member_id, None)
    group.drop_member(old.member_id)
    group.replace(old.member_id, member.member_id, group.clock_ms)
    member.target = old.target
    group.unreconciled.add(member.member_id)
    group.add_event("rejoined", epoch=group.epoch, member=member, replaced=old.member_id)


def fold_target(group: Group, value: Fields | None, _: FoldedRecord) -> None:
    """Fold the epoch of the target assignment (types 6, 12 and 20)."""
    if value is None:
        group.target_epoch = 0
        return
    epoch = int(value.get("assignmentEpoch") or 0)
    if epoch == group.target_epoch:
        return
    group.target_epoch = epoch
    if not group.members:
        return
    group.unreconciled = set(group.members)
    if group.running is not None:
        group.running.target_ms = group.clock_ms
    if group.epoch:
        group.add_event("target", epoch=epoch, members=len(group.members))


def fold_member_target(group: Group, value: Fields | None, record: FoldedRecord) -> None:
    """Fold a member's target assignment (types 7, 13 and 21)."""
    member = _member_of(group, value, record)
    if member is not None:
        member.target = NOTHING if value is None else partitions_in(group, value, "topicPartitions", "activeTasks")


def _member_of(group: Group, value: Fields | None, record: FoldedRecord) -> FoldedMember | None:
    """Return the member of a record; in a compacted log this may be the first record read of it."""
    member_id = str(record.member)
    member = group.members.get(member_id)
    if member is None and value is not None and member_id not in group.departed:
        member = FoldedMember(member_id, has_metadata=False)
        group.add_member(member)
    elif member is not None and value is None and not member.has_metadata:
        group.revoke(member_id, sorted(group.ownership.owned_by(member_id)), group.clock_ms)
        group.drop_member(member_id)
    return member


def fold_assignment(group: Group, value: Fields | None, record: FoldedRecord) -> None:
    """Fold a member's current assignment: assigned and pending revocation (types 8, 14 and 22)."""
    member = _member_of(group, value, record)
    if member is None or value is None:
        return
    at_ms = group.clock_ms
    assigned = partitions_in(group, value, "assignedPartitions", "activeTasks")
    pending = partitions_in(group, value, "partitionsPendingRevocation", "activeTasksPendingRevocation")
    was_paused = member.epoch == LEAVE_STATIC_EPOCH
    was_pending = member.pending
    member.epoch = int(value.get("memberEpoch") or 0)
    state = int(value.get("state") or 0)
    if group.kind == STREAMS:
        state = _OF_STREAMS.get(state, state)
    if state != member.state or not member.state_ms:
        member.state, member.state_ms = state, at_ms
    member.pending = pending
    if member.epoch == LEAVE_STATIC_EPOCH:
        if not was_paused:
            _pause(group, member, at_ms)
        return
    if group.kind == SHARE:
        _record_shared(group, member, assigned)
    else:
        _own(group, member, assigned, was_pending)
    _update_progress(group, member)


def partitions_in(group: Group, value: Fields, *names: str) -> Partitions:
    """Return the partitions, or tasks, of the first of these fields that is present."""
    for name in names:
        topics = value.get(name)
        if topics is None:
            continue
        if group.kind == STREAMS:
            return frozenset(
                TopicPartition(str(task["subtopologyId"]), int(number))
                for task in topics
                for number in task["partitions"]
            )
        return partitions_of(topics, group.name_of)
    return NOTHING


def _own(group: Group, member: FoldedMember, assigned: Partitions, was_pending: Partitions) -> None:
    at_ms = group.clock_ms
    owned = group.ownership.owned_by(member.member_id)
    released = owned - assigned - member.pending
    gained = assigned - owned
    revoking = member.pending - was_pending
    is_old = not group.epoch or not member.has_metadata or group.is_first_assignment(member.member_id)
    if (released or gained or revoking) and not is_old:
        group.begin_rebalance(at_ms)
    group.revoke(member.member_id, sorted(released), at_ms)
    group.assign(member.member_id, sorted(gained), at_ms)
    for event, partitions in (("revoking", revoking), ("revoked", released), ("assigned", gained)):
        if partitions and group.epoch and member.has_metadata:
            cause = LOG_BEGINS if is_old else None
            group.add_event(event, epoch=member.epoch, member=member, partitions=partitions, cause=cause)


def _record_shared(group: Group, member: FoldedMember, assigned: Partitions) -> None:
    """Record the changes of a share group's member; its partitions have no exclusive owner."""
    # Share groups have no targets of their own here: `target` is the previous assignment.
    had = member.target
    for event, partitions in (("revoked", had - assigned), ("assigned", assigned - had)):
        if partitions:
            group.add_event(event, epoch=member.epoch, member=member, partitions=partitions)
    member.target = assigned


def _update_progress(group: Group, member: FoldedMember) -> None:
    """Update whether a member has reached its target; the last one ends the rebalance."""
    is_reconciled = member.epoch == group.target_epoch == group.epoch and member.state == MemberState.STABLE
    if not is_reconciled:
        group.unreconciled.add(member.member_id)
        return
    group.unreconciled.discard(member.member_id)
    running = group.running
    if running is None or group.unreconciled:
        return
    if running.target_ms and group.clock_ms > running.target_ms:
        running.slowest = member.client_id or member.member_id
    group.end_rebalance()


def _pause(group: Group, member: FoldedMember, at_ms: int) -> None:
    """A static member left temporarily: it stays a member and owns nothing."""
    group.begin_rebalance(at_ms)
    owned = group.ownership.owned_by(member.member_id)
    group.revoke(member.member_id, sorted(owned), at_ms)
    group.unreconciled.add(member.member_id)
    group.add_event("paused", epoch=group.epoch, member=member, partitions=owned or None)


def _record_departures(group: Group) -> bool:
    """Record the departure of members whose tombstones were read, with the reason; return whether any did."""
    departed, group.departed = group.departed, {}
    if departed and group.epoch:
        group.begin_rebalance(group.departed_ms)
    for _, member in sorted(departed.items()):
        event, cause = _departure_of(member, group.departed_ms)
        if event == "evicted" and cause == "rebalance_timeout" and group.running is not None:
            group.running.failed += 1
        group.record_departure(member, event, cause, at_ms=group.departed_ms)
    return bool(departed)


def _departure_of(member: FoldedMember, at_ms: int) -> tuple[str, str | None]:
    timeout_ms = member.rebalance_timeout_ms
    if member.state == MemberState.UNREVOKED_PARTITIONS and 0 < timeout_ms <= at_ms - member.state_ms:
        return "evicted", "rebalance_timeout"
    if member.instance is not None:
        return "evicted", "session_timeout"
    return "left", None


def flush_departed(group: Group) -> None:
    """Record pending departures once a later record shows that they are no conversion."""
    if group.departed and group.clock_ms > group.departed_ms:
        _record_departures(group)
        if not group.members:
            group.record_emptied(group.departed_ms)


def enter(group: Group, kind: str) -> None:
    """Handle a record of another group type: the group was converted, or its name is reused."""
    if group.kind == CLASSIC and group.members:
        group.add_event("converted", to=kind, before=CLASSIC, epoch=group.epoch)
        group.awaits_sync, group.leader = False, None
        group.strategy = None
        group.unreconciled = set(group.members)
        # Records of each member follow; until then members own what they owned.
        group.target_epoch = 0
        group.begin_rebalance(group.clock_ms)
    elif group.kind != kind:
        group.clear_state(group.clock_ms)
    group.kind, group.is_deleted = kind, False


def _delete(group: Group) -> None:
    if group.departed:
        return  # a conversion: the classic group's record follows
    if not group.is_deleted:
        group.end_rebalance()
        group.add_event("deleted", epoch=group.epoch)
    group.is_deleted = True
    group.epoch = group.target_epoch = 0


EpochFold = Callable[[Group, Fields | None, FoldedRecord], None]

_FOLDS = (fold_epoch, fold_member, fold_target, fold_member_target, fold_assignment)
EPOCH_FOLDS: dict[int, tuple[str, EpochFold]] = {
    record_type: (kind, step)
    for kind, record_types in (
        (CONSUMER, (3, 5, 6, 7, 8)),
        (SHARE, (11, 10, 12, 13, 14)),
        (STREAMS, (17, 19, 20, 21, 22)),
    )
    for record_type, step in zip(record_types, _FOLDS, strict=True)
}
EPOCH_FOLDS[13] = SHARE, lambda *_: None
"""By record type, the kind of group that writes it and what folds it. Types 4, 15, 16 and 23 change nothing here."""
