"""Groups that were there before the gateway: asked of their coordinator with DescribeGroups, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kohort.client.cluster.cluster import Cluster
from kohort.gateway.core.observed_groups import ObservedGroups
from kohort.group.classic.group import Phase
from kohort.group.events import StoredMember
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse

log = logging.getLogger("kohort.gateway")

MOST_WAITING = 10_000
"""How many groups wait to be looked up; more are looked up when they are seen again."""

TIMEOUT_MS = 45_000
"""The session and the rebalance timeout that are assumed, since DescribeGroups does not show them: a client's default
session timeout."""


class GroupLookup:
    """Looks groups up one after the other. `run` is its task; DescribeGroups needs the right to describe the group."""

    def __init__(self, cluster: Cluster, groups: Callable[[], ObservedGroups], now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._groups = groups
        self._now_ms = now_ms
        self._waiting: asyncio.Queue[tuple[str, int]] = asyncio.Queue(MOST_WAITING)
        self._is_warned = False

    def look_up(self, group_id: str, generation: int) -> None:
        """Ask for a group of this generation soon."""
        if not self._waiting.full():
            self._waiting.put_nowait((group_id, generation))

    async def run(self) -> None:
        """Look up what waits, until it is cancelled."""
        while True:
            group_id, generation = await self._waiting.get()
            try:
                await self._describe(group_id, generation)
            except (KafkaError, OSError, TimeoutError) as error:
                if not self._is_warned:
                    self._is_warned = True
                    log.warning(
                        "group %r cannot be described; it is known from its next rebalance on: %s", group_id, error
                    )

    async def _describe(self, group_id: str, generation: int) -> None:
        response: DescribeGroupsResponse = await self._cluster.call_coordinator(
            group_id, DescribeGroupsRequest(groups=[group_id]), lambda found: found.groups[0].error_code
        )
        group = response.groups[0]
        if group.error_code != ErrorCode.NONE or group.group_state != Phase.STABLE:
            return
        members = tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                TIMEOUT_MS,
                TIMEOUT_MS,
                bytes(member.member_metadata),
                bytes(member.member_assignment),
            )
            for member in sorted(group.members, key=lambda each: each.member_id)
        )
        protocol_type, protocol = group.protocol_type, group.protocol_data
        self._groups().described(group_id, generation, protocol_type, protocol, members, self._now_ms())
