"""Reading a topic to its end, with or without what transactions have not committed, by librdkafka."""

from __future__ import annotations

from typing import NamedTuple


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
