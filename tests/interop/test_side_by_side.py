"""The same requests to a real Apache Kafka 4.3 and to a broker of ours that is compatible with it: the same answers.

What differs is in `DIFFERENCES`, by the request that shows it; `docs/lockstep.md` lists it too. A scenario asks one
broker; the answers of both are compared one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.side_by_side import Answer, Classic, Native, Scenario, Side, differences
from interop.waiting import eventually
from interop.wire import Wire
from tests.interop.conftest import SHORT_SESSIONS

from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.wire.consumer_protocol import encode_assignment
from kohort.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

SESSION_MS = 6_000
UNKNOWN = b"?" * 16


def assigned(topic: str, *numbers: int, user_data: bytes | None = None) -> bytes:
    return encode_assignment(Assignment(frozenset(TopicPartition(topic, number) for number in numbers), user_data))


EVERYWHERE = "bidirectional"
POLICIES = (EVERYWHERE, "upgrade", "downgrade", "disabled")

DIFFERENCES = {
    ("caught_between", EVERYWHERE): ("dynamic's heartbeat after",),
    ("cooperative_caught_between", EVERYWHERE): ("dynamic's heartbeat after",),
}
"""What is asked, by scenario and policy, that the two sides answer differently; docs/lockstep.md says why."""


@pytest.fixture(scope="module", params=POLICIES)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[str, ApacheKafka, KohortBroker]]:
    """Both brokers under one migration policy."""
    policy: str = request.param
    settings = {**SHORT_SESSIONS, "group.consumer.migration.policy": policy}
    ours = KohortBroker({**settings, "kohort.compatible": "kafka-4.3"})
    with ApacheKafka(settings, heap="512m") as theirs, ours:
        yield policy, theirs, ours


# -- scenarios


def empty_group_ids(side: Side, name: str) -> Iterator[Answer]:
    """Every API that names a group, with the empty id."""
    side.create(name)
    member = Classic(side, "", name)
    commit = OffsetCommitRequest.Topic
    topics = [commit(name=name, partitions=[commit.Partition(partition_index=0, committed_offset=5)])]
    fetched = OffsetFetchRequest.Group(
        group_id="", topics=[OffsetFetchRequest.Group.Topic(name=name, partition_indexes=[0, 1])]
    )
    requests: list[tuple[Any, int]] = [
        (OffsetDeleteRequest(group_id="", topics=[]), 0),
        (member.join_request(), 9),
        (SyncGroupRequest(group_id="", member_id="m", generation_id=1, protocol_type="consumer", protocol_name="r"), 5),
        (HeartbeatRequest(group_id="", member_id="m", generation_id=1), 4),
        (LeaveGroupRequest(group_id="", members=[LeaveGroupRequest.Member(member_id="m")]), 5),
        (OffsetCommitRequest(group_id="", topics=topics), 8),
        (OffsetFetchRequest(groups=[fetched]), 8),
        (DescribeGroupsRequest(groups=[""]), 5),
        (ConsumerGroupDescribeRequest(group_ids=[""]), 1),
        (
            Native(side, "", "m", name).request(rebalance_timeout_ms=1, subscribed_topic_names=[], topic_partitions=[]),
            1,
        ),
        (OffsetDeleteRequest(group_id="", topics=[]), 0),
        (DeleteGroupsRequest(groups_names=[""]), 2),
        (OffsetDeleteRequest(group_id="", topics=[]), 0),
    ]
    for request, version in requests:
        yield type(request).__name__, side.plain(side.admin.call(request, version))


def offset_fetch(side: Side, name: str) -> Iterator[Answer]:
    """OffsetFetch in every version, of groups, members and topics that are known and unknown, mixed."""
    known, other, gone = f"{name}-known", f"{name}-other", f"{name}-gone"
    side.create(known, other)
    commit = OffsetCommitRequest.Topic
    for topic in (known, other):
        parts = [
            commit.Partition(partition_index=index, committed_offset=7, committed_metadata="m") for index in (0, 2)
        ]
        request = OffsetCommitRequest(group_id=name, topics=[commit(name=topic, partitions=parts)])
        yield f"commit {topic}", side.plain(side.admin.call(request, 9))
    for version in range(1, 8):
        old = OffsetFetchRequest.Topic
        old_topics = [old(name=each, partition_indexes=[1, 0, 2, 9]) for each in (gone, other, known)]
        for group in (name, f"{name}-unknown"):
            asked = OffsetFetchRequest(group_id=group, topics=old_topics)
            yield f"v{version} {group}", side.plain(side.admin.call(asked, version))
            if version >= 2:
                everything = side.plain(side.admin.call(OffsetFetchRequest(group_id=group, topics=None), version))
                for topic in everything["topics"]:  # Kafka has them in no order
                    topic["partitions"].sort(key=lambda partition: partition["partition_index"])
                everything["topics"].sort(key=lambda topic: topic["name"])
                yield f"v{version} all of {group}", everything
    native = Native(side, f"{name}-native", "n", known)
    native.join()
    wanted = OffsetFetchRequest.Group
    by_name = [wanted.Topic(name=each, partition_indexes=[1, 0, 9]) for each in (gone, other, known)]
    ids = (UNKNOWN, side.topic_ids[other], b"!" * 16, side.topic_ids[known])
    by_id = [wanted.Topic(topic_id=each, partition_indexes=[1, 0, 9]) for each in ids]
    for version in range(8, 11):
        topics = by_name if version < 10 else by_id
        groups = [wanted(group_id=each, topics=topics) for each in (f"{name}-unknown", name, "")]
        if version >= 9:
            epochs = [("n", native.epoch), ("n", native.epoch + 1), ("stranger", 1), (None, -1), ("stranger", -1)]
            groups += [
                wanted(group_id=group, member_id=member_id, member_epoch=epoch, topics=topics)
                for group in (f"{name}-native", name)
                for member_id, epoch in epochs
            ]
        for each in groups:
            title = f"v{version} {each.group_id} {each.member_id} {each.member_epoch}"
            yield title, side.plain(side.admin.call(OffsetFetchRequest(groups=[each]), version))


class Transactional:
    """A transactional producer under the test's control: one request at a time, in any version."""

    def __init__(self, side: Side, name: str) -> None:
        self.side = side
        self.name = name
        self.id = self.epoch = -1

    def known(self, **fields: Any) -> dict[str, Any]:
        """Return how its requests name it, but for what is given."""
        producer = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}
        return {**producer, **fields}

    def ask(self, message: Any, version: int) -> Any:
        """Return the answer to a request; where it has an id and epoch, they are the producer's from then on."""
        answer = self.side.admin.call(message, version)
        if getattr(answer, "producer_epoch", -1) >= 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return self.side.plain(answer)

    def init(self, version: int, **fields: Any) -> Any:
        return self.ask(
            InitProducerIdRequest(**{"transactional_id": self.name, "transaction_timeout_ms": 60_000, **fields}),
            version,
        )

    def add(self, version: int, topic: str, *partitions: int, **fields: Any) -> Any:
        asked = AddPartitionsToTxnRequest.V3AndBelowTopic(name=topic, partitions=list(partitions))
        producer = {f"v3_and_below_{name}": value for name, value in self.known(**fields).items()}
        answer = self.ask(AddPartitionsToTxnRequest(v3_and_below_topics=[asked], **producer), version)
        for each in answer["results_by_topic_v3_and_below"]:
            each["results_by_partition"].sort(key=lambda result: result["partition_index"])
        return answer

    def add_offsets(self, version: int, **fields: Any) -> Any:
        return self.ask(AddOffsetsToTxnRequest(**self.known(**{"group_id": self.name, **fields})), version)

    def commit(self, version: int, partition: int = 0, **fields: Any) -> Any:
        topic = TxnOffsetCommitRequest.Topic
        offset = topic.Partition(partition_index=partition, committed_offset=5, committed_metadata="")
        asked = {"group_id": self.name, "topics": [topic(name=self.name, partitions=[offset])], **fields}
        return self.ask(TxnOffsetCommitRequest(**self.known(**asked)), version)

    def end(self, version: int, *, commit: bool = True, **fields: Any) -> Any:
        return self.ask(EndTxnRequest(committed=commit, **self.known(**fields)), version)

    def describe(self) -> Any:
        answer = self.side.admin.call(DescribeTransactionsRequest(transactional_ids=[self.name]), 0)
        for topic in answer.transaction_states[0].topics:
            topic.partitions.sort()
        answer.transaction_states[0].topics.sort(key=lambda topic: topic.topic)
        return self.side.plain(answer)

    def unknown(self) -> str:
        """Return the error of an id that no producer has had, once Kafka's coordinator is loaded and has spare ids."""
        self.side.coordinate(self.name, key_type=1)
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND.name
        eventually(lambda: self.describe()["transaction_states"][0]["error_code"], error, 20)
        without_id = InitProducerIdRequest(transactional_id=None)
        eventually(lambda: self.side.admin.call(without_id, 4).error_code, 0, 20)
        return error

    def at_rest(self) -> Any:
        """Return what there is to see of it once its transaction has ended on all partitions."""
        eventually(lambda: "Prepare" in str(self.describe()), False, 20)
        return self.describe()

    def producers(self, *partitions: int) -> Any:
        topic = DescribeProducersRequest.Topic(name=self.name, partition_indexes=list(partitions))
        return self.side.plain(self.side.admin.call(DescribeProducersRequest(topics=[topic]), 0))

    def mark(self, producer_id: int, epoch: int, coordinator_epoch: int, partition: int = 1) -> Any:
        marker = WriteTxnMarkersRequest.Marker
        asked = marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            topics=[marker.Topic(name=self.name, partition_indexes=[partition])],
        )
        return self.side.plain(self.side.admin.call(WriteTxnMarkersRequest(markers=[asked]), 1))

    def listed(self, version: int = 2, **filters: Any) -> Any:
        answer = self.side.plain(self.side.admin.call(ListTransactionsRequest(**filters), version))
        answer["transaction_states"] = [
            each for each in answer["transaction_states"] if each["transactional_id"] == self.name
        ]
        return answer


