"""Parking of heartbeats with a member epoch, and the interval after which the next one is requested.

The law: nothing waits behind a parked heartbeat but what its client delays by itself, as clients do with leaves and
changed subscriptions while one is unanswered; so none waits longer than a configured time, and none of a member that
owes an acknowledgement. Each answer requests the next heartbeat soon where that one will be parked.

A client that needs the answer before its next heartbeat is due has a margin, which grows with the delays of its
answers: on a busy machine it gets the interval that it has without parking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kohort.parking.limits import (
    ACK_MS,
    DELAYS_IN_MARGIN,
    FAST_EPOCH_MS,
    LONGEST_DELAY_MS,
    NEXT_MS,
    OWED_MS,
    RECENT_MS,
    RECENT_WAIT_MS,
    STABLE_AFTER_MS,
    WAITING_MS,
    WARMING_MS,
)
from kohort.parking.parked_heartbeat import AnswerT, Follower, Heartbeat, ParkedHeartbeat, Timers


class ConsumerHeartbeat(Heartbeat, Protocol):
    """What parking reads of a heartbeat."""

    @property
    def owned(self) -> object:
        """The partitions that the sender owns, which acknowledges its assignment; None when they are not sent."""

    @property
    def margin_ms(self) -> int:
        """How long before its next heartbeat is due the client needs the last answer; 0 where it does not matter."""


class ConsumerAnswer(Protocol):
    """What parking reads of an answer, and the interval that it writes into it."""

    heartbeat_interval_ms: int

    @property
    def error(self) -> int:
        """0, or an error code."""

    @property
    def member_id(self) -> str | None:
        """The member."""

    @property
    def member_epoch(self) -> int:
        """The member's epoch; 0 or less when it leaves."""

    @property
    def assignment(self) -> object:
        """What the member shall own, None when that has not changed."""

    @property
    def is_quiet(self) -> bool:
        """Whether it has no update."""

    @property
    def is_settling(self) -> bool:
        """Whether the member has something to do or to wait for."""

    @property
    def is_warming(self) -> bool:
        """Whether the member has copies that catch up, and reports that."""

    @property
    def target_due_ms(self) -> int:
        """When the first target of the group is due; in the past, or 0, where that is not delayed."""

    @property
    def keeps_interval(self) -> bool:
        """Whether its client takes the interval for more than the time of its next heartbeat."""


HeartbeatT = TypeVar("HeartbeatT", bound=ConsumerHeartbeat)


@dataclass(slots=True, eq=False)
class _HeartbeatSender(Generic[HeartbeatT, AnswerT]):
    """What is known of the heartbeats of one member."""

    updated_ms: int
    """When it was last sent an update."""
    arrived_ms: int = 0
    """When its last heartbeat arrived."""
    owes_since_ms: int | None = None
    """When it was sent an assignment that it has not acknowledged."""
    requested_ms: int = 0
    """The interval that its last answer requested."""
    was_quiet: bool = False
    """Whether its last answer had no update."""
    due_ms: int | None = None
    """When its unanswered heartbeat is to be answered: when it was passed on, or at the end of its wait."""
    delay_ms: int = 0
    """The longest delay of its answers lately."""
    parked: ParkedHeartbeat[HeartbeatT, AnswerT] | None = None

    def arrived(self, now_ms: int, *, is_steady: bool) -> int:
        """Note a heartbeat, and return how long after the one before it came.

        A delay shows if it comes though that one is unanswered, or sooner than requested: that one was read late.
        """
        gap_ms, self.arrived_ms = now_ms - self.arrived_ms, now_ms
        if self.due_ms is not None:
            self._delayed(now_ms - self.due_ms)
        elif is_steady and self.was_quiet:
            self._delayed(self.requested_ms - gap_ms)
        return gap_ms

    def passed_on(self, now_ms: int) -> None:
        """Its heartbeat is to be answered now, and the one before it is abandoned."""
        if self.due_ms is not None:
            self._delayed(now_ms - self.due_ms)
        self.due_ms = now_ms

    def answered(self, now_ms: int) -> None:
        """Its heartbeat is answered."""
        self.delay_ms -= self.delay_ms // 8
        if self.due_ms is not None:
            self._delayed(now_ms - self.due_ms)
            self.due_ms = None

    def _delayed(self, by_ms: int) -> None:
        self.delay_ms = max(self.delay_ms, min(by_ms, LONGEST_DELAY_MS))

    def margin_ms(self, least_ms: int) -> int:
        """Return how long before its next heartbeat is due it must have the last answer; 0: it does not matter.

        It grows in doubles: Java's client begins its interval anew when it is sent another one, and sends no
        heartbeat that could be parked before that has passed.
        """
        margin_ms = least_ms
        while 0 < margin_ms < DELAYS_IN_MARGIN * self.delay_ms:
            margin_ms *= 2
        return margin_ms


