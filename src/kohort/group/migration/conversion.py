"""Conversions of a live group: to a consumer group when the first native member joins, back when the last goes.

UP. Every member must be one that the consumer group can translate (see consumer/classic_members): rules has what is
against it and whose fault it is, and the joiner is refused with that. Else the record of the classic group gives way
to those of a consumer group whose epoch is the generation, and whose members own, as classic ones, what they owned.
A join or a sync that waits is sent back to join.

WHO OWNS WHAT. By its assignment; but while a round runs, or a cooperative one has just taken partitions away, members
may still own more: what they claim in their subscriptions, as long as no member was assigned it. No other one may get
that before they have revoked it, so
 - what was taken from a member in this generation is asked back from it (pending revocation), and
 - in a generation that has no assignments yet, what a member claims is what it owns; of two that claim it, the one
   that claims it in the later generation, then the smaller id.
So the conversion takes nothing from any member, and gives none what another still has.

DOWN. When no native member is left, the group becomes classic again at its epoch as generation, with what each member
was granted as its assignment, and a round begins: its members learn of it by their next heartbeat. The record has no
leader: a coordinator that loads a generation without leader starts the round anew, since no member knows yet that one
is due. Members may be behind the group's epoch then; classic's heartbeat and sync send those back to join, instead of
having them revoke what they own for a generation that they never saw. There is no round where a static classic member
takes the place of the last native one and every member has what it should: it leads from then on, without assigning
(KIP-814).

Groups without members change type without any of this, under every policy: the old one's records go, and the join is
decided on a new group.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.group.classic.exit import end_waits
from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member, Phase, vote
from kohort.group.commands import AssignTarget, ConsumerHeartbeat, DowngradeIfDue, Join, OpenRound
from kohort.group.consumer.classic_members import assignment_bytes, classic_record, release, send_back
from kohort.group.consumer.exit import disarm
from kohort.group.consumer.group import FIRST_EPOCH, ConsumerGroup, ConsumerMember, metadata_hash
from kohort.group.consumer.reconcile import ids_of, packed
from kohort.group.coordinator_settings import GroupSettings, TopicImage
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Reply, Then
from kohort.group.events import (
    ClassicPhase,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    GroupConverted,
    GroupDeleted,
    GroupStored,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberRecognized,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    RegexDeleted,
    StoredMember,
    TargetDeleted,
    TargetStored,
)
from kohort.group.group_timers import (
    member_join_timer,
    session_timer,
    target_timer,
)
from kohort.group.migration.conversion_rules import downgrade_refusal, subscription_of, upgrade_refusal
from kohort.group.results import ConsumerHeartbeatResult, JoinedMember, JoinResult
from kohort.model.assignment import IdPartitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

# -- up


def decide_upgrade(group: ClassicGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a native member, whose heartbeat of epoch 0 has been checked, into a classic group: convert it, or refuse.

    After the conversion the heartbeat is decided again, on the consumer group.
    """
    refusal = upgrade_refusal(group, settings)
    if refusal is not None:
        yield Reply(ConsumerHeartbeatResult(*refusal))
        return
    is_known = command.instance_id in group.static_members or command.member_id in group.members
    if group.members and not is_known and len(group.members) >= settings.consumer_max_size:
        text = f"{settings.consumer_max_size} members are in already"
        yield Reply(ConsumerHeartbeatResult(ErrorCode.GROUP_MAX_SIZE_REACHED, text))
        return
    cause = Cause(CauseKind.GROUP_CONVERTED, now_ms, command.member_id or command.new_member_id, command.reason)
    owned = _ownership(group, settings)
    yield from _upgrade(group, owned, now_ms, settings, cause)
    if group.members and is_known and (group.phase is not Phase.STABLE or _leaves_out(group, owned, settings)):
        # The round that was running, or the next one, would have assigned anew what has come since, and who only takes
        # a member's place does not ask for it.
        stored_hash = metadata_hash(_topic_names(group, settings), settings.image)
        yield Append(ConsumerGroupStored(group.group_id, _first_epoch(group) + 1, stored_hash, cause))
    yield Then(command)
    yield Then(AssignTarget(group.group_id, cause))


