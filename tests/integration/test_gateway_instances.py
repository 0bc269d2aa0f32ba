"""Instances of a gateway beside each other: who may link, what they share, and what happens when a link ends."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from struct import pack

import pytest
from interop.ports import free_port
from tests.integration.running_gateway import RunningGateway

from kohort import RangeAssignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Consumer
from kohort.gateway.gateway_settings import GatewaySettings, Mode
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.gateway.server import instance_links
from kohort.model.setting import SettingsError

PARKING = PolicyTable((Policy(groups="*", treatment=Treatment.PARK),))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    given = {"kohort_group_heartbeat_park": False, "group_initial_rebalance_delay_ms": 0}
    with EmbeddedBroker(**given) as broker:
        yield broker


@pytest.fixture
def secret(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef0123\n")
    return str(file)


def until(gateway: RunningGateway, holds: Callable[[], object], what: str) -> None:
    """Let the gateway's loop run until something holds."""
    deadline_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline_s, what
        gateway.call(asyncio.sleep(0))


def instance(
    broker: EmbeddedBroker, port: int, others: tuple[int, ...], secret: str, **changes: object
) -> RunningGateway:
    return RunningGateway(
        broker.bootstrap_servers,
        **changes,
        policies=PARKING,
        instances=tuple(f"127.0.0.1:{other}" for other in others),
        instances_listen=("127.0.0.1", port),
        instances_secret_file=secret,
    )


def linked(gateway: RunningGateway) -> int:
    links = gateway.server.links
    assert links is not None
    return len(links.connected)


def refused(gateway: RunningGateway) -> int:
    links = gateway.server.links
    assert links is not None
    return links.counters.refused


def test_instances_with_one_list_of_all_find_each_other_once(broker: EmbeddedBroker, secret: str) -> None:
    ports = free_port(), free_port(), free_port()
    first, second, third = (instance(broker, port, ports, secret) for port in ports)
    with first, second, third:
        until(
            first, lambda: [linked(each) for each in (first, second, third)] == [2, 2, 2], "each knows the two others"
        )
        assert [refused(each) for each in (first, second, third)] == [0, 0, 0]


def test_what_one_instance_sees_all_know(broker: EmbeddedBroker, secret: str) -> None:
    ports = free_port(), free_port()
    first, second = instance(broker, ports[0], ports, secret), instance(broker, ports[1], ports, secret)
    with first, second:
        until(first, lambda: linked(first) == linked(second) == 1, "they are linked")
        asyncio.run(_two_members(broker, first, second))


async def _two_members(broker: EmbeddedBroker, first: RunningGateway, second: RunningGateway) -> None:
    async with Admin(broker.bootstrap_servers) as admin:
        await admin.create_topic("shared", 2)
    settings = {"group_id": "g", "assignors": [RangeAssignor()], "heartbeat_interval_ms": 200}
    async with (
        Consumer("shared", bootstrap_servers=first.bootstrap_servers, **settings) as one,
        Consumer("shared", bootstrap_servers=second.bootstrap_servers, **settings) as other,
    ):
        while not len(one.assignment()) == len(other.assignment()) == 1:
            await asyncio.gather(one.poll(20), other.poll(20))
        generation = one.group_metadata().generation
        for gateway in (first, second):
            while True:
                await asyncio.gather(one.poll(20), other.poll(20))
                group = gateway.server.gateway.groups.group("g")
                if group is not None and len(group.members) == 2 and group.generation == generation:
                    break
        writers = [gateway.server.gateway.instances.writes("g") for gateway in (first, second)]
        assert sorted(writers) == [False, True], "one of them writes the group's events"


def test_processes_of_one_machine_share_their_ports(broker: EmbeddedBroker, secret: str) -> None:
    links, bootstrap, node = (free_port(), free_port()), free_port(), free_port()
    changes = {"share_ports": True, "advertised": (f"127.0.0.1:{bootstrap}",), "node_ports": {1: node}}
    first, second = (instance(broker, port, links, secret, **changes) for port in links)
    with first, second:
        until(first, lambda: linked(first) == linked(second) == 1, "they are linked")
        servers = first.server, second.server
        with ExitStack() as stack:
            while not all(server.ports.counters.connections for server in servers):
                stack.enter_context(closing(socket.create_connection(("127.0.0.1", bootstrap), 10)))
                first.call(asyncio.sleep(0))


