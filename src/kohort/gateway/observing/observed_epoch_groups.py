"""Groups of another coordinator whose members have epochs, as their heartbeats show them: KIP-848 and KIP-1071.

A group is the same state as in our own coordinator, changed by the same events. Nothing is predicted: an answer
contains its member's epoch and what it was granted, a request what it has given back. A new epoch gets its cause from
the requests that came before it. Targets are not in the traffic.

`ObservedConsumerGroups` and `ObservedStreamsGroups` have what differs: their records, and partitions or tasks, of which
this module knows only that they can be compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from kohort.gateway.observing.epoch_heartbeats import EpochResult, is_steady
from kohort.gateway.observing.group_changes import EpochSender, GroupChanges
from kohort.gateway.observing.group_knowledge import GroupKnowledge
from kohort.gateway.observing.last_requests import EVICTED_SHARE
from kohort.gateway.observing.look_ups import DescribeRequests
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerHeartbeat, Join
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.events import (
    ClassicPhase,
    ConsumerGroupDeleted,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    Event,
    GroupDeleted,
    GroupLoaded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
)
from kohort.group.shard import apply
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsMemberAssignmentDeleted,
    StreamsMemberAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberTargetDeleted,
)
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

IDLE_MEMBER_MS = 6_000
"""A group in which a member has sent nothing for so long is looked up when its epoch grows."""

_OF_CONSUMERS = (MemberAssignmentDeleted, MemberTargetDeleted, ConsumerMemberDeleted)
_OF_STREAMS = (StreamsMemberAssignmentDeleted, StreamsMemberTargetDeleted, StreamsMemberDeleted)

Owned = frozenset[Any]
"""Partitions with their topics' ids, or tasks with their roles."""

EpochCommand = ConsumerHeartbeat | StreamsHeartbeat


EpochGroup = ConsumerGroup | StreamsGroup
GroupT = TypeVar("GroupT", bound=EpochGroup)
MemberT = TypeVar("MemberT", bound=ConsumerMember | StreamsMember)
CommandT = TypeVar("CommandT", bound=EpochCommand)


