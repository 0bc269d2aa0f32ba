"""The simulated network keeps what TCP promises, and nothing more."""

from __future__ import annotations

from random import Random

import pytest

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import TIME_OUT_US, End, Network
from kohort.sim.kernel.scheduler import Scheduler

ADDRESS = ("n1", 9092)


class Wire:
    """Two hosts and one connection between them, with what each end received."""

    def __init__(self, seed: int = 0) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(seed))
        self.client, self.server = Host("m1", self.scheduler), Host("n1", self.scheduler)
        self.received: dict[str, bytes] = {"m1": b"", "n1": b""}
        self.closed: dict[str, str] = {}
        self.ends: dict[str, End] = {}
        self.failed: list[str] = []
        self.network.listen(ADDRESS, self.server, self.take)
        self.network.connect(self.client, ADDRESS, self.take, self.failed.append)
        self.scheduler.run_until(10_000)

    def take(self, end: End) -> None:
        name = end.host.name
        self.ends[name] = end

        def receive(chunk: bytes) -> None:
            self.received[name] += chunk

        def lose(why: str) -> None:
            self.closed[name] = why

        end.on_bytes, end.on_closed = receive, lose

    def pass_us(self, us: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + us)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_whole_and_in_order_whatever_is_lost_and_cut(seed: int) -> None:
    wire = Wire(seed)
    wire.network.loss, wire.network.cut = 0.3, 0.5
    sent = b"".join(bytes([n]) * 7 for n in range(100))
    for start in range(0, len(sent), 7):
        wire.ends["m1"].send(sent[start : start + 7])
        wire.pass_us(300)
    if seed % 2:
        wire.server.freeze(wire.scheduler.now_us + 1_000_000)
    wire.pass_us(60_000_000)
    assert wire.received["n1"] == sent


def test_nothing_reaches_a_frozen_process_until_it_thaws() -> None:
    wire = Wire()
    wire.server.freeze(wire.scheduler.now_us + 5_000_000)
    wire.ends["m1"].send(b"one")
    wire.pass_us(4_000_000)
    assert wire.received["n1"] == b""
    wire.pass_us(2_000_000)
    assert wire.received["n1"] == b"one"


def test_a_blocked_path_delays_bytes_and_delivers_them_once_it_is_free() -> None:
    wire = Wire()
    wire.network.block("m1", "n1")
    wire.ends["m1"].send(b"held")
    wire.pass_us(5_000_000)
    assert wire.received["n1"] == b""
    wire.network.unblock("m1", "n1")
    wire.pass_us(10_000)
    assert wire.received["n1"] == b"held"


def test_a_sender_abandons_a_blocked_path_and_its_peer_is_left_half_open() -> None:
    wire = Wire()
    wire.network.block("m1", "n1")
    wire.ends["m1"].send(b"held")
    wire.pass_us(TIME_OUT_US + 1)
    assert wire.closed == {"m1": "timed out"}
    wire.network.unblock("m1", "n1")
    wire.ends["n1"].send(b"are you there?")
    wire.pass_us(10_000)
    assert wire.closed["n1"] == "reset by the peer"


def test_a_killed_process_resets_its_connections_and_one_without_power_does_not() -> None:
    wire = Wire()
    wire.network.close_all(wire.server)
    wire.server.kill()
    wire.pass_us(10_000)
    assert wire.closed == {"m1": "reset by the peer"}
    dark = Wire()
    dark.network.close_all(dark.server, silently=True)
    dark.server.kill()
    dark.pass_us(3_600_000_000)
    assert dark.closed == {}


def test_no_process_listens_once_the_process_is_gone() -> None:
    wire = Wire()
    wire.server.kill()
    wire.network.connect(wire.client, ADDRESS, wire.take, wire.failed.append)
    wire.pass_us(10_000)
    assert wire.failed == ["refused"]


def test_what_was_sent_before_a_close_arrives_before_it() -> None:
    wire = Wire()
    wire.ends["m1"].send(b"last words")
    wire.ends["m1"].close()
    wire.pass_us(10_000)
    assert (wire.received["n1"], wire.closed) == (b"last words", {"n1": "closed by the peer"})


@pytest.mark.parametrize("seed", range(20))
def test_a_connection_that_is_broken_ends_what_it_carries_and_never_continues_after_a_hole(seed: int) -> None:
    wire = Wire(seed)
    wire.ends["n1"].send(b"first")
    wire.network.break_connection(wire.ends["m1"])
    wire.ends["n1"].send(b"second")
    wire.pass_us(1_000_000)
    assert wire.received["m1"] in {b"", b"first"}
    assert wire.closed.keys() == {"m1", "n1"}


def test_a_connection_that_vanished_ends_only_for_the_side_that_sends() -> None:
    wire = Wire()
    wire.network.vanish(wire.ends["n1"])
    wire.ends["m1"].send(b"is anything there?")
    wire.pass_us(TIME_OUT_US - 1_000)
    assert wire.closed == {}
    wire.pass_us(2_000_000)
    assert (wire.received["n1"], wire.closed) == (b"", {"m1": "timed out"})


def test_a_storm_breaks_connections_and_loses_what_breaks_them_until_it_is_over() -> None:
    wire = Wire()
    wire.network.storm(1.0, wire.scheduler.now_us + 1_000_000)
    wire.ends["m1"].send(b"lost")
    wire.ends["m1"].send(b"with it")
    wire.pass_us(2_000_000)
    assert wire.received["n1"] == b""
    assert wire.closed == dict.fromkeys(("m1", "n1"), "reset by the network")
    wire.network.connect(wire.client, ADDRESS, wire.take, wire.failed.append)
    wire.pass_us(10_000)
    wire.ends["m1"].send(b"calm")
    wire.pass_us(10_000)
    assert wire.received["n1"] == b"calm"


def test_stragglers_arrive_late_and_before_the_end_of_their_connection() -> None:
    late = 0
    for seed in range(20):
        wire = Wire(seed)
        wire.network.straggling_us = 3_000_000
        wire.ends["m1"].send(b"late")
        wire.ends["m1"].abort()
        wire.pass_us(5_000)
        is_on_its_way = not wire.received["n1"] and "n1" not in wire.closed
        wire.pass_us(3_000_000)
        late += is_on_its_way and wire.received["n1"] == b"late"
        assert wire.closed["n1"] == "reset by the peer"
    assert late
