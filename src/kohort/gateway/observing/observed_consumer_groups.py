"""Consumer groups (KIP-848) of another coordinator, as the heartbeats of their members show them.

A group is the same state as in our own coordinator, `kohort.group.consumer`, changed by the same events. Nothing is
predicted: an answer contains its member's epoch and what it was granted, a request what it has revoked. A new epoch
gets its cause from the requests that came before it. Targets are not in the traffic.

A classic member of such a group sends what it owns in its JoinGroup, and is granted partitions by the answer to its
SyncGroup: both name topics, whose ids are in the settings' image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from kohort.gateway.observing.epoch_heartbeats import is_steady
from kohort.gateway.observing.group_changes import GroupChanges
from kohort.gateway.observing.group_knowledge import GroupKnowledge
from kohort.gateway.observing.last_requests import EVICTED_SHARE
from kohort.gateway.observing.look_ups import DescribeRequests
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeat,
    DowngradeIfDue,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from kohort.group.consumer.classic_members import classic_record
from kohort.group.consumer.exit import session_timeout_ms
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.join import change_of, member_record
from kohort.group.consumer.reconcile import epochs_of, packed
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember
from kohort.group.events import (
    ClassicMemberMetadata,
    ClassicPhase,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    ConsumerMemberStored,
    Event,
    GroupDeleted,
    GroupLoaded,
    JoinRefused,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    TargetStored,
)
from kohort.group.join_refusals import REFUSALS
from kohort.group.migration.conversion import decide_downgrade, decide_upgrade
from kohort.group.results import ConsumerHeartbeatResult, JoinResult
from kohort.group.shard import apply
from kohort.model.assignment import IdPartitions, each, id_partitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.parking.limits import ASSUMED_SESSION_MS

_ALIVE_MS = 1 << 62
"""When a member whose JoinGroup waits has sent something last: it is alive."""

CommandT = TypeVar("CommandT", ConsumerHeartbeat, Join)

RecordOf = Callable[[ConsumerMember, str, CommandT, Cause], ConsumerMemberStored]
"""Makes the record of a member, under a member id, from what it was and what it sends."""

IDLE_MEMBER_MS = 6_000
"""A group in which a member has sent nothing for so long is looked up when its epoch grows."""


@dataclass(slots=True)
class _EpochSender:
    """What is known of the heartbeats of one member."""

    sent_ms: int = 0
    """When it last sent one."""
    read_at: int | None = None
    """How often its group had changed when one without an update was read; the next one without one is the same."""


class ObservedConsumerGroups:
    """The consumer groups of one shard."""

    def __init__(self, changes: GroupChanges, describes: DescribeRequests) -> None:
        self._changes = changes
        self._describes = describes
        self._shard, self._signals, self._known = changes.shard, changes.signals, changes.look_ups.known
        self._senders: dict[tuple[str, str], _EpochSender] = {}
        """By group and member."""
        self._joining: dict[tuple[str, str], Cause] = {}
        """By group and member, the JoinGroup of a new classic member that waits: its epoch may be shown before."""

    def group(self, group_id: str) -> ConsumerGroup | None:
        """Return a consumer group, or None where there is no such group."""
        group = self._shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def member_seen(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member has sent a heartbeat."""
        sender = self._senders.get((group_id, member_id))
        if sender is not None:
            sender.sent_ms = now_ms

    def heartbeat_answered(self, command: ConsumerHeartbeat, result: ConsumerHeartbeatResult, now_ms: int) -> None:
        """A heartbeat is answered; `command` is as it was sent."""
        group_id, member_id = command.group_id, result.member_id or command.member_id
        if result.error is not ErrorCode.NONE:
            self._refused(command, result, now_ms)
            return
        if command.member_epoch == LEAVE_EPOCH:
            self._left(command, now_ms)
            return
        if not member_id:
            return
        group = self._group_for(command, now_ms)
        sender = self._sender(group_id, member_id)
        sender.sent_ms = now_ms
        if command.member_epoch == LEAVE_STATIC_EPOCH:
            self._paused(group, member_id, now_ms)
            return
        is_new = member_id not in group.members
        if is_new and command.member_epoch > 0:
            self._found(group, member_id, command, result, now_ms)
            return
        is_quiet = is_steady(command) and result.assignment is None and command.member_epoch == result.member_epoch
        changes = self._known[group_id].changes
        if is_quiet and sender.read_at == changes:
            return
        sender.read_at = changes if is_quiet else None
        self._subscribed(group, member_id, command, partial(member_record, group), now_ms)
        self._epoch_shown(group, result.member_epoch, now_ms)
        self._reconciled(group, group.members[member_id], command.owned, result, now_ms)

    def _sender(self, group_id: str, member_id: str) -> _EpochSender:
        sender = self._senders.get((group_id, member_id))
        if sender is None:
            sender = self._senders[group_id, member_id] = _EpochSender()
        return sender

    def _refused(self, command: ConsumerHeartbeat, result: ConsumerHeartbeatResult, now_ms: int) -> None:
        group, member = self._sender_of(command)
        if group is not None and member is not None and result.error is ErrorCode.UNKNOWN_MEMBER_ID:
            cause = self._cause_of_absence(group, member, now_ms)
            self._remove(group, member, cause, now_ms)
            self._convert_back_if_due(group, cause, now_ms)
        elif command.member_epoch == 0 and result.error in REFUSALS:
            cause = Cause(CauseKind.JOIN_REFUSED, now_ms, command.member_id or None, result.error_message or "")
            self._apply(JoinRefused(command.group_id, result.error, command, cause), now_ms)

    def _sender_of(
        self, command: ConsumerHeartbeat | Sync | Heartbeat
    ) -> tuple[ConsumerGroup | None, ConsumerMember | None]:
        group = self.group(command.group_id)
        return group, None if group is None else group.members.get(command.member_id)

    # Members

    def _group_for(self, command: ConsumerHeartbeat, now_ms: int) -> ConsumerGroup:
        group_id = command.group_id
        classic = self._shard.groups.get(group_id)
        if isinstance(classic, ClassicGroup):
            self._convert(classic, command, now_ms)
        group = self.group(group_id)
        if group is None:
            cause = Cause(CauseKind.GROUP_CREATED, now_ms, command.member_id or None)
            self._apply(ConsumerGroupStored(group_id, 0, 0, cause), now_ms)
            group = self.group(group_id)
            assert group is not None, "it was just stored"
        return group

    def _convert(self, group: ClassicGroup, command: ConsumerHeartbeat, now_ms: int) -> None:
        """A classic group has become a consumer group: its members own what they owned, as far as it is known."""
        for member_id in group.members:
            self._sender(group.group_id, member_id).sent_ms = now_ms
        self._known[group.group_id].changes += 1
        self._changes.predict(tuple(decide_upgrade(group, command, now_ms, self._shard.settings)), now_ms)
        if isinstance(self._shard.groups.get(group.group_id), ClassicGroup):
            cause = Cause(CauseKind.GROUP_CONVERTED, now_ms, command.member_id or None)
            self._apply(GroupDeleted(group.group_id, cause), now_ms)

    def _found(
        self,
        group: ConsumerGroup,
        member_id: str,
        command: ConsumerHeartbeat,
        result: ConsumerHeartbeatResult,
        now_ms: int,
    ) -> None:
        """A member of a group that was there before: its state is taken up, as a coordinator loads it."""
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms, member_id)
        old_id = None if command.instance_id is None else group.static_members.get(command.instance_id)
        if old_id is not None:
            self._delete(group, group.members[old_id], replace(cause, kind=CauseKind.STATIC_MEMBER_REPLACED), now_ms)
        member = ConsumerMember(group.group_id, member_id)
        self._store(member_record(group, member, member_id, command, cause))
        if result.member_epoch > group.epoch:
            self._store(ConsumerGroupStored(group.group_id, result.member_epoch, 0, cause))
            self._store(TargetStored(group.group_id, result.member_epoch, now_ms, cause))
        granted = result.assignment if result.assignment is not None else command.owned or ()
        assigned = packed(dict.fromkeys(each(granted), 0))
        epoch = result.member_epoch
        self._store(
            MemberAssignmentStored(group.group_id, member_id, epoch, epoch, MemberState.STABLE, assigned, (), cause)
        )
        self._signals.event_applied(GroupLoaded(group.group_id, cause), now_ms)
        self._describes.request(group.group_id, None, now_ms)

    def _subscribed(
        self, group: ConsumerGroup, member_id: str, command: CommandT, record_of: RecordOf[CommandT], now_ms: int
    ) -> None:
        """Store what a request contains about its sender, and note the change that it makes to the group."""
        before = group.members.get(member_id)
        kind = CauseKind.MEMBER_JOINED if before is None else CauseKind.MEMBER_REJOINED
        cause = Cause(kind, now_ms, member_id, command.reason)
        instance_id = command.instance_id
        old_id = group.static_members.get(instance_id) if instance_id is not None else None
        if before is None and old_id is not None and old_id != member_id:
            self._replaced(group, group.members[old_id], member_id, command, record_of, now_ms)
            return
        known = before or ConsumerMember(group.group_id, member_id)
        record = record_of(known, member_id, command, cause)
        if before is not None and before.is_stored and before.has_stored(record):
            return
        change = change_of(group, known, record, self._shard.settings, cause)
        self._apply(record, now_ms)
        if change is not None:
            self._about_to_grow(group.group_id, change)

    def _replaced(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        member_id: str,
        command: CommandT,
        record_of: RecordOf[CommandT],
        now_ms: int,
    ) -> None:
        """An instance came back under a new member id: it takes over what the old one had (KIP-345)."""
        cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, command.reason)
        record, assigned = record_of(old, member_id, command, cause), old.assigned
        self._delete(group, old, cause, now_ms)
        self._apply(record, now_ms)
        stable = MemberState.STABLE
        self._apply(MemberAssignmentStored(group.group_id, member_id, 0, 0, stable, assigned, (), cause), now_ms)

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
        record_of = partial(_classic_record, subscription)
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
        self._subscribed(group, member_id, command, record_of, now_ms)
        if is_shown:
            known.change = None  # the epoch that it made has been shown
        self._epoch_shown(group, result.generation, now_ms)
        shown = ConsumerHeartbeatResult(ErrorCode.NONE, member_epoch=result.generation)
        owned, phase = self._ids(subscription.owned), ClassicPhase.COMPLETING_REBALANCE
        self._reconciled(group, group.members[member_id], owned, shown, now_ms, phase)

    def _subscription(self, command: Join) -> Subscription | None:
        """Return what a classic member subscribes to; None where that cannot be read."""
        return self._shard.settings.subscription_of(command.protocols[0][1]) if command.protocols else None

    def replace_classic(self, known: object, group_id: str, epoch: int, now_ms: int) -> None:
        """A group that was taken for a classic one, or is not `known`, is a consumer group with this epoch."""
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        if known is not None:
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

    def _paused(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        """A static member leaves for a while (-2)."""
        member = group.members.get(member_id)
        if member is None:
            self._describes.request(group.group_id, None, now_ms)
            return
        if member.epoch == LEAVE_STATIC_EPOCH:
            return
        cause = Cause(CauseKind.STATIC_MEMBER_LEFT, now_ms, member_id)
        group_id, epoch, stable = group.group_id, LEAVE_STATIC_EPOCH, MemberState.STABLE
        self._apply(
            MemberAssignmentStored(group_id, member_id, epoch, member.epoch, stable, member.assigned, (), cause), now_ms
        )

    def _left(self, command: ConsumerHeartbeat, now_ms: int) -> None:
        group, member = self._sender_of(command)
        if group is not None and member is not None:
            cause = Cause(CauseKind.MEMBER_LEFT, now_ms, member.member_id, command.reason)
            self._remove(group, member, cause, now_ms)
            self._convert_back_if_due(group, cause, now_ms)

    def _cause_of_absence(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Cause:
        timeout_ms = session_timeout_ms(member, self._shard.settings, group.group_id)
        if self._idle_ms(group, member, now_ms) < EVICTED_SHARE * timeout_ms:
            return Cause(CauseKind.NOT_OBSERVED, now_ms, member.member_id)
        detail = f"no heartbeat for {timeout_ms / 1000:.1f} s"
        return Cause(CauseKind.SESSION_TIMEOUT, now_ms, member.member_id, detail)

    def _idle_ms(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> int:
        sender = self._senders.get((group.group_id, member.member_id))
        return 0 if sender is None else now_ms - sender.sent_ms

    def _remove(self, group: ConsumerGroup, member: ConsumerMember, cause: Cause, now_ms: int) -> None:
        """A member is out for good; its group's epoch grows."""
        idle_ms = self._idle_ms(group, member, now_ms) if cause.kind is CauseKind.SESSION_TIMEOUT else -1
        self._delete(group, member, cause, now_ms)
        self._apply(ConsumerMemberOut(group.group_id, member.member_id, member.instance_id, cause, idle_ms), now_ms)
        self._about_to_grow(group.group_id, cause)
        if not group.members:
            self._epoch_shown(group, group.epoch + 1, now_ms)  # no answer will show it

    def _convert_back_if_due(self, group: ConsumerGroup, cause: Cause, now_ms: int, then: Join | None = None) -> None:
        """Without its last member of the consumer protocol a group becomes a classic one, unless that is disabled.

        `then` is the JoinGroup of a classic member that has taken its place.
        """
        if group.natives or not group.members or not _are_known(group):
            return
        due, member_ids = DowngradeIfDue(group.group_id, cause, then), tuple(group.members)
        self._changes.predict(tuple(decide_downgrade(group, due, now_ms, self._shard.settings)), now_ms)
        if self.group(group.group_id) is None:
            self._forget_changes(group.group_id)
            for member_id in member_ids:
                self._senders.pop((group.group_id, member_id), None)

    def _delete(self, group: ConsumerGroup, member: ConsumerMember, cause: Cause, now_ms: int) -> None:
        for tombstone in (MemberAssignmentDeleted, MemberTargetDeleted, ConsumerMemberDeleted):
            self._apply(tombstone(group.group_id, member.member_id, cause), now_ms)
        self._senders.pop((group.group_id, member.member_id), None)

    def came_here(self, group_id: str, now_ms: int) -> None:
        """A member that was behind another instance sends here: what that one alone had seen may be lost with it.

        A heartbeat that is answered shows the epoch, and no assignment.
        """
        if self.group(group_id) is not None:
            self._describes.request(group_id, None, now_ms)

    def look_up_begun(self, group_id: str) -> None:
        """A look-up of a group begins."""
        if (known := self._known.get(group_id)) is not None and known.changes:
            known.asked_at = known.changes

    def described(self, group: DescribedConsumerGroup, now_ms: int) -> None:
        """Correct a group by what its coordinator describes.

        Where the group has changed here since it was asked for, what is found may be older: members whose epoch it does
        not raise are left as they are, and it is looked up again.
        """
        known = self.group(group.group_id)
        if known is None:
            return
        remembered = self._known[group.group_id]
        is_newer, remembered.asked_at = remembered.asked_at == remembered.changes, None
        if not is_newer:
            self._describes.request(group.group_id, None, now_ms)
        if group.epoch < known.epoch and not is_newer:
            return
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        if group.epoch != known.epoch:
            loaded = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
            # An epoch that was predicted, and never came, is taken back.
            stored_for = cause if group.epoch > known.epoch else loaded
            self._store(ConsumerGroupStored(group.group_id, group.epoch, 0, stored_for))
        if group.assignment_epoch != known.assignment_epoch:
            self._store(TargetStored(group.group_id, group.assignment_epoch, now_ms, cause))
        listed = {member.member_id: member for member in group.members}
        for member_id in sorted(known.members.keys() - listed.keys()):
            member = known.members[member_id]
            self._remove(known, member, self._cause_of_absence(known, member, now_ms), now_ms)
        for _, shown in sorted(listed.items()):
            self._described_member(known, shown, cause, is_newer=is_newer)
        self._signals.event_applied(GroupLoaded(group.group_id, cause), now_ms)

    def _described_member(
        self, group: ConsumerGroup, shown: DescribedConsumerMember, cause: Cause, *, is_newer: bool
    ) -> None:
        member_id, group_id = shown.member_id, group.group_id
        known = group.members.get(member_id)
        if known is not None and known.epoch >= shown.epoch and not is_newer:
            return
        member = known or ConsumerMember(group_id, member_id)
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
        record = member_record(group, member, member_id, command, cause)
        if shown.classic_phase is not None:
            record = replace(record, classic=member.classic or ClassicMemberMetadata(ASSUMED_SESSION_MS, ()))
        self._store(record)
        self._store(MemberTargetStored(group_id, member_id, shown.target, cause))
        state = MemberState.UNREVOKED_PARTITIONS if shown.pending else MemberState.STABLE
        assigned, pending = (packed(dict.fromkeys(each(some), 0)) for some in (shown.assignment, shown.pending))
        before = member.previous_epoch
        self._store(MemberAssignmentStored(group_id, member_id, shown.epoch, before, state, assigned, pending, cause))

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
        group = self.group(group_id)
        if group is None:
            return
        subscription = self._subscription(command)
        if subscription is not None:
            self._subscribed(group, member_id, command, partial(_classic_record, subscription), now_ms)
            cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, command.reason)
            self._convert_back_if_due(group, cause, now_ms, replace(command, member_id=member_id))
            if self.group(group_id) is not group:
                return
        self.forget(group, Cause(CauseKind.GROUP_CONVERTED, now_ms), now_ms)

    def forget(self, group: ConsumerGroup, cause: Cause, now_ms: int) -> None:
        """A group is no consumer group any more."""
        for member_id in sorted(group.members):
            self._delete(group, group.members[member_id], cause, now_ms)
        self._apply(ConsumerGroupDeleted(group.group_id, cause), now_ms)
        self._forget_changes(group.group_id)

    # Epochs and assignments

    def _epoch_shown(self, group: ConsumerGroup, epoch: int, now_ms: int) -> None:
        """An answer contains an epoch: where it is new, the group has a new target."""
        if epoch <= group.epoch:
            return
        known = self._known[group.group_id]
        cause, known.change = known.change, None
        if cause is None or any(
            self._idle_ms(group, each, now_ms) >= IDLE_MEMBER_MS for each in group.members.values()
        ):
            self._describes.request(group.group_id, None, now_ms)
        for member in self._evicted_members(group, now_ms):
            absence = self._cause_of_absence(group, member, now_ms)
            cause = cause or absence
            self._remove(group, member, absence, now_ms)
        known.change = None
        cause = cause or Cause(CauseKind.NOT_OBSERVED, now_ms)
        if epoch > group.epoch:
            self._apply(ConsumerGroupStored(group.group_id, epoch, 0, cause), now_ms)
            self._apply(TargetStored(group.group_id, epoch, now_ms, cause), now_ms)

    def _evicted_members(self, group: ConsumerGroup, now_ms: int) -> list[ConsumerMember]:
        """Return the members that have sent nothing for nearly their session timeout."""
        return [
            member
            for _, member in sorted(group.members.items())
            if self._idle_ms(group, member, now_ms)
            >= EVICTED_SHARE * session_timeout_ms(member, self._shard.settings, group.group_id)
        ]

    def _reconciled(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        owned: IdPartitions | None,
        result: ConsumerHeartbeatResult,
        now_ms: int,
        classic_phase: ClassicPhase = ClassicPhase.STABLE,
    ) -> None:
        """A member has an epoch and partitions; what it was granted before and is no more it has to revoke."""
        before = frozenset(epochs_of(member.assigned)), frozenset(epochs_of(member.pending))
        granted, pending = before
        if result.assignment is not None:
            granted = frozenset(each(result.assignment))
            pending = (before[0] | before[1]) - granted
        if owned is not None:
            pending &= frozenset(each(owned))
        if pending - before[1] and result.member_epoch >= group.epoch:
            self._epoch_shown(group, group.epoch + 1, now_ms)  # only a newer target takes partitions
        state = MemberState.STABLE
        if pending:
            state = MemberState.UNREVOKED_PARTITIONS
        elif self._is_waiting(group, member, len(granted)):
            state = MemberState.UNRELEASED_PARTITIONS
        known = (member.epoch, member.state, member.classic_phase, *before)
        if known == (result.member_epoch, state, classic_phase, granted, pending):
            return
        cause = Cause(CauseKind.MEMBER_RECONCILED, now_ms, member.member_id)
        self._apply(
            MemberAssignmentStored(
                group.group_id,
                member.member_id,
                result.member_epoch,
                member.epoch,
                state,
                packed(dict.fromkeys(granted, result.member_epoch)),
                packed(dict.fromkeys(pending, member.epoch)),
                cause,
                classic_phase,
            ),
            now_ms,
        )

    def _is_waiting(self, group: ConsumerGroup, member: ConsumerMember, granted: int) -> bool:
        """Whether a member with so many partitions will probably get more: it has few, and others are to revoke some.

        What it will have is not in the traffic, but Kafka's assignors give all members about as many.
        """
        if self._known[group.group_id].change is not None:
            return not granted
        others = [each for each in group.members.values() if each is not member]
        total = granted + sum(len(some.partitions) for each in others for some in (*each.assigned, *each.pending))
        is_moving = any(each.pending or 0 <= each.epoch < group.epoch for each in others)
        return is_moving and granted * len(group.members) < total

    def _apply(self, event: Event, now_ms: int) -> None:
        self._store(event)
        self._signals.event_applied(event, now_ms)

    def _store(self, event: Event) -> None:
        """Change a group unobserved."""
        apply(self._shard, event)
        known = self._known[event.group_id]
        if isinstance(event, ConsumerGroupDeleted):
            known.changes, known.asked_at = 0, None
        else:
            known.changes += 1

    def _about_to_grow(self, group_id: str, cause: Cause) -> None:
        """A request will raise the epoch of a group; the first of several is the cause."""
        known = self._known[group_id]
        known.change = known.change or cause

    def _forget_changes(self, group_id: str) -> None:
        """A group is no consumer group any more."""
        known = self._known[group_id]
        known.changes, known.change, known.asked_at = 0, None, None
        if known == GroupKnowledge():
            del self._known[group_id]


def _are_known(group: ConsumerGroup) -> bool:
    """Whether the protocols of all classic members are known."""
    return all(member.classic is None or member.classic.protocols for member in group.members.values())


def _classic_record(
    subscription: Subscription, _: ConsumerMember, member_id: str, sender: Join, cause: Cause
) -> ConsumerMemberStored:
    return classic_record(sender.group_id, member_id, sender, subscription, cause)