class ConsumerParking(Generic[HeartbeatT, AnswerT]):
    """The parked heartbeats with a member epoch, of all groups.

    `answer` is called with one that waits no longer and the time: it is decided again and answered. A heartbeat waits
    for `park_ms`, or `stable_park_ms` where its member is stable; 0 parks none, and then a member that is settling is
    requested to send its next heartbeat after `settling_ms`.
    """

    def __init__(
        self,
        timers: Timers,
        answer: Callable[[ParkedHeartbeat[HeartbeatT, AnswerT], int], None],
        park_ms: int,
        stable_park_ms: int,
        settling_ms: int,
    ) -> None:
        self._timers = timers
        self._answer = answer
        self._park_ms = park_ms
        self._settling_ms = settling_ms
        self._stable_park_ms = max(park_ms, stable_park_ms) if park_ms else 0
        self._senders: dict[tuple[str, str], _HeartbeatSender[HeartbeatT, AnswerT]] = {}

    def __len__(self) -> int:
        return sum(sender.parked is not None for sender in self._senders.values())

    @property
    def known_members(self) -> int:
        """The number of members of whose heartbeats something is known."""
        return len(self._senders)

    def park(
        self, heartbeat: HeartbeatT, answer: Callable[[AnswerT], None], session_timeout_ms: int, now_ms: int
    ) -> ParkedHeartbeat[HeartbeatT, AnswerT] | None:
        """Park the heartbeat of a member with no update and nothing to do; None when it is to be answered now."""
        key = heartbeat.group_id, heartbeat.member_id
        sender = self._senders.get(key) or self._add(key, now_ms)
        gap_ms = sender.arrived(now_ms, is_steady=heartbeat.owned is None)
        if heartbeat.owned is not None:
            sender.owes_since_ms = None
        if gap_ms < FAST_EPOCH_MS and sender.was_quiet:
            return None
        if sender.parked is not None:
            sender.parked.release(now_ms)  # what a client sends twice is answered twice
        if not self._park_ms or (sender.owes_since_ms is not None and now_ms - sender.owes_since_ms < ACK_MS):
            return None
        margin_ms = sender.margin_ms(heartbeat.margin_ms)
        wait_ms = self._wait_ms(sender, margin_ms, now_ms)
        if margin_ms:
            wait_ms = min(wait_ms, sender.requested_ms - margin_ms)
            if wait_ms <= 0:
                return None
        parked = sender.parked = ParkedHeartbeat(self, heartbeat, answer)
        sender.due_ms = now_ms + min(wait_ms, session_timeout_ms // 3)
        self._timers.arm(parked, sender.due_ms, parked.release)
        return parked

    def passed_on(self, heartbeat: HeartbeatT, now_ms: int) -> None:
        """A heartbeat is not parked: what it owns acknowledges its member's assignment."""
        sender = self._senders.get((heartbeat.group_id, heartbeat.member_id))
        if sender is not None:
            if heartbeat.owned is not None:
                sender.owes_since_ms = None
            sender.passed_on(now_ms)

    def answering(self, group_id: str, result: ConsumerAnswer, margin_ms: int, now_ms: int) -> None:
        """Note an answer that is about to be sent, and write the interval of the next heartbeat into it."""
        if result.error or result.member_epoch <= 0 or result.member_id is None:
            return
        key = group_id, result.member_id
        sender = self._senders.get(key) or self._add(key, now_ms)
        sender.answered(now_ms)
        sender.was_quiet = result.is_quiet
        if not result.is_quiet:
            sender.updated_ms = now_ms
            if result.assignment is not None:
                sender.owes_since_ms = now_ms
        owing_ms = None if sender.owes_since_ms is None else now_ms - sender.owes_since_ms
        margin_ms = sender.margin_ms(margin_ms)
        if self._park_ms and result.is_warming:
            next_ms = WARMING_MS
        elif self._park_ms and margin_ms:
            is_waiting = result.is_settling and now_ms - sender.updated_ms < WAITING_MS
            next_ms = min(RECENT_WAIT_MS, self._park_ms) if is_waiting else self._wait_ms(sender, margin_ms, now_ms)
            # Until a first target that is delayed is due, all answers are the same; a client logs a warning for each.
            next_ms = max(next_ms + margin_ms, result.target_due_ms - now_ms)
        elif self._park_ms:
            next_ms = OWED_MS if owing_ms is not None and owing_ms >= OWED_MS else NEXT_MS
        else:
            is_busy = self._settling_ms > 0 and (owing_ms is not None or result.is_settling)
            next_ms = self._settling_ms if is_busy else result.heartbeat_interval_ms
        if next_ms < result.heartbeat_interval_ms and not result.keeps_interval:
            result.heartbeat_interval_ms = next_ms
        sender.requested_ms = result.heartbeat_interval_ms

    def _add(self, key: tuple[str, str], now_ms: int) -> _HeartbeatSender[HeartbeatT, AnswerT]:
        sender = self._senders[key] = _HeartbeatSender(now_ms)
        return sender

    def _wait_ms(self, sender: _HeartbeatSender[HeartbeatT, AnswerT], margin_ms: int, now_ms: int) -> int:
        calm_ms = now_ms - sender.updated_ms
        if margin_ms and calm_ms < RECENT_MS:
            return min(RECENT_WAIT_MS, self._park_ms)
        return self._park_ms if calm_ms < STABLE_AFTER_MS else self._stable_park_ms

    def parked_of(self, group_id: str, member_id: str) -> ParkedHeartbeat[HeartbeatT, AnswerT] | None:
        """Return the parked heartbeat of a member, if it has one."""
        sender = self._senders.get((group_id, member_id))
        return None if sender is None else sender.parked

    def forget(self, group_id: str, member_id: str) -> ParkedHeartbeat[HeartbeatT, AnswerT] | None:
        """A member has left: return its parked heartbeat, which must be answered, if it has one."""
        sender = self._senders.pop((group_id, member_id), None)
        return None if sender is None else sender.parked

    def followed(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT], follower: Follower, now_ms: int) -> bool:  # noqa: ARG002
        """Answer a heartbeat: nothing waits behind it."""
        self.drop(parked)
        sender = self._senders.get((parked.heartbeat.group_id, parked.heartbeat.member_id))
        if sender is not None and sender.due_ms is not None:
            sender.due_ms = min(sender.due_ms, now_ms)  # of one that is passed on
        self._answer(parked, now_ms)
        return False

    def drop(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT]) -> None:
        """Remove a heartbeat without an answer."""
        parked.parking = None
        self._timers.disarm(parked)
        heartbeat = parked.heartbeat
        sender = self._senders.get((heartbeat.group_id, heartbeat.member_id))
        if sender is not None and sender.parked is parked:
            sender.parked = None
