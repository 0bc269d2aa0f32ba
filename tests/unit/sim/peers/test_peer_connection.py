"""A peer's connection: every request is answered once, in order, or fails with a reason."""

from __future__ import annotations

from random import Random
from typing import Any

from kohort.model.errors import ErrorCode
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import End, Network
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.peers.peer_connection import CONNECT_US, PeerConnection

ADDRESS = ("n1", 9092)
SECOND_US = 1_000_000


def request(name: bytes) -> bytes:
    """Return a frame whose body is a name; bytes 8 to 12 are the correlation id's."""
    return (8 + len(name)).to_bytes(4, "big") + bytes(8) + name


class Wire:
    """A connection, and a server that answers each request with its name, unless it is silent."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(1))
        self.client, self.server = Host("m1", self.scheduler), Host("n1", self.scheduler)
        self.network.listen(ADDRESS, self.server, self.accept)
        self.answers: list[tuple[str, str]] = []
        self.asked: list[bytes] = []
        self.ends: list[End] = []
        self.losses = 0
        self.is_silent = False
        self.connection = PeerConnection(self.client, self.network, lambda: ADDRESS, self.lose)

    def lose(self) -> None:
        self.losses += 1

    def accept(self, end: End) -> None:
        self.ends.append(end)
        buffer = bytearray()

        def take(chunk: bytes) -> None:
            buffer.extend(chunk)
            while len(buffer) >= 4 and len(buffer) >= 4 + (length := int.from_bytes(buffer[:4], "big")):
                frame = bytes(buffer[: 4 + length])
                del buffer[: 4 + length]
                self.asked.append(frame[12:])
                if not self.is_silent:
                    answer = frame[8:12] + frame[12:]
                    end.send(len(answer).to_bytes(4, "big") + answer)

        end.on_bytes = take

    def ask(self, name: str, timeout_ms: int = 5_000) -> None:
        def answered(code: ErrorCode, message: Any) -> None:
            self.answers.append((name, code.name if message is None else message.decode()))

        self.connection.send(request(name.encode()), lambda frame: frame[4:], answered, timeout_ms)

    def pass_s(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * SECOND_US))


def test_answers_come_in_order_however_the_bytes_are_cut() -> None:
    wire = Wire()
    wire.network.cut, wire.network.loss = 0.5, 0.1
    names = [f"request {number}" for number in range(50)]
    for name in names:
        wire.ask(name)
    wire.pass_s(5)
    assert wire.answers == [(name, name) for name in names]
    assert len(wire.ends) == 1


def test_a_request_that_is_not_answered_in_time_takes_the_connection_with_it() -> None:
    wire = Wire()
    wire.is_silent = True
    wire.ask("first", 1_000)
    wire.ask("second", 4_000)
    wire.pass_s(0.9)
    assert wire.answers == []
    wire.pass_s(0.2)
    assert wire.answers == [("first", "REQUEST_TIMED_OUT"), ("second", "REQUEST_TIMED_OUT")]
    assert wire.losses == 1
    wire.is_silent = False
    wire.ask("third")
    wire.pass_s(1)
    assert wire.answers[2:] == [("third", "third")]
    assert len(wire.ends) == 2


def test_no_listener_is_a_network_exception() -> None:
    wire = Wire()
    wire.server.kill()
    wire.ask("first")
    wire.pass_s(1)
    assert wire.answers == [("first", "NETWORK_EXCEPTION")]


def test_a_path_that_is_blocked_is_abandoned_while_connecting() -> None:
    wire = Wire()
    wire.network.block("m1", "n1")
    wire.ask("first", 60_000)
    wire.pass_s(CONNECT_US / SECOND_US + 0.1)
    assert wire.answers == [("first", "NETWORK_EXCEPTION")]


def test_the_loss_of_a_dropped_connection_is_reported_later_and_not_from_inside() -> None:
    wire = Wire()
    wire.is_silent = True
    wire.ask("first")
    wire.pass_s(0.1)
    wire.connection.drop()
    assert wire.answers == []
    wire.ask("second")
    wire.is_silent = False
    wire.pass_s(1)
    assert wire.answers == [("first", "NETWORK_EXCEPTION"), ("second", "second")]


def test_a_connection_that_is_closed_answers_no_request() -> None:
    wire = Wire()
    wire.ask("first")
    wire.connection.close()
    wire.pass_s(10)
    assert wire.answers == []
    assert wire.asked == []


def test_an_opening_goes_first_on_each_connection_and_its_answer_is_nobodys() -> None:
    wire = Wire()
    wire.connection.opening = request(b"opening")
    wire.ask("first")
    wire.pass_s(1)
    assert wire.asked == [b"opening", b"first"]
    assert wire.answers == [("first", "first")]
