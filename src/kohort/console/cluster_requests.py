"""What the console requests of a cluster, many groups with one request.

ListGroups is answered by the coordinator of each group, so no coordinator has to be looked up.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kohort.client import Cluster
from kohort.client.admin.group_descriptions import EPOCH_GROUPS, GroupDescription, read_classic
from kohort.client.cluster.list_offsets import list_ends
from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.offset_specs import LATEST
from kohort.client.errors import PartitionErrors, raise_refusal
from kohort.console.history.watched_group import CoordinatedGroup
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.apis import Api
from kohort.wire.messages import (
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)

AT_ONCE = 100
"""Groups in one request."""

_BY_NAME = 9
"""The newest version of OffsetFetch that names topics."""
_MANY_GROUPS = 8
"""The version of OffsetFetch since which one request is about several groups."""

PartT = TypeVar("PartT")
Refused = Callable[[str], None]
"""Called with a sentence about what the cluster refused."""


class Listing(NamedTuple):
    """The groups that brokers list, and the ids of the brokers that have answered."""

    groups: list[CoordinatedGroup]
    node_ids: set[int]


async def list_groups(cluster: Cluster, refused: Refused) -> Listing:
    """Return the groups of all brokers that answer. Raises `KafkaError` where none does."""
    brokers = list(cluster.view.brokers.values())
    answers = await asyncio.gather(*[_listed_by(cluster, broker) for broker in brokers], return_exceptions=True)
    listing, errors = Listing([], set()), list[BaseException]()
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, BaseException):
            errors.append(answer)
            refused(f"{broker.address} does not list its groups: {_reason(answer)}")
        else:
            listing.groups.extend(answer)
            listing.node_ids.add(broker.node_id)
    if errors and not listing.node_ids:
        raise errors[0]
    return listing


def _reason(error: BaseException) -> str:
    return error.text if isinstance(error, KafkaError) else str(error) or type(error).__name__


async def _listed_by(cluster: Cluster, broker: Broker) -> list[CoordinatedGroup]:
    response = await cluster.call(broker, ListGroupsRequest())
    raise_refusal(response.error_code, f"{broker.address} cannot list its groups")
    return [
        CoordinatedGroup(each.group_id, each.group_type.lower(), each.group_state, each.protocol_type, broker.node_id)
        for each in response.groups
    ]


async def describe(
    cluster: Cluster, groups: Iterable[CoordinatedGroup], refused: Refused
) -> dict[str, GroupDescription | None]:
    """Return descriptions of groups by id; None for one that does not exist any more."""
    found: dict[str, GroupDescription | None] = {}
    for broker, some in _by_coordinator(cluster, groups):
        by_type: dict[str, list[str]] = defaultdict(list)
        for each in some:
            by_type[each.group_type or "classic"].append(each.group_id)
        for kind, group_ids in by_type.items():
            if kind != "classic" and kind not in EPOCH_GROUPS:
                continue  # a type of a later Kafka
            made = EPOCH_GROUPS.get(kind)
            request = DescribeGroupsRequest(groups=group_ids) if made is None else made.request(group_ids=group_ids)
            try:
                response = await cluster.call(broker, request)
            except (KafkaError, OSError, TimeoutError) as error:
                refused(f"{broker.address} does not describe {kind} groups: {_reason(error)}")
                continue
            for group in response.groups:
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (made is None and group.group_state == "Dead"):
                    found[group.group_id] = None
                elif _is_there(group.group_id, group.error_code, refused):
                    found[group.group_id] = (
                        read_classic(group) if made is None else made.read(group, cluster.view.topics)
                    )
    return found


def _is_there(group_id: str, code: int, refused: Refused) -> bool:
    error = error_for(code)
    if error not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
        refused(f"group {group_id!r} cannot be described: {error.name}, {error.text}")
    return error is ErrorCode.NONE


async def committed_offsets(
    cluster: Cluster, groups: Iterable[CoordinatedGroup], refused: Refused
) -> dict[str, dict[TopicPartition, int]]:
    """Return the committed offsets of groups by id."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for broker, some in _by_coordinator(cluster, groups):
        versions = cluster.versions(broker)
        is_one = versions is not None and not versions.supports(Api.OFFSET_FETCH, _MANY_GROUPS)
        for part in _parts(some, 1 if is_one else AT_ONCE):
            request = OffsetFetchRequest(
                group_id=part[0].group_id,
                topics=None,
                groups=[OffsetFetchRequest.Group(group_id=each.group_id, topics=None) for each in part],
            )
            try:
                response = await cluster.call(broker, request, highest=_BY_NAME)
            except (KafkaError, OSError, TimeoutError) as cause:
                refused(f"{broker.address} does not show the offsets of groups: {_reason(cause)}")
                break
            answers: list[Any] = [*response.groups] or [response]
            for listed, group in zip(part, answers, strict=False):
                error = error_for(group.error_code)
                if error not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND):
                    refused(f"the offsets of group {listed.group_id!r} cannot be read: {error.name}, {error.text}")
                if error is ErrorCode.NONE:
                    found[listed.group_id] = {
                        TopicPartition(topic.name, entry.partition_index): entry.committed_offset
                        for topic in group.topics
                        for entry in topic.partitions
                        if not entry.error_code and entry.committed_offset >= 0
                    }
    return found


