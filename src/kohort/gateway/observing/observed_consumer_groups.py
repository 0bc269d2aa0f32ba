"""Consumer groups (KIP-848) of another coordinator, as the requests of their members show them.

A classic member of such a group sends what it owns in its JoinGroup, and is granted partitions by the answer to its
SyncGroup: both name topics, whose ids are in the settings' image.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kohort.gateway.observing.epoch_heartbeats import EpochResult
from kohort.gateway.observing.group_changes import GroupChanges
from kohort.gateway.observing.look_ups import DescribeRequests
from kohort.gateway.observing.observed_epoch_groups import ObservedEpochGroups, Owned
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, DowngradeIfDue, Heartbeat, Join, Leave, Sync
from kohort.group.consumer.classic_members import classic_record
from kohort.group.consumer.exit import session_timeout_ms
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.join import change_of, member_record
from kohort.group.consumer.reconcile import epochs_of, ids_of, packed
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember
from kohort.group.events import (
    ClassicMemberMetadata,
    ClassicPhase,
    ConsumerGroupStored,
    ConsumerMemberStored,
    Event,
    GroupDeleted,
    JoinRefused,
    MemberAssignmentStored,
    MemberState,
    MemberTargetStored,
    TargetStored,
)
from kohort.group.join_refusals import REFUSALS
from kohort.group.migration.conversion import decide_downgrade, decide_upgrade
from kohort.group.results import ConsumerHeartbeatResult, JoinResult
from kohort.group.streams.group import StreamsGroup
from kohort.model.assignment import IdPartitions, each, id_partitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.parking.limits import ASSUMED_SESSION_MS

_ALIVE_MS = 1 << 62
"""When a member whose JoinGroup waits has sent something last: it is alive."""


class ObservedConsumerGroups(ObservedEpochGroups[ConsumerGroup, ConsumerMember, ConsumerHeartbeat]):
    """The consumer groups of one shard."""

    def __init__(self, changes: GroupChanges, describes: DescribeRequests) -> None:
        super().__init__(changes, describes, ConsumerGroup, ConsumerMember)
        self._joining: dict[tuple[str, str], Cause] = {}
        """By group and member, the JoinGroup of a new classic member that waits: its epoch may be shown before."""

    def _create(self, group_id: str, cause: Cause, now_ms: int) -> None:
        self._apply(ConsumerGroupStored(group_id, 0, 0, cause), now_ms)

    def _record(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        member_id: str,
        command: ConsumerHeartbeat | Join,
        cause: Cause,
    ) -> ConsumerMemberStored:
        if isinstance(command, ConsumerHeartbeat):
            return member_record(group, before, member_id, command, cause)
        subscription = self._subscription(command)
        assert subscription is not None, "only a JoinGroup whose subscription can be read is taken"
        return classic_record(group.group_id, member_id, command, subscription, cause)

    def _change_of(
        self, group: ConsumerGroup, before: ConsumerMember, record: ConsumerMemberStored, cause: Cause
    ) -> Cause | None:
        return change_of(group, before, record, self._shard.settings, cause)

    def _session_timeout_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        return session_timeout_ms(member, self._shard.settings, group.group_id)

    def _owned(self, found: IdPartitions | None) -> Owned:
        return frozenset(each(found or ()))

    def _assigned(self, member: ConsumerMember) -> tuple[Owned, Owned]:
        return frozenset(epochs_of(member.assigned)), frozenset(epochs_of(member.pending))

    def _assignment(
        self,
        group_id: str,
        member: tuple[str, int, int],
        state: MemberState,
        granted: Owned,
        pending: Owned,
        cause: Cause,
        phase: ClassicPhase = ClassicPhase.STABLE,
    ) -> MemberAssignmentStored:
        assigned, asked_back = packed(dict.fromkeys(granted, member[1])), packed(dict.fromkeys(pending, member[2]))
        return MemberAssignmentStored(group_id, *member, state, assigned, asked_back, cause, phase)

    def _epochs(
        self, group: ConsumerGroup, epoch: int, cause: Cause, now_ms: int
    ) -> tuple[ConsumerGroupStored, TargetStored]:
        return ConsumerGroupStored(group.group_id, epoch, 0, cause), TargetStored(group.group_id, epoch, now_ms, cause)

    def _phase_of(self, member: ConsumerMember) -> ClassicPhase:
        return member.classic_phase

    def _make_way(self, classic: ClassicGroup, command: ConsumerHeartbeat, now_ms: int) -> None:
        """A classic group has become a consumer group: its members own what they owned, as far as it is known."""
        for member_id in classic.members:
            self._sender(classic.group_id, member_id).sent_ms = now_ms
        self._known[classic.group_id].changes += 1
        self._changes.predict(tuple(decide_upgrade(classic, command, now_ms, self._shard.settings)), now_ms)
        if isinstance(self._shard.groups.get(classic.group_id), ClassicGroup):
            cause = Cause(CauseKind.GROUP_CONVERTED, now_ms, command.member_id or None)
            self._apply(GroupDeleted(classic.group_id, cause), now_ms)

    def _refused_join(self, command: ConsumerHeartbeat, result: EpochResult, now_ms: int) -> None:
        if result.error in REFUSALS:
            cause = Cause(CauseKind.JOIN_REFUSED, now_ms, command.member_id or None, result.error_message or "")
            self._apply(JoinRefused(command.group_id, result.error, command, cause), now_ms)

    # Classic members (online migration)

    def classic_sent(self, command: Join | Sync | Heartbeat, now_ms: int) -> None:
        """A classic member sends a request. It is alive for as long as its JoinGroup waits."""
        group = self.group(command.group_id)
        if group is not None and command.member_id in group.members:
            sender = self._sender(command.group_id, command.member_id)
            sender.sent_ms = _ALIVE_MS if isinstance(command, Join) else now_ms
        elif group is not None and isinstance(command, Join) and command.member_id:
            cause = Cause(CauseKind.MEMBER_JOINED, now_ms, command.member_id, command.reason)
            self._joining[command.group_id, command.member_id] = cause
            self._about_to_grow(command.group_id, cause)

    def classic_join_abandoned(self, command: Join, now_ms: int) -> None:
        """A JoinGroup is refused, or its connection ended before its answer came."""
        cause = self._joining.pop((command.group_id, command.member_id), None)
        if cause is not None and self._known[command.group_id].change is cause:
            self._known[command.group_id].change = None
        if (sender := self._senders.get((command.group_id, command.member_id))) is not None:
            sender.sent_ms = now_ms

    def classic_joined(self, command: Join, result: JoinResult, now_ms: int) -> None:
        """A JoinGroup is answered as consumer groups answer it: without a leader."""
        subscription = self._subscription(command)
        if subscription is None:
            return
        group = self.group(command.group_id)
        if group is None:
            # It was taken for a classic one, or not known.
            self.replace_classic(self._shard.groups.get(command.group_id), command.group_id, result.generation, now_ms)
            self._describes.request(command.group_id, None, now_ms)
            return
        member_id = result.member_id
        self._sender(command.group_id, member_id).sent_ms = now_ms
        joining, known = self._joining.pop((group.group_id, member_id), None), self._known[group.group_id]
        is_shown = joining is not None and known.change is None
        self._subscribed(group, member_id, command, now_ms)
        if is_shown:
            known.change = None  # the epoch that it made has been shown
        self._epoch_shown(group, result.generation, now_ms)
        shown = ConsumerHeartbeatResult(ErrorCode.NONE, member_epoch=result.generation)
        owned, phase = self._ids(subscription.owned), ClassicPhase.COMPLETING_REBALANCE
        self._reconciled(group, group.members[member_id], owned, shown, now_ms, phase=phase)

    def _subscription(self, command: Join) -> Subscription | None:
        """Return what a classic member subscribes to; None where that cannot be read."""
        return self._shard.settings.subscription_of(command.protocols[0][1]) if command.protocols else None

    def replace_classic(self, known: object, group_id: str, epoch: int, now_ms: int) -> None:
        """A group that was taken for a classic one, or is not `known`, is a consumer group with this epoch."""
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        if isinstance(known, StreamsGroup):
            self.forget(known, cause, now_ms)
        elif known is not None:
            self._apply(GroupDeleted(group_id, cause), now_ms)
        self._apply(ConsumerGroupStored(group_id, epoch, 0, cause), now_ms)

    def classic_synced(self, command: Sync, error: ErrorCode, assignment: bytes, now_ms: int) -> None:
        """A classic member's SyncGroup is answered with what it may own."""
        member = self.classic_answered(command, error, now_ms)
        granted = self._shard.settings.assignment_of(assignment) if assignment else None
        group = self.group(command.group_id)
        if group is not None and member is not None and error is ErrorCode.NONE:
            partitions = () if granted is None else granted.partitions
            ids = self._ids(partitions)
            shown = ConsumerHeartbeatResult(ErrorCode.NONE, member_epoch=command.generation, assignment=ids)
            self._reconciled(group, member, None, shown, now_ms)

    def classic_answered(self, command: Sync | Heartbeat, error: ErrorCode, now_ms: int) -> ConsumerMember | None:
        """Return a classic member whose request is answered; one that its coordinator does not know is removed."""
        group, member = self._sender_of(command)
        if group is None or member is None or member.classic is None:
            return None
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._remove(group, member, self._cause_of_absence(group, member, now_ms), now_ms)
            return None
        return member

    def _ids(self, partitions: Iterable[TopicPartition]) -> IdPartitions:
        """Return partitions by their topics' ids. Those of topics that are not known are left out."""
        image = self._shard.settings.image
        by_name: dict[str, list[int]] = {}
        for name, number in partitions:
            by_name.setdefault(name, []).append(number)
        found = ((image.topic(name), numbers) for name, numbers in by_name.items())
        return id_partitions((topic.topic_id, numbers) for topic, numbers in found if topic is not None)

    def _convert_back_if_due(self, group: ConsumerGroup, cause: Cause, now_ms: int, then: Join | None = None) -> None:
        """Without its last member of the consumer protocol a group becomes a classic one, unless that is disabled.

        `then` is the JoinGroup of a classic member that has taken its place.
        """
        if group.natives or not group.members or not _are_known(group):
            return
        if then is not None:  # no round follows: members have their targets then, which are not in the traffic
            for member in group.members.values():
                if not member.pending:
                    target = ids_of(member.assigned)
                    self._apply(MemberTargetStored(group.group_id, member.member_id, target, cause), now_ms)
        due, member_ids = DowngradeIfDue(group.group_id, cause, then), tuple(group.members)
        self._changes.predict(tuple(decide_downgrade(group, due, now_ms, self._shard.settings)), now_ms)
        if self.group(group.group_id) is None:
            self._forget_changes(group.group_id)
            for member_id in member_ids:
                self._senders.pop((group.group_id, member_id), None)

    def left(self, command: Leave, now_ms: int) -> None:
        """LeaveGroup has removed members, by whichever protocol they joined."""
        group = self.group(command.group_id)
        if group is None:
            return
        last: Cause | None = None
        for leaving in command.members:
            member_id = leaving.member_id or group.static_members.get(leaving.instance_id or "", "")
            member = group.members.get(member_id)
            if member is not None:
                kind = CauseKind.MEMBER_LEFT if leaving.member_id else CauseKind.MEMBER_REMOVED
                cause = Cause(kind, now_ms, member_id, leaving.reason)
                self._remove(group, member, cause, now_ms)
                last = cause if member.classic is None else last
        if last is not None:
            self._convert_back_if_due(group, last, now_ms)

    def downgraded(self, command: Join, member_id: str, now_ms: int) -> None:
        """A group is a classic one now, as the answer to a JoinGroup shows: no member of the consumer protocol is left.

        The sender may have taken the place of the last one.
        """
        group_id = command.group_id
        other, group = self._shard.groups.get(group_id), self.group(group_id)
        if isinstance(other, StreamsGroup):
            self.forget(other, Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)
        if group is None:
            return
        subscription = self._subscription(command)
        if subscription is not None:
            self._subscribed(group, member_id, command, now_ms)
            cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, command.reason)
            self._convert_back_if_due(group, cause, now_ms, replace(command, member_id=member_id))
            if self.group(group_id) is not group:
                return
        self.forget(group, Cause(CauseKind.GROUP_CONVERTED, now_ms), now_ms)

    # What is found

    def described(self, group: DescribedConsumerGroup, now_ms: int) -> None:
        """Correct a group by what its coordinator describes."""
        listed = {member.member_id: member for member in group.members}
        self._corrected(group.group_id, group.epoch, group.assignment_epoch, listed, now_ms)

    def _described_member(
        self, group: ConsumerGroup, before: ConsumerMember, shown: DescribedConsumerMember, cause: Cause
    ) -> Iterable[Event]:
        member_id, group_id = shown.member_id, group.group_id
        command = ConsumerHeartbeat(
            group_id,
            member_id,
            shown.epoch,
            instance_id=shown.instance_id,
            rack_id=shown.rack_id,
            subscribed_topic_names=shown.subscribed_topic_names,
            subscribed_topic_regex=shown.subscribed_topic_regex,
            client_id=shown.client_id,
            client_host=shown.client_host,
        )
        record = member_record(group, before, member_id, command, cause)
        if shown.classic_phase is not None:
            record = replace(record, classic=before.classic or ClassicMemberMetadata(ASSUMED_SESSION_MS, ()))
        yield record
        yield MemberTargetStored(group_id, member_id, shown.target, cause)
        state = MemberState.UNREVOKED_PARTITIONS if shown.pending else MemberState.STABLE
        owned = self._owned(shown.assignment), self._owned(shown.pending)
        yield self._assignment(group_id, (member_id, shown.epoch, before.previous_epoch), state, *owned, cause)


def _are_known(group: ConsumerGroup) -> bool:
    """Whether the protocols of all classic members are known."""
    return all(member.classic is None or member.classic.protocols for member in group.members.values())
