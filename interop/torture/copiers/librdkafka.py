"""A copier by librdkafka (confluent-kafka)."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Producer

from interop.torture.copiers.report import TRANSACTION_TIMEOUT_MS, Copier


def _copy(copier: Copier) -> None:
    chosen = copier.options
    consumer = Consumer(
        {
            "bootstrap.servers": chosen.bootstrap,
            "group.id": chosen.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "log_level": 2,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": chosen.bootstrap,
            "transactional.id": chosen.group,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "log_level": 2,
        }
    )
    try:
        consumer.subscribe([chosen.source])
        producer.init_transactions(25)
        while not copier.is_over:
            polled = [each for each in consumer.consume(100, 0.2) if each.error() is None]
            if not polled:
                continue
            producer.begin_transaction()
            for each in polled:
                place = f"{each.partition()}@{each.offset()}".encode()
                producer.produce(chosen.target, place, partition=each.partition())
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 25)
            producer.commit_transaction(25)
            copier.copied += len(polled)
    finally:
        consumer.close()


def main() -> None:
    """Copy until asked to end."""
    copier = Copier()
    while not copier.is_over:
        try:
            _copy(copier)
        except KafkaException as error:
            copier.troubled(error)
    copier.close()


if __name__ == "__main__":
    main()