class ObservedEpochGroups(ABC, Generic[GroupT, MemberT, CommandT]):
    """The groups of one kind in a shard."""

    def __init__(
        self, changes: GroupChanges, describes: DescribeRequests, kind: type[GroupT], new_member: type[MemberT]
    ) -> None:
        self._changes = changes
        self._describes = describes
        self._kind, self._new_member = kind, new_member
        self._shard, self._signals, self._known = changes.shard, changes.signals, changes.look_ups.known
        self._senders = changes.epoch_senders

    def group(self, group_id: str) -> GroupT | None:
        """Return a group of this kind, or None where there is no such group."""
        group = self._shard.groups.get(group_id)
        return group if isinstance(group, self._kind) else None

    def _members(self, group: GroupT) -> dict[str, MemberT]:
        return group.members  # type: ignore[return-value]

    # What a kind of groups has of its own

    @abstractmethod
    def _create(self, group_id: str, cause: Cause, now_ms: int) -> None:
        """Make a group that no member has joined."""

    @abstractmethod
    def _record(self, group: GroupT, before: MemberT, member_id: str, command: CommandT | Join, cause: Cause) -> Any:
        """Return what a request has of its sender, under this id, after what is known of it."""

    @abstractmethod
    def _change_of(self, group: GroupT, before: MemberT, record: Any, cause: Cause) -> Cause | None:
        """Return why the group's epoch must rise with a new record, or None."""

    @abstractmethod
    def _session_timeout_ms(self, group: GroupT, member: MemberT) -> int:
        """Return how long a member may be absent."""

    @abstractmethod
    def _owned(self, found: Any) -> Owned:
        """Return partitions or tasks of a request or an answer."""

    @abstractmethod
    def _assigned(self, member: MemberT) -> tuple[Owned, Owned]:
        """Return what a member was granted, and what it was asked to give back."""

    def _to_give_back(self, before: Owned, granted: Owned) -> Owned:
        """Return what a member had `before` and has to give back now that it was granted this."""
        return before - granted

    @abstractmethod
    def _assignment(
        self,
        group_id: str,
        member: tuple[str, int, int],
        state: MemberState,
        granted: Owned,
        pending: Owned,
        cause: Cause,
        phase: ClassicPhase = ClassicPhase.STABLE,
    ) -> MemberAssignmentStored | StreamsMemberAssignmentStored:
        """Return the record of what a member owns. `member` is its id, its epoch and the one before."""

    @abstractmethod
    def _epochs(self, group: GroupT, epoch: int, cause: Cause, now_ms: int) -> tuple[Event, Event]:
        """Return the records of an epoch, and of its target."""

    @abstractmethod
    def _described_member(self, group: GroupT, before: MemberT, shown: Any, cause: Cause) -> Iterable[Event]:
        """Return the records of a member as it is described."""

    def _phase_of(self, _member: MemberT) -> ClassicPhase:
        """Return where a classic member is in its round."""
        return ClassicPhase.STABLE

    def _report(self, _group: GroupT, _member: MemberT, _command: CommandT, _result: EpochResult, now_ms: int) -> Cause:
        """Take what else a heartbeat reports; return the cause of a new epoch that no other request explains."""
        return Cause(CauseKind.NOT_OBSERVED, now_ms)

    def _make_way(self, classic: ClassicGroup, _command: CommandT, now_ms: int) -> None:
        """A classic group is one of this kind now."""
        self._apply(GroupDeleted(classic.group_id, Cause(CauseKind.NOT_OBSERVED, now_ms)), now_ms)

    def _refused_join(self, command: CommandT, result: EpochResult, now_ms: int) -> None:
        """A member was not admitted."""

    def _convert_back_if_due(self, group: GroupT, cause: Cause, now_ms: int) -> None:
        """Without some member a group may become one of another kind."""

    # Heartbeats

    def heartbeat_answered(self, command: CommandT, result: EpochResult, now_ms: int) -> None:
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
        if result.assignment is not None:
            sender.is_unshown = False
        is_quiet = is_steady(command) and result.assignment is None and command.member_epoch == result.member_epoch
        changes = self._known[group_id].changes
        if is_quiet and sender.read_at == changes:
            return
        sender.read_at = changes if is_quiet else None
        self._subscribed(group, member_id, command, now_ms)
        unexplained = self._report(group, self._members(group)[member_id], command, result, now_ms)
        self._epoch_shown(group, result.member_epoch, now_ms, unexplained)
        self._reconciled(group, self._members(group)[member_id], command.owned, result, now_ms, unexplained)

    def _sender(self, group_id: str, member_id: str) -> EpochSender:
        sender = self._senders.get((group_id, member_id))
        if sender is None:
            sender = self._senders[group_id, member_id] = EpochSender()
        return sender

    def _refused(self, command: CommandT, result: EpochResult, now_ms: int) -> None:
        group, member = self._sender_of(command)
        if group is not None and member is not None and result.error is ErrorCode.UNKNOWN_MEMBER_ID:
            cause = self._cause_of_absence(group, member, now_ms)
            self._remove(group, member, cause, now_ms)
            self._convert_back_if_due(group, cause, now_ms)
        elif command.member_epoch == 0:
            self._refused_join(command, result, now_ms)

    def _sender_of(self, command: Any) -> tuple[GroupT | None, MemberT | None]:
        group = self.group(command.group_id)
        return group, None if group is None else self._members(group).get(command.member_id)

    # Members

    def _group_for(self, command: CommandT, now_ms: int) -> GroupT:
        group_id = command.group_id
        other = self._shard.groups.get(group_id)
        if isinstance(other, self._kind):
            return other
        if isinstance(other, ClassicGroup):
            self._make_way(other, command, now_ms)
        elif other is not None:
            self.forget(other, Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)
        if self.group(group_id) is None:
            self._create(group_id, Cause(CauseKind.GROUP_CREATED, now_ms, command.member_id or None), now_ms)
        group = self.group(group_id)
        assert group is not None, "it was just stored"
        return group

    def _found(self, group: GroupT, member_id: str, command: CommandT, result: EpochResult, now_ms: int) -> None:
        """A member of a group that was there before: its state is taken up, as a coordinator loads it."""
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms, member_id)
        old_id = None if command.instance_id is None else group.static_members.get(command.instance_id)
        if old_id is not None:
            self._delete(group, old_id, replace(cause, kind=CauseKind.STATIC_MEMBER_REPLACED), now_ms)
        self._store(self._record(group, self._new_member(group.group_id, member_id), member_id, command, cause))
        if result.member_epoch > group.epoch:
            for event in self._epochs(group, result.member_epoch, cause, now_ms):
                self._store(event)
        shown = result.assignment if result.assignment is not None else command.owned
        granted = self._owned(shown)
        self._sender(group.group_id, member_id).is_unshown = shown is None
        member = member_id, result.member_epoch, result.member_epoch
        self._store(self._assignment(group.group_id, member, MemberState.STABLE, granted, frozenset(), cause))
        self._signals.event_applied(GroupLoaded(group.group_id, cause), now_ms)
        self._describes.request(group.group_id, None, now_ms)

    def _subscribed(self, group: GroupT, member_id: str, command: CommandT | Join, now_ms: int) -> None:
        """Store what a request contains about its sender, and note the change that it makes to the group."""
        before = self._members(group).get(member_id)
        again = CauseKind.MEMBER_REJOINED
        if isinstance(command, StreamsHeartbeat) and command.member_epoch:
            again = CauseKind.MEMBER_CHANGED
        kind = CauseKind.MEMBER_JOINED if before is None else again
        cause = Cause(kind, now_ms, member_id, _reason(command))
        instance_id = command.instance_id
        old_id = group.static_members.get(instance_id) if instance_id is not None else None
        if before is None and old_id is not None and old_id != member_id:
            self._replaced(group, self._members(group)[old_id], member_id, command, now_ms)
            return
        known = before if before is not None else self._new_member(group.group_id, member_id)
        record = self._record(group, known, member_id, command, cause)
        if before is not None and before.is_stored and before.has_stored(record):
            return
        change = self._change_of(group, known, record, cause)
        self._apply(record, now_ms)
        if change is not None:
            self._about_to_grow(group.group_id, change)

    def _replaced(self, group: GroupT, old: MemberT, member_id: str, command: CommandT | Join, now_ms: int) -> None:
        """An instance came back under a new member id: it takes over what the old one had (KIP-345)."""
        cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, _reason(command))
        record, (granted, _) = self._record(group, old, member_id, command, cause), self._assigned(old)
        change = self._change_of(group, old, record, cause)
        self._delete(group, old.member_id, cause, now_ms)
        self._apply(record, now_ms)
        state, none = MemberState.STABLE, frozenset[Any]()
        self._apply(self._assignment(group.group_id, (member_id, 0, 0), state, granted, none, cause), now_ms)
        if change is not None:
            self._about_to_grow(group.group_id, change)

    def _paused(self, group: GroupT, member_id: str, now_ms: int) -> None:
        """A static member leaves for a while (-2)."""
        member = self._members(group).get(member_id)
        if member is None:
            self._describes.request(group.group_id, None, now_ms)
            return
        if member.epoch == LEAVE_STATIC_EPOCH:
            return
        cause = Cause(CauseKind.STATIC_MEMBER_LEFT, now_ms, member_id)
        granted, _ = self._assigned(member)
        left = member_id, LEAVE_STATIC_EPOCH, member.epoch
        self._apply(self._assignment(group.group_id, left, MemberState.STABLE, granted, frozenset(), cause), now_ms)

    def _left(self, command: CommandT, now_ms: int) -> None:
        group, member = self._sender_of(command)
        if group is not None and member is not None:
            cause = Cause(CauseKind.MEMBER_LEFT, now_ms, member.member_id, _reason(command))
            self._remove(group, member, cause, now_ms)
            self._convert_back_if_due(group, cause, now_ms)

    def _cause_of_absence(self, group: GroupT, member: MemberT, now_ms: int) -> Cause:
        timeout_ms = self._session_timeout_ms(group, member)
        if self._idle_ms(group, member, now_ms) < EVICTED_SHARE * timeout_ms:
            return Cause(CauseKind.NOT_OBSERVED, now_ms, member.member_id)
        detail = f"no heartbeat for {timeout_ms / 1000:.1f} s"
        return Cause(CauseKind.SESSION_TIMEOUT, now_ms, member.member_id, detail)

    def _idle_ms(self, group: GroupT, member: MemberT, now_ms: int) -> int:
        sender = self._senders.get((group.group_id, member.member_id))
        return 0 if sender is None else now_ms - sender.sent_ms

    def _remove(self, group: GroupT, member: MemberT, cause: Cause, now_ms: int) -> None:
        """A member is out for good; its group's epoch grows."""
        idle_ms = self._idle_ms(group, member, now_ms) if cause.kind is CauseKind.SESSION_TIMEOUT else -1
        self._delete(group, member.member_id, cause, now_ms)
        self._apply(ConsumerMemberOut(group.group_id, member.member_id, member.instance_id, cause, idle_ms), now_ms)
        self._about_to_grow(group.group_id, cause)
        if not group.members:
            self._epoch_shown(group, group.epoch + 1, now_ms)  # no answer will show it

    def _delete(self, group: EpochGroup, member_id: str, cause: Cause, now_ms: int) -> None:
        for tombstone in _OF_CONSUMERS if isinstance(group, ConsumerGroup) else _OF_STREAMS:
            self._apply(tombstone(group.group_id, member_id, cause), now_ms)
        self._senders.pop((group.group_id, member_id), None)

    def forget(self, group: EpochGroup, cause: Cause, now_ms: int) -> None:
        """A group, of whichever kind, is none with member epochs any more, or one of another kind."""
        for member_id in sorted(group.members):
            self._delete(group, member_id, cause, now_ms)
        deletion = ConsumerGroupDeleted if isinstance(group, ConsumerGroup) else StreamsGroupDeleted
        self._apply(deletion(group.group_id, cause), now_ms)
        self._forget_changes(group.group_id)

    # What is found

    def _corrected(
        self, group_id: str, epoch: int, assignment_epoch: int, listed: Mapping[str, Any], now_ms: int
    ) -> None:
        """Correct a group by what its coordinator describes; `listed` has the members by id.

        Where the group has changed here since it was asked for, what is found may be older: members whose epoch it does
        not raise are left as they are, and it is looked up again.
        """
        known = self.group(group_id)
        if known is None:
            return
        remembered = self._known[group_id]
        is_newer, remembered.asked_at = remembered.asked_at == remembered.changes, None
        if not is_newer:
            self._describes.request(group_id, None, now_ms)
        if epoch < known.epoch and not is_newer:
            return
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        if epoch != known.epoch:
            loaded = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
            # An epoch that was predicted, and never came, is taken back.
            self._store(self._epochs(known, epoch, cause if epoch > known.epoch else loaded, now_ms)[0])
        if assignment_epoch != known.assignment_epoch:
            self._store(self._epochs(known, assignment_epoch, cause, now_ms)[1])
        for member_id in sorted(known.members.keys() - listed.keys()):
            member = self._members(known)[member_id]
            self._remove(known, member, self._cause_of_absence(known, member, now_ms), now_ms)
        for member_id, shown in sorted(listed.items()):
            before = self._members(known).get(member_id)
            sender = self._senders.get((group_id, member_id))
            is_shown = sender is None or not sender.is_unshown
            is_known = before is not None and (before.epoch, is_shown) >= (shown.epoch, True)
            if is_known and not is_newer:
                continue
            if sender is not None:
                sender.is_unshown = False
            member = before if before is not None else self._new_member(group_id, member_id)
            for event in self._described_member(known, member, shown, cause):
                self._store(event)
        self._signals.event_applied(GroupLoaded(group_id, cause), now_ms)

    # Epochs and assignments

    def _epoch_shown(self, group: GroupT, epoch: int, now_ms: int, unexplained: Cause | None = None) -> None:
        """An answer contains an epoch: where it is new, the group has a new target.

        `unexplained` is its cause where no request, and no member that is gone, is one.
        """
        if epoch <= group.epoch:
            return
        known = self._known[group.group_id]
        cause, known.change = known.change, None
        if cause is None or any(
            self._idle_ms(group, each, now_ms) >= IDLE_MEMBER_MS for each in self._members(group).values()
        ):
            self._describes.request(group.group_id, None, now_ms)
        for member in self._evicted_members(group, now_ms):
            absence = self._cause_of_absence(group, member, now_ms)
            cause = cause or absence
            self._remove(group, member, absence, now_ms)
        known.change = None
        cause = cause or unexplained or Cause(CauseKind.NOT_OBSERVED, now_ms)
        if epoch > group.epoch:
            for event in self._epochs(group, epoch, cause, now_ms):
                self._apply(event, now_ms)

    def _evicted_members(self, group: GroupT, now_ms: int) -> list[MemberT]:
        """Return the members that have sent nothing for nearly their session timeout."""
        return [
            member
            for _, member in sorted(self._members(group).items())
            if self._idle_ms(group, member, now_ms) >= EVICTED_SHARE * self._session_timeout_ms(group, member)
        ]

    def _reconciled(
        self,
        group: GroupT,
        member: MemberT,
        owned: Any,
        result: EpochResult,
        now_ms: int,
        unexplained: Cause | None = None,
        phase: ClassicPhase = ClassicPhase.STABLE,
    ) -> None:
        """A member has an epoch and an assignment; what it was granted before and is no more it has to give back."""
        before = self._assigned(member)
        granted, pending = before
        if result.assignment is not None:
            granted = self._owned(result.assignment)
            pending = self._to_give_back(before[0] | before[1], granted)
        if owned is not None:
            pending &= self._owned(owned)
        if pending - before[1] and result.member_epoch >= group.epoch:
            self._epoch_shown(group, group.epoch + 1, now_ms, unexplained)  # only a newer target takes something
        state = MemberState.STABLE
        if pending:
            state = MemberState.UNREVOKED_PARTITIONS
        elif self._is_waiting(group, member, len(granted)):
            state = MemberState.UNRELEASED_PARTITIONS
        epochs = member.member_id, result.member_epoch, member.epoch
        cause = Cause(CauseKind.MEMBER_RECONCILED, now_ms, member.member_id)
        is_same = (member.epoch, self._phase_of(member), *before) == (result.member_epoch, phase, granted, pending)
        step = self._assignment(group.group_id, epochs, state, granted, pending, cause, phase)
        if not is_same or step.state != member.state:
            self._apply(step, now_ms)

    def _is_waiting(self, group: GroupT, member: MemberT, granted: int) -> bool:
        """Whether a member with so many partitions will probably get more: it has few, and others are to lose some.

        What it will have is not in the traffic, but Kafka's assignors give all members about as many.
        """
        if self._known[group.group_id].change is not None:
            return not granted
        others = [each for each in self._members(group).values() if each is not member]
        total = granted + sum(len(some) for each in others for some in self._assigned(each))
        is_moving = any(any(each.pending) or 0 <= each.epoch < group.epoch for each in others)
        return is_moving and granted * len(group.members) < total

    def _apply(self, event: Event, now_ms: int) -> None:
        self._store(event)
        self._signals.event_applied(event, now_ms)

    def _store(self, event: Event) -> None:
        """Change a group unobserved."""
        apply(self._shard, event)
        known = self._known[event.group_id]
        if isinstance(event, ConsumerGroupDeleted | StreamsGroupDeleted):
            known.changes, known.asked_at = 0, None
        else:
            known.changes += 1

    def _about_to_grow(self, group_id: str, cause: Cause) -> None:
        """A request will raise the epoch of a group; the first of several is the cause."""
        known = self._known[group_id]
        known.change = known.change or cause

    def _forget_changes(self, group_id: str) -> None:
        """A group is none of this kind any more."""
        known = self._known[group_id]
        known.changes, known.change, known.asked_at = 0, None, None
        if known == GroupKnowledge():
            del self._known[group_id]


def _reason(command: ConsumerHeartbeat | StreamsHeartbeat | Join) -> str:
    """Return a member's own reason; the protocol of streams groups has none."""
    return "" if isinstance(command, StreamsHeartbeat) else command.reason