def transactions(side: Side, name: str) -> Iterator[Answer]:
    """A producer of version 1 of transactions: partitions, offsets, ends, repetitions and what is refused."""
    side.create(name)
    producer = Transactional(side, name)
    yield "no producer", producer.unknown()
    yield "no timeout", producer.init(4, transaction_timeout_ms=0)
    yield "no id", producer.init(4, transactional_id="")
    yield "init", producer.init(4)
    yield "an end without a transaction", producer.end(4)
    for version in range(4):
        yield f"a strange producer, v{version}", producer.add(version, name, 0, producer_id=producer.id + 77)
        yield f"a former epoch, v{version}", producer.add(version, name, 0, producer_epoch=-1)
        yield f"a partition that is missing, v{version}", producer.add(version, name, 0, 9)
    yield "an internal topic", producer.add(3, "__transaction_state", 0)
    yield "offsets outside", producer.commit(3)
    yield "add", producer.add(3, name, 0, 1)
    yield "added again", producer.add(3, name, 1)
    yield "offsets of a strange producer", producer.add_offsets(3, producer_id=producer.id + 77)
    yield "offsets of no group", producer.add_offsets(3, group_id="")
    yield "offsets before their group", producer.commit(4)
    yield "add offsets", producer.add_offsets(3)
    for version in range(5):
        yield f"offsets, v{version}", producer.commit(version)
        yield f"offsets of a former epoch, v{version}", producer.commit(version, producer_epoch=-1)
        yield f"offsets of a missing partition, v{version}", producer.commit(version, partition=9)
    for version in (3, 4):
        member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 3}
        yield f"offsets of a stranger, v{version}", producer.commit(version, **member)
    yield "open", producer.describe()
    yield "listed", producer.listed()
    yield "listed by state", producer.listed(state_filters=["Ongoing", "Nonsense"])
    yield "listed by another producer", producer.listed(producer_id_filters=[producer.id + 77])
    yield "listed by duration", producer.listed(duration_filter=600_000)
    yield "listed by pattern", producer.listed(transactional_id_pattern=f"{name[:5]}.*")
    yield "listed by no pattern", producer.listed(transactional_id_pattern="(")
    yield "end of a former epoch", producer.end(2, producer_epoch=-1)
    yield "end of a former epoch, v1", producer.end(1, producer_epoch=-1)
    yield "end", producer.end(4)
    yield "ended", producer.at_rest()
    yield "ended again", producer.end(4)
    yield "ended otherwise", producer.end(4, commit=False)
    former = producer.epoch
    yield "recovered", producer.init(4, producer_id=producer.id, producer_epoch=former)
    yield "recovered again", producer.init(4, producer_id=producer.id, producer_epoch=former)
    yield "fenced", producer.init(4, producer_id=producer.id, producer_epoch=former - 1)
    yield "half of a producer", producer.init(4, producer_id=producer.id)


