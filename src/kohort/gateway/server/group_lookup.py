"""Groups of which a gateway does not know all: asked of their coordinator with a describe request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kohort.client.cluster.cluster import Cluster
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.group.classic.group import Phase
from kohort.group.consumer.group import GroupState
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup, DescribedMember
from kohort.group.events import ClassicPhase
from kohort.model.assignment import NOTHING, id_partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

log = logging.getLogger("kohort.gateway")

MOST_WAITING = 10_000
"""How many groups wait to be looked up; more are looked up when they are seen again."""

CLASSIC_MEMBER = 0
"""The type of a member that speaks the classic protocol, in ConsumerGroupDescribe."""


class GroupLookup:
    """Looks groups up one after the other. `run` is its task; DescribeGroups needs the right to describe the group."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._waiting: asyncio.Queue[tuple[str, int | None]] = asyncio.Queue(MOST_WAITING)
        self._is_warned = False

    def look_up(self, group_id: str, generation: int | None) -> None:
        """Ask for a group of this generation soon; for a consumer group without one."""
        if not self._waiting.full():
            self._waiting.put_nowait((group_id, generation))

    async def run(self, groups: ObservedGroups) -> None:
        """Look up what waits, and have `groups` take it up, until it is cancelled."""
        while True:
            group_id, generation = await self._waiting.get()
            try:
                await self._describe(groups, group_id, generation)
            except (KafkaError, OSError, TimeoutError) as error:
                is_unknown_request = isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION
                if is_unknown_request and generation is None:
                    continue  # coordinators without ConsumerGroupDescribe have no consumer groups
                if not self._is_warned:
                    self._is_warned = True
                    log.warning(
                        "group %r cannot be described; it is known from its next rebalance on: %s", group_id, error
                    )

    async def _describe(self, groups: ObservedGroups, group_id: str, generation: int | None) -> None:
        call, now_ms = self._cluster.call_coordinator, self._now_ms
        if generation is not None:
            classic: DescribeGroupsResponse = await call(
                group_id, DescribeGroupsRequest(groups=[group_id]), lambda found: found.groups[0].error_code
            )
            found = classic.groups[0]
            if not found.error_code and found.group_state in tuple(Phase):
                groups.described(_classic(found), generation, now_ms())
            return
        consumer: ConsumerGroupDescribeResponse = await call(
            group_id, ConsumerGroupDescribeRequest(group_ids=[group_id]), lambda found: found.groups[0].error_code
        )
        group = consumer.groups[0]
        if not group.error_code and group.group_state in tuple(GroupState):
            groups.consumer_described(_consumer(group), now_ms())


def _classic(group: DescribeGroupsResponse.Group) -> DescribedGroup:
    members = tuple(
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            bytes(member.member_metadata),
            bytes(member.member_assignment),
        )
        for member in group.members
    )
    return DescribedGroup(group.group_id, Phase(group.group_state), group.protocol_type, group.protocol_data, members)


def _consumer(group: ConsumerGroupDescribeResponse.Group) -> DescribedConsumerGroup:
    members = tuple(
        DescribedConsumerMember(
            member.member_id,
            member.instance_id,
            member.rack_id,
            member.member_epoch,
            member.client_id,
            member.client_host,
            tuple(sorted(member.subscribed_topic_names)),
            member.subscribed_topic_regex or "",
            id_partitions((each.topic_id, each.partitions) for each in member.assignment.topic_partitions),
            id_partitions((each.topic_id, each.partitions) for each in member.target_assignment.topic_partitions),
            NOTHING,
            ClassicPhase.STABLE if member.member_type == CLASSIC_MEMBER else None,
        )
        for member in group.members
    )
    state = GroupState(group.group_state)
    return DescribedConsumerGroup(
        group.group_id, state, group.group_epoch, group.assignment_epoch, group.assignor_name, members
    )
