"""Rules of streams groups as they would be wrong: each a context in which production code has the bug."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any

from tests.quality.replacing import replaced

from kohort.assign.server import streams_warmups
from kohort.assign.server.streams_warmups import WarmupLimits, WarmupMember
from kohort.group.effects import Effects, Reply
from kohort.group.streams import join as streams_join
from kohort.group.streams import machine as streams_machine
from kohort.group.streams import reconcile as streams_reconcile
from kohort.group.streams.events import StreamsMemberStored
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import Task, TaskRole, TasksByRole

Mutation = AbstractContextManager[None]


def own_tasks_count() -> Mutation:
    """What a member has just given back counts as another member's."""

    def is_free(group: StreamsGroup, member: StreamsMember, task: Task, *, is_active: bool = False) -> bool:
        for holder_id, role in group.holders.get(task, {}).items():
            if (is_active and role is TaskRole.ACTIVE) or group.members[holder_id].process_id == member.process_id:
                return False
        return True

    return replaced(streams_reconcile, "_is_free", is_free)


def granted_before_it_is_released() -> Mutation:
    """An active task is free although another member has not given it back."""
    right = streams_reconcile._is_free

    def is_free(group: StreamsGroup, member: StreamsMember, task: Task, *, is_active: bool = False) -> bool:
        others = copy(group)
        others.holders = {
            each: {member_id: role for member_id, role in roles.items() if role is not TaskRole.ACTIVE}
            for each, roles in group.holders.items()
        }
        return right(others, member, task, is_active=is_active)

    return replaced(streams_reconcile, "_is_free", is_free)


def warm_at_once() -> Mutation:
    """A warm-up of which no lag was reported counts as one that has caught up."""
    right = streams_warmups.refine

    def refine(
        target: Mapping[str, TasksByRole],
        members: Mapping[str, WarmupMember],
        stateful: Collection[str],
        limits: WarmupLimits,
    ) -> dict[str, TasksByRole]:
        hasty = {
            member_id: member._replace(lags={**dict.fromkeys(member.warmup, 0), **member.lags})
            for member_id, member in members.items()
        }
        return right(target, hasty, stateful, limits)

    return replaced(streams_warmups, "refine", refine)


def former_process() -> Mutation:
    """A static member that comes back from another process counts as one of the process before."""
    right = streams_join.streams_member_record

    def member_record(
        group: StreamsGroup, before: StreamsMember, command: StreamsHeartbeat, cause: Any
    ) -> StreamsMemberStored:
        found = right(group, before, command, cause)
        return replace(found, process_id=before.process_id or found.process_id)

    return replaced(streams_join, "streams_member_record", member_record)


def beside_the_active_task() -> Mutation:
    """A copy is free wherever no other member of the process has one: the active task beside it does not count."""
    right = streams_reconcile._is_free

    def is_free(group: StreamsGroup, member: StreamsMember, task: Task, *, is_active: bool = False) -> bool:
        return not is_active or right(group, member, task, is_active=is_active)

    return replaced(streams_reconcile, "_is_free", is_free)


def heartbeat_after_eviction() -> Mutation:
    """The heartbeat of an unknown member succeeds."""
    right = streams_machine.decide_heartbeat

    def decide(group: StreamsGroup, command: StreamsHeartbeat, now_ms: int, settings: Any) -> Effects:
        if command.member_id not in group.members and command.member_epoch > 0 and command.instance_id is None:
            result = StreamsHeartbeatResult(ErrorCode.NONE, None, command.member_id, command.member_epoch)
            result.heartbeat_interval_ms = settings.streams_config_of(group.group_id).heartbeat_interval_ms
            return [Reply(result)]
        return right(group, command, now_ms, settings)

    return replaced(streams_machine, "decide_heartbeat", decide)