def transactions_of_version_2(side: Side, name: str) -> Iterator[Answer]:
    """A producer of version 2 of transactions, which adds by writing, and markers that a broker may send."""
    side.create(name)
    producer = Transactional(side, name)
    yield "no producer", producer.unknown()
    yield "init", producer.init(5)
    yield "a commit of nothing", producer.end(5)
    yield "an abort of nothing", producer.end(5, commit=False)
    yield "at rest", producer.at_rest()
    yield "offsets", producer.commit(5)
    yield "offsets again", producer.commit(5)
    yield "offsets of a former epoch", producer.commit(5, producer_epoch=producer.epoch - 1)
    yield "offsets of a strange producer", producer.commit(5, producer_id=producer.id + 77)
    yield "offsets of a missing partition", producer.commit(5, partition=9)
    member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 3}
    yield "offsets of a stranger", producer.commit(5, **member)
    yield "open", producer.describe()
    former = producer.epoch
    yield "end", producer.end(5)
    yield "ended", producer.at_rest()
    yield "ended again", producer.end(5, producer_epoch=former)
    yield "ended otherwise", producer.end(5, commit=False, producer_epoch=former)
    yield "end of an older epoch", producer.end(5, producer_epoch=former - 1)
    yield "offsets of before the end", producer.commit(5, producer_epoch=former)
    yield "a marker", producer.mark(10**6, 3, 5)
    yield "the marker again", producer.mark(10**6, 3, 5)
    yield "a marker of a former epoch", producer.mark(10**6, 2, 5)
    yield "a marker of a former coordinator", producer.mark(10**6, 3, 4)
    yield "a marker for a missing partition", producer.mark(10**6, 3, 5, partition=9)
    yield "producers", producer.producers(0, 1, 9)


