"""Classic groups of another coordinator, as the traffic of their members shows them.

A group is the same state as in our own coordinator, `kohort.group`, changed by the same events. Two sources make them:

- A request *predicts*: of our coordinator's decision about it the events are applied, not its answers and timers.
- An answer *proves*: the member ids, the generation, its leader and its members, errors. Where it contradicts what was
  predicted, the group is corrected.

What was not seen has the cause `not_observed`. `observed_joins` is the part about JoinGroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kohort.gateway.observing.epoch_heartbeats import EpochHeartbeat, EpochResult
from kohort.gateway.observing.group_changes import GroupChanges, assignments_of, synced
from kohort.gateway.observing.group_knowledge import GATHERED, generation_of
from kohort.gateway.observing.group_signals import GroupSignals
from kohort.gateway.observing.look_ups import DescribeRequests
from kohort.gateway.observing.observed_consumer_groups import ObservedConsumerGroups
from kohort.gateway.observing.observed_joins import ObservedJoins
from kohort.gateway.observing.observed_streams_groups import ObservedStreamsGroups
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import ConsumerHeartbeat, Heartbeat, Leave, Sync
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.decisions import decide
from kohort.group.describe import DescribedConsumerGroup, DescribedGroup
from kohort.group.events import (
    GroupLoaded,
    GroupStored,
    PendingMemberDropped,
    StoredMember,
    SyncReceived,
)
from kohort.group.group_timers import hold_timer
from kohort.group.shard import apply
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.node.timers import Timers
from kohort.parking.limits import ASSUMED_SESSION_MS

UNKNOWN_REBALANCE_MS = 10_000
"""For which rebalance timeout one that no JoinGroup has shown is taken. It is short: who learns of a round too late for
the real one is evicted."""


class ObservedGroups:
    """The groups behind one gateway: the classic ones, and `consumer` and `streams` for those with member epochs."""

    def __init__(
        self, settings: GroupSettings, signals: GroupSignals, timers: Timers, describes: DescribeRequests
    ) -> None:
        self._changes = GroupChanges(settings, signals, timers, describes)
        self._describes = describes
        self.shard = self._changes.shard
        self.last_requests = self._changes.last_requests
        self.look_ups = self._changes.look_ups
        self.group = self._changes.group
        """Returns a classic group, or None where there is no such group."""
        self.consumer = ObservedConsumerGroups(self._changes, describes)
        self.streams = ObservedStreamsGroups(self._changes, describes)
        self.joins = ObservedJoins(self._changes, self.consumer)
        self._handed_in: dict[str, tuple[Sync, str]] = {}
        """By group, the leader's SyncGroup that is not answered yet, and who assigned if not the leader."""

    def generation_of(self, group_id: str) -> int | None:
        """Return the generation of a classic group, the epoch of another one, or None where there is no group."""
        return generation_of(self.shard.groups.get(group_id))

    # What other instances of the gateway know

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
            if isinstance(group, ClassicGroup):
                self.last_requests.sent(group, member_id, now_ms)
            elif (sender := self._changes.epoch_senders.get((group_id, member_id))) is not None:
                sender.sent_ms = now_ms
        if differs:
            # The other may know it as a group of the other kind, and either of the two may be wrong.
            self.look_ups.ask_for_both(group_id, generation, now_ms)
        elif not isinstance(group, ClassicGroup) and not is_same:
            self._describes.request(group_id, None, now_ms)
        elif not is_same and generation is not None and ahead >= 0:
            self.look_ups.ask(group_id, generation, now_ms)

    def came_here(self, group_id: str, now_ms: int) -> None:
        """A member that was behind another instance sends here: what that one alone had seen may be lost with it.

        A heartbeat with an epoch that is answered shows the epoch, and no assignment.
        """
        if isinstance(self.shard.groups.get(group_id), ConsumerGroup | StreamsGroup):
            self._describes.request(group_id, None, now_ms)

    def epoch_heartbeat_answered(self, heartbeat: EpochHeartbeat, result: EpochResult, now_ms: int) -> None:
        """A heartbeat with a member epoch is answered; of a share group nothing is observed."""
        if isinstance(heartbeat, ConsumerHeartbeat):
            self.consumer.heartbeat_answered(heartbeat, result, now_ms)
        elif isinstance(heartbeat, StreamsHeartbeat):
            self.streams.heartbeat_answered(heartbeat, result, now_ms)

    # SyncGroup

    def sync_sent(self, command: Sync, now_ms: int, remark: str = "") -> None:
        """A member asks for its assignment; the leader hands all of them in. `remark` is why they are not its own."""
        self._instance_shown(command, now_ms)
        self._sent(command, now_ms)
        self.joins.form_at_last(command.group_id, now_ms)
        group = self.group(command.group_id)
        if group is None:
            self.consumer.classic_sent(command, now_ms)
            return
        if command.member_id not in group.members or command.generation != group.generation:
            return
        if command.member_id == group.leader and group.phase is Phase.COMPLETING_REBALANCE:
            self._handed_in[command.group_id] = command, remark
        cause = Cause(CauseKind.MEMBER_SYNCED, now_ms, command.member_id)
        awaits_sync = group.phase is Phase.COMPLETING_REBALANCE or group.is_withheld(command.member_id)
        self._changes.apply(SyncReceived(command.group_id, command.member_id, awaits_sync, cause), now_ms)

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
            self._changes.signals.member_synced(command.member_id, now_ms)
            self.look_ups.doubt_round(group, now_ms)
            if group.phase is Phase.COMPLETING_REBALANCE:
                handed_in, remark = self._handed_in.pop(command.group_id, (None, ""))
                if handed_in is not None and handed_in.generation == group.generation:
                    self._changes.predict(decide(self.shard, handed_in, now_ms), now_ms, remark)
                if group.phase is Phase.COMPLETING_REBALANCE:
                    self._changes.store(group, dict(handed_in.assignments) if handed_in is not None else {}, now_ms)
            if group.members[command.member_id].assignment != assignment:
                # The leader of a group that was there before hands nothing in when it returns (KIP-814).
                self.look_ups.doubt(group, now_ms)
            group.members[command.member_id].assignment = assignment
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            if group.phase in GATHERED and command.generation == group.generation:
                self._open_unseen(group, now_ms)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._changes.evicted(command.group_id, command.member_id, now_ms)
        self._changes.signals.group_changed(command.group_id, now_ms)
        is_assigned = error is ErrorCode.NONE and command.generation == group.generation
        return is_assigned and self._waits_for_others(group, command.member_id)

    def _waits_for_others(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether a member that has its assignment is to join again at once, when those that must revoke have."""
        if group.phase is Phase.STABLE:
            return group.is_withholding and member_id in group.awaiting_sync
        # The first of them was faster than this answer.
        revoking = self._changes.revoking.get(group.group_id)
        return group.is_gathering and revoking is not None and member_id not in revoking | group.awaiting_join

    def revoke_now(self, group_id: str, now_ms: int) -> None:
        """A program waits behind members that would revoke later: they are to revoke now."""
        group = self.group(group_id)
        if group is not None and group.is_revoking_later:
            self._changes.fire(hold_timer(group_id, group.generation), now_ms)

    # Heartbeat and LeaveGroup

    def heartbeat_sent(self, command: Heartbeat, now_ms: int) -> None:
        """A member sends a heartbeat."""
        self._instance_shown(command, now_ms)
        self._sent(command, now_ms)
        self.last_requests.heartbeat_sent(command.member_id, now_ms)
        self.consumer.classic_sent(command, now_ms)

    def heartbeat_answered(self, command: Heartbeat, error: ErrorCode, now_ms: int) -> None:
        """A heartbeat is answered by the coordinator."""
        group_id, member_id = command.group_id, command.member_id
        self.last_requests.heartbeat_answered(member_id)
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
        if error is ErrorCode.REBALANCE_IN_PROGRESS and group.phase in GATHERED:
            self._open_unseen(group, now_ms)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._changes.evicted(group_id, member_id, now_ms)
        else:
            if error is ErrorCode.NONE and generation is not None:
                self.look_ups.generation_shown(group_id, generation, now_ms)
            return
        self._changes.signals.group_changed(group_id, now_ms)

    def look_up_begun(self, group_id: str, generation: int | None, now_ms: int) -> None:
        """A look-up of a group begins: of a classic one, or of one with member epochs where there is no generation."""
        if generation is not None:
            self.look_ups.begun(group_id, now_ms)
        elif (known := self.look_ups.known.get(group_id)) is not None and known.changes:
            known.asked_at = known.changes

    def described(self, group: DescribedGroup, generation: int, now_ms: int) -> None:
        """Take up a group that was there before, as its coordinator describes it when it is stable."""
        if not self.look_ups.is_believed(group, generation, now_ms):
            return
        known = self.shard.groups.get(group.group_id)
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        timeouts: dict[str, tuple[int, int]] = {}
        if isinstance(known, ConsumerGroup | StreamsGroup):
            self.consumer.forget(known, cause, now_ms)
        elif isinstance(known, ClassicGroup):
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
        self._changes.signals.event_applied(GroupLoaded(group.group_id, cause), now_ms)

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
        self._changes.predict(decide(self.shard, command, now_ms), now_ms)
        self._changes.signals.group_changed(command.group_id, now_ms)

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
        if group is None or not is_shown or group.phase not in GATHERED:
            return
        known = synced(group, assignments_of(group), now_ms, Cause(CauseKind.NOT_OBSERVED, now_ms))
        known = replace(known, is_synced=group.phase is Phase.STABLE)
        others = tuple(each for each in known.members if each.member_id != command.member_id)
        corrected = tuple(
            each._replace(instance_id=command.instance_id) if each.member_id == command.member_id else each
            for each in known.members
        )
        for members in (others, corrected):
            apply(self.shard, replace(known, members=members))

    def _open_unseen(self, group: ClassicGroup, now_ms: int) -> None:
        """A round is open that no request has shown: a member's session has ended, or a request went another way."""
        absent = [each for each in sorted(group.members) if self.last_requests.is_absent(group, each, now_ms)]
        causes = [self.last_requests.cause_of_absence(group, member_id, now_ms) for member_id in absent]
        for member_id, cause in zip(absent, causes, strict=True):
            self._changes.remove(group, member_id, cause, now_ms)
        self._changes.open_round(group, causes[0] if causes else Cause(CauseKind.NOT_OBSERVED, now_ms), now_ms)
        self.joins.repeat_unanswered(group, now_ms)
