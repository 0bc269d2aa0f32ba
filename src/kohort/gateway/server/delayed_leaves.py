"""LeaveGroups of static members that did not come back in time, which the gateway sends itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kohort.client import Cluster
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.group.commands import Leave
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.printable import printable
from kohort.wire.messages import LeaveGroupRequest, LeaveGroupResponse

log = logging.getLogger("kohort.gateway")


class DelayedLeaves:
    """Sends them one after the other. `run` is its task; LeaveGroup needs the right to read the group."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int], changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._changed = changed
        self._waiting: asyncio.Queue[Leave] = asyncio.Queue()

    def leave(self, command: Leave) -> None:
        """Send it soon."""
        self._waiting.put_nowait(command)

    async def run(self, groups: ObservedGroups) -> None:
        """Send what waits, and have `groups` take it up, until it is cancelled."""
        while True:
            command = await self._waiting.get()
            try:
                await self._send(groups, command)
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning(
                    "group %s: member %s cannot leave, and its session timeout ends it: %s; the gateway needs Read on"
                    " the group",
                    printable(command.group_id),
                    printable(command.members[0].member_id),
                    error,
                )

    async def _send(self, groups: ObservedGroups, command: Leave) -> None:
        members = [
            LeaveGroupRequest.Member(member_id=each.member_id, group_instance_id=each.instance_id, reason=each.reason)
            for each in command.members
        ]
        request = LeaveGroupRequest(group_id=command.group_id, members=members)
        answer: LeaveGroupResponse = await self._cluster.call_coordinator(
            command.group_id, request, lambda found: found.error_code
        )
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        # A member that is not there any more, or is fenced, has come back by another way, or its session has ended.
        if all(not each.error_code for each in answer.members):
            groups.left(command, self._now_ms())
            self._changed()