def described_members(side: Side, name: str) -> Iterator[Answer]:
    """ConsumerGroupDescribe and DescribeGroups of a group without expressions, and of what is no such group."""
    side.create(name)
    native = Native(side, name, "n", name)
    native.join()
    native.beat()
    yield "names only", describe(side, name)
    yield "unknown", describe(side, f"{name}-unknown")
    yield "as a classic group", side.plain(side.admin.call(DescribeGroupsRequest(groups=[name]), 6))
    yield "as a classic group, v5", side.plain(side.admin.call(DescribeGroupsRequest(groups=[name]), 5))
    classic = Classic(side, f"{name}-classic", name)
    classic.join()
    yield "a classic group", describe(side, f"{name}-classic")
    listed = side.admin.call(ListGroupsRequest(types_filter=["consumer"]), 5)
    yield "listed", [side.plain(each) for each in listed.groups if each.group_id.startswith(name)]


def expression(side: Side, name: str) -> Iterator[Answer]:
    """An expression that matches an internal topic too."""
    side.create(name)
    native = Native(side, name, "n")
    wanted = f"{name}|__consumer_offsets"
    joined = native.join(subscribed_topic_names=[], subscribed_topic_regex=wanted)
    yield "epoch of the join", joined.member_epoch
    yield "topics of the join", len(joined.assignment.topic_partitions)

    def assigned_topics() -> set[str]:
        native.beat()
        group = side.admin.call(ConsumerGroupDescribeRequest(group_ids=[name]), 1).groups[0]
        return {each.topic_name for each in group.members[0].assignment.topic_partitions}

    eventually(assigned_topics, {name, "__consumer_offsets"}, 30)  # Kafka resolves it in the background
    (member,) = describe(side, name)["members"]
    yield "assigned", sorted(each["topic_name"] for each in member["assignment"]["topic_partitions"])
    yield "expression", member["subscribed_topic_regex"]
    yield "epoch of all", member["member_epoch"]
    other = Native(side, name, "o")
    yield "epoch with a known one", other.join(subscribed_topic_names=[], subscribed_topic_regex=wanted).member_epoch
    yield "group epoch with a known one", describe(side, name)["group_epoch"]
    third = Native(side, name, "t")
    joined = third.join(subscribed_topic_names=[], subscribed_topic_regex=f"{name}.*")
    yield "another one", (joined.member_epoch - other.epoch, joined.assignment.topic_partitions)
    yield "group epoch with another one", describe(side, name)["group_epoch"]


