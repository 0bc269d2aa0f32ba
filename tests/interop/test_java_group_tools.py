"""Apache Kafka's own tools against groups of the consumer protocol, one of whose members may be classic."""

from __future__ import annotations

import pytest
from interop.brokers import Broker
from interop.group import Group, keyed
from interop.producers import produce
from interop.waiting import eventually
from tests.interop.kafka_tools import CONFIG, GROUPS, attempt, table, tool

pytestmark = [pytest.mark.timeout(150), pytest.mark.usefixtures("java")]


@pytest.mark.capability("Java tools", "ConsumerGroupCommand on a consumer group: list, describe")
def test_group_command_describes_a_consumer_group_with_a_classic_member(broker: Broker, group: Group) -> None:
    group.start("kohort", assignor="range")
    group.settle()
    group.start("librdkafka", protocol="consumer")
    group.calm(1)
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(120, 30))
    group.drain(written)
    chosen = [group.name, "Consumer", "Stable"]
    listed = tool(broker, GROUPS, "--list", "--type", "consumer", "--state", "stable")
    assert chosen in [line.split() for line in listed.splitlines()]
    asked = ("--describe", "--group", group.name)
    offsets = table(tool(broker, GROUPS, *asked))
    assert {int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in offsets} == group.committed()
    assert {row["LAG"] for row in offsets} == {"0"}
    members = {row["CLIENT-ID"]: row for row in table(tool(broker, GROUPS, *asked, "--members", "--verbose"))}
    assert {client: row["UPGRADED"] for client, row in members.items()} == {"kohort": "false", "librdkafka": "true"}
    for member in group.members:
        row = members[member.library]
        assert row["#PARTITIONS"] == "3"
        assert row["CURRENT-EPOCH"] == row["TARGET-EPOCH"]
        owned = f"{group.topic}:{','.join(map(str, sorted(member.owned)))}"
        assert row["CURRENT-ASSIGNMENT"] == row["TARGET-ASSIGNMENT"] == owned
    state = tool(broker, GROUPS, *asked, "--state", "--verbose").splitlines()[-1].split()
    epoch = next(iter(members.values()))["CURRENT-EPOCH"]
    # The coordinator's address and its id are two words.
    assert state[-5:] == ["uniform", "Stable", epoch, epoch, "2"]


@pytest.mark.capability("Java tools", "ConsumerGroupCommand on a consumer group: reset, delete offsets, delete")
def test_group_command_resets_and_deletes_a_consumer_group(broker: Broker, group: Group) -> None:
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(120, 30))
    member = group.start("librdkafka", protocol="consumer")
    group.drain(written)
    chosen = ("--group", group.name, "--topic", group.topic)
    assert "GroupNotEmptyException" in attempt(broker, GROUPS, "--delete", "--group", group.name)
    assert "GroupSubscribedToTopicException" in attempt(broker, GROUPS, *chosen, "--delete-offsets")
    busy = attempt(broker, GROUPS, *chosen, "--reset-offsets", "--to-earliest", "--execute")
    assert "the current state is Stable" in busy
    group.leave(member)
    state = tool(broker, GROUPS, "--describe", "--group", group.name, "--state")
    assert "Empty" in state
    reset = table(tool(broker, GROUPS, *chosen, "--reset-offsets", "--to-earliest", "--execute"))
    assert {row["NEW-OFFSET"] for row in reset} == {"0"}
    offsets = table(tool(broker, GROUPS, "--describe", "--group", group.name))
    assert {row["CURRENT-OFFSET"] for row in offsets} == {"0"}
    again = group.start("librdkafka", protocol="consumer")
    group.await_(lambda: len(again.rows) == len(written), "everything is read once more", 30)
    group.leave(again)
    assert "Successful" in tool(broker, GROUPS, *chosen, "--delete-offsets")
    assert "was successful" in tool(broker, GROUPS, "--delete", "--group", group.name)
    eventually(lambda: group.name in tool(broker, GROUPS, "--list").split(), False)


@pytest.mark.capability("Java tools", "ConfigCommand on groups: alter, describe")
def test_config_command_alters_and_describes_a_group(broker: Broker, name: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", name)
    settings = "consumer.session.timeout.ms=7000,consumer.heartbeat.interval.ms=2000"
    tool(broker, CONFIG, *entity, "--alter", "--add-config", settings)
    eventually(lambda: "consumer.session.timeout.ms=7000" in tool(broker, CONFIG, *entity, "--describe"), True)
    every = tool(broker, CONFIG, *entity, "--describe", "--all")
    assert "DYNAMIC_GROUP_CONFIG:consumer.heartbeat.interval.ms=2000" in every
    assert "consumer.assignment.interval.ms=1000" in every
    tool(broker, CONFIG, *entity, "--alter", "--delete-config", "consumer.session.timeout.ms")
    eventually(lambda: "consumer.session.timeout.ms=7000" in tool(broker, CONFIG, *entity, "--describe"), False)
    unknown = attempt(broker, CONFIG, *entity, "--alter", "--add-config", "no.such=1")
    assert "InvalidConfigurationException" in unknown