def _upgrade(
    group: ClassicGroup, owned: dict[str, _Owned], now_ms: int, settings: GroupSettings, cause: Cause
) -> Effects:
    """Make a classic group a consumer group in which every member owns what it owned. Walks all members."""
    yield from end_waits(group, ErrorCode.REBALANCE_IN_PROGRESS)
    if group.is_stored or group.members:
        yield Append(GroupDeleted(group.group_id, cause))
    if not group.members:
        return
    ids = sorted(group.members)
    for member_id in ids:
        yield Append(_classic_member(group, group.members[member_id], settings, cause))
    epoch = _first_epoch(group)
    stored_hash = metadata_hash(_topic_names(group, settings), settings.image)
    yield Append(ConsumerGroupStored(group.group_id, epoch, stored_hash, cause))
    for member_id in ids:
        target = ids_of(packed(dict.fromkeys(owned[member_id].assigned, 0)))
        yield Append(MemberTargetStored(group.group_id, member_id, target, cause))
    yield Append(TargetStored(group.group_id, epoch, 0, cause))
    for member_id in ids:
        yield from _place(group, group.members[member_id], owned[member_id], now_ms, cause)
    yield Note(GroupConverted(group.group_id, True, epoch, tuple(ids), cause))


def _first_epoch(group: ClassicGroup) -> int:
    """Return the epoch that the consumer group begins at: the generation, if there has been one."""
    return max(group.generation, FIRST_EPOCH)


def _topic_names(group: ClassicGroup, settings: GroupSettings) -> set[str]:
    subscriptions = (subscription_of(member, settings) for member in group.members.values())
    return {name for each in subscriptions if each is not None for name in each.topics}


def _classic_member(group: ClassicGroup, member: Member, settings: GroupSettings, cause: Cause) -> ConsumerMemberStored:
    subscription = subscription_of(member, settings)
    assert subscription is not None, "a group is converted only if every subscription can be read"
    return classic_record(group.group_id, member.member_id, member, subscription, cause)


class _Owned(NamedTuple):
    """What a member owns: what stays for now, and what it must give back."""

    assigned: set[tuple[bytes, int]]
    revoked: set[tuple[bytes, int]]


def _ownership(group: ClassicGroup, settings: GroupSettings) -> dict[str, _Owned]:
    """Return what every member owns. Walks all members."""
    owned = {member_id: _Owned(set(), set()) for member_id in group.members}
    given: set[tuple[bytes, int]] = set()
    for member_id, member in group.members.items():
        assignment = settings.assignment_of(member.assignment) if member.assignment else None
        if assignment is not None:
            owned[member_id].assigned.update(_existing(assignment.partitions, settings.image))
            given |= owned[member_id].assigned
    is_assigned = any(member.assignment for member in group.members.values())
    claims: dict[tuple[bytes, int], tuple[int, str]] = {}
    for member_id, member in sorted(group.members.items()):
        subscription = _claiming(member, settings)
        if subscription is None:
            continue
        for partition in _existing(subscription.owned, settings.image):
            best = claims.get(partition)
            if partition not in given and (best is None or subscription.generation > best[0]):
                claims[partition] = (subscription.generation, member_id)
    for partition, (_, member_id) in claims.items():
        (owned[member_id].revoked if is_assigned else owned[member_id].assigned).add(partition)
    return owned


def _leaves_out(group: ClassicGroup, owned: dict[str, _Owned], settings: GroupSettings) -> bool:
    """Whether no member is to have some partition that members want.

    It came while their leader was away, or was taken from a member for the round that would have followed.
    """
    had = set[tuple[bytes, int]]().union(*(each.assigned for each in owned.values()))
    wanted = [topic for name in _topic_names(group, settings) if (topic := settings.image.topic(name)) is not None]
    return any((topic.topic_id, number) not in had for topic in wanted for number in range(topic.partitions))


