"""A gateway in front of a broker: it finds its ports, serves clients, and ends without cutting anything off."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from interop.ports import free_port
from tests.integration.gateway_cluster import GatewayCluster, gateway_cluster

from kohort.client import Admin, Consumer, Producer
from kohort.gateway.gateway_settings import GatewaySettings, Mode
from kohort.gateway.measure import MeasuredKind, MeasureFailed, MeasurePlan, measure
from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.gateway.server.cluster_topology import TopologyError
from kohort.gateway.server.gateway_ports import ListenFailed
from kohort.gateway.server.gateway_server import GatewayServer
from kohort.gateway.server.node_port import STALLED_SECONDS, NodePort, Upstream
from kohort.model.errors import KafkaError
from kohort.net.connection import Connection
from kohort.wire.frames import encode_request
from kohort.wire.messages import ApiVersionsRequest, FetchRequest


@pytest.fixture
def cluster() -> Iterator[GatewayCluster]:
    with gateway_cluster() as running:
        yield running


def settings(cluster: GatewayCluster, **changes: Any) -> GatewaySettings:
    given = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "mode": Mode.LISTENER,
        "advertised": (cluster.advertised,),
        "listen_host": "127.0.0.1",
        "metrics": ("127.0.0.1", free_port()),
    }
    return GatewaySettings(**{**given, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def running(cluster: GatewayCluster, **changes: Any) -> AsyncIterator[GatewayServer]:
    server = GatewayServer(settings(cluster, **changes))
    await server.start()
    cluster.advertise_gateway()
    try:
        yield server
    finally:
        await server.stop()


def scraped(server: GatewayServer, path: str = "metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics.port}/{path}", timeout=5) as answer:
        return str(answer.read().decode())


def metric(text: str, name: str) -> float:
    """Return the sum of a metric over its labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return sum(float(value) for labelled, _, value in lines if labelled.partition("{")[0] == f"kohort_gateway_{name}")


