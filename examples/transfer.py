"""Records of one transaction are read together or not at all; the clients block here."""

from kohort.sync import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker


def transfer(producer: Producer, amount: int, balance: int) -> None:
    with producer.transaction():
        producer.send("debits", b"%d" % amount)
        if amount > balance:
            raise ValueError(f"{amount} is more than the balance of {balance}")
        producer.send("credits", b"%d" % amount)


with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        for topic in ("debits", "credits"):
            admin.create_topic(topic, partitions=1)
    with Producer(address, transactional_id="bank-1") as producer:
        for amount in (30, 500, 20):
            try:
                transfer(producer, amount, balance=100)
            except ValueError as error:
                print("aborted:", error)
    with Consumer(
        "debits",
        "credits",
        bootstrap_servers=address,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        value_deserializer=bytes.decode,
    ) as consumer:
        seen = [next(consumer) for _ in range(4)]
    print(*sorted(f"{record.topic} {record.value}" for record in seen), sep="\n")
