"""Streams groups (KIP-1071) of another coordinator, as the heartbeats of their members show them.

What members own are tasks with a role. Until the first target of a group is computed its members have the epoch of an
empty group. Reports of the copies' lags are taken as our coordinator takes them: one that calls for a new target is the
cause of the epoch that its own answer shows, unless another request is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kohort.gateway.observing.epoch_heartbeats import EpochResult
from kohort.gateway.observing.group_changes import GroupChanges
from kohort.gateway.observing.look_ups import DescribeRequests
from kohort.gateway.observing.observed_epoch_groups import ObservedEpochGroups, Owned
from kohort.group.commands import Join
from kohort.group.events import ClassicPhase, Event, MemberState
from kohort.group.shard import apply
from kohort.group.streams.events import (
    StreamsGroupStored,
    StreamsMemberAssignmentStored,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetStored,
    StreamsTargetStored,
    StreamsTopologyStored,
)
from kohort.group.streams.exit import next_epoch
from kohort.group.streams.group import FIRST_EPOCH, PLACEMENT, STORED, StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from kohort.group.streams.join import offsets_reported, streams_member_record
from kohort.group.streams.topology import StatusCode, StreamsTopology
from kohort.model.cause import Cause, CauseKind
from kohort.model.streams_tasks import AssignedTasks, TaskRole, TasksByRole

_STATES = {
    MemberState.STABLE: StreamsMemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS: StreamsMemberState.UNREVOKED_TASKS,
    MemberState.UNRELEASED_PARTITIONS: StreamsMemberState.UNRELEASED_TASKS,
}
_SHOWN = ("instance_id", "endpoint", *PLACEMENT)
"""What of a member takes the epoch on; a look-up shows its client as that of the gateway."""
_LACKING = (
    StatusCode.MISSING_SOURCE_TOPICS,
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
    StatusCode.MISSING_INTERNAL_TOPICS,
)


class ObservedStreamsGroups(ObservedEpochGroups[StreamsGroup, StreamsMember, StreamsHeartbeat]):
    """The streams groups of one shard."""

    def __init__(self, changes: GroupChanges, describes: DescribeRequests) -> None:
        super().__init__(changes, describes, StreamsGroup, StreamsMember)

    def _create(self, group_id: str, cause: Cause, _now_ms: int) -> None:
        self._store(StreamsGroupStored(group_id, FIRST_EPOCH, 0, -1, (), cause))

    def _record(
        self,
        group: StreamsGroup,
        before: StreamsMember,
        member_id: str,
        command: StreamsHeartbeat | Join,
        cause: Cause,
    ) -> StreamsMemberStored:
        assert isinstance(command, StreamsHeartbeat), "a streams group has no classic members"
        return replace(streams_member_record(group, before, command, cause), member_id=member_id)

    def _change_of(
        self, _group: StreamsGroup, before: StreamsMember, record: StreamsMemberStored, cause: Cause
    ) -> Cause | None:
        return None if before.has_stored(record, PLACEMENT if record.instance_id is not None else _SHOWN) else cause

    def _session_timeout_ms(self, group: StreamsGroup, _member: StreamsMember) -> int:
        return self._shard.settings.streams_config_of(group.group_id).session_timeout_ms

    def _owned(self, found: AssignedTasks | TasksByRole | None) -> Owned:
        by_role = zip(TaskRole, found or TasksByRole(), strict=True)
        return frozenset((role, task) for role, tasks in by_role for task in tasks)

    def _assigned(self, member: StreamsMember) -> tuple[Owned, Owned]:
        return self._owned(member.assigned), self._owned(member.pending)

    def _to_give_back(self, before: Owned, granted: Owned) -> Owned:
        """A copy that stays in another role is not given back."""
        stays = {task for _, task in granted}
        return frozenset(
            (role, task) for role, task in before - granted if role is TaskRole.ACTIVE or task not in stays
        )

    def _assignment(
        self,
        group_id: str,
        member: tuple[str, int, int],
        state: MemberState,
        granted: Owned,
        pending: Owned,
        cause: Cause,
        _phase: ClassicPhase = ClassicPhase.STABLE,
    ) -> StreamsMemberAssignmentStored:
        _, epoch, before = member
        owned = _by_role(granted, epoch), _by_role(pending, before)
        return StreamsMemberAssignmentStored(group_id, *member, _STATES[state], *owned, cause)

    def _epochs(
        self, group: StreamsGroup, epoch: int, cause: Cause, now_ms: int
    ) -> tuple[StreamsGroupStored, StreamsTargetStored]:
        target = StreamsTargetStored(group.group_id, epoch, now_ms, cause)
        return replace(next_epoch(group, cause), epoch=epoch), target

    def _report(
        self, group: StreamsGroup, member: StreamsMember, command: StreamsHeartbeat, result: EpochResult, now_ms: int
    ) -> Cause:
        """Take the topology, whether its topics are all there, and how far copies are."""
        assert isinstance(result, StreamsHeartbeatResult), "the answer to a heartbeat is of its kind"
        topology, is_valid = group.topology, not any(code in _LACKING for code, _ in result.statuses)
        if command.topology is not None and (topology is None or len(group.members) == 1):
            topology = command.topology
        if topology is not None and (topology is not group.topology or group.is_validated is not is_valid):
            self._topology_shown(group, topology, now_ms, is_valid=is_valid)
        unexplained = Cause(CauseKind.NOT_OBSERVED, now_ms)
        if command.offsets is None and command.end_offsets is None:
            return unexplained
        bounds = result.acceptable_recovery_lag, result.task_offset_interval_ms
        apply(
            self._shard, offsets_reported(member, command, unexplained, *bounds, member.assigned.roles().__contains__)
        )
        if (reason := member.retarget_reason) is None:
            return unexplained
        cause = Cause(CauseKind.STANDBY_LAG, now_ms, member.member_id, reason)
        if any(code is StatusCode.ASSIGNMENT_DELAYED for code, _ in result.statuses):
            self._about_to_grow(group.group_id, cause)  # the group's epoch is ahead of its target
        return cause

    def _topology_shown(self, group: StreamsGroup, topology: StreamsTopology, now_ms: int, *, is_valid: bool) -> None:
        """A group has a topology, whose topics are all there or not."""
        cause = Cause(CauseKind.NOT_OBSERVED, now_ms)
        if topology != group.topology:
            self._store(StreamsTopologyStored(group.group_id, topology, cause))
        validated = topology.epoch if is_valid else -1
        if validated != group.validated_epoch:
            as_it_is = replace(next_epoch(group, group.epoch_cause or cause), epoch=group.epoch)
            self._store(replace(as_it_is, validated_epoch=validated))

    def described(self, found: StreamsGroup, now_ms: int) -> None:
        """Correct a group by what its coordinator describes."""
        self._corrected(found.group_id, found.epoch, found.assignment_epoch, found.members, now_ms)
        known, topology = self.group(found.group_id), found.topology
        if known is not None and known.topology is None and topology is not None:
            self._topology_shown(known, topology, now_ms, is_valid=found.is_validated)

    def _described_member(
        self, group: StreamsGroup, before: StreamsMember, shown: StreamsMember, cause: Cause
    ) -> Iterable[Event]:
        group_id, member_id = group.group_id, shown.member_id
        fields = {name: getattr(shown, name) for name in STORED}
        record = StreamsMemberStored(group_id, member_id, cause=cause, **fields)
        if shown.rebalance_timeout_ms == -1:
            record = replace(record, rebalance_timeout_ms=before.rebalance_timeout_ms)
        yield record
        yield StreamsMemberTargetStored(group_id, member_id, shown.target, cause)
        state = MemberState.UNREVOKED_PARTITIONS if any(shown.pending) else MemberState.STABLE
        member = member_id, shown.epoch, before.previous_epoch
        yield self._assignment(group_id, member, state, *self._assigned(shown), cause)


def _by_role(owned: Owned, epoch: int) -> AssignedTasks:
    active, standby, warmup = (frozenset(task for each, task in owned if each is role) for role in TaskRole)
    return AssignedTasks(dict.fromkeys(active, epoch), standby, warmup)
