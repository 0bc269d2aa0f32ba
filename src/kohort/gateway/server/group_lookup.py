"""Groups of which a gateway does not know all: asked of their coordinator with a describe request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kohort.client.cluster.cluster import Cluster
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.group.classic.group import Phase
from kohort.group.consumer.group import GroupState
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup, DescribedMember
from kohort.group.events import ClassicPhase
from kohort.group.streams.events import UserEndpoint
from kohort.group.streams.group import StreamsGroup, StreamsGroupState, StreamsMember
from kohort.group.streams.topology import StreamsTopology
from kohort.model.assignment import NOTHING, id_partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.streams_tasks import AssignedTasks, TasksByRole
from kohort.node.apis.k88_89_93_streams_groups import owned_tasks
from kohort.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
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
        """Ask for a group of this generation soon; without one for a consumer or streams group, as it is known."""
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
                    continue  # coordinators without the API have no such groups
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
        if groups.streams.group(group_id) is not None:
            streams: StreamsGroupDescribeResponse = await call(
                group_id, StreamsGroupDescribeRequest(group_ids=[group_id]), lambda found: found.groups[0].error_code
            )
            if not streams.groups[0].error_code and streams.groups[0].group_state in tuple(StreamsGroupState):
                groups.streams.described(described_streams_group(streams.groups[0]), now_ms())
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


def described_streams_group(group: StreamsGroupDescribeResponse.Group) -> StreamsGroup:
    """Return a streams group as it is described, with the epoch of its topology and not the rest."""
    topology = None if group.topology is None else StreamsTopology(group.topology.epoch)
    is_ready = topology is not None and group.group_state != StreamsGroupState.NOT_READY
    return StreamsGroup(
        group.group_id,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        validated_epoch=topology.epoch if topology is not None and is_ready else -1,
        members={each.member_id: _streams_member(group, each) for each in group.members},
    )


def _streams_member(
    group: StreamsGroupDescribeResponse.Group, member: StreamsGroupDescribeResponse.Group.Member
) -> StreamsMember:
    """Return a member as it is described; what it has beyond a target that it has not reached it must give back."""
    endpoint = member.user_endpoint
    owned, target = _tasks(member.assignment), _tasks(member.target_assignment)
    stays = owned
    if member.member_epoch < group.assignment_epoch:
        stays = TasksByRole(*(some & other for some, other in zip(owned, target, strict=True)))
    back = TasksByRole(*(some - other for some, other in zip(owned, stays, strict=True)))
    return StreamsMember(
        group.group_id,
        member.member_id,
        True,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=tuple(sorted((each.key, each.value) for each in member.client_tags)),
        epoch=member.member_epoch,
        assigned=AssignedTasks(dict.fromkeys(stays.active, member.member_epoch), stays.standby, stays.warmup),
        pending=AssignedTasks(dict.fromkeys(back.active, member.member_epoch), back.standby, back.warmup),
        target=target,
    )


def _tasks(found: Any) -> TasksByRole:
    return TasksByRole(*map(owned_tasks, (found.active_tasks, found.standby_tasks, found.warmup_tasks)))