def test_groups_go_through_the_gateway_and_their_rebalances_are_counted(
    cluster: GatewayCluster, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"

    async def scenario() -> str:
        async with running(cluster, events=str(events)) as server:
            async with Admin(cluster.advertised) as admin, Producer(cluster.advertised) as producer:
                await admin.create_topic("orders", 2)
                await (await producer.send("orders", b"x", partition=0))
            async with Consumer(
                "orders", bootstrap_servers=cluster.advertised, group_id="billing", auto_offset_reset="earliest"
            ) as consumer:
                while not await consumer.poll(timeout_ms=200):
                    pass
            while metric(text := await asyncio.to_thread(scraped, server), "rebalances_total") < 1:
                pass  # events are counted when they are written, a moment later
            return text

    text = asyncio.run(scenario())
    assert 'group="billing",cause="member_joined"' in text
    assert metric(text, "bytes_total") > 1_000
    assert metric(text, "heartbeats_held_total") == 0
    assert {json.loads(line)["group"] for line in events.read_text().splitlines()} == {"billing"}


def test_a_drain_ends_idle_connections_and_waits_for_the_others(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        async with running(cluster, drain_ms=20_000) as server:
            idle = await Connection.open("127.0.0.1", cluster.gateway_port, "idle")
            async with waiting_fetch(cluster, server, wait_ms=700) as fetched:
                await server.drain()
                await fetched
            assert idle.is_closed
            with pytest.raises(KafkaError):
                await Connection.open("127.0.0.1", cluster.gateway_port, "late")

    asyncio.run(scenario())


def test_a_drain_ends_after_its_time(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        async with (
            running(cluster, drain_ms=50) as server,
            waiting_fetch(cluster, server, wait_ms=60_000) as fetched,
        ):
            await server.drain()
            with pytest.raises(KafkaError):
                await fetched

    asyncio.run(scenario())


@asynccontextmanager
async def waiting_fetch(
    cluster: GatewayCluster, server: GatewayServer, wait_ms: int
) -> AsyncIterator[asyncio.Task[Any]]:
    """Send a Fetch through the gateway whose answer takes this long; it is on its way within the block."""
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.create_topic("empty", 1)
    connection = await Connection.open("127.0.0.1", cluster.gateway_port, "busy")
    topic = FetchRequest.Topic(topic="empty", partitions=[FetchRequest.Topic.Partition(partition_max_bytes=1_000)])
    fetch = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000, topics=[topic])
    before = server.ports.counters.node(1).bytes_from_clients
    fetching = asyncio.create_task(connection.call(fetch, highest=11))
    while server.ports.counters.node(1).bytes_from_clients == before:
        await asyncio.sleep(0)
    try:
        yield fetching
    finally:
        connection.close()


def test_ready_shows_a_drain_and_a_cluster_that_cannot_be_reached(
    cluster: GatewayCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def shown(server: GatewayServer, path: str) -> str:
        try:
            return scraped(server, path)
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"

    async def scenario() -> None:
        async with running(cluster) as server:

            async def sees(path: str) -> str:
                return await asyncio.to_thread(shown, server, path)

            async def connects() -> None:
                (await Connection.open("127.0.0.1", cluster.gateway_port, "client")).close()

            assert await sees("ready") == "ready\n"
            await asyncio.to_thread(cluster.broker.kill)
            for _ in range(3):
                with pytest.raises(KafkaError):
                    await connects()
            assert await sees("ready") == "503 no broker can be reached\n"
            assert await sees("live") == "live\n"
            await asyncio.to_thread(cluster.broker.start)
            await connects()
            assert await sees("ready") == "ready\n"
            server.is_draining = True
            assert await sees("ready") == "503 draining\n"
            assert await sees("other") == "404 there are /metrics, /live and /ready\n"

    asyncio.run(scenario())
    assert caplog.text.count("no connection to node 1") == 1


def test_a_port_in_use_is_named_with_its_node(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        first = GatewayServer(settings(cluster))
        await first.start()
        try:
            with pytest.raises(
                ListenFailed, match=rf"port {cluster.gateway_port} of 127.0.0.1, for node 1 at .* in use"
            ):
                await GatewayServer(settings(cluster)).start()
        finally:
            await first.stop()

    asyncio.run(scenario())


def test_a_port_that_a_broker_advertises_later_is_served_beside_the_one_before(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        server = GatewayServer(settings(cluster, advertised=("127.0.0.1",), refresh_ms=1_000))
        await server.start()
        try:
            later = free_port()
            cluster.advertise(later)
            while later not in server.ports.open:
                await asyncio.sleep(0)
            for port in (later, cluster.gateway_port):
                (await Connection.open("127.0.0.1", port, "client")).close()
        finally:
            await server.stop()

    asyncio.run(scenario())


def test_bootstrap_servers_that_are_the_gateway_are_refused(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        async with running(cluster):
            second = settings(cluster, bootstrap_servers=cluster.advertised)
            with pytest.raises(TopologyError, match="if that is the gateway itself"):
                await GatewayServer(second).start()

    asyncio.run(scenario())


def test_a_listener_whose_host_has_no_address_is_named(cluster: GatewayCluster) -> None:
    own = f"PLAINTEXT://{cluster.bootstrap_servers}"
    cluster.broker.broker.config.note_static(
        listeners=f"{own},GW://broker.invalid:9093", advertised_listeners=f"{own},GW://{cluster.advertised}"
    )

    async def scenario() -> None:
        with pytest.raises(TopologyError, match=r"the host name of node 1 at broker\.invalid:9093 cannot be resolved"):
            await GatewayServer(settings(cluster)).start()

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_a_node_that_is_the_gateway_itself_gets_no_connections(
    cluster: GatewayCluster, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(cluster) as server:
            circle = free_port()
            port = NodePort(Upstream(9, "127.0.0.1", circle), server.ports)
            port.bind(host, circle)
            await port.serve()
            with pytest.raises(KafkaError):
                await Connection.open("127.0.0.1", circle, "client")
            await port.close("the test ends")
            assert server.ports.counters.node(9).opened < 50

    asyncio.run(scenario())
    assert "is this gateway itself: correct the address" in caplog.text


def test_a_client_may_have_the_local_port_of_a_connection_of_the_gateway(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        async with running(cluster) as server:
            local = "127.0.0.1", free_port()
            server.ports.own_connections.add((local, ("127.0.0.1", 9)))
            with socket.create_connection(("127.0.0.1", cluster.gateway_port), source_address=local) as client:
                client.settimeout(5)
                client.sendall(encode_request(ApiVersionsRequest(), 0, 1, "client"))
                assert await asyncio.to_thread(client.recv, 1), "the connection is a client's"

    asyncio.run(scenario())


def test_more_connections_than_allowed_are_refused_and_counted(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        async with running(cluster, max_connections=2) as server:
            kept = [await Connection.open("127.0.0.1", cluster.gateway_port, "kept") for _ in range(2)]
            with pytest.raises(KafkaError):
                await Connection.open("127.0.0.1", cluster.gateway_port, "refused")
            assert server.ports.counters.node(1).refused == 1
            kept.pop().close()
            while server.ports.counters.connections > 1:
                await asyncio.sleep(0)
            kept.append(await Connection.open("127.0.0.1", cluster.gateway_port, "kept"))
            for connection in kept:
                connection.close()

    asyncio.run(scenario())


def test_what_waits_in_a_gateway_that_stood_still_is_not_passed_on(
    cluster: GatewayCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(cluster) as server:
            ends = [await asyncio.open_connection("127.0.0.1", cluster.gateway_port) for _ in range(2)]
            for reader, writer in ends:
                writer.write(encode_request(ApiVersionsRequest(), 0, 1, "client"))
                assert await reader.read(1000)
            counters = server.ports.counters
            passed = counters.node(1).bytes_from_clients
            counters.alive_s = time.perf_counter() - STALLED_SECONDS - 1
            ends[0][1].write(encode_request(ApiVersionsRequest(), 0, 2, "client"))
            for reader, writer in ends:
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                writer.close()
            assert counters.node(1).bytes_from_clients == passed
            client = await Connection.open("127.0.0.1", cluster.gateway_port, "again")
            client.close()

    asyncio.run(scenario())
    assert "the gateway stood still for 11 s: all connections of clients are reset" in caplog.text


def test_a_gateway_whose_turn_of_thousands_of_requests_takes_longer_does_not_stand_still(
    cluster: GatewayCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr("kohort.gateway.server.node_port.perf_counter", lambda: now_s)
    monkeypatch.setattr("kohort.gateway.server.gateway_server.LAG_SECONDS", 1000.0)

    async def scenario() -> None:
        nonlocal now_s
        async with running(cluster) as server:
            server.ports.counters.alive_s = now_s
            reader, writer = await asyncio.open_connection("127.0.0.1", cluster.gateway_port)
            for correlation_id in range(5):
                now_s += STALLED_SECONDS - 1
                writer.write(encode_request(ApiVersionsRequest(), 0, correlation_id, "client"))
                assert await reader.read(1000)
            writer.close()

    asyncio.run(scenario())
    assert "stood still" not in caplog.text


def test_a_gateway_that_cannot_be_measured_is_named(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        plan = MeasurePlan(
            bootstrap_servers=cluster.bootstrap_servers, gateway="127.0.0.1:1", kinds=(MeasuredKind.EAGER,)
        )
        with pytest.raises(MeasureFailed, match=r"no member can start at 127\.0\.0\.1:1: "):
            async for _ in measure(plan, {}):
                pass

    asyncio.run(scenario())


def test_measure_that_is_interrupted_leaves_nothing_behind(
    cluster: GatewayCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(cluster, policies=EVERYTHING_PARKED), Admin(cluster.bootstrap_servers) as admin:
            plan = MeasurePlan(
                bootstrap_servers=cluster.bootstrap_servers,
                gateway=cluster.advertised,
                members=2,
                kinds=(MeasuredKind.EAGER,),
            )

            async def measuring() -> None:
                async for _ in measure(plan, {}):
                    pass

            task = asyncio.create_task(measuring())
            while len(await admin.list_groups()) < 2:
                assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await admin.list_groups() == []
            assert [topic.name for topic in await admin.list_topics() if not topic.is_internal] == []

    asyncio.run(scenario())
    assert "are removed; to end now would leave them" in caplog.text


def test_measure_shows_the_gain_and_leaves_nothing_behind(cluster: GatewayCluster) -> None:
    async def scenario() -> None:
        async with running(cluster, policies=EVERYTHING_PARKED):
            direct = f"127.0.0.1:{cluster.broker.broker.address[1]}"
            plan = MeasurePlan(
                bootstrap_servers=direct,
                gateway=cluster.advertised,
                members=1,
                settle_s=0.2,
                runs=1,
                kinds=(MeasuredKind.EAGER,),
            )
            measured = [each async for each in measure(plan, {})]
            assert [(each.what, len(each.direct_ms), len(each.gateway_ms)) for each in measured] == [
                ("join", 1, 1),
                ("leave", 1, 1),
            ]
            async with Admin(direct) as admin:
                assert await admin.list_groups() == []
                assert [topic.name for topic in await admin.list_topics() if not topic.is_internal] == []

    asyncio.run(scenario())


def test_events_that_the_broker_keeps_itself_are_not_kept_twice(cluster: GatewayCluster) -> None:
    with pytest.raises(KafkaError, match="A broker of kohort keeps events itself: leave --events out, or give a file"):
        asyncio.run(GatewayServer(settings(cluster, events="topic")).start())