def _claiming(member: Member, settings: GroupSettings) -> Subscription | None:
    """Return the first of a member's subscriptions that claims something."""
    for _, metadata in member.protocols:
        subscription = settings.subscription_of(metadata)
        if subscription is not None and subscription.owned:
            return subscription
    return None


def _existing(
    partitions: frozenset[TopicPartition] | tuple[TopicPartition, ...], image: TopicImage
) -> set[tuple[bytes, int]]:
    topics = {name: image.topic(name) for name, _ in partitions}
    return {
        (topic.topic_id, number)
        for name, number in partitions
        if (topic := topics[name]) is not None and 0 <= number < topic.partitions
    }


def _place(group: ClassicGroup, member: Member, owned: _Owned, now_ms: int, cause: Cause) -> Effects:
    """Return what a member has in the consumer group, and what it must do next: join, unless the group was Stable."""
    group_id, member_id, epoch = group.group_id, member.member_id, _first_epoch(group)
    is_called = bool(owned.revoked) or group.phase is not Phase.STABLE
    yield Append(
        MemberAssignmentStored(
            group_id,
            member_id,
            epoch,
            epoch,
            MemberState.UNREVOKED_PARTITIONS if owned.revoked else MemberState.STABLE,
            packed(dict.fromkeys(owned.assigned, epoch)),
            packed(dict.fromkeys(owned.revoked, epoch)),
            cause,
            ClassicPhase.PREPARE_REBALANCE if is_called else ClassicPhase.STABLE,
        )
    )
    yield Arm(session_timer(group_id, member_id), now_ms + member.session_timeout_ms)
    if is_called:
        yield Arm(member_join_timer(group_id, member_id), now_ms + max(member.rebalance_timeout_ms, 0))


# -- down


def decide_downgrade(group: ConsumerGroup, command: DowngradeIfDue, now_ms: int, settings: GroupSettings) -> Effects:
    """Make the group classic if its last native member is gone and nothing speaks against it."""
    if group.members and not group.natives and not group.is_dead and downgrade_refusal(group, settings) is None:
        cause = Cause(CauseKind.GROUP_CONVERTED, now_ms, command.cause.member_id, command.cause.kind)
        join, has_changed = command.then, command.has_subscription_changed
        is_answered = join is not None and join.instance_id is not None and not settings.has_leading_replacement
        if join is not None and (not has_changed if is_answered else _is_content(group, join)):
            yield from _records(group, _classic_record(group, settings, now_ms, cause, join.member_id), now_ms)
            yield Reply(_membership(group, join) if is_answered else _leadership(group, join))
            return
        yield from downgrade(group, now_ms, settings, cause)
        if join is not None and is_answered:
            yield Reply(_membership(group, join, group.members[join.member_id].epoch))
            return
    if command.then is not None:
        yield Then(command.then)


def _is_content(group: ConsumerGroup, join: Join) -> bool:
    """Whether no member needs a round: all have their target, and the sender has taken the place of one that had it.

    It must know how to lead without assigning (KIP-814): no other member would look after the topics.
    """
    return (
        join.can_skip_assignment
        and group.epoch == group.assignment_epoch
        and group.unsettled <= {join.member_id}
        and ids_of(group.members[join.member_id].assigned) == group.members[join.member_id].target
        and all(member.classic_phase is ClassicPhase.STABLE for member in group.members.values())
    )


