"""Admin client: topics, settings, groups and their offsets, one coroutine for each operation.

Every method raises a `KafkaError` whose text names the cause: a topic that exists or does not, a group that has
members, a broker that cannot be reached. Only methods named create, delete, remove, alter, reset or abort change
anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar, Unpack

from kohort.client.admin import access_messages
from kohort.client.admin.access_messages import (
    ScramChange,
    create_request,
    delete_request,
    deleted,
    describe_request,
    described,
)
from kohort.client.admin.group_descriptions import (
    GroupDescription,
    GroupListing,
    describe_consumer_group,
    describe_group,
    describe_topology,
)
from kohort.client.admin.log_directories import LogDirectory, log_directories
from kohort.client.admin.transaction_descriptions import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
    abort_transaction,
    describe_producers,
    describe_transaction,
)
from kohort.client.arguments import by_partition, check_text, check_topic, texts, topic_partitions, whole_number
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, commit_offsets, committable, fetch_committed
from kohort.client.cluster.lag_reader import LagReader
from kohort.client.cluster.list_offsets import UNKNOWN_MS, OffsetAndTimestamp, list_offsets
from kohort.client.cluster.metadata import Broker, ClusterView, TopicView
from kohort.client.cluster.offset_specs import EARLIEST, ISOLATION, LATEST, MAX_TIMESTAMP
from kohort.client.cluster.retry import retry
from kohort.client.errors import PartitionErrors, UnknownTopic, raise_refusal
from kohort.client.settings import ClientConfig, ClientSettings, config_of, takes_settings
from kohort.model.acl import AclBinding, AclFilter
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.model.setting import of_type, setting
from kohort.model.topology_description import TopologyDescription
from kohort.wire.message import Request
from kohort.wire.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetDeleteRequest,
)

ResponseT = TypeVar("ResponseT")

_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}
_SET, _DELETE = 0, 1


class ResourceType(IntEnum):
    """What a setting belongs to."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = -1
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. `value` is None where it is not set, or too secret to show."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether it is not set for this resource."""
        return self.source in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)


class AdminSettings(ClientSettings, total=False):
    """The keyword arguments of `Admin`."""

    start_timeout_ms: int


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class AdminConfig(ClientConfig):
    """What an admin reads."""

    start_timeout_ms: int = setting(10_000, "How long `start` tries to reach a broker.", 0)


