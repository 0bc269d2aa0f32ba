"""What clients that send nothing, or no whole frame, cost a gateway: memory that is bounded, and nothing to others."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from struct import pack

from interop.kohort_gateway import KohortGateway
from interop.waiting import eventually

from kohort.broker.embedded import EmbeddedBroker
from kohort.sync import Admin

CLIENTS = 300
MOST_MIB = 15
"""Seven KiB for each idle connection, and what the allocator keeps."""
PRODUCE, JOIN_GROUP = 0, 11


def test_idle_clients_and_half_frames_take_little_memory_from_a_gateway() -> None:
    with EmbeddedBroker() as broker, KohortGateway(broker.bootstrap_servers, "--park", "*") as gateway:
        with Admin(gateway.bootstrap) as other:
            other.describe_cluster()
            before_mib = gateway.child.rss_mib()
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", gateway.node_ports[1])))
                    for _ in range(CLIENTS)
                ]
                eventually(lambda: gateway.metric("connections") >= CLIENTS, True)
                for number, client in enumerate(clients):
                    length, api = (100 << 20, PRODUCE) if number % 2 else (8 << 20, JOIN_GROUP)
                    client.sendall(pack(">ihhi", length, api, 9, 1) + bytes(4_000))
                eventually(lambda: gateway.metric("bytes_total") > CLIENTS * 4_000, True)
                other.describe_cluster()
                assert gateway.child.rss_mib() < before_mib + MOST_MIB
        chosen = random.Random(1)
        for _ in range(CLIENTS):
            with socket.create_connection(("127.0.0.1", gateway.node_ports[1])) as client:
                client.sendall(chosen.randbytes(chosen.randint(1, 3_000)))
        with Admin(gateway.bootstrap) as other:
            assert other.describe_cluster().brokers
        assert gateway.child.rss_mib() < before_mib + MOST_MIB
        assert "Traceback" not in gateway.child.text()
