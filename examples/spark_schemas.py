"""Avro of a schema registry as columns of Spark: the reader's schema is newer, and one record is no Avro."""

from kohort.spark import build, decode
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker, SchemaRegistry

OLD = """{"type": "record", "name": "Flight", "fields": [
    {"name": "origin", "type": "string"},
    {"name": "delay", "type": "int"}
]}"""
NEW = """{"type": "record", "name": "Flight", "fields": [
    {"name": "origin", "type": "string"},
    {"name": "minutes", "aliases": ["delay"], "type": "long"},
    {"name": "carrier", "type": ["null", "string"], "default": null}
]}"""

with EmbeddedBroker() as broker, SchemaRegistry() as registry:
    writer = registry.register("flights-value", OLD)
    registry.register("flights-value", NEW)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("flights", partitions=1)
    with Producer(broker.bootstrap_servers) as producer:
        header = b"\0" + writer.to_bytes(4, "big")
        producer.send("flights", header + b"\x06EWR" + b"\x16")  # as a serializer writes "EWR" and 11
        producer.send("flights", b"EWR,11")
        producer.send("flights", header + b"\x06JFK" + b"\x23")

    spark = build("schemas", master="local[1]")
    rows = (
        spark.read.format("kohort")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", "flights")
        .load()
    )
    flights = rows.select("offset", decode("value", registry.url, subject="flights-value").alias("flight"))
    for row in flights.select("offset", "flight.value.*", "flight.error.reason").collect():
        print(row.asDict())
    spark.stop()
