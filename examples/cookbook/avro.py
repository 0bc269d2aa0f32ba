"""Avro with a schema registry: values are written by one schema, and read as the reader's own."""

import json

from kohort import DeserializationFailed
from kohort.schemas import Schemas
from kohort.sync import Consumer, Producer
from kohort.testing import EmbeddedBroker, SchemaRegistry

WRITTEN = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "origin", "type": "string"}, {"name": "delay", "type": "int"}],
}
READ = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "origin", "type": "string"},
        {"name": "minutes", "type": "long", "aliases": ["delay"]},
        {"name": "carrier", "type": ["null", "string"], "default": None},
    ],
}


def main(address: str, registry: str) -> None:
    schemas = Schemas(registry)
    flight = schemas.serializer("flights", json.dumps(WRITTEN))
    with Producer(address) as producer:
        for value in (flight({"origin": "EWR", "delay": 11}), b"EWR,11", flight({"origin": "JFK", "delay": -4})):
            producer.send("flights", value)
    reader = schemas.deserializer(json.dumps(READ))
    with Consumer(
        "flights",
        bootstrap_servers=address,
        group_id="boards",
        auto_offset_reset="earliest",
        value_deserializer=reader,
    ) as consumer:
        seen = 0
        while seen < 3:
            try:
                for batch in consumer.poll(timeout_ms=1_000):
                    for record in batch:
                        seen += 1
                        print(record.offset, record.value)
            except DeserializationFailed as error:
                seen += 1
                print(error.offset, "left out:", error.__cause__)
                consumer.seek(error.partition, error.next_offset)


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, SchemaRegistry() as running:
        main(broker.bootstrap_servers, running.url)