def test_a_link_comes_back_after_its_other_end_restarts(broker: EmbeddedBroker, secret: str) -> None:
    ports = free_port(), free_port()
    with instance(broker, ports[0], ports, secret) as first:
        with instance(broker, ports[1], ports, secret):
            until(first, lambda: linked(first) == 1, "they are linked")
        until(first, lambda: linked(first) == 0, "the link has ended")
        with instance(broker, ports[1], ports, secret) as second:
            until(first, lambda: linked(first) == linked(second) == 1, "they are linked again")


def test_an_instance_with_another_secret_is_refused(
    broker: EmbeddedBroker, secret: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.write_text("another secret altogether")
    ports = free_port(), free_port()
    first, second = instance(broker, ports[0], ports, secret), instance(broker, ports[1], ports, str(other))
    with first, second:
        until(first, lambda: refused(first) and refused(second), "both refuse")
        assert linked(first) == linked(second) == 0
    assert "instances_secret_file must be the same everywhere" in caplog.text


def test_instances_of_another_cluster_are_refused(
    broker: EmbeddedBroker, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    ports = free_port(), free_port()
    with EmbeddedBroker() as elsewhere:
        first, second = instance(broker, ports[0], ports, secret), instance(elsewhere, ports[1], ports, secret)
        with first, second:
            until(first, lambda: refused(first) and refused(second), "both refuse")
    assert "stands in front of cluster" in caplog.text


def greeting(**changes: object) -> bytes:
    content = json.dumps({"kohort_gateway": 1, "instance": "x", "cluster": "c", "nonce": "n", **changes}).encode()
    return pack(">I", len(content)) + content


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        pack(">I", 1 << 31),
        pack(">I", 3) + b"{[(",
        pack(">I", 2) + b"[]",
        greeting(kohort_gateway=9),
        greeting(instance=7),
        greeting(messages=[3]),
        greeting(messages=[4, 9]),
        greeting(messages=[1, 2]),
        greeting() + pack(">I", 32) + bytes(32),
    ],
)
def test_who_is_no_instance_is_refused(broker: EmbeddedBroker, secret: str, sent: bytes) -> None:
    port = free_port()
    with instance(broker, port, (), secret) as gateway:
        with closing(socket.create_connection(("127.0.0.1", port), 10)) as stranger:
            stranger.sendall(sent)
            while stranger.recv(4096):
                pass
        until(gateway, lambda: refused(gateway) == 1, "it is counted")
        assert linked(gateway) == 0


def test_the_link_with_a_release_that_is_too_new_or_too_old_is_refused_with_a_sentence(
    broker: EmbeddedBroker, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    with instance(broker, port, (), secret) as gateway:
        for versions, sentence in (
            (
                [4, 9],
                "versions 4 to 9 of the messages between instances, this one 3 to 3: upgrade this one",
            ),
            (
                [1, 2],
                "versions 1 to 2 of the messages between instances, this one 3 to 3: upgrade it, over a release",
            ),
        ):
            with closing(socket.create_connection(("127.0.0.1", port), 10)) as other:
                other.sendall(greeting(messages=versions))
                while other.recv(4096):
                    pass
            until(gateway, lambda sentence=sentence: sentence in caplog.text, "the reason is logged")


def test_a_frozen_instance_is_abandoned(
    broker: EmbeddedBroker, secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(instance_links, "IDLE_SECONDS", 0.3)
    ports = free_port(), free_port()
    with instance(broker, ports[0], ports, secret) as first, instance(broker, ports[1], ports, secret) as second:
        until(first, lambda: linked(first) == linked(second) == 1, "they are linked")
        until(
            first,
            lambda: "nothing has come for 0.3 s" in caplog.text,
            "a second passes until an instance says it lives",
        )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"instances": ("a:1",)}, "instances need instances_secret_file"),
        ({"instances": ("a",), "instances_secret_file": "f"}, "expected HOST:PORT, such as"),
        ({"instances_secret_file": "f"}, "of use with instances"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        GatewaySettings(bootstrap_servers="b:1", mode=Mode.LISTENER, advertised=("h",), **changes)  # type: ignore[arg-type]


def test_a_secret_is_long_enough(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("hello")
    for file, sentence in ((short, "needs 16"), (tmp_path / "none", "No such file")):
        settings = GatewaySettings(
            bootstrap_servers="b:1",
            mode=Mode.LISTENER,
            advertised=("h",),
            instances=("a:1",),
            instances_secret_file=str(file),
        )
        with pytest.raises(SettingsError, match=sentence):
            settings.read_secret()