def replaced_native(side: Side, name: str) -> Iterator[Answer]:
    """A static classic member in the place of the last native one: with its topics, and with others."""
    side.create(name, f"{name}-other")
    for topics in ((name,), (name, f"{name}-other")):
        group = f"{name}-{len(topics)}"
        side.coordinate(group)
        native = Native(side, group, "n", name, instance_id="i")
        native.join()
        eventually(lambda native=native: bool(native.beat()) and len(native.owned), 1)  # type: ignore[misc]
        newcomer = Classic(side, group, *topics, instance_id="i")
        newcomer.wire.send(newcomer.join_request(), 9)
        assert newcomer.wire.has_answer(5), "its JoinGroup waits"
        answer = side.plain(newcomer.joined())
        del answer["member_id"]  # Kafka makes another form of id in a consumer group
        yield f"joined {topics}", answer
        yield f"state {topics}", state(side, group)
        if newcomer.generation > 0:
            yield "synced", side.plain(newcomer.sync())
            yield "heartbeat", newcomer.beat()
        newcomer.join()
        yield f"leads {topics}", newcomer.leader == newcomer.member_id


def configs(side: Side, name: str) -> Iterator[Answer]:
    """DescribeConfigs of settings that are set, and of those that are not: values, sources, synonyms."""
    side.create(name)
    wanted = {
        4: ("1", ["group.min.session.timeout.ms", "group.max.session.timeout.ms", "log.retention.hours"]),
        2: (name, ["cleanup.policy", "retention.bytes", "segment.bytes", "max.message.bytes"]),
        32: (name, ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]),
    }
    for kind, (resource, keys) in wanted.items():
        asked = DescribeConfigsRequest.Resource(
            resource_type=kind, resource_name=resource, configuration_keys=[*keys, "no.such.setting"]
        )
        found = side.admin.call(DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4).results[0]
        found.configs.sort(key=lambda each: each.name)
        yield f"resource type {kind}", side.plain(found)
    keys = ["listeners", "advertised.listeners", "node.id"]
    asked = DescribeConfigsRequest.Resource(resource_type=4, resource_name="1", configuration_keys=keys)
    for found in side.admin.call(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs:
        yield found.name, (side.address in found.value or found.value, found.config_source)


def api_versions(side: Side, _name: str) -> Iterator[Answer]:
    """The versions of every API that we have."""
    request = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
    answer = side.admin.call(request, 4)
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    for key in OURS:
        yield f"API {key}", served[key]
    final = {each.name: each.max_version_level for each in answer.finalized_features}
    yield "group.version", final["group.version"]


OURS = (*range(4), *range(8, 24), 32, 33, 35, 36, 37, 42, 44, 47, 60, 68, 69, 74, 75)


def log_dirs(side: Side, name: str) -> Iterator[Answer]:
    """The sizes of partitions, in every version."""
    side.create(name, partitions=2)
    asked = DescribeLogDirsRequest.DescribableLogDirTopic
    for version in range(1, 6):
        wanted = [asked(topic=name, partitions=[0, 1, 5]), asked(topic=f"{name}-unknown", partitions=[0])]
        answer = side.admin.call(DescribeLogDirsRequest(topics=wanted), version)
        (found,) = answer.results
        yield f"v{version} has room", 0 < found.usable_bytes < found.total_bytes
        for topic in found.topics:
            topic.partitions.sort(key=lambda each: each.partition_index)
        yield f"v{version}", [side.plain(topic) for topic in found.topics]


def static_sessions(side: Side, name: str) -> Iterator[Answer]:
    """When a static member is out whose connection closes behind a heartbeat, answered or not."""
    side.create(name)
    for is_answered in (True, False):
        group = f"{name}-{is_answered}"
        side.coordinate(group)
        member = Classic(side, group, name, instance_id="i", session_ms=SESSION_MS)
        member.join()
        member.sync({member.member_id: assigned(name, 0)})
        side.wait(1)
        last = time.monotonic()
        member.wire.send(member.heartbeat_request(), 4)
        if is_answered:
            member.wire.receive()
        member.wire.close()
        eventually(lambda group=group: len(members(side, group)), 0)  # type: ignore[misc]
        yield f"answered {is_answered}", round(time.monotonic() - last)


def assignors_data(side: Side, name: str) -> Iterator[Answer]:
    """Conversion of groups whose subscriptions or assignments carry user data."""
    side.create(name)
    for sent, given in ((b"sent", None), (None, b"given"), (b"echo", b"echo"), (None, b"")):
        group = f"{name}-{sent!r}-{given!r}"
        side.coordinate(group)
        member = Classic(side, group, name, user_data=sent, instance_id="i")
        member.join()
        member.sync({member.member_id: assigned(name, 0, 1, user_data=given)})
        native = Native(side, group, "n", name)
        yield f"subscription {sent!r}, assignment {given!r}", side.plain(native.join())


def caught_between(side: Side, name: str) -> Iterator[Answer]:
    """A static and a dynamic classic member, a native one that joins and leaves, and the responses that each gets."""
    yield from _caught_between(side, name, "range")


def cooperative_caught_between(side: Side, name: str) -> Iterator[Answer]:
    """The same, of members that keep their partitions."""
    yield from _caught_between(side, name, "cooperative-sticky")


def _caught_between(side: Side, name: str, protocol: str) -> Iterator[Answer]:
    side.create(name)
    side.coordinate(name)
    static = Classic(side, name, name, instance_id="i", protocol=protocol)
    dynamic = Classic(side, name, name, protocol=protocol)
    static.join()
    static.sync({static.member_id: assigned(name, 0, 1, 2)})
    dynamic.enter()
    static.enter()
    for member in (static, dynamic):
        member.joined()
    shares = {static.member_id: assigned(name, 0, 1), dynamic.member_id: assigned(name, 2)}
    leader, follower = sorted((static, dynamic), key=lambda each: each.member_id != each.leader)
    follower.wire.send(follower.sync_request(), 5)
    leader.wire.send(leader.sync_request(shares), 5)
    yield "assigned", [ErrorCode(each.wire.receive().error_code).name for each in (static, dynamic)]
    if protocol != "range":
        static.owned = (TopicPartition(name, 0), TopicPartition(name, 1))
        dynamic.owned = (TopicPartition(name, 2),)
    native = Native(side, name, "n", name)
    yield "native joins", ErrorCode(native.join().error_code).name
    yield "state", state(side, name)
    yield "dynamic's heartbeat", dynamic.beat()
    yield "static's heartbeat", static.beat()
    yield "dynamic commits", commit(dynamic, name)
    yield "state then", state(side, name)
    yield "described", [member_state(each) for each in by_id(describe(side, name))]
    yield "static syncs", ErrorCode(static.sync().error_code).name
    yield "a stranger syncs", ErrorCode(stranger(side, name).sync().error_code).name
    yield "a stranger's heartbeat", stranger(side, name).beat()
    newcomer = Classic(side, name, name, instance_id="i", protocol=protocol)
    newcomer.wire.send(newcomer.join_request(), 9)
    yield "static comes back", came_back(newcomer)
    yield "static of before", static.beat()
    fresh = Classic(side, name, name, protocol=protocol)
    yield "newcomer", ErrorCode(fresh.wire.call(fresh.join_request(), 9).error_code).name
    yield "state with both", state(side, name)
    yield "native goes", ErrorCode(native.call(member_epoch=-1).error_code).name
    yield "state without it", state(side, name)
    yield "dynamic's heartbeat after", dynamic.beat()


def commit(member: Classic, topic: str) -> str:
    part = OffsetCommitRequest.Topic.Partition(partition_index=2, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation,
        topics=[OffsetCommitRequest.Topic(name=topic, partitions=[part])],
    )
    return ErrorCode(member.wire.call(request, 9).topics[0].partitions[0].error_code).name


def by_id(group: Any) -> list[Any]:
    return sorted(group["members"], key=lambda each: (each["member_type"], each["instance_id"] or ""))


def member_state(member: Any) -> tuple[Any, ...]:
    """Return what is comparable of a member whose target an assignor chose freely."""
    owned = [topic["partitions"] for topic in member["assignment"]["topic_partitions"]]
    return member["instance_id"], member["member_type"], member["member_epoch"], owned, member["subscribed_topic_regex"]


def members(side: Side, group: str) -> list[Any]:
    found = side.admin.call(DescribeGroupsRequest(groups=[group]), 5).groups[0].members
    return list(found)


def refusals_of_consumer_groups(side: Side, name: str) -> Iterator[Answer]:
    """What a consumer group answers to a JoinGroup that it cannot take, and what blank names are answered."""
    side.create(name)
    native = Native(side, name, "native", name)
    native.join()
    unreadable = [JoinGroupRequest.Protocol(name="range", metadata=b"\0")]
    for what, fields in (("type", {"protocol_type": "connect"}), ("none", {"protocols": []})):
        for member_id in ("", "someone"):
            member = Classic(side, name, name)
            member.member_id = member_id
            for version in (3, 9):
                answer = member.wire.call(member.join_request(**fields), version)
                yield f"{what} {member_id} v{version}", side.plain(answer)
    first = Classic(side, name, name)
    yield "unreadable", ErrorCode(first.wire.call(first.join_request(protocols=unreadable), 9).error_code).name
    joining = {"rebalance_timeout_ms": 6_000, "subscribed_topic_names": [name], "topic_partitions": []}
    for field in ("group_id", "member_id", "instance_id", "rack_id"):
        for blank in ("", " "):
            answer = native.wire.call(Native(side, f"{name}-blank", "m", name).request(**{**joining, field: blank}), 1)
            yield f"{field} {blank!r}", (ErrorCode(answer.error_code).name, answer.error_message)


def long_names(side: Side, name: str) -> Iterator[Answer]:
    """A client id, and an instance id, from which a member id is made that no record can have."""
    side.create(name)
    for length in (32_730, 32_731):
        for version in (4, 6, 9):
            member = Classic(side, f"{name}-{length}-{version}", name)
            answer = Wire(side.address, "c" * length).call(member.join_request(), version)
            yield f"client id {length} v{version}", (ErrorCode(answer.error_code).name, len(answer.member_id))
    member = Classic(side, f"{name}-instance", name, instance_id="i" * 32_731)
    yield "instance id", ErrorCode(member.wire.call(member.join_request(), 9).error_code).name
    for field in ("group_id", "member_id", "group_instance_id"):
        member = Classic(side, f"{name}-long", name)
        with pytest.raises(EOFError):
            member.wire.call(member.join_request(**{field: "n" * 32_768}), 9)
        yield field, "closed"


def revocations(side: Side, name: str) -> Iterator[Answer]:
    """Who is shown to have a partition that its owner has not given back yet."""
    side.create(name, partitions=4)
    first, second = Native(side, name, "first", name), Native(side, name, "second", name)
    first.join()
    eventually(lambda: bool(first.beat()) and sum(len(each.partitions) for each in first.owned) == 4, True)
    everything = first.owned
    second.join()
    eventually(lambda: bool(first.call(topic_partitions=everything)) and first.owned != everything, True)
    members = describe(side, name)["members"]
    yield "shown", {member["member_id"]: member["assignment"] for member in members}  # lists have no order


def came_back(member: Classic) -> str:
    """Return what a JoinGroup is answered within a second, or that it waits."""
    if not member.wire.has_answer(1):
        return "waits"
    return ErrorCode(member.joined().error_code).name


def stranger(side: Side, name: str) -> Classic:
    found = Classic(side, name, name)
    found.member_id, found.generation = "stranger", 2
    return found


def describe(side: Side, group: str) -> Any:
    return side.plain(side.admin.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0])


