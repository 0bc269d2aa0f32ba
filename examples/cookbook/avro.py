"""Avro with a schema registry: the writer's schema is fetched once by its id, and read as the reader's own."""

import io
import json
import struct
from functools import cache
from typing import Any
from urllib.request import urlopen

from fastavro import parse_schema, schemaless_reader, schemaless_writer

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


class AvroReader:
    """Decodes values in the registry's format: a zero byte, the schema's id in four, the record."""

    def __init__(self, registry: str, schema: dict[str, Any]) -> None:
        self.registry = registry
        self.schema = parse_schema(schema)
        self.written = cache(self.fetch)

    def fetch(self, number: int) -> Any:
        with urlopen(f"{self.registry}/schemas/ids/{number}", timeout=10) as response:
            return parse_schema(json.loads(json.load(response)["schema"]))

    def decode(self, value: bytes) -> Any:
        """Raise ValueError for what is not Avro of this registry."""
        if len(value) < 5 or value[0] != 0:
            raise ValueError(f"{value[:20]!r} does not begin with a zero byte and the id of a schema")
        (number,) = struct.unpack(">I", value[1:5])
        return schemaless_reader(io.BytesIO(value[5:]), self.written(number), self.schema)


def encoded(number: int, schema: dict[str, Any], flight: dict[str, Any]) -> bytes:
    """Return a value as serializers of other clients write it."""
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, number))
    schemaless_writer(out, parse_schema(schema), flight)
    return out.getvalue()


def main(address: str, registry: SchemaRegistry) -> None:
    number = registry.register("flights-value", json.dumps(WRITTEN))
    with Producer(address) as producer:
        producer.send("flights", encoded(number, WRITTEN, {"origin": "EWR", "delay": 11}))
        producer.send("flights", b"EWR,11")
        producer.send("flights", encoded(number, WRITTEN, {"origin": "JFK", "delay": -4}))
    avro, seen = AvroReader(registry.url, READ), 0
    with Consumer("flights", bootstrap_servers=address, group_id="boards", auto_offset_reset="earliest") as consumer:
        while seen < 3:
            # Decoded here, not by `value_deserializer`, which must not wait for the registry.
            for batch in consumer.poll(timeout_ms=1_000):
                for record in batch:
                    seen += 1
                    try:
                        print(record.offset, avro.decode(record.value or b""))
                    except ValueError as error:
                        print(record.offset, "left out:", error)


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, SchemaRegistry() as schemas:
        main(broker.bootstrap_servers, schemas)
