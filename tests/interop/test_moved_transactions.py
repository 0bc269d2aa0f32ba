"""Transactions move with their log: what Apache Kafka wrote of them is loaded by our broker, and back.

One producer does not notice that the other broker comes up at the old address, and commits there what it began here;
another is gone, and its successor aborts what it left open. Kafka's dump tool reads the log of both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from interop.brokers import Broker
from interop.committed import read_committed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.moved_logs import OFFSETS, TRANSACTIONS, to_kafka, to_kohort
from interop.waiting import eventually
from interop.wire import Wire
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from interop import jars
from kohort.log.transaction_records import read_event, record_of
from kohort.sync import Admin
from kohort.transaction.effects import TransactionStored
from kohort.wire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
)
from kohort.wire.record_batches import decode_batch, iter_batches

if TYPE_CHECKING:
    from confluent_kafka import Producer

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("java")]
TOPIC, PARTITIONS = "moved", 2
IDS = ("committed", "aborted", "lost", "staying", "idle")
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    """Return a producer that has its id and epoch, and no transaction."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


def write(producer: Producer, value: str, offset: int | None = None) -> None:
    """Begin a transaction: write a record to each partition, and an offset of the group `value` if one is given."""
    from confluent_kafka import Consumer, TopicPartition

    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, value.encode(), partition=partition)
    assert producer.flush(30) == 0
    if offset is not None:
        consumer = Consumer({"bootstrap.servers": "none", "group.id": value})
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], metadata, 30)
        consumer.close()


class Cast:
    """Transactional ids in every state that lasts: a committed, an aborted and two open transactions, and none."""

    def __init__(self, bootstrap: str) -> None:
        need("librdkafka")
        self.bootstrap = bootstrap
        committed, aborted, lost, self.staying, _ = (producer_of(bootstrap, name) for name in IDS)
        write(committed, "committed", 1)
        committed.commit_transaction(30)
        write(aborted, "aborted", 2)
        aborted.abort_transaction(30)
        write(lost, "lost", 3)
        write(self.staying, "staying", 4)
        self._kept = lost  # a producer that is collected aborts nothing, but asks for it

    def read(self) -> list[str]:
        """Return the committed values, sorted."""
        return sorted(each.value for each in read_committed(self.bootstrap, TOPIC, PARTITIONS))

    def offsets(self) -> dict[str, int]:
        """Return the committed offset of each group that has one."""
        with Admin(self.bootstrap) as admin:
            found = {name: admin.group_offsets(name) for name in IDS}
        return {name: offset.offset for name, offsets in found.items() for offset in offsets.values()}

    def go_on(self) -> None:
        """End the open transactions at the broker that is there now, and see what became of all of them."""
        assert self.read() == ["committed"] * PARTITIONS, "all that is open, or follows it, is hidden"
        assert self.offsets() == {"committed": 1}
        self.staying.commit_transaction(60)
        successor = producer_of(self.bootstrap, "lost")
        write(successor, "successor")
        successor.commit_transaction(30)
        ended = sorted(["committed", "staying", "successor"] * PARTITIONS)
        eventually(self.read, ended, 30)
        eventually(self.offsets, {"committed": 1, "staying": 4}, 30)


def described(broker: Broker) -> list[DescribeTransactionsResponse.TransactionState]:
    """Return what the broker reports of every transactional id of the cast, once Kafka has loaded them."""
    with Wire(broker.bootstrap) as wire:

        def listed() -> set[str]:
            states = wire.call(ListTransactionsRequest(), 0).transaction_states
            return {each.transactional_id for each in states} & set(IDS)

        eventually(listed, set(IDS), 60)
        answer = wire.call(DescribeTransactionsRequest(transactional_ids=list(IDS)), 0)
    found: list[DescribeTransactionsResponse.TransactionState] = answer.transaction_states
    for state in found:
        state.topics.sort(key=lambda topic: str(topic.topic))
        for topic in state.topics:
            topic.partitions.sort()
    return found


def check_records(broker: Broker) -> None:
    """Check that Kafka's dump tool and our reader find the same states in a stopped broker's log, ours as bytes too."""
    files = [file for file in sorted(broker.logs.glob(f"{TRANSACTIONS}-*/*.log")) if file.stat().st_size]
    ours: list[tuple[str, str]] = []
    for file in files:
        for _, batch in iter_batches(file.read_bytes()):
            for record in decode_batch(batch):
                event = read_event(record.key, record.value)
                assert isinstance(event, TransactionStored)
                key, value = record_of(event)
                assert key == record.key
                assert read_event(key, value) == event
                if isinstance(broker, KohortBroker):
                    assert value == record.value
                ours.append((event.transactional_id, str(event.transaction.state.value)))
    text = jars.run(DUMP, "--transaction-log-decoder", "--files", ",".join(map(str, files)))
    theirs = re.findall(r'"transactionalId":"([a-z]+)".*?"transactionStatus":(\d)', text)
    assert ours, "no record"
    assert theirs == ours


@pytest.mark.capability("Java tools", "transactions that Apache Kafka wrote, loaded by our broker")
def test_transactions_that_kafka_wrote_are_ended_by_our_broker(kafka: ApacheKafka, ours: KohortBroker) -> None:
    create_topic(kafka.bootstrap, TOPIC, PARTITIONS)
    cast = Cast(kafka.bootstrap)
    before = described(kafka)
    kafka.stop()
    check_records(kafka)
    to_kohort(kafka.logs, ours.logs, leader_epoch=9)
    ours.start()
    assert described(ours) == before
    cast.go_on()


@pytest.mark.capability("Java tools", "transactions that our broker wrote, loaded by Apache Kafka")
def test_transactions_that_our_broker_wrote_are_ended_by_kafka(kafka: ApacheKafka, ours: KohortBroker) -> None:
    create_topic(kafka.bootstrap, TOPIC, PARTITIONS)
    producer_of(kafka.bootstrap, "first")  # makes Kafka create the topic of transactions
    with Admin(kafka.bootstrap) as admin:
        admin.group_offsets("none")  # and that of groups
    eventually(lambda: len(list(kafka.logs.glob(f"{OFFSETS}-*/partition.metadata"))), 8)
    kafka.stop()
    to_kohort(kafka.logs, ours.logs)
    ours.start()
    cast = Cast(ours.bootstrap)
    before = described(ours)
    ours.stop()
    check_records(ours)
    to_kafka(ours.logs, kafka.logs, (OFFSETS, TRANSACTIONS, TOPIC))
    kafka.restart()
    assert described(kafka) == before
    cast.go_on()
