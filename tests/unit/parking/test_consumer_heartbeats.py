"""The margin of a client that abandons a heartbeat when its next one is due, as librdkafka does."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import ErrorCode
from kohort.node.timers import Timers
from kohort.parking.consumer_heartbeats import ConsumerParking
from kohort.parking.limits import RECENT_MS
from kohort.parking.parked_heartbeat import ParkedHeartbeat

PARK_MS, MARGIN_MS, KAFKAS_MS = 1_000, 200, 5_000


@dataclass(frozen=True)
class Heartbeat:
    group_id: str = "g"
    member_id: str = "m"
    owned: object = None
    margin_ms: int = MARGIN_MS


class Coordinator:
    """Parking in front of a coordinator that answers after `delay_ms`; its one member sends a heartbeat next."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.now_ms = self.delay_ms = self.interval_ms = 0
        self.parking: ConsumerParking[Heartbeat, None] = ConsumerParking(
            self.timers, lambda *_: self.reply(), PARK_MS, PARK_MS, settling_ms=0
        )
        self.reply()
        self.advance(RECENT_MS)
        self.send()
        self.advance(PARK_MS + MARGIN_MS)

    def reply(self) -> None:
        answer = ConsumerHeartbeatResult(
            ErrorCode.NONE, "", "m", 1, heartbeat_interval_ms=KAFKAS_MS, is_quiet=self.now_ms > 0
        )
        self.parking.answering("g", answer, MARGIN_MS, self.now_ms + self.delay_ms)
        self.interval_ms = answer.heartbeat_interval_ms

    def send(self) -> ParkedHeartbeat[Heartbeat, None] | None:
        return self.parking.park(Heartbeat(), lambda _: None, 45_000, self.now_ms)

    def advance(self, by_ms: int) -> None:
        until_ms = self.now_ms + by_ms
        while (deadline_ms := self.timers.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = deadline_ms
            self.timers.run_due(deadline_ms)
        self.now_ms = until_ms


def test_a_client_has_a_margin_of_four_times_the_delay_of_its_answers_while_they_come_late() -> None:
    coordinator = Coordinator()
    assert coordinator.interval_ms == PARK_MS + MARGIN_MS
    coordinator.delay_ms = 400
    assert coordinator.send() is not None
    coordinator.advance(PARK_MS)
    assert coordinator.interval_ms == PARK_MS + 4 * 400
    coordinator.delay_ms = 0
    intervals_ms = set()
    for _ in range(30):
        coordinator.advance(coordinator.interval_ms - PARK_MS)
        coordinator.send()
        coordinator.advance(PARK_MS)
        intervals_ms.add(coordinator.interval_ms - PARK_MS)
    # Java's client begins its interval anew with each of these, and with no other answer.
    assert intervals_ms == {8 * MARGIN_MS, 4 * MARGIN_MS, 2 * MARGIN_MS, MARGIN_MS}


def test_a_client_that_abandons_a_heartbeat_has_a_longer_margin() -> None:
    coordinator = Coordinator()
    coordinator.send()
    coordinator.now_ms += PARK_MS + 700  # the machine stood still
    coordinator.send()
    coordinator.advance(PARK_MS)
    assert coordinator.interval_ms == PARK_MS + 16 * MARGIN_MS  # more than four times what is left of 700 ms


def test_a_heartbeat_that_was_read_late_shows_by_the_next_one() -> None:
    coordinator = Coordinator()
    coordinator.advance(150)
    coordinator.send()
    coordinator.advance(PARK_MS)
    coordinator.advance(MARGIN_MS - 150)
    coordinator.send()
    coordinator.advance(PARK_MS)
    assert coordinator.interval_ms > PARK_MS + 2 * MARGIN_MS


def test_where_answers_take_seconds_nothing_is_parked_and_the_interval_is_the_coordinators() -> None:
    coordinator = Coordinator()
    coordinator.delay_ms = 3_000
    coordinator.send()
    coordinator.advance(PARK_MS)
    assert coordinator.interval_ms == KAFKAS_MS
    coordinator.advance(KAFKAS_MS)
    assert coordinator.send() is None