class Admin:
    """Operates one cluster. Use it as `async with Admin(…) as admin`, or `start` and `stop` it."""

    @takes_settings(AdminConfig)
    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[AdminSettings]) -> None:
        config = config_of(AdminConfig, settings, bootstrap_servers=bootstrap_servers)
        self._cluster = config.cluster(start_timeout_ms=config.start_timeout_ms)
        self._timeout_ms = config.request_timeout_ms
        self._lags = LagReader(self._cluster)

    async def __aenter__(self) -> Admin:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect; a second time does nothing. Raises `BrokerUnreachable`, RuntimeError after `stop`."""
        await self._cluster.start()

    async def stop(self) -> None:
        """End every connection."""
        await self._cluster.close()

    # The cluster and its topics

    async def describe_cluster(self) -> ClusterView:
        """Return the cluster's id, controller and brokers."""
        await self._cluster.refresh()
        return self._cluster.view

    async def list_topics(self) -> list[TopicView]:
        """Return every topic, internal ones too, by name."""
        return sorted((await self._topics(None)).values(), key=lambda topic: topic.name)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Return these topics by name. Raises `UnknownTopic`."""
        wanted = texts("names", names)
        found = await self._topics(wanted)
        for name in wanted:
            topic = found.get(name)
            if topic is None or topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(name)
            if topic.error is not ErrorCode.NONE and not topic.partitions:
                raise KafkaError(topic.error, f"topic {name!r}: {topic.error.text}")
        return {name: found[name] for name in wanted}

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until it can be used. None and -1 take the cluster's defaults.

        Raises TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_REPLICATION_FACTOR.
        """
        check_topic(name)
        if partitions is not None:
            partitions = whole_number("partitions", partitions, 1)
        topic = CreateTopicsRequest.Topic(
            name=name,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=whole_number("replication_factor", replication_factor, -1, 2**15 - 1),
            configs=[
                CreateTopicsRequest.Topic.Config(name=key, value=value)
                for key, value in _settings("configs", {} if configs is None else configs).items()
            ],
        )
        response = await self._controller(CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms))
        for result in response.topics:
            raise_refusal(result.error_code, f"topic {name!r} was not created", result.error_message)
        await self._wait_until_applied(name, lambda found: bool(found.partitions) and _has_leaders(found))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records, and wait until it is gone. Raises `UnknownTopic`."""
        check_topic(name)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.Topic(name=name)], topic_names=[name], timeout_ms=self._timeout_ms
        )
        for result in (await self._controller(request)).responses:
            _raise_topic_refusal(result.error_code, name, "was not deleted", result.error_message)
        await self._wait_until_applied(name, lambda found: found.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def create_partitions(self, name: str, count: int) -> None:
        """Grow a topic to `count` partitions in all. Raises `UnknownTopic`, INVALID_PARTITIONS."""
        check_topic(name)
        count = whole_number("count", count, 1)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsRequest.Topic(name=name, count=count, assignments=None)],
            timeout_ms=self._timeout_ms,
        )
        for result in (await self._controller(request)).results:
            _raise_topic_refusal(result.error_code, name, "was not grown", result.error_message)
        await self._wait_until_applied(name, lambda found: len(found.partitions) >= count and _has_leaders(found))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, str | int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of each partition at "earliest", "latest", "max-timestamp" or a time in milliseconds.

        None stands for a time after the last record. Raises `UnknownTopic`, `UnknownPartition`.
        """
        times = {partition: _time(at) for partition, at in by_partition("wanted", wanted).items()}
        return await list_offsets(self._cluster, times, unknown_ms=UNKNOWN_MS)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: all); return the new first offsets. Raises `PartitionErrors`."""
        by_leader: dict[Broker, dict[str, DeleteRecordsRequest.Topic]] = {}
        for partition, offset in by_partition("before", before).items():
            offset = whole_number("offset", offset, -1, 2**63 - 1)
            topics = by_leader.setdefault(await self._cluster.leader(partition), {})
            topic = topics.setdefault(partition.topic, DeleteRecordsRequest.Topic(name=partition.topic))
            topic.partitions.append(
                DeleteRecordsRequest.Topic.Partition(partition_index=partition.partition, offset=offset)
            )
        first: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, ErrorCode] = {}
        for leader, topics in by_leader.items():
            request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=self._timeout_ms)
            for result in (await self._cluster.call(leader, request)).topics:
                for entry in result.partitions:
                    partition = TopicPartition(result.name, entry.partition_index)
                    if entry.error_code:
                        failed[partition] = error_for(entry.error_code)
                    else:
                        first[partition] = entry.low_watermark
        if failed:
            raise PartitionErrors("records were not deleted", failed)
        return first

    # Settings

    async def describe_configs(self, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """Return the settings of a topic, a broker (by its id as text) or a group, by name."""
        kind = _kind(kind, name)
        resource = DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource])
        response: DescribeConfigsResponse
        if kind is ResourceType.BROKER and (broker := self._cluster.view.brokers.get(int(name))) is not None:
            response = await self._cluster.call(broker, request)
        else:
            response = await self._retry(request)
        result = response.results[0]
        raise_refusal(result.error_code, f"{kind.name.lower()} {name!r}", result.error_message)
        return {
            entry.name: ConfigEntry(
                entry.name, entry.value, _source(entry.config_source), entry.read_only, entry.is_sensitive
            )
            for entry in result.configs
        }

    async def alter_configs(self, kind: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a topic, broker or group; None takes a setting back to its default. Raises INVALID_CONFIG."""
        kind = _kind(kind, name)
        resource = IncrementalAlterConfigsRequest.Resource(
            resource_type=kind,
            resource_name=name,
            configs=[
                IncrementalAlterConfigsRequest.Resource.Config(
                    name=key, config_operation=_DELETE if value is None else _SET, value=value
                )
                for key, value in _settings("changes", changes).items()
            ],
        )
        response = await self._controller(IncrementalAlterConfigsRequest(resources=[resource]))
        for result in response.responses:
            raise_refusal(result.error_code, f"{kind.name.lower()} {name!r} was not changed", result.error_message)

    # ACLs

    async def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Create rules; those that exist stay. Raises the first refusal, when the others may have been created."""
        wanted = list(acls)
        for acl in wanted:
            if not isinstance(acl, AclBinding):
                raise of_type("acls", acl, "AclBinding values")
        response = await self._controller(create_request(wanted))
        for acl, result in zip(wanted, response.results, strict=True):
            raise_refusal(result.error_code, f"the rule {acl} was not created", result.error_message)

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """Return the rules that a filter selects, sorted; all of them without one."""
        response = await self._retry(describe_request(wanted or AclFilter()))
        raise_refusal(response.error_code, "the rules were not described", response.error_message)
        return described(response)

    async def delete_acls(self, wanted: AclFilter) -> list[AclBinding]:
        """Delete the rules that a filter selects, and return them."""
        if not isinstance(wanted, AclFilter):
            raise of_type("wanted", wanted, "an AclFilter")
        response = await self._controller(delete_request(wanted))
        (result,) = response.filter_results
        raise_refusal(result.error_code, "no rules were deleted", result.error_message)
        return deleted(result)

    # Users

    async def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
        """Return the SCRAM mechanisms of users, each with its iterations; of all users without names.

        Raises RESOURCE_NOT_FOUND for a name that has none (KIP-554).
        """
        wanted = None if users is None else texts("users", users)
        if wanted == []:
            return {}
        response = await self._retry(access_messages.describe_users_request(wanted))
        raise_refusal(response.error_code, "the users were not described", response.error_message)
        for result in response.results:
            raise_refusal(result.error_code, f"the user {result.user!r} was not described", result.error_message)
        return access_messages.described_users(response.results)

    async def alter_user_scram_credentials(self, changes: Iterable[ScramChange]) -> None:
        """Set and delete SCRAM credentials: all changes to one user are made, or none (KIP-554).

        Raises the first refusal, when those of other users may have been made: RESOURCE_NOT_FOUND,
        UNACCEPTABLE_CREDENTIAL.
        """
        wanted = list(changes)
        for change in wanted:
            if not isinstance(change, ScramChange):
                raise of_type("changes", change, "UserScramCredentialUpsertion and UserScramCredentialDeletion values")
        response = await self._controller(access_messages.alter_users_request(wanted))
        for result in response.results:
            raise_refusal(result.error_code, f"the user {result.user!r} was not altered", result.error_message)

    # Groups

    async def list_groups(self, types: Iterable[str] = (), states: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of the cluster by id: all, or those of these types and in these states, in any case.

        Each broker knows the groups that it coordinates.
        """
        kinds = {each.lower() for each in texts("types", types)}
        wanted = {each.lower() for each in texts("states", states)}
        answers = await self._at_each_broker(ListGroupsRequest(), "cannot list its groups")
        # All are requested: older brokers know no filters.
        found = {
            group.group_id: GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for response in answers.values()
            for group in response.groups
            if (not kinds or group.group_type.lower() in kinds) and (not wanted or group.group_state.lower() in wanted)
        }
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return these groups by id. Raises GROUP_ID_NOT_FOUND."""
        return await self._described(describe_group, group_ids)

    async def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return these groups of the consumer protocol (KIP-848) by id, with epochs, targets and types of members.

        Raises GROUP_ID_NOT_FOUND, for groups of another type too, and UNSUPPORTED_VERSION.
        """
        return await self._described(describe_consumer_group, group_ids)

    async def describe_topology(self, group_id: str) -> TopologyDescription | None:
        """Return the processors of a streams group's program as a graph (KIP-1331), None where its broker has none.

        Kafka Streams uploads it from 4.4 on. Raises GROUP_ID_NOT_FOUND, for groups of another type too.
        """
        check_text("group_id", group_id)
        return await describe_topology(self._cluster, group_id)

    async def has_consumer_protocol(self, group_id: str) -> bool:
        """Return whether the coordinator of a group, there or not, offers the consumer protocol."""
        try:
            await describe_consumer_group(self._cluster, group_id)
        except KafkaError as error:
            return error.code is not ErrorCode.UNSUPPORTED_VERSION
        return True

    async def group_coordinator(self, group_id: str) -> Broker:
        """Return the broker that coordinates a group, there or not. Raises `KafkaError`."""
        return await self._cluster.coordinator(group_id)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        check_text("group_id", group_id)
        response = await self._cluster.call_coordinator(
            group_id, DeleteGroupsRequest(groups_names=[group_id]), lambda found: found.results[0].error_code
        )
        [result] = response.results
        _raise_group_refusal(result.error_code, f"group {group_id!r} cannot be deleted", result.error_message)

    async def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of all partitions by default; a group that is not there has none."""
        check_text("group_id", group_id)
        wanted = None if partitions is None else topic_partitions(partitions)
        return await fetch_committed(self._cluster, group_id, wanted, is_stable=False)

    async def lag(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        isolation_level: str = "read_uncommitted",
        assigned: Iterable[TopicPartition] = (),
    ) -> dict[TopicPartition, Lag]:
        """Return how far a group is behind, in records and in seconds, in each partition that it has committed.

        `assigned` are further ones: a group that has committed nothing there is behind by what is unknown, not by 0.
        `isolation_level` is that of the group's members: a reader of committed records is not behind for those of open
        and aborted transactions. Asked again, only what is behind offsets that have moved is read. Raises `KafkaError`
        where the group's offsets cannot be read; what is wrong with one partition is the `reason` of its lag.
        """
        check_text("group_id", group_id)
        if isolation_level not in ISOLATION:
            raise ValueError(f"isolation_level={isolation_level!r} is not one of {', '.join(ISOLATION)}")
        wanted = None if partitions is None else topic_partitions(partitions)
        return await self._lags.read(group_id, wanted, ISOLATION[isolation_level], topic_partitions(assigned))

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
                for topic, numbers in by_topic(topic_partitions(partitions)).items()
            ],
        )
        response = await self._cluster.call_coordinator(group_id, request, lambda found: found.error_code)
        _raise_group_refusal(response.error_code, f"offsets of group {group_id!r} cannot be deleted")
        failed = {
            TopicPartition(topic.name, entry.partition_index): error_for(entry.error_code)
            for topic in response.topics
            for entry in topic.partitions
            if entry.error_code
        }
        if failed:
            raise PartitionErrors(f"offsets of group {group_id!r} were not deleted", failed)

    async def remove_members(
        self, group_id: str, *, member_ids: Iterable[str] = (), instance_ids: Iterable[str] = (), reason: str = ""
    ) -> None:
        """Remove members from a classic group, by member id or group.instance.id: the others take their partitions.

        A program that still runs joins again. Raises UNKNOWN_MEMBER_ID for the first that is not in the group.
        """
        check_text("group_id", group_id)
        check_text("reason", reason)
        why = reason or None
        members = [LeaveGroupRequest.Member(member_id=each, reason=why) for each in texts("member_ids", member_ids)]
        members += [
            LeaveGroupRequest.Member(member_id="", group_instance_id=each, reason=why)
            for each in texts("instance_ids", instance_ids)
        ]
        if not members:
            return
        request = LeaveGroupRequest(group_id=group_id, members=members)
        response = await self._cluster.call_coordinator(group_id, request, lambda found: found.error_code)
        _raise_group_refusal(response.error_code, f"members of group {group_id!r} cannot be removed")
        for member in response.members:
            who = member.group_instance_id or member.member_id
            _raise_group_refusal(member.error_code, f"member {who!r} of group {group_id!r} was not removed")

    # Transactions

    async def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
    ) -> list[TransactionListing]:
        """Return the transactional ids of the cluster, sorted: all, or those in these states and of these producers.

        States are Kafka's names, such as "Ongoing", in any case. Each broker knows those that it coordinates.
        """
        wanted = {each.lower() for each in texts("states", states)}
        producers = {whole_number("a producer id", each, 0, 2**63 - 1) for each in producer_ids}
        answers = await self._at_each_broker(ListTransactionsRequest(), "cannot list its transactional ids")
        found = {
            each.transactional_id: TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
            for response in answers.values()
            for each in response.transaction_states
            if (not wanted or each.transaction_state.lower() in wanted)
            and (not producers or each.producer_id in producers)
        }
        return [found[transactional_id] for transactional_id in sorted(found)]

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return these transactional ids. Raises TRANSACTIONAL_ID_NOT_FOUND."""
        wanted = texts("transactional_ids", transactional_ids)
        described = await asyncio.gather(*[describe_transaction(self._cluster, each) for each in wanted])
        return dict(zip(wanted, described, strict=True))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the idempotent producers that each partition's log knows. Raises `PartitionErrors`."""
        return await describe_producers(self._cluster, topic_partitions(partitions))

    async def abort_transaction(self, partition: TopicPartition, producer: ProducerState) -> None:
        """Abort the open transaction of a producer in one partition, as `describe_producers` shows it.

        It is for a transaction that hangs: one that its coordinator does not know any more, at which readers of
        committed records stop. Raises `PartitionErrors`.
        """
        [partition] = topic_partitions([partition])
        await abort_transaction(self._cluster, partition, producer)

    # Brokers

    async def describe_log_dirs(self) -> dict[int, list[LogDirectory]]:
        """Return the directories of each broker, by its id, with the sizes of the logs in them."""
        answers = await self._at_each_broker(DescribeLogDirsRequest(topics=None), "cannot describe its log directories")
        return {broker.node_id: log_directories(answer, broker.address) for broker, answer in answers.items()}

    # The inside

    async def _described(
        self, describe: Callable[[Cluster, str], Awaitable[GroupDescription]], group_ids: Iterable[str]
    ) -> dict[str, GroupDescription]:
        wanted = texts("group_ids", group_ids)
        described = await asyncio.gather(*[describe(self._cluster, group_id) for group_id in wanted])
        return dict(zip(wanted, described, strict=True))

    async def _retry(self, request: Request[ResponseT]) -> ResponseT:
        cluster = self._cluster
        return await retry(lambda: cluster.call_any(request), waits=cluster.waits(), timeout_ms=self._timeout_ms)

    async def _topics(self, names: Iterable[str] | None) -> Mapping[str, TopicView]:
        topics = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        response = await self._retry(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        return ClusterView.read(response).topics

    async def _controller(self, request: Request[ResponseT]) -> ResponseT:
        cluster = self._cluster
        # No retry: a change whose response was lost may have been made.
        return await cluster.call_controller(request, timeout_ms=self._timeout_ms + 5000)

    async def _at_each_broker(self, request: Request[ResponseT], what: str) -> dict[Broker, ResponseT]:
        """Return the answer of each broker; each is tried again for a while. Raises `KafkaError`."""

        async def ask(broker: Broker) -> ResponseT:
            async def attempt() -> ResponseT:
                response: Any = await self._cluster.call(broker, request)
                raise_refusal(response.error_code, f"{broker.address} {what}")
                answer: ResponseT = response
                return answer

            return await retry(attempt, waits=self._cluster.waits(), timeout_ms=self._timeout_ms)

        await self._cluster.refresh()
        brokers = list(self._cluster.view.brokers.values())
        return dict(zip(brokers, await asyncio.gather(*map(ask, brokers)), strict=True))

    async def _wait_until_applied(self, name: str, is_applied: Callable[[TopicView], bool]) -> None:
        """Wait, for a while, until the metadata shows the change: it spreads a moment after the response."""
        waits = self._cluster.waits(initial_ms=5)
        deadline_s = asyncio.get_running_loop().time() + self._timeout_ms / 1000
        gone = TopicView(name, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        while asyncio.get_running_loop().time() < deadline_s:
            if is_applied((await self._topics([name])).get(name, gone)):
                return
            await asyncio.sleep(waits.next_s())


def _raise_topic_refusal(code: int, topic: str, what: str, message: str | None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(topic)
    raise_refusal(code, f"topic {topic!r} {what}", message)


def _raise_group_refusal(code: int, what: str, message: str | None = None) -> None:
    raise_refusal(code, what, "it has members, stop them first" if code == ErrorCode.NON_EMPTY_GROUP else message)


def _time(at: object) -> int:
    if isinstance(at, str):
        if at not in _TIMES:
            raise ValueError(f"{at!r} is not {', '.join(map(repr, _TIMES))}, or a time in milliseconds")
        return _TIMES[at]
    return whole_number("a time in milliseconds", at, min(_TIMES.values()), 2**63 - 1)


def _kind(kind: int, name: str) -> ResourceType:
    check_text("name", name)
    try:
        found = ResourceType(kind)
    except ValueError:
        raise ValueError(f"kind={kind!r} is no ResourceType: {', '.join(each.name for each in ResourceType)}") from None
    if found is ResourceType.BROKER and not name.isdecimal():
        raise ValueError(f"name={name!r} is no broker's id: expected a number as a str")
    return found


def _settings(name: str, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return settings as the wire has them: numbers and truth as text, None as it is."""
    if not isinstance(values, Mapping):
        raise of_type(name, values, "a dict of names and values")
    found: dict[str, str | None] = {}
    for key, value in values.items():
        check_text(f"a name in {name}", key)
        if not isinstance(value, str | int | float | None):
            raise of_type(key, value, "a str")
        found[key] = str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
    return found


def _has_leaders(topic: TopicView) -> bool:
    return all(partition.leader >= 0 for partition in topic.partitions.values())


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