def state(side: Side, group: str) -> tuple[str, str]:
    """Return the type and the state of a group."""
    (found,) = [each for each in side.admin.call(ListGroupsRequest(), 5).groups if each.group_id == group]
    return found.group_type, found.group_state


ALWAYS: tuple[Scenario, ...] = (caught_between, cooperative_caught_between, assignors_data)
ONCE: tuple[Scenario, ...] = (
    empty_group_ids,
    offset_fetch,
    transactions,
    transactions_of_version_2,
    described_members,
    expression,
    replaced_native,
    configs,
    api_versions,
    log_dirs,
    static_sessions,
    refusals_of_consumer_groups,
    long_names,
    revocations,
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", [*ALWAYS, *ONCE], ids=lambda scenario: scenario.__name__)
def test_both_brokers_answer_alike(scenario: Scenario, pair: tuple[str, ApacheKafka, KohortBroker], name: str) -> None:
    policy, theirs, ours = pair
    if policy != EVERYWHERE and scenario in ONCE:
        pytest.skip("no matter of policies")
    sides = (Side(theirs.bootstrap), Side(ours.bootstrap))
    try:
        for side in sides:
            side.coordinate(name)
        found = differences(scenario, sides, name)
    finally:
        for side in sides:
            side.close()
    listed = DIFFERENCES.get((scenario.__name__, policy), ())
    assert [each for each in found if each.partition(": ")[0] not in listed] == []
    assert {each.partition(": ")[0] for each in found} == set(listed), "what is listed differs"
