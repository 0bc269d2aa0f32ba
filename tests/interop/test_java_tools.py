"""Apache Kafka's own command line tools, from its jars, against a broker."""

from __future__ import annotations

import json
import re

import pytest
from interop.brokers import Broker
from interop.group import Group, keyed
from interop.producers import produce
from interop.waiting import eventually
from tests.interop.kafka_tools import CONFIG, GROUPS, table, tool

from interop import jars

pytestmark = [pytest.mark.timeout(150), pytest.mark.usefixtures("java")]
JAVA_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.capability("Java tools", "BrokerApiVersionsCommand")
def test_api_versions_command_knows_every_api_of_the_broker(broker: Broker) -> None:
    text = tool(broker, "BrokerApiVersionsCommand")
    assert broker.bootstrap in text
    assert re.search(r"JoinGroup\(11\): \d+ to 9 \[usable: 9\]", text)
    assert re.search(r"Fetch\(1\): 4 to \d+ \[usable: \d+\]", text)
    assert re.search(r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", text)


@pytest.mark.capability("Java tools", "TopicCommand: create, describe, alter, delete")
def test_topic_command_creates_describes_grows_and_deletes(broker: Broker, name: str) -> None:
    created = tool(
        broker, "TopicCommand", "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert "Created topic" in created
    described = tool(broker, "TopicCommand", "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "retention.ms=60000" in described
    assert len(re.findall(r"Leader: \d+", described)) == 3
    tool(broker, "TopicCommand", "--alter", "--topic", name, "--partitions", "5")
    eventually(lambda: "PartitionCount: 5" in tool(broker, "TopicCommand", "--describe", "--topic", name), True)
    assert name in tool(broker, "TopicCommand", "--list").split()
    tool(broker, "TopicCommand", "--delete", "--topic", name)
    eventually(lambda: name in tool(broker, "TopicCommand", "--list").split(), False)


@pytest.mark.capability("Java tools", "LogDirsCommand")
def test_log_dirs_command_shows_the_size_of_each_partition(broker: Broker, topic: str) -> None:
    produce("librdkafka", broker.bootstrap, topic, keyed(50, 7))
    text = tool(broker, "LogDirsCommand", "--describe", "--topic-list", topic)
    (found,) = json.loads(text[text.index("{") :])["brokers"][0]["logDirs"]
    assert not found["error"]
    assert any(each["size"] > 50 and each["partition"].startswith(topic) for each in found["partitions"])


@pytest.mark.capability("Java tools", "ConfigCommand: describe, alter")
def test_config_command_alters_and_describes_a_topic(broker: Broker, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool(broker, CONFIG, *entity, "--alter", "--add-config", "retention.ms=123456,segment.bytes=1048576")
    eventually(lambda: "retention.ms=123456" in tool(broker, CONFIG, *entity, "--describe"), True)
    assert "segment.bytes=1048576" in tool(broker, CONFIG, *entity, "--describe")
    tool(broker, CONFIG, *entity, "--alter", "--delete-config", "retention.ms")
    eventually(lambda: "retention.ms=123456" in tool(broker, CONFIG, *entity, "--describe"), False)
    every = tool(broker, CONFIG, *entity, "--describe", "--all")
    assert "retention.ms=604800000" in every


@pytest.mark.capability("Java tools", "ConfigCommand: describe, alter")
def test_config_command_describes_the_broker(broker: Broker) -> None:
    described = tool(broker, CONFIG, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "group.initial.rebalance.delay.ms=0" in described


@pytest.mark.capability("Java tools", "ConsoleProducer, ConsoleConsumer from the beginning and in a group")
def test_console_producer_and_consumer_carry_lines(broker: Broker, topic: str, name: str) -> None:
    lines = [f"k{i % 5}\tline {i} – ü" for i in range(40)]
    tool(
        broker,
        "ConsoleProducer",
        *("--topic", topic, "--reader-property", "parse.key=true", "--command-property", "enable.idempotence=true"),
        text="\n".join(lines) + "\n",
    )
    reading = ("--topic", topic, "--timeout-ms", "8000", "--formatter-property", "print.key=true")
    read = tool(broker, "consumer.ConsoleConsumer", *reading, "--from-beginning", "--max-messages", "40")
    assert sorted(read.splitlines()) == sorted(lines)
    group = ("--group", f"console-{name}")
    read = tool(broker, "consumer.ConsoleConsumer", *reading, *group, "--from-beginning", "--max-messages", "40")
    assert sorted(read.splitlines()) == sorted(lines)
    # The group goes on after what it has committed.
    tool(broker, "ConsoleProducer", "--topic", topic, text="one more\n")
    read = tool(broker, "consumer.ConsoleConsumer", *reading, *group, "--max-messages", "1")
    assert read.splitlines() == ["null\tone more"]


@pytest.mark.parametrize("codec", JAVA_CODECS)
@pytest.mark.capability("Java tools", "ProducerPerformance, ConsumerPerformance")
def test_performance_tools_send_and_read_everything(codec: str, broker: Broker, topic: str) -> None:
    properties = ("--command-property", "acks=all", f"compression.type={codec}", "batch.size=65536", "linger.ms=5")
    sizes = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    sent = tool(broker, "ProducerPerformance", "--topic", topic, *sizes, *properties)
    assert "20000 records sent" in sent
    read = tool(broker, "ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--hide-header")
    assert re.search(r", 20000, \d", read), read


@pytest.mark.capability("Java tools", "GetOffsetShell")
def test_offset_shell_prints_the_ends_of_each_partition(broker: Broker, topic: str) -> None:
    written = produce("librdkafka", broker.bootstrap, topic, keyed(120, 30))
    ends = {partition: max(o for p, o in written if p == partition) + 1 for partition, _ in written}
    printed = tool(broker, "GetOffsetShell", "--topic-partitions", topic)
    assert set(printed.split()) == {f"{topic}:{partition}:{ends.get(partition, 0)}" for partition in range(6)}
    printed = tool(broker, "GetOffsetShell", "--topic-partitions", topic, "--time", "earliest")
    assert set(printed.split()) == {f"{topic}:{partition}:0" for partition in range(6)}
    printed = tool(broker, "GetOffsetShell", "--topic-partitions", topic, "--time", "max-timestamp")
    assert len(printed.split()) == 6


@pytest.mark.capability("Java tools", "ConsumerGroupCommand: list, describe")
def test_group_command_lists_and_describes_a_live_group(broker: Broker, group: Group) -> None:
    group.start("librdkafka")
    group.start("kafka_python", assignor="range")
    group.settle()
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(120, 30))
    group.drain(written)
    assert group.name in tool(broker, GROUPS, "--list").split()
    states = [line.split() for line in tool(broker, GROUPS, "--list", "--state").splitlines()]
    assert [group.name, "Stable"] in states
    asked = ("--describe", "--group", group.name)
    rows = table(tool(broker, GROUPS, *asked, "--offsets"))
    assert {int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in rows if row["CURRENT-OFFSET"] != "-"} == (
        group.committed()
    )
    assert {row["LAG"] for row in rows} <= {"0", "-"}
    assert {row["CLIENT-ID"] for row in rows} == {"librdkafka", "kafka-python"}
    members = table(tool(broker, GROUPS, *asked, "--members", "--verbose"))
    assert sorted(row["CLIENT-ID"] for row in members) == ["kafka-python", "librdkafka"]
    assert [row["#PARTITIONS"] for row in members] == ["3", "3"]
    assert all(f"{group.topic}" in str(row) for row in members)
    (state,) = table(tool(broker, GROUPS, *asked, "--state"))
    assert "Stable" in state.values() or "Stable" in str(state)


@pytest.mark.capability("Java tools", "ConsumerGroupCommand: reset, delete offsets, delete")
def test_group_command_resets_and_deletes_offsets_and_groups(broker: Broker, group: Group) -> None:
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(120, 30))
    member = group.start("librdkafka")
    group.drain(written)
    chosen = ("--group", group.name, "--topic", group.topic)
    busy = jars.attempt(GROUPS, "--bootstrap-server", broker.bootstrap, "--delete", "--group", group.name)
    assert "GroupNotEmptyException" in busy or "is not empty" in busy
    group.leave(member)
    reset = table(tool(broker, GROUPS, *chosen, "--reset-offsets", "--to-earliest", "--execute"))
    assert {row["NEW-OFFSET"] for row in reset} == {"0"}
    offsets = table(tool(broker, GROUPS, "--describe", "--group", group.name))
    assert {row["CURRENT-OFFSET"] for row in offsets} == {"0"}
    shifted = table(tool(broker, GROUPS, *chosen, "--reset-offsets", "--shift-by", "2", "--execute"))
    assert {row["NEW-OFFSET"] for row in shifted} <= {"2", "0", "1"}
    tool(broker, GROUPS, *chosen, "--reset-offsets", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    deleted = tool(broker, GROUPS, *chosen, "--delete-offsets")
    assert "Successful" in deleted
    gone = tool(broker, GROUPS, "--delete", "--group", group.name)
    assert "successful" in gone
    eventually(lambda: group.name in tool(broker, GROUPS, "--list").split(), False)
