"""Our client while brokers die and come back, and what it says when there is none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.client_scenarios import PATIENCE_MS, create, member, produce, run
from tests.integration.scripted_broker import ScriptedBroker

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, BrokerUnreachable, Cluster, Consumer, Producer, UnknownPartition, read_ranges
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net.blocking_connection import BlockingConnection
from kohort.net.connection import Connection
from kohort.net.tls import ListenerMismatch
from kohort.wire.apis import Api
from kohort.wire.record_batches import decode_batch, iter_batches

ONLY = TopicPartition("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "kohort", group_initial_rebalance_delay_ms=0) as broker:
        yield broker


def test_records_are_written_once_and_in_order_over_a_crash(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap, batch_size=200, linger_ms=1) as producer:
            sent = []
            for at in range(600):
                sent.append(await producer.send("t", b"%d" % at))
                if at in (200, 400):
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
            offsets = [(await delivery).offset for delivery in sent]
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([ONLY])
            values: list[bytes | None] = []
            while len(values) < 600:
                for batch in await consumer.poll(PATIENCE_MS):
                    values += [record.value for record in batch]
        assert values == [b"%d" % at for at in range(600)]
        assert [offset for offset in offsets if offset >= 0] == [at for at in range(600) if offsets[at] >= 0]

    run(scenario, broker.bootstrap_servers, "t")


def test_a_member_survives_its_coordinator(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 2)
        async with Cluster(bootstrap) as cluster:
            first = member(cluster, "t")
            await first.start()
            await first.joined(timeout_ms=PATIENCE_MS)
            identity = first.member_id
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            second = member(cluster, "t")
            await second.start()
            await second.wait_for(lambda: len(second.assignment) == 1, timeout_ms=PATIENCE_MS)
            await first.wait_for(lambda: len(first.assignment) == 1, timeout_ms=PATIENCE_MS)
            assert first.member_id == identity, "the group's log knows the member"
            await first.stop()
            await second.stop()

    run(scenario, broker.bootstrap_servers, "t")


def test_a_consumer_reads_on_after_a_crash(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        await produce(bootstrap, "t", 10)
        settings = {"bootstrap_servers": bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        async with Consumer("t", heartbeat_interval_ms=100, **settings) as consumer:  # type: ignore[arg-type]
            assert (await consumer.poll(PATIENCE_MS))[0].next_offset == 10
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await produce(bootstrap, "t", 10)
            assert (await consumer.poll(PATIENCE_MS))[0].first_offset == 10

    run(scenario, broker.bootstrap_servers, "t")


def test_a_range_is_read_to_its_end_over_a_crash(broker: EmbeddedBroker) -> None:
    asyncio.run(create(broker.bootstrap_servers, "t", 1))
    asyncio.run(produce(broker.bootstrap_servers, "t", 2000))
    offsets: list[int] = []
    for number, (_, records, position) in enumerate(
        read_ranges(broker.bootstrap_servers, [(ONLY, 0, 2000)], max_bytes=2048)
    ):
        if number == 1:
            broker.kill()
            broker.start()
        decoded = [record.offset for _, view in iter_batches(records) for record in decode_batch(view)]
        offsets += [offset for offset in decoded if offset >= position]
    assert offsets == list(range(2000))


def test_every_address_that_was_tried_is_named() -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        cluster = Cluster(bootstrap, start_timeout_ms=1)
        with pytest.raises(BrokerUnreachable) as unreachable:
            await cluster.start()
        assert [address for address, _ in unreachable.value.attempts] == ["127.0.0.1:1", "127.0.0.1:2"]
        assert "127.0.0.1:1" in str(unreachable.value)
        assert "check bootstrap_servers" in str(unreachable.value)

    run(scenario, "127.0.0.1:1,127.0.0.1:2", "")


def test_a_broker_that_breaks_the_connection_instead_of_answering_is_unreachable() -> None:
    def broken(_: object) -> None:
        raise ConnectionError

    async def main() -> None:
        async with ScriptedBroker({Api.METADATA: broken}) as broker:
            with pytest.raises(BrokerUnreachable, match=broker.address):
                await Cluster(broker.address, start_timeout_ms=1).start()

    asyncio.run(main())


@pytest.mark.parametrize(("host", "port"), [("a\0b", 9092), ("a" * 70, 9092), ("127.0.0.1", 1 << 20)])
def test_an_address_that_no_system_takes_is_an_unreachable_broker(host: str, port: int) -> None:
    """A broker that sends rubbish may name such an address as a leader's or a coordinator's."""

    async def main() -> None:
        with pytest.raises(KafkaError) as lost:
            await Connection.open(host, port, "test")
        assert lost.value.code is ErrorCode.NETWORK_EXCEPTION

    asyncio.run(main())
    with pytest.raises(KafkaError) as lost:
        BlockingConnection(host, port, "test")
    assert lost.value.code is ErrorCode.NETWORK_EXCEPTION


def test_an_address_without_a_broker_is_reported() -> None:
    async def scenario(_: str, __: str) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerUnreachable, match="not Kafka's protocol"):
            await Cluster(f"127.0.0.1:{port}", start_timeout_ms=1).start()
        server.close()
        await server.wait_closed()

    run(scenario, "", "")


def without_checks() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def failed_with(address: str, tls: ssl.SSLContext | None) -> list[str]:
    """How each kind of connection fails."""
    host, _, port = address.rpartition(":")
    with pytest.raises(ListenerMismatch) as mismatch:
        await Connection.open(host, int(port), "test", tls=tls)
    with pytest.raises(KafkaError) as lost:
        await asyncio.to_thread(BlockingConnection, host, int(port), "test", tls=tls)
    return [mismatch.value.text, lost.value.text]


def test_a_client_without_tls_at_a_listener_with_it_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data", security_protocol="SSL") as broker:
        for text in asyncio.run(failed_with(broker.bootstrap_servers, None)):
            assert "as a listener with TLS does with a client without: set security.protocol to SSL or SASL_SSL" in text


def test_a_client_with_tls_at_a_listener_without_it_is_an_error_that_names_the_setting(broker: EmbeddedBroker) -> None:
    for text in asyncio.run(failed_with(broker.bootstrap_servers, without_checks())):
        assert "as a listener without TLS does: set security.protocol to PLAINTEXT or SASL_PLAINTEXT" in text


def test_an_alert_of_tls_is_certain() -> None:
    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"\x15\x03\x03\0\x02\x02\x50")  # internal_error, as a broker on a JVM sends it
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with await asyncio.start_server(alert, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            for text in await failed_with(f"127.0.0.1:{port}", None):
                assert f":{port} expects TLS, which this client does not use: set security.protocol" in text

    asyncio.run(main())


def test_a_full_buffer_makes_send_wait_and_then_fail(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(
            bootstrap, buffer_memory=1000, max_block_ms=50, delivery_timeout_ms=400, request_timeout_ms=300
        ) as producer:
            await (await producer.send("t", bytes(100)))
            await asyncio.to_thread(broker.kill)
            waiting = [await producer.send("t", bytes(100)) for _ in range(8)]
            with pytest.raises(KafkaError, match="buffer_memory=1000 stayed full"):
                await producer.send("t", bytes(100))
            with pytest.raises(KafkaError, match="not written within") as late:
                await waiting[0]
            assert late.value.code is ErrorCode.REQUEST_TIMED_OUT

    run(scenario, broker.bootstrap_servers, "t")


def test_an_admin_that_lost_its_broker_reports_it(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        async with Admin(bootstrap, request_timeout_ms=300) as admin:
            await asyncio.to_thread(broker.kill)
            with pytest.raises(BrokerUnreachable):
                await admin.list_topics()

    run(scenario, broker.bootstrap_servers, "t")


def test_a_topic_that_a_producer_makes_anew_is_warned_of(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 3)
        async with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
            await (await producer.send("t", b"1"))
            await admin.delete_topic("t")
            await (await producer.send("t", b"2", partition=0))

    run(scenario, broker.bootstrap_servers, "t")
    assert "topic 't' was deleted and exists again, with another id and 1 partition:" in caplog.text


def test_the_end_of_a_partition_that_does_not_exist_is_an_error_that_names_it(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Consumer(bootstrap_servers=bootstrap) as consumer:
            with pytest.raises(TimeoutError):
                await consumer.end_offsets([TopicPartition("t", 7)], timeout_ms=1)
            async with asyncio.timeout(30):
                with pytest.raises(UnknownPartition, match="has partitions 0 to 0, so there is no 7"):
                    await consumer.end_offsets([TopicPartition("t", 7)])

    run(scenario, broker.bootstrap_servers, "t")


def test_a_partition_that_does_not_exist_keeps_no_other_from_being_read(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        await produce(bootstrap, "t", 1)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([ONLY, TopicPartition("t", 7), TopicPartition("nope", 0)])
            assert [record.value for batch in await consumer.poll(PATIENCE_MS) for record in batch] == [b"0"]

    run(scenario, broker.bootstrap_servers, "t")


def test_an_expression_that_matches_no_topic_is_warned_of(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        async with Consumer("^orders-.*", bootstrap_servers=bootstrap):
            assert "reads nothing yet: no topic's whole name matches ^orders-.*" in caplog.text

    run(scenario, broker.bootstrap_servers, "t")
