"""Apache Kafka's `kafka-transactions` against a broker: open transactions, one of them unknown to its coordinator."""

from __future__ import annotations

import shutil

import pytest
from interop.brokers import Broker
from interop.committed import read_committed
from interop.group import keyed
from interop.kohort_broker import KohortBroker
from interop.producers import produce
from tests.interop.kafka_tools import tool
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(150), pytest.mark.usefixtures("java")]
COMMAND = "TransactionsCommand"


def leave_open(bootstrap: str, topic: str, transactional_id: str) -> None:
    """Write a record in a transaction, and neither commit nor abort it."""
    need("librdkafka")
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0


def row(text: str, name: str) -> list[str]:
    """Return the words of the only line that has a name."""
    (line,) = (line for line in text.splitlines() if name in line.split())
    return line.split()


def hanging(broker: Broker, topic: str) -> str:
    """Return what is found of transactions that are open in the topic and not known to their coordinator."""
    return tool(broker, COMMAND, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")


@pytest.mark.capability("Java tools", "TransactionsCommand: list, describe, describe-producers, find-hanging")
def test_transactions_command_shows_an_open_transaction_and_finds_none_that_hangs(
    broker: Broker, topic: str, name: str
) -> None:
    leave_open(broker.bootstrap, topic, name)
    listed = row(tool(broker, COMMAND, "list"), name)
    assert listed[3] == "Ongoing"
    described = row(tool(broker, COMMAND, "describe", "--transactional-id", name), name)
    assert described[2] == listed[2], "the producer's id"
    assert f"{topic}-0" in described
    producers = tool(broker, COMMAND, "describe-producers", "--topic", topic, "--partition", "0")
    assert row(producers, listed[2])[-1] == "0", "the offset at which its transaction begins"
    assert topic not in hanging(broker, topic)


@pytest.mark.capability("Java tools", "TransactionsCommand: find-hanging, abort")
def test_a_transaction_that_its_coordinator_does_not_know_is_found_and_aborted() -> None:
    with KohortBroker() as broker:
        create_topic(broker.bootstrap, "t", 1)
        leave_open(broker.bootstrap, "t", "tx")
        broker.stop()
        for folder in broker.logs.glob("__transaction_state-*"):
            shutil.rmtree(folder)
        broker.start()
        produce("librdkafka", broker.bootstrap, "t", keyed(1, 1))
        assert not read_committed(broker.bootstrap, "t", 1), "all that follows waits for it"
        found = row(hanging(broker, "t"), "t")
        assert found[1] == "0", "the partition"
        tool(broker, COMMAND, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
        assert "t" not in hanging(broker, "t").split()
        assert len(read_committed(broker.bootstrap, "t", 1)) == 1
