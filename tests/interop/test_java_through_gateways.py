"""Java members of every protocol through gateways: what holds of them on a broker holds of them there."""

from __future__ import annotations

import json
import subprocess

import pytest
from interop.committed import read_committed
from interop.group import NEWEST_JAVA
from interop.kohort_gateway import KohortGateway
from interop.waiting import eventually
from tests.interop.kafka_tools import CONFIG, GROUPS, table, tool
from tests.interop.lanes import Stage
from tests.interop.test_group_matrix import join_leave_and_be_killed
from tests.interop.topics import create_topic

from interop import jars
from kohort.sync import Admin

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(26)]
DYNAMIC = {
    "listener_of_three": ("range", "cooperative-sticky", "consumer"),
    "rewrite_of_three": ("range", "sticky", "cooperative-sticky", "consumer"),
    "coordinators_of_newest": ("cooperative-sticky", "consumer"),
    "rewrite_of_older": ("range", "cooperative-sticky"),
    "rewrite_of_newest": ("consumer",),
}
STATIC = {"listener_of_three": ("cooperative-sticky",), "rewrite_of_three": ("range", "cooperative-sticky", "consumer")}
TRANSACTION_VERSIONS = {"listener_of_three": 2, "rewrite_of_three": 2, "rewrite_of_newest": 2, "rewrite_of_older": 1}
CELLS = [
    (kind, protocol, membership)
    for membership, kinds in (("dynamic", DYNAMIC), ("static", STATIC))
    for kind, protocols in kinds.items()
    for protocol in protocols
]


@pytest.mark.parametrize(("broker", "protocol", "membership"), CELLS)
@pytest.mark.capability("java", "matrix: {protocol}, {membership}")
def test_java_members_through_a_gateway(protocol: str, membership: str, stage: Stage) -> None:
    join_leave_and_be_killed("java", protocol, membership, stage)


@pytest.mark.parametrize(
    ("broker", "protocol"), [("rewrite_of_newest", "cooperative-sticky"), ("coordinators_of_newest", "consumer")]
)
@pytest.mark.capability("java", "members of 4.4.0, which name cluster and node (KIP-1242), {protocol}")
def test_newest_java_members_through_a_gateway(protocol: str, stage: Stage) -> None:
    join_leave_and_be_killed(NEWEST_JAVA, protocol, "dynamic", stage)


@pytest.mark.parametrize(("broker", "transaction_version"), TRANSACTION_VERSIONS.items())
@pytest.mark.capability("java", "producer: acks=0, acks=all, idempotent, transactions")
def test_java_producers_through_a_gateway(transaction_version: int, stage: Stage) -> None:
    assert isinstance(stage.broker, KohortGateway)
    create_topic(stage.bootstrap, stage.name, 6)
    command = jars.command("Producing", stage.bootstrap, stage.name, classes=jars.compiled("Producing"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    kinds = {each["kind"]: each for each in map(json.loads, done.stdout.splitlines())}
    found = read_committed(stage.broker.upstream, stage.name, 6)
    values = [each.value for each in found]
    assert len(set(values)) == len(values), "a record was written twice"
    assert {f"acks-0:{number}" for number in range(120)} <= set(values)
    places = {(each.partition, each.offset, each.value) for each in found}
    for kind in ("acks-all", "idempotent", "transactional"):
        assert {tuple(row) for row in kinds[kind]["placed"]} == {row for row in places if row[2].startswith(f"{kind}:")}
    assert len(kinds["transactional"]["aborted"]) == 40
    with Admin(stage.broker.upstream) as admin:
        committed = admin.group_offsets(f"transactions-{stage.name}")
    assert [each.offset for each in committed.values()] == [5], "the offset of the last transaction that was committed"
    assert (producer_epoch(stage) >= 6) == (transaction_version == 2), "by version 2 each transaction raises it"


def producer_epoch(stage: Stage) -> int:
    """Return what Apache's tool shows of the transactions' producer."""
    text = tool(stage, "TransactionsCommand", "describe", "--transactional-id", f"transactions-{stage.name}")
    header, row = (line.split("\t") for line in text.strip().splitlines()[-2:])
    found = {name.strip(): value.strip() for name, value in zip(header, row, strict=False)}
    assert found["TransactionState"] in ("CompleteCommit", "CompleteAbort"), text
    return int(found["ProducerEpoch"])


@pytest.mark.parametrize("broker", ["listener_of_three", "rewrite_of_three"])
@pytest.mark.capability(
    "Java tools", "ConsumerGroupCommand, TopicCommand, ConsoleProducer, ConsoleConsumer, ConfigCommand"
)
def test_java_tools_through_a_gateway(stage: Stage) -> None:
    tool(stage, "TopicCommand", "--create", "--topic", stage.name, "--partitions", "3")
    assert "PartitionCount: 3" in tool(stage, "TopicCommand", "--describe", "--topic", stage.name)
    lines = [f"line {number}" for number in range(30)]
    tool(stage, "ConsoleProducer", "--topic", stage.name, text="\n".join(lines) + "\n")
    reading = ("--topic", stage.name, "--group", stage.name, "--from-beginning", "--max-messages", "30")
    read = tool(stage, "consumer.ConsoleConsumer", *reading, "--timeout-ms", "20000")
    assert sorted(read.splitlines()) == sorted(lines)
    assert stage.name in tool(stage, GROUPS, "--list").split()
    rows = table(tool(stage, GROUPS, "--describe", "--group", stage.name))
    assert sum(int(row["CURRENT-OFFSET"]) for row in rows if row["CURRENT-OFFSET"] != "-") == 30
    entity = ("--entity-type", "topics", "--entity-name", stage.name)
    tool(stage, CONFIG, *entity, "--alter", "--add-config", "retention.ms=123456")
    eventually(lambda: "retention.ms=123456" in tool(stage, CONFIG, *entity, "--describe"), True)
    tool(stage, GROUPS, "--delete", "--group", stage.name)
    assert stage.name not in tool(stage, GROUPS, "--list").split()
