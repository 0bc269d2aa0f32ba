"""A broker on real sockets and a real disk: garbage, crashes, two on one directory, slow readers."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from typing import Any

import pytest
from tests.unit.node.desk import batch, create, fetch, only, produce

from kohort.broker.embedded import EmbeddedBroker
from kohort.log.disk import StorageError
from kohort.wire.apis import Api, response_class
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.messages import ApiVersionsRequest, DescribeConfigsRequest, MetadataRequest


class Wire:
    """A blocking client of one connection that sends the bytes it is given."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def call(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.receive(message, version)

    def send(self, message: Any, version: int) -> None:
        self.socket.sendall(encode_request(message, version, 1, "wire"))

    def receive(self, message: Any, version: int) -> Any:
        """Return the answer to a request that was sent."""
        (size,) = unpack(">i", self.read(4))
        return decode_response(response_class(Api(message.API_KEY)), version, self.read(size))[1]

    def read(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            chunk = self.socket.recv(size - len(taken))
            if not chunk:
                raise EOFError("the broker closed the connection")
            taken += chunk
        return bytes(taken)

    def is_closed(self) -> bool:
        """Wait until the broker says something or closes; say whether it closed."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "kohort") as broker:
        yield broker


def test_the_fixture_gives_a_broker_that_answers(kohort_broker: EmbeddedBroker) -> None:
    with Wire(kohort_broker.bootstrap_servers) as wire:
        (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
    assert f"{node.host}:{node.port}" == kohort_broker.bootstrap_servers


@pytest.mark.kohort_settings(num_partitions=7)
def test_the_marker_sets_settings_of_the_fixture(kohort_broker: EmbeddedBroker) -> None:
    with Wire(kohort_broker.bootstrap_servers) as wire:
        asked = MetadataRequest(topics=[MetadataRequest.Topic(name="orders")])
        assert len(wire.call(asked, 12).topics[0].partitions) == 7


def test_what_the_broker_was_started_with_is_described_as_static(broker: EmbeddedBroker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        asked = DescribeConfigsRequest.Resource(resource_type=4, resource_name="1", configuration_keys=None)
        configs = wire.call(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs
    found = {config.name: (config.value, config.config_source) for config in configs}
    listener = f"PLAINTEXT://{broker.bootstrap_servers}"
    assert found["listeners"] == found["advertised.listeners"] == (listener, 4)
    assert found["node.id"] == ("1", 4)
    assert found["num.partitions"] == ("1", 5)


def test_an_embedded_broker_is_compatible_after_a_restart_too(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "kohort", compatible="kafka-4.3") as broker:
        broker.kill()
        broker.start()
        assert not broker.broker.config.kohort_group_heartbeat_park


def test_an_embedded_broker_is_up_in_well_under_a_second(tmp_path: Path) -> None:
    EmbeddedBroker(tmp_path / "first").start().stop()
    fastest = min(_start_seconds(tmp_path / str(attempt)) for attempt in range(3))
    assert fastest < 0.1


def _start_seconds(directory: Path) -> float:
    began = time.perf_counter()
    with EmbeddedBroker(directory):
        return time.perf_counter() - began


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_acknowledged_is_there_after_a_stop_and_after_a_kill(broker: EmbeddedBroker, clean: bool) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        wire.call(create("orders", 3), 7)
        offsets = [only(wire.call(produce("orders", batch(b"x" * 100)), 9)).base_offset for _ in range(50)]
        before = broker.bootstrap_servers
        if clean:
            broker.stop()
        else:
            broker.kill()
        assert wire.is_closed()
    broker.start()
    assert broker.bootstrap_servers == before
    with Wire(broker.bootstrap_servers) as wire:
        assert only(wire.call(fetch("orders"), 11)).high_watermark == len(offsets) == offsets[-1] + 1


def test_with_fsync_every_reply_comes_and_each_after_its_flush(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, log_flush_interval_messages=1) as broker, Wire(broker.bootstrap_servers) as wire:
        wire.call(create("orders"), 7)
        for offset in range(20):
            assert only(wire.call(produce("orders", batch(b"x")), 9)).base_offset == offset
            assert only(wire.call(fetch("orders"), 11)).high_watermark == offset + 1


def test_a_second_broker_on_the_same_directory_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(StorageError, match="another broker uses this directory"):
        EmbeddedBroker(broker.data_dir).start()
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.call(MetadataRequest(topics=[]), 12).brokers


def test_a_port_in_use_is_an_error_and_gives_the_directory_free(broker: EmbeddedBroker, tmp_path: Path) -> None:
    port = broker.broker.address[1]
    with pytest.raises(OSError, match="in use"):
        EmbeddedBroker(tmp_path / "other", port=port).start()
    EmbeddedBroker(tmp_path / "other").start().stop()


def test_an_unknown_setting_is_refused_before_anything_starts() -> None:
    with pytest.raises(TypeError, match=r"did you mean 'num\.partitions'"):
        EmbeddedBroker(num_partition=3)


def test_a_broker_without_a_directory_leaves_nothing_behind() -> None:
    with EmbeddedBroker() as broker:
        directory = Path(broker.data_dir)
        assert directory.exists()
    assert not directory.exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_stopping_and_killing_give_every_open_file_back(broker: EmbeddedBroker) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    broker.stop()
    before = open_files()
    for end in (broker.stop, broker.kill) * 3:
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            wire.call(create("orders", 5), 7)
            wire.call(produce("orders", batch(b"x")), 9)
            wire.call(fetch("orders"), 11)
        end()
    assert open_files() == before


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    pack(">i", 1 << 30),
    pack(">i", -7) + b"x",
    pack(">i", 10) + b"\x7f\xff" + bytes(8),
    pack(">i", 40) + pack(">hhih", 3, 9, 1, 2) + b"me" + b"\xff" * 28,
    b"",
]


def test_ten_thousand_garbage_connections_do_not_disturb_other_clients(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    host, port = broker.broker.address
    with Wire(broker.bootstrap_servers) as honest:
        honest.call(create("orders"), 7)
        for count in range(10_000):
            with contextlib.suppress(ConnectionError), socket.create_connection((host, port)) as rude:
                rude.sendall(GARBAGE[count % len(GARBAGE)])
            if count % 500 == 0:
                assert only(honest.call(produce("orders", batch(b"x")), 9)).error_code == 0
        assert only(honest.call(fetch("orders"), 11)).high_watermark == 20
    garbage = [record for record in caplog.records if "closed connection" in record.getMessage()]
    assert len(garbage) <= 10_000
    node = broker.broker.node
    assert node is not None
    with Wire(broker.bootstrap_servers) as last:
        for _ in range(100):  # each answer lets the loop reap connections that ended
            last.call(ApiVersionsRequest(), 0)
        assert len(node.connections) <= 3


@pytest.mark.parametrize("chunk", GARBAGE[:-1])
def test_garbage_is_answered_by_closing_the_connection(broker: EmbeddedBroker, chunk: bytes) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(chunk)
        assert wire.is_closed()


@pytest.mark.parametrize("loop", ["the fast one", "asyncio's own"])
def test_a_reader_that_stops_reading_costs_no_more_than_one_answer(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if loop == "asyncio's own":
        monkeypatch.setattr("kohort.net.event_loop.uvloop", None)
    with EmbeddedBroker(tmp_path) as broker:
        _sleep_over_fifty_answers(broker)


def _sleep_over_fifty_answers(broker: EmbeddedBroker) -> None:
    with Wire(broker.bootstrap_servers) as writer, Wire(broker.bootstrap_servers) as sleeper:
        writer.call(create("orders", max_message_bytes="10000000"), 7)
        for _ in range(8):
            assert only(writer.call(produce("orders", batch(b"x" * 900_000)), 9)).error_code == 0
        many = encode_request(fetch("orders", partition_max_bytes=8 << 20), 11, 1, "sleeper")
        sleeper.socket.sendall(many * 50)
        assert only(writer.call(produce("orders", batch(b"still here")), 9)).error_code == 0
        server = broker.broker.server
        assert server is not None
        unsent = max(client._transport.get_write_buffer_size() for client in server.clients)
        assert unsent < 16 << 20
        # It wakes up: every answer is still there, whole and in order.
        for _ in range(50):
            (size,) = unpack(">i", sleeper.read(4))
            sleeper.read(size)


def test_several_requests_in_flight_are_answered_in_order(broker: EmbeddedBroker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        wire.call(create("orders"), 7)
        frames = [
            encode_request(fetch("orders", max_wait_ms=20), 11, 1, "me"),
            encode_request(MetadataRequest(topics=[]), 9, 2, "me"),
            encode_request(produce("orders", batch(b"x")), 9, 3, "me"),
            encode_request(fetch("orders"), 11, 4, "me"),
        ]
        wire.socket.sendall(b"".join(frames))
        seen = []
        for _ in frames:
            (size,) = unpack(">i", wire.read(4))
            seen.append(unpack(">i", wire.read(size)[:4])[0])
    assert seen == [1, 2, 3, 4]
