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
        assert {delivery.result().topic for delivery in sent} == {"t"}
    with Consumer("t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        values: list[bytes | None] = []
        for record in consumer:
            values.append(record.value)
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
    calls: list[tuple[str, str, bool]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            calls.append(("assigned", threading.current_thread().name, consumer.assignment() == partitions))

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            consumer.commit(dict.fromkeys(partitions, 7))
            calls.append(("revoked", threading.current_thread().name, True))

    with Admin(bootstrap) as admin:
        admin.create_topic("t", 1)
        with Producer(bootstrap) as producer:
            producer.send("t", b"v")
        with Consumer(
            "t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest", listener=Listener()
        ) as consumer:
            assert consumer.poll(timeout_ms=10_000)
        here = threading.current_thread().name
        assert calls == [("assigned", here, True), ("revoked", here, True)]
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


def test_functions_run_on_the_program_s_thread_and_may_move_the_consumer(bootstrap: str) -> None:
    here = threading.current_thread().name
    seen: list[tuple[str, int]] = []
    only = TopicPartition("t", 0)

    def assigned(partitions: Partitions) -> None:
        assert partitions == {only}
        seen.append((threading.current_thread().name, consumer.position(only)))
        consumer.seek(only, 3)

    with Producer(bootstrap) as producer:
        for at in range(5):
            producer.send("t", b"%d" % at)
    with Consumer(bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe("^t", on_assigned=assigned)
        assert consumer.poll(timeout_ms=10_000)[0].first_offset == 3
        assert consumer.subscription() == {"t"}
        assert (consumer.lag()[only].records, consumer.lag()[only].seconds) == (0, 0)
        consumer.commit_async()
    assert seen == [(here, 0)]
    with Admin(bootstrap) as admin:
        assert admin.group_offsets("g")[only].offset == 5


def test_a_consumer_has_group_metadata_and_stays_where_leave_group_is_false(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic("t", 1)
        consumer = Consumer("t", bootstrap_servers=bootstrap, group_id="g", group_instance_id="i")
        consumer.start()
        while not consumer.assignment():
            consumer.poll(timeout_ms=10)
        known = consumer.group_metadata()
        assert (known.group_id, known.generation, known.group_instance_id) == ("g", 1, "i")
        consumer.enforce_rebalance("a test")
        while consumer.group_metadata().generation == 1:
            consumer.poll(timeout_ms=10)
        consumer.stop(leave_group=False)
        assert [member.member_id for member in admin.describe_groups(["g"])["g"].members] == [known.member_id]
