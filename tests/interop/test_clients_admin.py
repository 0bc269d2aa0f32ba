"""The admin calls that each library has: topics, configs, records, groups, offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from interop.brokers import Broker
from interop.group import Group, keyed
from interop.producers import produce
from interop.waiting import eventually, eventually_async

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def emptied(broker: Broker, group: Group) -> dict[int, int]:
    """A group that has read its topic to the end and has no member left; its committed offsets."""
    pytest.importorskip("confluent_kafka")
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(120, 30))
    member = group.start("librdkafka")
    group.drain(written)
    group.leave(member)
    return group.committed()


# ---- librdkafka


@pytest.fixture
def librdkafka(broker: Broker) -> Any:
    """A confluent-kafka AdminClient."""
    return pytest.importorskip("confluent_kafka.admin").AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.mark.capability("librdkafka", "admin: topics")
def test_librdkafka_creates_grows_describes_and_deletes_a_topic(librdkafka: Any, name: str) -> None:
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import NewPartitions, NewTopic

    librdkafka.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "60000"})])[name].result(10)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        librdkafka.create_topics([NewTopic(name, 3, 1)])[name].result(10)
    librdkafka.create_partitions([NewPartitions(name, 5)])[name].result(10)

    def partitions() -> list[int]:
        return [each.id for each in librdkafka.describe_topics(TopicCollection([name]))[name].result(10).partitions]

    eventually(partitions, [0, 1, 2, 3, 4])
    assert name in librdkafka.list_topics(timeout=10).topics
    librdkafka.delete_topics([name])[name].result(10)
    eventually(lambda: name in librdkafka.list_topics(timeout=10).topics, False)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        partitions()


@pytest.mark.capability("librdkafka", "admin: configs")
def test_librdkafka_describes_and_alters_configs(librdkafka: Any, topic: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    librdkafka.incremental_alter_configs([resource])[resource].result(10)
    asked = ConfigResource(ResourceType.TOPIC, topic)

    def retention() -> str:
        return str(librdkafka.describe_configs([asked])[asked].result(10)["retention.ms"].value)

    eventually(retention, "123456")
    found = librdkafka.describe_configs([asked])[asked].result(10)
    assert not found["retention.ms"].is_default
    assert found["segment.bytes"].is_default
    undo = ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[undo])
    librdkafka.incremental_alter_configs([resource])[resource].result(10)
    eventually(retention, "604800000")
    node = next(iter(librdkafka.list_topics(timeout=10).brokers))
    broker = ConfigResource(ResourceType.BROKER, str(node))
    assert librdkafka.describe_configs([broker])[broker].result(10)["node.id"].value == str(node)


@pytest.mark.capability("librdkafka", "admin: groups")
def test_librdkafka_lists_describes_and_deletes_a_group(librdkafka: Any, group: Group) -> None:
    from confluent_kafka import ConsumerGroupState, KafkaException

    member = group.start("librdkafka")
    group.settle()
    found = librdkafka.describe_consumer_groups([group.name])[group.name].result(10)
    assert found.state == ConsumerGroupState.STABLE
    assert [m.client_id for m in found.members] == ["librdkafka"]
    assert {each.partition for each in found.members[0].assignment.topic_partitions} == group.partitions
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        librdkafka.delete_consumer_groups([group.name])[group.name].result(10)
    group.leave(member)
    listed = {each.group_id: each for each in librdkafka.list_consumer_groups().result(10).valid}
    assert listed[group.name].state == ConsumerGroupState.EMPTY
    librdkafka.delete_consumer_groups([group.name])[group.name].result(10)
    assert group.name not in {each.group_id for each in librdkafka.list_consumer_groups().result(10).valid}


@pytest.mark.capability("librdkafka", "admin: offsets of a group")
def test_librdkafka_lists_and_alters_offsets(librdkafka: Any, group: Group, emptied: dict[int, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    def listed() -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group.name)]
        found = librdkafka.list_consumer_group_offsets(asked)[group.name].result(10)
        return {each.partition: each.offset for each in found.topic_partitions}

    assert listed() == emptied
    moved = dict.fromkeys(emptied, 1)
    offsets = [TopicPartition(group.topic, partition, 1) for partition in emptied]
    change = [ConsumerGroupTopicPartitions(group.name, offsets)]
    librdkafka.alter_consumer_group_offsets(change)[group.name].result(10)
    assert listed() == moved


@pytest.mark.capability("librdkafka", "admin: list offsets, delete records")
def test_librdkafka_lists_log_offsets_and_deletes_records(librdkafka: Any, broker: Broker, topic: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    written = produce("librdkafka", broker.bootstrap, topic, keyed(120, 30))
    end = max(offset for partition, offset in written if partition == 0) + 1
    place = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        return int(librdkafka.list_offsets({place: spec})[place].result(10).offset)

    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (0, end)
    assert 0 <= offset(OffsetSpec.max_timestamp()) < end
    assert offset(OffsetSpec.for_timestamp(1000)) == 0
    cut = [TopicPartition(topic, 0, 2)]
    assert librdkafka.delete_records(cut)[cut[0]].result(10).low_watermark == 2
    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (2, end)


@pytest.mark.capability("librdkafka", "admin: describe cluster")
def test_librdkafka_describes_the_cluster(librdkafka: Any, broker: Broker) -> None:
    found = librdkafka.describe_cluster().result(10)
    assert found.cluster_id
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [broker.bootstrap]
    assert found.controller.id == found.nodes[0].id


# ---- kafka-python


@pytest.fixture
def kafka_python(broker: Broker) -> Iterator[Any]:
    """A kafka-python KafkaAdminClient."""
    admin = pytest.importorskip("kafka").KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield admin
    admin.close()


@pytest.mark.capability("kafka_python", "admin: topics")
def test_kafka_python_creates_grows_describes_and_deletes_a_topic(kafka_python: Any, name: str) -> None:
    from kafka.errors import TopicAlreadyExistsError

    kafka_python.create_topics({name: {"num_partitions": 3, "replication_factor": 1}})
    with pytest.raises(TopicAlreadyExistsError):
        kafka_python.create_topics({name: {"num_partitions": 3, "replication_factor": 1}})
    kafka_python.create_partitions({name: 5})

    def partitions() -> list[int]:
        (described,) = kafka_python.describe_topics([name])
        return sorted(each["partition_index"] for each in described["partitions"])

    eventually(partitions, [0, 1, 2, 3, 4])
    (described,) = kafka_python.describe_topic_partitions([name])["topics"]
    assert len(described["partitions"]) == 5
    assert name in kafka_python.list_topics()
    kafka_python.delete_topics([name])
    eventually(lambda: name in kafka_python.list_topics(), False)


@pytest.mark.capability("kafka_python", "admin: log directories")
def test_kafka_python_takes_the_broker_for_kafka_4_3_and_describes_its_directory(kafka_python: Any, topic: str) -> None:
    assert kafka_python._manager.broker_version == (4, 3)

    def directory() -> dict[str, Any]:
        (found,) = kafka_python.describe_log_dirs()
        (only,) = found["log_dirs"]
        return dict(only)

    eventually(lambda: topic in {each["name"] for each in directory()["topics"]}, True)
    found = directory()
    assert 0 < found["usable_bytes"] < found["total_bytes"]


@pytest.mark.capability("kafka_python", "admin: configs")
def test_kafka_python_describes_and_alters_configs(kafka_python: Any, topic: str) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    def modified() -> dict[str, str]:
        found = kafka_python.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "123456"})
    kafka_python.alter_configs([change])
    eventually(modified, {"retention.ms": "123456"})
    kafka_python.reset_configs([change])
    unchanged: dict[str, str] = {}
    eventually(modified, unchanged)


@pytest.mark.capability("kafka_python", "admin: groups")
def test_kafka_python_lists_describes_and_deletes_a_group(kafka_python: Any, group: Group) -> None:
    member = group.start("kafka_python")
    group.settle()
    found = kafka_python.describe_groups([group.name])[group.name]
    assert found["group_state"] == "Stable"
    assert [m["client_id"] for m in found["members"]] == ["kafka-python"]
    group.leave(member)
    assert group.name in {each["group_id"] for each in kafka_python.list_groups()}
    assert group.name in {each["group_id"] for each in kafka_python.list_groups(states_filter=["Empty"])}
    assert group.name not in {each["group_id"] for each in kafka_python.list_groups(states_filter=["Stable"])}
    kafka_python.delete_groups([group.name])
    assert group.name not in {each["group_id"] for each in kafka_python.list_groups()}


@pytest.mark.capability("kafka_python", "admin: remove members of a group")
def test_kafka_python_removes_a_static_member(kafka_python: Any, group: Group) -> None:
    from kafka.admin import MemberToRemove

    kept = group.start("librdkafka", instance="kept", session_ms="15000")
    removed = group.start("librdkafka", instance="removed", session_ms="15000")
    group.settle()
    group.kill(removed)
    kafka_python.remove_group_members(group.name, [MemberToRemove(group_instance_id="removed")])
    group.settle(10)
    assert kept.owned == group.partitions


@pytest.mark.capability("kafka_python", "admin: offsets of a group")
def test_kafka_python_lists_alters_resets_and_deletes_offsets(
    kafka_python: Any, group: Group, emptied: dict[int, int]
) -> None:
    from kafka import OffsetAndMetadata, TopicPartition
    from kafka.admin import OffsetSpec

    def listed() -> dict[int, int]:
        found = kafka_python.list_group_offsets({group.name: None})[group.name]
        return {each.partition: place.offset for each, place in found.items()}

    assert listed() == emptied
    first = TopicPartition(group.topic, min(emptied))
    kafka_python.alter_group_offsets(group.name, {first: OffsetAndMetadata(1, "by hand", -1)})
    assert listed() == {**emptied, first.partition: 1}
    kafka_python.reset_group_offsets(group.name, {first: OffsetSpec.EARLIEST})
    assert listed() == {**emptied, first.partition: 0}
    kafka_python.delete_group_offsets(group.name, [first])
    assert listed() == {partition: offset for partition, offset in emptied.items() if partition != first.partition}


@pytest.mark.capability("kafka_python", "admin: list offsets, delete records")
def test_kafka_python_lists_log_offsets_and_deletes_records(kafka_python: Any, broker: Broker, topic: str) -> None:
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec

    written = produce("kafka_python", broker.bootstrap, topic, keyed(120, 30))
    end = max(offset for partition, offset in written if partition == 0) + 1
    place = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        return int(kafka_python.list_partition_offsets({place: spec})[place].offset)

    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST)) == (0, end)
    assert 0 <= offset(OffsetSpec.MAX_TIMESTAMP) < end
    kafka_python.delete_records({place: 2})
    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST)) == (2, end)


@pytest.mark.capability("kafka_python", "admin: describe cluster")
def test_kafka_python_describes_the_cluster(kafka_python: Any, broker: Broker) -> None:
    found = kafka_python.describe_cluster()
    assert [f"{each['host']}:{each['port']}" for each in found["brokers"]] == [broker.bootstrap]


# ---- aiokafka


@pytest.fixture
def aiokafka(broker: Broker) -> Callable[[Callable[[Any], Awaitable[None]]], None]:
    """Run a coroutine function with an AIOKafkaAdminClient."""
    admin_module = pytest.importorskip("aiokafka.admin")

    def run(scenario: Callable[[Any], Awaitable[None]]) -> None:
        async def within() -> None:
            admin = admin_module.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
            await admin.start()
            try:
                await scenario(admin)
            finally:
                await admin.close()

        asyncio.run(within())

    return run


Runner = Callable[[Callable[[Any], Awaitable[None]]], None]


@pytest.mark.capability("aiokafka", "admin: topics")
def test_aiokafka_creates_grows_describes_and_deletes_a_topic(aiokafka: Runner, name: str) -> None:
    from aiokafka.admin import NewPartitions, NewTopic

    async def scenario(admin: Any) -> None:
        created = await admin.create_topics([NewTopic(name, 3, 1)])
        assert [each[1] for each in created.topic_errors] == [0]
        again = await admin.create_topics([NewTopic(name, 3, 1)])
        assert [each[1] for each in again.topic_errors] == [36]
        await admin.create_partitions({name: NewPartitions(5)})

        async def partitions() -> list[int]:
            (described,) = await admin.describe_topics([name])
            return sorted(each["partition"] for each in described["partitions"])

        async def is_listed() -> bool:
            return name in await admin.list_topics()

        # A real cluster's brokers learn of a change a moment after it was answered.
        await eventually_async(partitions, [0, 1, 2, 3, 4])
        assert await is_listed()
        await admin.delete_topics([name])
        await eventually_async(is_listed, False)

    aiokafka(scenario)


@pytest.mark.capability("aiokafka", "admin: configs")
def test_aiokafka_describes_and_alters_configs(aiokafka: Runner, topic: str) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    async def scenario(admin: Any) -> None:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "123456"})])

        async def retention() -> str:
            (found,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            return str({entry[0]: entry[1] for entry in found.resources[0][4]}["retention.ms"])

        await eventually_async(retention, "123456")

    aiokafka(scenario)


@pytest.mark.capability("aiokafka", "admin: groups")
def test_aiokafka_lists_and_describes_a_group(aiokafka: Runner, group: Group) -> None:
    group.start("aiokafka")
    group.settle()

    async def scenario(admin: Any) -> None:
        assert group.name in {each[0] for each in await admin.list_consumer_groups()}
        (found,) = await admin.describe_consumer_groups([group.name])
        code, group_id, state, protocol_type, protocol, members, *_ = found.groups[0]
        assert (code, group_id, state, protocol_type) == (0, group.name, "Stable", "consumer")
        assert protocol == "roundrobin"
        assert len(members) == 1

    aiokafka(scenario)


@pytest.mark.capability("aiokafka", "admin: offsets of a group")
def test_aiokafka_lists_offsets(aiokafka: Runner, group: Group, emptied: dict[int, int]) -> None:
    async def scenario(admin: Any) -> None:
        found = await admin.list_consumer_group_offsets(group.name)
        assert {each.partition: place.offset for each, place in found.items()} == emptied

    aiokafka(scenario)


@pytest.mark.capability("aiokafka", "admin: list offsets, delete records")
def test_aiokafka_deletes_records(aiokafka: Runner, broker: Broker, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import RecordsToDelete

    produce("aiokafka", broker.bootstrap, topic, keyed(120, 30))
    place = TopicPartition(topic, 0)

    async def scenario(admin: Any) -> None:
        assert await admin.delete_records({place: RecordsToDelete(2)}) == {place: 2}
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        try:
            assert await consumer.beginning_offsets([place]) == {place: 2}
            assert (await consumer.offsets_for_times({place: 1000}))[place].offset == 2
        finally:
            await consumer.stop()

    aiokafka(scenario)


@pytest.mark.capability("aiokafka", "admin: describe cluster")
def test_aiokafka_describes_the_cluster(aiokafka: Runner, broker: Broker) -> None:
    async def scenario(admin: Any) -> None:
        found = await admin.describe_cluster()
        assert [f"{each['host']}:{each['port']}" for each in found["brokers"]] == [broker.bootstrap]

    aiokafka(scenario)
