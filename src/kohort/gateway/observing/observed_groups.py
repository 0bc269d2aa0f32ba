"""Classic groups of another coordinator, as the traffic of their members shows them.

A group is the same state as in our own coordinator, `kohort.group`, changed by the same events. Two sources make them:

- A request *predicts*: of our coordinator's decision about it the events are applied, not its answers and timers.
- An answer *proves*: the member ids, the generation, its leader and its members, errors. Where it contradicts what was
  predicted, the group is corrected.

A leader's JoinGroup answer lists members that were never seen. What was not seen has the cause `not_observed`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from zlib import crc32

from kohort.gateway.observing.describe_requests import DescribeRequests
from kohort.gateway.observing.group_signals import GroupSignals
from kohort.gateway.observing.last_requests import LastRequests
from kohort.gateway.observing.look_ups import LookUps, generation_of
from kohort.gateway.observing.observed_consumer_groups import ObservedConsumerGroups
from kohort.group.classic.group import ClassicGroup, Phase, stored, stored_member
from kohort.group.commands import (
    CheckJoin,
    Command,
    FormGeneration,
    Heartbeat,
    Join,
    Leave,
    OpenRound,
    Sync,
    TimerFired,
)
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.coordinator_settings import UNLIMITED, GroupSettings
from kohort.group.decisions import decide
from kohort.group.describe import DescribedConsumerGroup, DescribedGroup
from kohort.group.effects import Announce, Append, Arm, Effect, Note, ParkedKind, Reply, Then
from kohort.group.events import (
    Event,
    GenerationFormed,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    JoinRefused,
    MemberAdded,
    MemberIdIssued,
    MemberRemoved,
    PendingMemberDropped,
    RevocationsAwaited,
    StaticMemberReplaced,
    StoredMember,
    SyncReceived,
)
from kohort.group.group_timers import Timer, TimerKind
from kohort.group.join_refusals import REFUSALS
from kohort.group.results import JoinResult
from kohort.group.shard import Shard, apply
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.node.timers import Timers
from kohort.parking.limits import ASSUMED_SESSION_MS

UNKNOWN_REBALANCE_MS = 10_000
"""For which rebalance timeout one that no JoinGroup has shown is taken. It is short: who learns of a round too late for
the real one is evicted."""

_GATHERED = (Phase.STABLE, Phase.COMPLETING_REBALANCE)


class ObservedGroups:
    """The classic groups behind one gateway."""

    def __init__(
        self, settings: GroupSettings, signals: GroupSignals, timers: Timers, describes: DescribeRequests
    ) -> None:
        # What the cluster's brokers refuse, their answers show.
        self.shard = Shard(replace(settings, min_session_timeout_ms=0, max_session_timeout_ms=UNLIMITED))
        self.last_requests = LastRequests()
        self.look_ups = LookUps(self.shard, self.last_requests, describes)
        self.consumer = ObservedConsumerGroups(self.shard, signals, describes, self.look_ups.known, self._predict)
        self._signals = signals
        self._describes = describes
        self._timers = timers
        self._without_id: dict[str, list[Join]] = {}
        """By group, JoinGroups without an id that are not answered yet, and will be when the generation forms."""
        self._joining: dict[str, Join] = {}
        """By member id, JoinGroups that are not answered yet."""
        self._unformed: dict[str, tuple[Join, JoinResult]] = {}
        """By group, the first answer of a generation of which not all members are known yet."""
        self._revoking: dict[str, frozenset[str]] = {}
        """By group whose members wait for those that must revoke, which ones must, until the next generation forms."""
        self._handed_in: dict[str, tuple[Sync, str]] = {}
        """By group, the leader's SyncGroup that is not answered yet, and who assigned if not the leader."""

    def group(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group, or None where there is no such group."""
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # What other instances of the gateway know

    def generation_of(self, group_id: str) -> int | None:
        """Return the generation of a classic group, the epoch of a consumer group, or None where there is no group."""
        return generation_of(self.shard.groups.get(group_id))

    def generation_among(self, group_id: str, members: Collection[str]) -> int | None:
        """Return `generation_of` where one of these members is in it, else None: it may be that of a former group."""
        known = self.shard.groups.get(group_id)
        if known is None or known.members.keys().isdisjoint(members):
            return None
        return generation_of(known)

    def digest(self, group_id: str) -> int:
        """Return a checksum of what each member of a group has; 0 where there is no group."""
        group = self.shard.groups.get(group_id)
        if group is None:
            return 0
        state: list[object] = [self.generation_of(group_id)]
        if isinstance(group, ConsumerGroup):
            state += [(each, member.epoch, ids_of(member.assigned)) for each, member in sorted(group.members.items())]
        else:
            state += [group.phase, *sorted((each, member.assignment) for each, member in group.members.items())]
        return crc32(repr(state).encode())

    def live_elsewhere(
        self, group_id: str, generation: int | None, members: Sequence[str], now_ms: int, *, differs: bool
    ) -> None:
        """Members sent something through another instance, which has this generation, or epoch, of their group.

        A group that is not known here stays unknown; one that the other knows otherwise (`differs`) is looked up.
        """
        group = self.shard.groups.get(group_id)
        if group is None:
            return
        ahead = 0 if generation is None else generation - (generation_of(group) or 0)
        is_same = group.members.keys() >= set(members) and ahead <= 0
        for member_id in members:
            if isinstance(group, ConsumerGroup):
                self.consumer.member_seen(group_id, member_id, now_ms)
            else:
                self.last_requests.sent(group, member_id, now_ms)
        if differs:
            # The other may know it as a group of the other kind, and either of the two may be wrong.
            self.look_ups.ask_for_both(group_id, generation, now_ms)
        elif isinstance(group, ConsumerGroup) and not is_same:
            self._describes.request(group_id, None, now_ms)
        elif isinstance(group, ClassicGroup) and not is_same and generation is not None and ahead >= 0:
            self.look_ups.ask(group_id, generation, now_ms)

    # JoinGroup

    def join_sent(self, command: Join, now_ms: int) -> None:
        """A member sends JoinGroup. Who sends one without an id is known once it is answered."""
        if command.member_id:
            self._joining[command.member_id] = command
        group = self.group(command.group_id)
        if group is None:
            self.consumer.classic_sent(command, now_ms)
            if _is_let_in(command):
                self._without_id.setdefault(command.group_id, []).append(command)
            return
        self.last_requests.sent(group, command.member_id, now_ms)
        if self._is_new(group, command):
            self._without_id.setdefault(command.group_id, []).append(command)
            self._open(group, Cause(CauseKind.MEMBER_JOINED, now_ms, None, command.reason), now_ms)
            self._signals.group_changed(command.group_id, now_ms)
        elif command.member_id in group.members or command.member_id in group.pending:
            self._signals.member_joined(command.group_id, command.member_id)
            self._predict(decide(self.shard, command, now_ms), now_ms)
            self._signals.group_changed(command.group_id, now_ms)

    def _is_new(self, group: ClassicGroup, command: Join) -> bool:
        """Whether a sender without an id is let in at once: it is static, or need not come back with an id."""
        is_supported = group.is_supporting(command.protocol_type, command.protocols)
        return _is_let_in(command) and is_supported and command.instance_id not in group.static_members

    def join_abandoned(self, command: Join, now_ms: int) -> None:
        """The connection of a JoinGroup ended before its answer came."""
        self.consumer.classic_join_abandoned(command, now_ms)
        self._named(command, now_ms)

    def join_answered(self, command: Join, result: JoinResult, now_ms: int) -> None:
        """A JoinGroup is answered; `command` is as it was sent."""
        group_id = command.group_id
        if not result.error and not result.leader:
            self.consumer.classic_joined(command, result, now_ms)
            self._named(command, now_ms)
            return
        if result.error:
            self.consumer.classic_join_abandoned(command, now_ms)
        match result.error:
            case ErrorCode.NONE:
                self._joined(command, result, now_ms)
            case ErrorCode.MEMBER_ID_REQUIRED if self.consumer.group(group_id) is not None:
                pass  # a consumer group remembers no such id
            case ErrorCode.MEMBER_ID_REQUIRED:
                group = self._group_for(command, result.member_id, now_ms)
                if result.member_id not in group.pending | group.members.keys():
                    cause = Cause(CauseKind.MEMBER_ID_ISSUED, now_ms, result.member_id, command.reason)
                    self._apply(MemberIdIssued(group_id, result.member_id, cause), now_ms)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self._evicted(group_id, command.member_id, now_ms)
            case _:
                pass
        if result.error in REFUSALS:
            cause = Cause(CauseKind.JOIN_REFUSED, now_ms, command.member_id or None)
            self._apply(JoinRefused(group_id, result.error, command, cause), now_ms)
        self._named(command, now_ms)
        self._signals.group_changed(group_id, now_ms)

    def _joined(self, command: Join, result: JoinResult, now_ms: int) -> None:
        group = self._group_for(command, result.member_id, now_ms)
        is_awaited = result.member_id in group.awaiting_join
        self._admit(group, command, result, now_ms)
        if result.generation == group.generation and group.phase in _GATHERED:
            pass  # answered with the generation it has
        elif result.generation == group.generation:
            # Else the answer is of the round before, on a slow connection.
            if is_awaited:
                self._no_round(group, result.member_id, now_ms)
        elif result.members or not self._without_id.get(group.group_id):
            self._form(group, command, result, now_ms)
        else:
            # Who else is in it is known when those are answered that sent no id, or the leader.
            self._unformed[group.group_id] = command, result
        if result.members:
            self._reconcile(group, command, result, now_ms)

    def _no_round(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A member's JoinGroup is answered with the generation that its group has, though a round was predicted.

        Either there is none, or the JoinGroup was faster than the one of another member that opens it.
        """
        if group.awaiting_join == {member_id}:
            self._store(group, _assignments_of(group), now_ms)
        else:
            group.awaiting_join.discard(member_id)

    def _named(self, command: Join, now_ms: int) -> None:
        """A JoinGroup is answered; one without an id may have been the last of its group."""
        if self._joining.get(command.member_id) is command:
            del self._joining[command.member_id]
        without_id = self._without_id.get(command.group_id, [])
        if command in without_id:
            without_id.remove(command)
            if not without_id:
                del self._without_id[command.group_id]
                self._form_at_last(command.group_id, now_ms)

    def _form_at_last(self, group_id: str, now_ms: int) -> None:
        """Form the generation whose members were not all known when its first answer came."""
        group, unformed = self.group(group_id), self._unformed.pop(group_id, None)
        if group is not None and unformed is not None and unformed[1].generation != group.generation:
            self._form(group, *unformed, now_ms)

    def _admit(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """Let a member in that is new to the group, or new to us."""
        member_id = result.member_id
        self.last_requests.found(member_id, now_ms)
        if member_id in group.members:
            return
        old_id = group.static_members.get(command.instance_id) if command.instance_id is not None else None
        if old_id is not None and old_id != member_id:
            assert command.instance_id is not None, "only an instance is replaced"
            is_quiet = result.generation == group.generation
            cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, command.reason)
            self._apply(
                StaticMemberReplaced(group.group_id, member_id, command, cause, old_id, awaits_join=not is_quiet),
                now_ms,
            )
            if is_quiet:
                self._apply(_synced(group, _assignments_of(group), now_ms, cause), now_ms)
            return
        self._enter(group, member_id, command, now_ms)

    def _enter(self, group: ClassicGroup, member_id: str, command: Join, now_ms: int) -> None:
        cause = Cause(CauseKind.MEMBER_JOINED, now_ms, member_id, command.reason)
        self._apply(MemberAdded(group.group_id, member_id, command, cause), now_ms)
        self._open(group, cause, now_ms)

    def _form(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """The first answer of a generation: those who sent no JoinGroup are not in it, as far as we see them."""
        if not group.generation and not result.members:
            # The group may be no newer than this gateway, and the answer no news but to a static member that returns.
            self.look_ups.ask(group.group_id, result.generation, now_ms)
        if result.generation != group.generation + 1:
            # Generations are dense in a log, but some may have formed unseen.
            missed = _synced(group, _assignments_of(group), now_ms, Cause(CauseKind.NOT_OBSERVED, now_ms))
            self._apply(replace(missed, generation=result.generation - 1, is_synced=False), now_ms)
        self._open(group, Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)
        self._name(group, command, result, now_ms)
        for member_id in sorted(group.members.keys() - group.awaiting_join):
            member = group.members[member_id]
            if member.instance_id is None and member_id != result.leader:
                self._remove(group, member_id, self.last_requests.cause_of_absence(group, member_id, now_ms), now_ms)
        leader = result.member_id if _is_former_id(command, result.leader) else result.leader
        if leader not in group.members:
            offered = ((result.protocol_name or "", b""),)
            unseen = replace(
                command, member_id=leader, instance_id=None, client_id="", client_host="", protocols=offered
            )
            not_observed = Cause(CauseKind.NOT_OBSERVED, now_ms, leader)
            self._apply(MemberAdded(group.group_id, leader, unseen, not_observed), now_ms)
        cause = Cause(CauseKind.ALL_MEMBERS_JOINED, now_ms)
        formed = GenerationFormed(group.group_id, result.generation, result.protocol_name or "", leader, cause)
        self._apply(formed, now_ms)

    def _name(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """Let those in that sent no id, as far as the leader's list names them."""
        for member_id, instance_id, _ in result.members:
            for joining in self._without_id.get(group.group_id, ()):
                is_it = instance_id is not None and instance_id == joining.instance_id
                if is_it and joining is not command and member_id not in group.members:
                    named = JoinResult(ErrorCode.NONE, member_id, result.generation)
                    self._admit(group, joining, named, now_ms)

    def _reconcile(self, group: ClassicGroup, command: Join, result: JoinResult, now_ms: int) -> None:
        """Take the members in the leader's answer for the truth: a JoinGroup that is not answered came after it."""
        listed = {member_id: (instance_id, metadata) for member_id, instance_id, metadata in result.members}
        unlisted = group.members.keys() - listed.keys()
        late = sorted(unlisted & self._joining.keys())
        for member_id in sorted(unlisted.difference(late)):
            self._remove(group, member_id, Cause(CauseKind.NOT_OBSERVED, now_ms, member_id), now_ms)
        missing = listed.keys() - group.members.keys()
        if not missing and (not late or group.phase not in _GATHERED):
            return
        for member_id in sorted(missing & group.pending):
            dropped = Cause(CauseKind.NOT_OBSERVED, now_ms, member_id)
            self._apply(PendingMemberDropped(group.group_id, member_id, dropped), now_ms)
        timeouts = command.rebalance_timeout_ms, command.session_timeout_ms
        unseen = tuple(
            StoredMember(member_id, instance_id, "", "", *timeouts, metadata, b"")
            for member_id, (instance_id, metadata) in sorted(listed.items())
            if member_id in missing
        )
        known = _synced(group, _assignments_of(group), now_ms, Cause(CauseKind.NOT_OBSERVED, now_ms))
        is_synced = group.phase is Phase.STABLE
        members = (*(each for each in known.members if each.member_id not in late), *unseen)
        self._apply(replace(known, members=members, leader=result.leader, is_synced=is_synced), now_ms)
        for member_id in late:
            self._enter(group, member_id, self._joining[member_id], now_ms)

    # SyncGroup

    def sync_sent(self, command: Sync, now_ms: int, remark: str = "") -> None:
        """A member asks for its assignment; the leader hands all of them in. `remark` is why they are not its own."""
        self._instance_shown(command, now_ms)
        self._sent(command, now_ms)
        self._form_at_last(command.group_id, now_ms)
        group = self.group(command.group_id)
        if group is None:
            self.consumer.classic_sent(command, now_ms)
            return
        if command.member_id not in group.members or command.generation != group.generation:
            return
        if command.member_id == group.leader and group.phase is Phase.COMPLETING_REBALANCE:
            self._handed_in[command.group_id] = command, remark
        cause = Cause(CauseKind.MEMBER_SYNCED, now_ms, command.member_id)
        is_withheld = group.is_withholding and command.member_id not in group.revoking
        awaits_sync = group.phase is Phase.COMPLETING_REBALANCE or is_withheld
        self._apply(SyncReceived(command.group_id, command.member_id, awaits_sync, cause), now_ms)

    def sync_abandoned(self, command: Sync, now_ms: int) -> None:
        """The connection of a SyncGroup ended before its answer came: what a leader handed in may be stored."""
        group = self.group(command.group_id)
        if group is None or command.generation != group.generation or command.member_id != group.leader:
            return
        if group.phase is Phase.COMPLETING_REBALANCE:
            self.look_ups.doubt(group, now_ms)

    def sync_answered(self, command: Sync, error: ErrorCode, assignment: bytes, now_ms: int) -> bool:
        """A SyncGroup is answered: the first answer without an error shows that the assignment is stored.

        Return whether the answer should be withheld: members that must revoke will join again at once (KIP-429).
        """
        group = self.group(command.group_id)
        if group is None:
            self.consumer.classic_synced(command, error, assignment, now_ms)
        if group is None or command.member_id not in group.members:
            return False
        if error is ErrorCode.NONE and command.generation == group.generation:
            self.last_requests.named(group, command)
            self._signals.member_synced(command.member_id, now_ms)
            self.look_ups.doubt_round(group, now_ms)
            if group.phase is Phase.COMPLETING_REBALANCE:
                handed_in, remark = self._handed_in.pop(command.group_id, (None, ""))
                if handed_in is not None and handed_in.generation == group.generation:
                    self._predict(decide(self.shard, handed_in, now_ms), now_ms, remark)
                if group.phase is Phase.COMPLETING_REBALANCE:
                    self._store(group, dict(handed_in.assignments) if handed_in is not None else {}, now_ms)
            if group.members[command.member_id].assignment != assignment:
                # The leader of a group that was there before hands nothing in when it returns (KIP-814).
                self.look_ups.doubt(group, now_ms)
            group.members[command.member_id].assignment = assignment
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            if group.phase in _GATHERED and command.generation == group.generation:
                self._open(group, Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._evicted(command.group_id, command.member_id, now_ms)
        self._signals.group_changed(command.group_id, now_ms)
        is_assigned = error is ErrorCode.NONE and command.generation == group.generation
        return is_assigned and self._waits_for_others(group, command.member_id)

    def _waits_for_others(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether a member that has its assignment is to join again at once, when those that must revoke have."""
        if group.phase is Phase.STABLE:
            return group.is_withholding and member_id in group.awaiting_sync
        # The first of them was faster than this answer.
        revoking = self._revoking.get(group.group_id)
        return group.is_gathering and revoking is not None and member_id not in revoking | group.awaiting_join

    # Heartbeat and LeaveGroup

    def heartbeat_sent(self, command: Heartbeat, now_ms: int) -> None:
        """A member sends a heartbeat."""
        self._instance_shown(command, now_ms)
        self._sent(command, now_ms)
        self.consumer.classic_sent(command, now_ms)

    def heartbeat_answered(self, command: Heartbeat, error: ErrorCode, now_ms: int) -> None:
        """A heartbeat is answered by the coordinator."""
        group_id, member_id = command.group_id, command.member_id
        group, generation = self.group(group_id), command.generation if command.generation >= 0 else None
        if error is ErrorCode.NONE and generation is not None:
            self.look_ups.heartbeat_answered(group_id, generation)
        if group is None or member_id not in group.members:
            self.consumer.classic_answered(command, error, now_ms)
            known = self.shard.groups.get(group_id)
            if error is not ErrorCode.NONE:
                return
            if known is None or not known.members:
                self._describes.request(group_id, generation, now_ms)
            elif group is not None:
                self.look_ups.doubt(group, now_ms, generation)
            elif member_id not in known.members:
                self.look_ups.ask_for_both(group_id, generation, now_ms)
            return
        if error is ErrorCode.REBALANCE_IN_PROGRESS and group.phase in _GATHERED:
            self._open_unseen(group, now_ms)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._evicted(group_id, member_id, now_ms)
        else:
            if error is ErrorCode.NONE and generation is not None:
                self.look_ups.generation_shown(group_id, generation, now_ms)
            return
        self._signals.group_changed(group_id, now_ms)

    def look_up_begun(self, group_id: str, generation: int | None, now_ms: int) -> None:
        """A look-up of a group begins: of a classic one, or of a consumer group where there is no generation."""
        if generation is None:
            self.consumer.look_up_begun(group_id)
        else:
            self.look_ups.begun(group_id, now_ms)

    def described(self, group: DescribedGroup, generation: int, now_ms: int) -> None:
        """Take up a group that was there before, as its coordinator describes it when it is stable."""
        if not self.look_ups.is_believed(group, generation, now_ms):
            return
        known = self.shard.groups.get(group.group_id)
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        timeouts: dict[str, tuple[int, int]] = {}
        if isinstance(known, ConsumerGroup):
            self.consumer.forget(known, cause, now_ms)
        elif known is not None:
            timeouts = {
                each.member_id: (each.rebalance_timeout_ms, each.session_timeout_ms) for each in known.members.values()
            }
            for member_id in sorted(known.pending & {member.member_id for member in group.members}):
                apply(self.shard, PendingMemberDropped(group.group_id, member_id, cause))
        members = tuple(
            StoredMember(
                *each[:4], *timeouts.get(each.member_id, (UNKNOWN_REBALANCE_MS, ASSUMED_SESSION_MS)), *each[4:]
            )
            for each in sorted(group.members)
        )
        stored_then = generation, group.protocol_name, None, now_ms, members, cause
        apply(self.shard, GroupStored(group.group_id, group.protocol_type, *stored_then))
        for member in members:
            self.last_requests.found(member.member_id, now_ms)
        self._signals.event_applied(self.shard, GroupLoaded(group.group_id, cause), now_ms)

    def consumer_described(self, group: DescribedConsumerGroup, now_ms: int) -> None:
        """Correct a consumer group by what its coordinator describes; where it was taken for a classic one, too."""
        known = self.group(group.group_id)
        if known is not None:
            if not self.look_ups.resolve(group.group_id):
                return
            self.consumer.replace_classic(known, group.group_id, group.epoch, now_ms)
        self.consumer.described(group, now_ms)

    def leave_sent(self, command: Leave, now_ms: int) -> None:
        """A LeaveGroup is sent: what it causes may be seen before its answer, or its answer never."""
        if (group := self.group(command.group_id)) is not None:
            self.last_requests.leaving(group, command, now_ms)

    def left(self, command: Leave, now_ms: int) -> None:
        """Members have left: `command` has those whose leaving was answered without an error."""
        self.consumer.left(command, now_ms)
        group = self.group(command.group_id)
        if group is None:
            return
        self._predict(decide(self.shard, command, now_ms), now_ms)
        self._signals.group_changed(command.group_id, now_ms)

    def _sent(self, command: Heartbeat | Sync, now_ms: int) -> None:
        """A request that names a generation was sent; its sender need not be a member."""
        group = self.group(command.group_id)
        self.last_requests.sent(group, command.member_id, now_ms)
        self.last_requests.named(group, command)

    def _instance_shown(self, command: Heartbeat | Sync, now_ms: int) -> None:
        """A leader is first seen in others' answers, which do not contain its instance: its own requests do."""
        group = self.group(command.group_id)
        member = None if group is None else group.members.get(command.member_id)
        is_shown = member is not None and member.instance_id is None and command.instance_id is not None
        if group is None or not is_shown or group.phase not in _GATHERED:
            return
        known = _synced(group, _assignments_of(group), now_ms, Cause(CauseKind.NOT_OBSERVED, now_ms))
        known = replace(known, is_synced=group.phase is Phase.STABLE)
        others = tuple(each for each in known.members if each.member_id != command.member_id)
        corrected = tuple(
            each._replace(instance_id=command.instance_id) if each.member_id == command.member_id else each
            for each in known.members
        )
        for members in (others, corrected):
            apply(self.shard, replace(known, members=members))

    def _evicted(self, group_id: str, member_id: str, now_ms: int) -> None:
        """The coordinator does not know a member any more."""
        group = self.group(group_id)
        if group is None or member_id not in group.members:
            return
        cause = self.last_requests.cause_of_absence(group, member_id, now_ms)
        self._remove(group, member_id, cause, now_ms)
        self._open(group, cause, now_ms)

    def _open_unseen(self, group: ClassicGroup, now_ms: int) -> None:
        """A round is open that no request has shown: a member's session has ended, or a request went another way."""
        silent = [each for each in sorted(group.members) if self.last_requests.is_absent(group, each, now_ms)]
        causes = [self.last_requests.cause_of_absence(group, member_id, now_ms) for member_id in silent]
        for member_id, cause in zip(silent, causes, strict=True):
            self._remove(group, member_id, cause, now_ms)
        self._open(group, causes[0] if causes else Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)

    # What all of them share

    def _group_for(self, command: Join, member_id: str, now_ms: int) -> ClassicGroup:
        group = self.group(command.group_id)
        if group is None:
            self.consumer.downgraded(command, member_id, now_ms)
            group = self.group(command.group_id)
        if group is None:
            cause = Cause(CauseKind.GROUP_CREATED, now_ms, command.member_id or None)
            self._apply(GroupStored(command.group_id, None, 0, None, None, now_ms, (), cause), now_ms)
            group = self.group(command.group_id)
            assert group is not None, "it was just stored"
        return group

    def _predict(self, decision: Collection[Effect], now_ms: int, remark: str = "") -> None:
        """Let the events of a decision happen, and the round that it opens; not its answers, refusals and timers.

        `remark` is the detail behind the cause of an assignment that it stores.
        """
        for effect in decision:
            if isinstance(effect, Append) and isinstance(effect.event, GroupStored) and remark:
                self._apply(replace(effect.event, cause=replace(effect.event.cause, detail=remark)), now_ms)
            elif isinstance(effect, Note | Append) and not isinstance(effect.event, JoinRefused):
                self._apply(effect.event, now_ms)
            elif isinstance(effect, Reply) and effect.to is not None and effect.to.kind is ParkedKind.SYNC:
                error = effect.result.error
                self._signals.sync_released(effect.to.group_id, effect.to.member_id, error, now_ms)
            elif isinstance(effect, Arm) and effect.timer.kind is TimerKind.HOLD:
                self._timers.arm(effect.timer, effect.deadline_ms, partial(self._fire, effect.timer))
            elif isinstance(effect, Announce):
                self._signals.round_announced(effect, now_ms)
        for effect in decision:
            if isinstance(effect, Then) and self._happens_everywhere(effect.command):
                self._predict(decide(self.shard, effect.command, now_ms), now_ms)

    def _fire(self, timer: Timer, now_ms: int) -> None:
        self._predict(decide(self.shard, TimerFired(timer), now_ms), now_ms)
        self._signals.group_changed(timer.group_id, now_ms)

    def _happens_everywhere(self, command: Command) -> bool:
        """Whether what a decision asks for next happens at any coordinator, and at once."""
        if isinstance(command, CheckJoin | FormGeneration):
            return not self.shard.classic_group(command.group_id).members  # without members it becomes empty
        return isinstance(command, OpenRound)

    def _open(self, group: ClassicGroup, cause: Cause, now_ms: int) -> None:
        if group.phase is not Phase.PREPARING_REBALANCE:
            self._predict(decide(self.shard, OpenRound(group.group_id, cause), now_ms), now_ms)

    def _remove(self, group: ClassicGroup, member_id: str, cause: Cause, now_ms: int) -> None:
        member = group.members[member_id]
        is_timeout = cause.kind is CauseKind.SESSION_TIMEOUT
        silent_ms = self.last_requests.silence_ms(member_id, now_ms) if is_timeout else -1
        self._apply(
            MemberRemoved(group.group_id, member_id, member.instance_id, cause, silent_ms, member.session_timeout_ms),
            now_ms,
        )

    def _store(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
        self._apply(_synced(group, assignments, now_ms, Cause(CauseKind.LEADER_SYNCED, now_ms, group.leader)), now_ms)

    def _apply(self, event: Event, now_ms: int) -> None:
        apply(self.shard, event)
        if isinstance(event, MemberRemoved | StaticMemberReplaced):
            gone = event.member_id if isinstance(event, MemberRemoved) else event.old_member_id
            self.last_requests.removed(gone)
        elif isinstance(event, RevocationsAwaited) and event.is_holding:
            self._revoking[event.group_id] = frozenset(event.revoking)
        elif isinstance(event, GenerationFormed | GroupDeleted):
            self._revoking.pop(event.group_id, None)
        self.look_ups.event_applied(event)
        self._signals.event_applied(self.shard, event, now_ms)


def _is_let_in(command: Join) -> bool:
    """Whether a sender without an id is let in at once: it is static, or need not come back with an id."""
    return not command.member_id and (command.instance_id is not None or not command.is_two_step)


def _is_former_id(command: Join, leader: str) -> bool:
    """Whether a leader's id is one that the sender's instance had before: a returning leader is shown it (KIP-345)."""
    return command.instance_id is not None and leader.startswith(f"{command.instance_id}-")


def _synced(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int, cause: Cause) -> GroupStored:
    """Return the group's generation with these assignments, by member id."""
    members = (
        stored_member(member, group.protocol_name, assignments.get(member_id, b""))
        for member_id, member in group.members.items()
    )
    return stored(group, members, now_ms, cause)


def _assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    return {member_id: member.assignment for member_id, member in group.members.items()}
