"""What an operator asks about groups; the half of `Admin` that talks to coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kohort.client.admin.group_descriptions import GroupDescription, GroupListing, read_classic, read_consumer
from kohort.client.arguments import check_text, texts, topic_partitions
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, commit_offsets, fetch_committed
from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.offset_messages import committable
from kohort.client.cluster.retry import retry
from kohort.client.errors import PartitionErrors
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
)


class GroupAdmin:
    """Groups and their offsets, over a started cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_groups(self, types: Iterable[str] = (), states: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of the cluster by id: all, or those of these types and in these states, in any case.

        Each broker knows the groups that it coordinates.
        """
        kinds = {each.lower() for each in texts("types", types)}
        wanted = {each.lower() for each in texts("states", states)}
        await self._cluster.refresh()
        answers = await asyncio.gather(*[self._list_at(broker) for broker in self._cluster.view.brokers.values()])
        # Asked for all: older brokers know no filters.
        found = {
            listing.group_id: listing
            for answer in answers
            for listing in answer
            if (not kinds or listing.group_type.lower() in kinds) and (not wanted or listing.state.lower() in wanted)
        }
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return these groups by id. Raises GROUP_ID_NOT_FOUND."""
        wanted = texts("group_ids", group_ids)
        described = await asyncio.gather(*[self._describe(group_id) for group_id in wanted])
        return dict(zip(wanted, described, strict=True))

    async def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return these groups of the consumer protocol (KIP-848) by id, with epochs, targets and types of members.

        Raises GROUP_ID_NOT_FOUND, for groups of another type too, and UNSUPPORTED_VERSION.
        """
        wanted = texts("group_ids", group_ids)
        described = await asyncio.gather(*[self._describe_consumer(group_id) for group_id in wanted])
        return dict(zip(wanted, described, strict=True))

    async def has_consumer_protocol(self, group_id: str) -> bool:
        """Return whether the coordinator of a group, there or not, offers the consumer protocol."""
        try:
            await self._describe_consumer(group_id)
        except KafkaError as error:
            return error.code is not ErrorCode.UNSUPPORTED_VERSION
        return True

    async def group_coordinator(self, group_id: str) -> Broker:
        """Return the broker that coordinates a group, there or not. Raises `KafkaError`."""
        return await self._cluster.coordinator(group_id)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        check_text("group_id", group_id)
        answer = await self._cluster.call_coordinator(
            group_id, DeleteGroupsRequest(groups_names=[group_id]), lambda found: found.results[0].error_code
        )
        _refuse(answer.results[0].error_code, group_id, "cannot be deleted", answer.results[0].error_message)

    async def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of all partitions by default; a group that is not there has none."""
        check_text("group_id", group_id)
        wanted = None if partitions is None else topic_partitions("partitions", partitions)
        return await fetch_committed(self._cluster, group_id, wanted, is_stable=False)

    async def reset_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
        """Commit offsets for a group without members; its next members begin there. Raises NON_EMPTY_GROUP."""
        check_text("group_id", group_id)
        entries = committable(offsets)
        try:
            await commit_offsets(self._cluster, group_id, entries)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            text = f"group {group_id!r} has members, which own its offsets: stop them first"
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, text) from None

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets. Raises GROUP_ID_NOT_FOUND, `PartitionErrors` for topics that are subscribed to."""
        check_text("group_id", group_id)
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequest.Topic(
                    name=topic,
                    partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=number) for number in numbers],
                )
                for topic, numbers in by_topic(topic_partitions("partitions", partitions)).items()
            ],
        )
        answer = await self._cluster.call_coordinator(group_id, request, lambda found: found.error_code)
        _refuse(answer.error_code, group_id, "cannot lose offsets", None)
        failed = {
            TopicPartition(topic.name, entry.partition_index): error_for(entry.error_code)
            for topic in answer.topics
            for entry in topic.partitions
            if entry.error_code
        }
        if failed:
            raise PartitionErrors(f"offsets of group {group_id!r} were not deleted", failed)

    async def _list_at(self, broker: Broker) -> list[GroupListing]:
        async def attempt() -> list[GroupListing]:
            answer = await self._cluster.call(broker, ListGroupsRequest())
            _refuse(answer.error_code, broker.address, "cannot list its groups", None)
            return [
                GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
                for group in answer.groups
            ]

        timeout_ms = self._cluster.request_timeout_ms
        return await retry(attempt, waits=self._cluster.waits(), timeout_ms=timeout_ms)

    async def _describe(self, group_id: str) -> GroupDescription:
        answer = await self._cluster.call_coordinator(
            group_id, DescribeGroupsRequest(groups=[group_id]), lambda found: found.groups[0].error_code
        )
        group = answer.groups[0]
        if group.error_code == ErrorCode.NONE and group.group_state != "Dead":
            return read_classic(group)
        if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            _refuse(group.error_code, group_id, "cannot be described", group.error_message)
        # A group of the consumer protocol does not exist for DescribeGroups.
        try:
            return await self._describe_consumer(group_id)
        except KafkaError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")

    async def _describe_consumer(self, group_id: str) -> GroupDescription:
        answer = await self._cluster.call_coordinator(
            group_id, ConsumerGroupDescribeRequest(group_ids=[group_id]), lambda found: found.groups[0].error_code
        )
        group = answer.groups[0]
        _refuse(group.error_code, group_id, "cannot be described as a consumer group", group.error_message)
        return read_consumer(group)


def _refuse(code: int, name: str, what: str, message: str | None) -> None:
    found = error_for(code)
    if found is ErrorCode.NON_EMPTY_GROUP:
        raise KafkaError(found, f"group {name!r} {what}: it has members, stop them first")
    if found is not ErrorCode.NONE:
        raise KafkaError(found, f"{name!r} {what}: {message or found.text}")
