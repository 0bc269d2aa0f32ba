"""Reading a topic to its end, with or without what transactions have not committed, by librdkafka."""

from __future__ import annotations

from typing import NamedTuple

from interop.wire import Wire
from kohort.wire import messages


class Record(NamedTuple):
    """A record and its place."""

    partition: int
    offset: int
    key: str
    value: str


def read_committed(bootstrap: str, topic: str, partitions: int) -> list[Record]:
    """Return the records up to the last stable offsets, those of each partition in their order."""
    return read_to_end(bootstrap, topic, partitions, "read_committed")


def read_to_end(bootstrap: str, topic: str, partitions: int, isolation: str, timeout_s: float = 20) -> list[Record]:
    """Return the records that a consumer of that isolation level can read, those of each partition in their order."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "reads-to-the-end", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": isolation, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    records: list[Record] = []
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(timeout_s)
            assert message is not None, f"{topic}: nothing more within {timeout_s} s, and {sorted(ended)} have ended"
            if (error := message.error()) is None:
                key, value = (message.key() or b"").decode(), (message.value() or b"").decode()
                records.append(Record(message.partition(), message.offset(), key, value))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(str(error))
    finally:
        consumer.close()
    return records


def has_open_transaction(bootstrap: str, topic: str, partitions: int) -> bool:
    """Whether a transaction is open in a topic: what read_committed can read ends before the log does."""
    partition = messages.ListOffsetsRequest.Topic.Partition
    asked = messages.ListOffsetsRequest.Topic(
        name=topic, partitions=[partition(partition_index=each, timestamp=-1) for each in range(partitions)]
    )
    with Wire(bootstrap) as wire:
        ends = [
            wire.call(messages.ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[asked]), 7)
            for level in (0, 1)
        ]
    return bool(ends[0].topics != ends[1].topics)
