"""Clients behind a gateway in mode `rewrite`: what they see, and what neither side can do to the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from struct import pack

import pytest
from interop.ports import free_port
from tests.integration.client_scenarios import SCENARIOS, Scenario, run
from tests.integration.running_gateway import RunningGateway

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Sasl
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.gateway.server.cluster_topology import TopologyError
from kohort.net.blocking_connection import BlockingConnection
from kohort.wire.frames import encode_request
from kohort.wire.messages import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

PARKING = PolicyTable((Policy(groups="*", treatment=Treatment.PARK),))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[RunningGateway]:
    with RunningGateway(broker.bootstrap_servers, policies=PARKING) as gateway:
        yield gateway


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_our_client_does_behind_it_what_it_does_on_a_broker(scenario: Scenario, gateway: RunningGateway) -> None:
    run(scenario, gateway.bootstrap_servers, scenario.__name__[:40])


def test_clients_are_shown_the_gateway_and_no_broker(gateway: RunningGateway) -> None:
    at_gateway = ("127.0.0.1", gateway.node_port)
    with connected(gateway.port) as connection:
        metadata = connection.call(MetadataRequest(topics=[]))
        assert [(each.host, each.port) for each in metadata.brokers] == [at_gateway]
        found = connection.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]))
        assert [(each.host, each.port) for each in found.coordinators] == [at_gateway]
        versions = connection.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
        offered = {each.api_key: each.max_version for each in versions.api_keys}
    assert offered[1] == 15


def connected(port: int) -> closing[BlockingConnection]:
    return closing(BlockingConnection("127.0.0.1", port, "test"))


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes, and return what comes until the other side closes or resets the connection, which may be at once."""
    received = b""
    with suppress(ConnectionResetError), socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(sent)
        while chunk := client.recv(65536):
            received += chunk
    return received


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n" * 4, "a request of 1195725856 bytes is longer"),
        (b"\xff" * 40, "a frame's length is -1"),
        (pack(">i", 2) + b"xx", "lacks a header"),
        (encode_request(MetadataRequest(), 13, 1, "c")[:4] + pack(">hh", 3, 99) + bytes(40), "version 99"),
    ],
)
def test_rubbish_closes_its_connection_with_a_sentence_and_no_other(
    sent: bytes, reason: str, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with connected(gateway.port) as other:
        assert exchange(gateway.port, sent) == b""
        assert reason in caplog.text
        assert other.call(MetadataRequest()).brokers


def test_half_a_frame_of_100_mb_takes_no_memory(gateway: RunningGateway) -> None:
    head = pack(">ihhi", 100 << 20, 0, 9, 1)
    with socket.create_connection(("127.0.0.1", gateway.node_port), 10) as client:
        client.sendall(head + bytes(64))
        with connected(gateway.port) as other:
            assert other.call(MetadataRequest()).brokers
        links = [link for port in gateway.ports() for link in port.links]
        assert all(link.buffered_bytes < 100 for link in links)


def test_a_request_beyond_the_limit_ends_its_connection(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert exchange(gateway.node_port, pack(">ihhi", (100 << 20) + 1, 0, 9, 1)) == b""
    assert "a request of 104857601 bytes is longer than max_request_bytes = 104857600" in caplog.text


def test_a_node_that_moves_keeps_its_port_here() -> None:
    with EmbeddedBroker() as first, EmbeddedBroker() as second, RunningGateway(first.bootstrap_servers) as gateway:
        moved_to = second.broker.address

        async def learn() -> tuple[str, int]:
            assert gateway.server.ports.rewritten is not None
            return gateway.server.ports.rewritten.addresses.address_of(1, *moved_to)

        assert gateway.call(learn()) == ("127.0.0.1", gateway.node_port)
        first.stop()
        with connected(gateway.node_port) as connection:
            assert connection.call(MetadataRequest()).brokers[0].port == gateway.node_port


def test_the_first_port_leads_to_another_node_where_one_is_down() -> None:
    ports = free_port(), free_port()
    with (
        EmbeddedBroker() as broker,
        RunningGateway(broker.bootstrap_servers, node_ports=dict(enumerate(ports, 1))) as it,
    ):

        async def learn() -> None:
            assert it.server.ports.rewritten is not None
            it.server.ports.rewritten.addresses.address_of(2, "127.0.0.1", free_port())

        it.call(learn())
        for _ in range(3):
            with connected(it.port) as connection:
                assert connection.call(MetadataRequest()).brokers
        assert exchange(ports[1], b"") == b"", "a node's own port leads to that node only"


def test_a_broker_that_has_vanished_closes_connections_and_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker, RunningGateway(broker.bootstrap_servers) as gateway:
        with socket.create_connection(("127.0.0.1", gateway.node_port), 10) as idle:
            broker.kill()
            assert exchange(gateway.node_port, b"") == b""
            assert "no connection to node 1" in caplog.text
            idle.settimeout(10)
            with suppress(ConnectionResetError):  # where the broker had not accepted it yet
                assert idle.recv(1) == b""
        broker.start()
        with connected(gateway.node_port) as connection:
            assert connection.call(MetadataRequest()).brokers


def test_a_gateway_in_front_of_itself_does_not_start() -> None:
    with EmbeddedBroker() as broker, RunningGateway(broker.bootstrap_servers) as gateway:
        own = f"127.0.0.1:{gateway.node_port}"
        with (
            pytest.raises(TopologyError, match="which is the gateway itself"),
            RunningGateway(gateway.bootstrap_servers, advertised=(own,), node_ports={}),
        ):
            pass


def test_a_client_that_does_not_read_stops_the_broker_s_side_and_holds_no_more_than_a_buffer(
    gateway: RunningGateway,
) -> None:
    numbers, left, sent = count(1), b"", 0
    with socket.create_connection(("127.0.0.1", gateway.node_port), 10) as client:
        client.setblocking(False)
        with suppress(BlockingIOError):
            while sent < 200 << 20:
                left = left or b"".join(encode_request(MetadataRequest(), 12, next(numbers), "c") for _ in range(1000))
                written = client.send(left)
                left = left[written:]
                sent += written
        assert sent < 200 << 20
        assert all(link.buffered_bytes < 16 << 20 for port in gateway.ports() for link in port.links)


@pytest.fixture(scope="module")
def played(broker: EmbeddedBroker) -> Iterator[RunningGateway]:
    """Return a gateway of whose nodes one is played by the test: its first port may lead there too."""
    with RunningGateway(broker.bootstrap_servers) as gateway:
        yield gateway


class Upstream:
    """A node 7 that a test plays, and a client that is connected to it through the gateway."""

    def __init__(self, played: RunningGateway) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        address = self._listening.getsockname()

        async def learn() -> tuple[str, int]:
            assert played.server.ports.rewritten is not None
            return played.server.ports.rewritten.addresses.address_of(7, *address)

        self.client = socket.create_connection(played.call(learn()), 10)
        self.broker, _ = self._listening.accept()
        self.broker.settimeout(10)

    def __enter__(self) -> Upstream:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.client, self.broker, self._listening):
            each.close()

    def send(self, request: bytes) -> None:
        """Send a request, and see it arrive."""
        self.client.sendall(request)
        assert self.broker.recv(len(request), socket.MSG_WAITALL) == request


METADATA = encode_request(MetadataRequest(topics=[]), 12, 5, "test")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (pack(">ii", 40, 5) + b"\xff" * 36, "cannot be read, and could hold its own address"),
        (pack(">ii", 40, 6) + bytes(36), "the correlation id 6, which no request has"),
        (pack(">ii", 100 << 20, 5), "no more than"),
        (b"\xff\xff\xff\xff" + bytes(8), "a frame's length is -1"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "which no request has"),
    ],
)
def test_an_answer_that_is_none_closes_its_connection_with_a_sentence(
    answer: bytes, reason: str, played: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    with Upstream(played) as upstream, connected(played.node_port) as other:
        upstream.send(METADATA)
        upstream.broker.sendall(answer)
        assert upstream.client.recv(100) == b""
        assert upstream.broker.recv(100) == b"", "the broker's side is closed too"
        assert reason in caplog.text
        assert other.call(MetadataRequest()).brokers


def test_a_broker_that_answers_late_or_never_holds_up_its_own_client_only(played: RunningGateway) -> None:
    with Upstream(played) as upstream, connected(played.node_port) as other:
        upstream.send(METADATA)
        assert other.call(MetadataRequest()).brokers
        upstream.broker.sendall(pack(">ii", 4 + 14, 5) + bytes(5) + b"\1" + bytes(8))
        assert len(upstream.client.recv(100)) == 22
        upstream.send(METADATA)
        upstream.client.close()
        assert upstream.broker.recv(100) == b"", "no client waits for the answer any more"


def test_a_broker_that_vanishes_within_an_answer_leaves_no_half_of_it_that_is_read(played: RunningGateway) -> None:
    with Upstream(played) as upstream:
        upstream.send(METADATA)
        upstream.broker.sendall(pack(">ii", 400, 5) + bytes(100))
        upstream.broker.close()
        assert upstream.client.recv(100) == b""


def test_sasl_passes_between_client_and_broker() -> None:
    with (
        EmbeddedBroker(kohort_sasl_plain_users="ann:secret") as broker,
        RunningGateway(broker.bootstrap_servers, security={"sasl": Sasl("PLAIN", "ann", "secret")}) as gateway,
    ):

        async def names(password: str) -> list[str]:
            async with Admin(gateway.bootstrap_servers, sasl=Sasl("PLAIN", "ann", password)) as admin:
                await admin.create_topic("t", 1)
                return [topic.name for topic in await admin.list_topics()]

        assert "t" in asyncio.run(names("secret"))
        with pytest.raises(Exception, match="refused user 'ann'"):
            asyncio.run(names("wrong"))
