"""The same clients with blocking calls; a background thread runs the event loop."""

from kohort.sync import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
    address = broker.bootstrap_servers

    with Admin(address) as admin:
        admin.create_topic("greetings", partitions=1)

    with Producer(address) as producer:
        for word in ("hello", "hallo", "salut"):
            producer.send("greetings", word.encode())

    with Consumer("greetings", bootstrap_servers=address, group_id="readers", auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.offset, record.value)
            if record.offset == 2:
                break
