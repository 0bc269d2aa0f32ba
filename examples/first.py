"""A broker in this process, a record, and a member of a group that reads it."""

from kohort.sync import Consumer, Producer
from kohort.testing import EmbeddedBroker

with EmbeddedBroker() as kafka, Producer(kafka.bootstrap_servers) as producer:
    producer.send("tea", b"one green tea", key=b"table 7").result()
    with Consumer("tea", bootstrap_servers=kafka.bootstrap_servers, group_id="bar", auto_offset_reset="earliest") as me:
        record = next(me)
        print(record.key, "wants", record.value)
