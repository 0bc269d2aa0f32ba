"""The blocking clients: the same work, on the program's own thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import UnknownTopic
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.sync import Admin, Consumer, Producer, RebalanceListener


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


def clients_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "kohort clients"]


def test_records_go_out_and_come_back(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic("t", 2)
        assert [topic.name for topic in admin.list_topics() if not topic.is_internal] == ["t"]
    with Producer(bootstrap) as producer:
        sent = [producer.send("t", b"%d" % at, key=b"%d" % at) for at in range(20)]
        assert {delivery.result().partition.topic for delivery in sent} == {"t"}
    with Consumer("t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        values: list[bytes | None] = []
        for batch in consumer:
            values += [record.value for record in batch]
            if len(values) == 20:
                break
        assert sorted(values, key=lambda value: int(value or b"")) == [b"%d" % at for at in range(20)]
        consumer.commit()
        assert sum(entry.offset for entry in consumer.committed(consumer.assignment()).values()) == 20
        assert consumer.position(TopicPartition("t", 0)) is not None
    assert clients_threads() == [], "the thread ends with the last client"


def test_clients_share_one_thread(bootstrap: str) -> None:
    with Admin(bootstrap), Producer(bootstrap):
        assert clients_threads() == ["kohort clients"]


def test_a_listener_runs_on_the_program_s_thread_and_may_use_the_consumer(bootstrap: str) -> None:
    told: list[tuple[str, str, bool]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            told.append(("assigned", threading.current_thread().name, consumer.assignment() == partitions))

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            consumer.commit(dict.fromkeys(partitions, 7))
            told.append(("revoked", threading.current_thread().name, True))

    with Admin(bootstrap) as admin:
        admin.create_topic("t", 1)
        with Producer(bootstrap) as producer:
            producer.send("t", b"v")
        with Consumer(
            "t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest", listener=Listener()
        ) as consumer:
            assert consumer.poll(timeout_ms=10_000)
        here = threading.current_thread().name
        assert told == [("assigned", here, True), ("revoked", here, True)]
        assert admin.group_offsets("g")[TopicPartition("t", 0)].offset == 7


def test_an_exception_of_a_listener_is_raised_by_poll(bootstrap: str) -> None:
    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            raise LookupError(f"no room for {len(partitions)}")

    with Admin(bootstrap) as admin:
        admin.create_topic("t", 1)
    with (
        Consumer("t", bootstrap_servers=bootstrap, group_id="g", listener=Listener()) as consumer,
        pytest.raises(LookupError, match="no room"),
    ):
        consumer.poll(timeout_ms=10_000)


def test_errors_are_those_of_the_asyncio_clients(bootstrap: str) -> None:
    with Admin(bootstrap) as admin, pytest.raises(UnknownTopic):
        admin.delete_topic("nowhere")
    with pytest.raises(KafkaError, match="no broker could be reached"):
        Producer("127.0.0.1:1").__enter__()
    assert clients_threads() == []


def test_threads_may_share_a_producer(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:

        def send(number: int) -> None:
            for at in range(50):
                producer.send("t", b"%d-%d" % (number, at)).result()

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Admin(bootstrap) as admin:
        [end] = admin.list_offsets({TopicPartition("t", 0): "latest"}).values()
        assert end is not None
        assert end.offset == 200