def _leadership(group: ConsumerGroup, join: Join) -> JoinResult:
    """Return the answer to the static member that leads the classic group from now on, as it stands."""
    protocols = {member_id: member.classic.protocols for member_id, member in group.members.items() if member.classic}
    name = vote(ClassicGroup(group.group_id), protocols)
    members = tuple(
        JoinedMember(member_id, group.members[member_id].instance_id, dict(protocols[member_id]).get(name or "", b""))
        for member_id in sorted(protocols)
    )
    return JoinResult(
        ErrorCode.NONE, join.member_id, group.epoch, CONSUMER_PROTOCOL_TYPE, name, join.member_id, members, True
    )


def _membership(group: ConsumerGroup, join: Join, generation: int | None = None) -> JoinResult:
    """Return Kafka's answer to a static member in the place of the last native one: it names no leader.

    The generation is that of the target, which the member has now; where a round begins, it is what the member had.
    """
    generation = group.assignment_epoch if generation is None else generation
    return JoinResult(ErrorCode.NONE, join.member_id, generation, CONSUMER_PROTOCOL_TYPE, join.protocols[0][0])


def downgrade(group: ConsumerGroup, now_ms: int, settings: GroupSettings, cause: Cause) -> Effects:
    """Make a consumer group of classic members a classic group, which starts a round. Walks all members."""
    for member_id in sorted(group.awaiting_join):
        yield from send_back(group, member_id, cause)
    yield from _records(group, _classic_record(group, settings, now_ms, cause, None), now_ms)
    yield Then(OpenRound(group.group_id, cause))


def _records(group: ConsumerGroup, stored: GroupStored, now_ms: int) -> Effects:
    """Let the records of the consumer group give way to that of a classic one, and its bounds to sessions alone."""
    group_id, ids, cause = group.group_id, sorted(group.members), stored.cause
    for member_id in ids:
        yield Append(MemberAssignmentDeleted(group_id, member_id, cause))
    for member_id in ids:
        yield Append(MemberTargetDeleted(group_id, member_id, cause))
    yield Append(TargetDeleted(group_id, cause))
    for member_id in ids:
        yield Append(ConsumerMemberDeleted(group_id, member_id, cause))
    for regex in sorted(group.regexes):
        yield Append(RegexDeleted(group_id, regex, cause))
    yield Append(ConsumerGroupDeleted(group_id, cause))
    yield Append(stored)
    yield Disarm(target_timer(group_id))
    for member_id in ids:
        member = group.members[member_id]
        assert member.classic is not None, "a group is classic again only when no native member is left"
        # The record has one protocol of each member, and a round votes on all.
        yield Note(MemberRecognized(group_id, member_id, member.classic.protocols, cause))
        yield from disarm(group, member)
        yield from (effect for effect in release(group, member_id, ErrorCode.NONE) if isinstance(effect, Disarm))
        yield Arm(member.session, now_ms + member.classic.session_timeout_ms)
    yield Note(GroupConverted(group_id, False, group.epoch, tuple(ids), cause))


def _classic_record(
    group: ConsumerGroup, settings: GroupSettings, now_ms: int, cause: Cause, leader: str | None
) -> GroupStored:
    """Return the record of the classic group: members have what they were granted.

    With a leader no round follows, so that they have their targets. Without one, a round is due.
    """
    protocols = {member_id: member.classic.protocols for member_id, member in group.members.items() if member.classic}
    name = vote(ClassicGroup(group.group_id), protocols)
    return GroupStored(
        group_id=group.group_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol_name=name,
        leader=leader,
        state_timestamp_ms=now_ms,
        members=tuple(
            _stored_member(member, name, ids_of(member.assigned) if leader is None else member.target, settings)
            for _, member in sorted(group.members.items())
        ),
        cause=cause,
    )


def _stored_member(
    member: ConsumerMember, protocol_name: str | None, partitions: IdPartitions, settings: GroupSettings
) -> StoredMember:
    assert member.classic is not None, "a group is classic again only when no native member is left"
    return StoredMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        dict(member.classic.protocols).get(protocol_name or "", b""),
        assignment_bytes(member, partitions, settings),
    )
