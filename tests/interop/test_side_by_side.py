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
from tests.interop.conftest import SHORT_SESSIONS

from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.wire.consumer_protocol import encode_assignment
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
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
    ("expression", EVERYWHERE): ("epoch of the join", "topics of the join"),
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
    described_members,
    expression,
    configs,
    api_versions,
    log_dirs,
    static_sessions,
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