async def end_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], refused: Refused, which: int = LATEST
) -> dict[TopicPartition, int]:
    """Return where the logs of partitions end, or with EARLIEST begin; leave out those that cannot be read."""
    topics = cluster.view.topics
    wanted = [
        each
        for each in partitions
        if (topic := topics.get(each.topic)) is not None and each.partition in topic.partitions
    ]
    if not wanted:
        return {}
    try:
        return await list_ends(cluster, wanted, which, gone=set(), unknown_ms=0)
    except PartitionErrors as error:
        refused(error.text)
        left = [each for each in wanted if each not in error.codes]
        return await end_offsets(cluster, left, refused, which) if len(left) < len(wanted) else {}


async def log_sizes(cluster: Cluster, topics: Iterable[str], refused: Refused) -> dict[TopicPartition, int]:
    """Return the bytes of the logs of topics on the disks of their leaders, as far as brokers show them."""
    views = cluster.view.topics
    wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name in topics:
        for number, each in (views[name].partitions if name in views else {}).items():
            wanted[each.leader][name].append(number)
    found: dict[TopicPartition, int] = {}
    for node_id, by_topic in wanted.items():
        if (broker := cluster.view.brokers.get(node_id)) is None:
            continue
        named = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in by_topic.items()
        ]
        try:
            response = await cluster.call(broker, DescribeLogDirsRequest(topics=named))
            raise_refusal(response.error_code, f"{broker.address} does not show the sizes of its logs")
        except KafkaError as error:
            refused(error.text)
            continue
        for disk in response.results:
            if disk.error_code:
                refused(f"{broker.address} does not show the sizes of its logs: {error_for(disk.error_code).text}")
            for topic in disk.topics:
                for entry in topic.partitions:
                    if not entry.is_future_key:
                        found[TopicPartition(topic.name, entry.partition_index)] = entry.partition_size
    return found


def _by_coordinator(
    cluster: Cluster, groups: Iterable[CoordinatedGroup]
) -> Iterator[tuple[Broker, Sequence[CoordinatedGroup]]]:
    by_node: dict[int, list[CoordinatedGroup]] = defaultdict(list)
    for each in groups:
        by_node[each.node_id].append(each)
    for node_id, some in by_node.items():
        if (broker := cluster.view.brokers.get(node_id)) is not None:
            yield from ((broker, part) for part in _parts(some, AT_ONCE))


def _parts(whole: Sequence[PartT], length: int) -> Iterator[Sequence[PartT]]:
    for start in range(0, len(whole), length):
        yield whole[start : start + length]
