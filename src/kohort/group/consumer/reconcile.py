"""How a member moves towards its target, one step at a time (KIP-848): a pure function of one member.

A is what the member was granted, P what it was asked to give back, T its target among the topics it subscribes to.

 STABLE                 has what its epoch grants. It steps when the target's epoch is another one.
 UNREVOKED_PARTITIONS   must give back P. It steps once it reports to own nothing of P; its epoch stays until then.
 UNRELEASED_PARTITIONS  has its target's epoch, but waits for partitions that others still have. It steps each time.

A step retains A∩T. If the member may still own anything beyond, that is P, and all else waits. Otherwise it takes the
target's epoch and everything of T that no member has; what another member has is left for a later step. So no partition
is ever in A∪P of two members: it leaves one only when that member has reported that it does not own it, and enters
another only when it is in none.

A member whose subscription shrinks before a new target is there gives back at once what it no longer reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.events import Assigned, ClassicPhase, MemberAssignmentStored, MemberState
from kohort.model.assignment import IdPartitions, each
from kohort.model.cause import Cause

Epochs = dict[tuple[bytes, int], int]
"""Partitions with the epoch in which each was assigned."""


class ReconcileStep(NamedTuple):
    """What becomes of a member."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: tuple[Assigned, ...]
    pending: tuple[Assigned, ...]


def stored_step(
    group: ConsumerGroup, member: ConsumerMember, phase: ClassicPhase, cause: Cause, step: ReconcileStep | None = None
) -> MemberAssignmentStored:
    """Return the event by which a member takes a step, or enters a phase with all that it has."""
    step = step or ReconcileStep(member.epoch, member.previous_epoch, member.state, member.assigned, member.pending)
    return MemberAssignmentStored(group.group_id, member.member_id, *step, cause, phase)


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    subscribed: frozenset[bytes],
    owned: IdPartitions | None,
    *,
    has_subscription_changed: bool,
) -> ReconcileStep | None:
    """Return the member's next step, or None when it stays as it is.

    `subscribed` are the ids of its topics. `owned` is what it reports to own, None without a report. A member in the
    state UNKNOWN must own nothing: see `is_unknown`.
    """
    granted = epochs_of(member.assigned)
    match member.state:
        case MemberState.STABLE:
            stays = member.epoch == group.assignment_epoch
        case MemberState.UNREVOKED_PARTITIONS:
            stays = _may_own(owned, each(ids_of(member.pending)))
        case _:
            stays = False
    if stays:
        return _shrunk(member, granted, subscribed, owned) if has_subscription_changed else None
    step = _step(group, member, granted, subscribed, owned)
    is_same = step._replace(previous_epoch=0) == (member.epoch, 0, member.state, member.assigned, member.pending)
    return None if is_same else step


def is_unknown(member: ConsumerMember, owned: IdPartitions | None) -> bool:
    """Whether the member is in a state of a later version, and must begin anew because it does not own nothing."""
    return member.state is MemberState.UNKNOWN and (owned is None or bool(owned))


def _step(
    group: ConsumerGroup,
    member: ConsumerMember,
    granted: Epochs,
    subscribed: frozenset[bytes],
    owned: IdPartitions | None,
) -> ReconcileStep:
    target_epoch = group.assignment_epoch
    wanted = {partition for partition in each(member.target) if partition[0] in subscribed}
    retained = {partition: epoch for partition, epoch in granted.items() if partition in wanted}
    revoked = {partition: epoch for partition, epoch in granted.items() if partition not in wanted}
    if revoked and _may_own(owned, revoked):
        epoch = target_epoch if member.state is MemberState.UNKNOWN else member.epoch
        return ReconcileStep(epoch, member.epoch, MemberState.UNREVOKED_PARTITIONS, packed(retained), packed(revoked))
    missing = wanted - retained.keys()
    # At once it may have what no member has, and what it has just given back (KAFKA-19449).
    given_back = set(each(ids_of(member.pending)))
    free = {partition for partition in missing if partition in given_back or group.owner_epoch(*partition) == -1}
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    if not free and len(retained) == len(granted):
        return ReconcileStep(target_epoch, member.epoch, state, member.assigned, ())
    retained.update(dict.fromkeys(free, target_epoch))
    return ReconcileStep(target_epoch, member.epoch, state, packed(retained), ())


def _shrunk(
    member: ConsumerMember, granted: Epochs, subscribed: frozenset[bytes], owned: IdPartitions | None
) -> ReconcileStep | None:
    """Ask for what the member no longer subscribes to; what it reports not to own is free at once."""
    retained = {partition: epoch for partition, epoch in granted.items() if partition[0] in subscribed}
    revoked = {partition: epoch for partition, epoch in granted.items() if partition[0] not in subscribed}
    if not revoked:
        return None
    pending = epochs_of(member.pending)
    state = member.state
    if _may_own(owned, revoked):
        pending.update(revoked)
        state = MemberState.UNREVOKED_PARTITIONS
    return ReconcileStep(member.epoch, member.epoch, state, packed(retained), packed(pending))


def _may_own(owned: IdPartitions | None, partitions: Iterable[tuple[bytes, int]]) -> bool:
    """Whether the member still owns one of these partitions, for all we know."""
    if owned is None:
        return True
    claimed = set(each(owned))
    return any(partition in claimed for partition in partitions)


def is_within(owned: IdPartitions | None, assigned: tuple[Assigned, ...]) -> bool:
    """Whether a member reports what it owns, and that is no more than it was granted."""
    if owned is None:
        return False
    granted = {topic.topic_id: set(topic.partitions) for topic in assigned}
    return all(granted.get(topic_id, set()).issuperset(partitions) for topic_id, partitions in owned)


def ids_of(topics: tuple[Assigned, ...]) -> IdPartitions:
    """Return partitions without their epochs."""
    return tuple((topic_id, partitions) for topic_id, partitions, _ in topics)


def epochs_of(topics: tuple[Assigned, ...]) -> Epochs:
    """Return the epoch in which each partition was assigned."""
    return {
        (topic_id, partition): epoch
        for topic_id, partitions, epochs in topics
        for partition, epoch in zip(partitions, epochs, strict=True)
    }


def packed(epochs: Epochs) -> tuple[Assigned, ...]:
    """Return partitions with their epochs in canonical order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(epochs):
        topics.setdefault(topic_id, []).append(partition)
    return tuple(
        Assigned(topic_id, tuple(numbers), tuple(epochs[topic_id, number] for number in numbers))
        for topic_id, numbers in topics.items()
    )
