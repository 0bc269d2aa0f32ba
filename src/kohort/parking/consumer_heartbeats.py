"""Parking of heartbeats of the consumer protocol, and the interval after which the next one is requested.

The law: nothing waits behind a parked heartbeat but what its client delays by itself, as clients do with leaves and
changed subscriptions while one is unanswered; so none waits longer than a configured time, and none of a member that
owes an acknowledgement. Each answer requests the next heartbeat soon where that one will be parked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kohort.parking.limits import (
    ACK_MS,
    FAST_EPOCH_MS,
    NEXT_MS,
    OWED_MS,
    RECENT_MS,
    RECENT_WAIT_MS,
    STABLE_AFTER_MS,
    WAITING_MS,
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
    parked: ParkedHeartbeat[HeartbeatT, AnswerT] | None = None


class ConsumerParking(Generic[HeartbeatT, AnswerT]):
    """The parked heartbeats of the consumer protocol, of all groups.

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
        gap_ms, sender.arrived_ms = now_ms - sender.arrived_ms, now_ms
        if heartbeat.owned is not None:
            sender.owes_since_ms = None
        if gap_ms < FAST_EPOCH_MS and sender.was_quiet:
            return None
        if sender.parked is not None:
            sender.parked.release(now_ms)  # what a client sends twice is answered twice
        if not self._park_ms or (sender.owes_since_ms is not None and now_ms - sender.owes_since_ms < ACK_MS):
            return None
        wait_ms = self._wait_ms(sender, heartbeat.margin_ms, now_ms)
        if heartbeat.margin_ms:
            wait_ms = min(wait_ms, sender.requested_ms - heartbeat.margin_ms)
            if wait_ms <= 0:
                return None
        parked = sender.parked = ParkedHeartbeat(self, heartbeat, answer)
        self._timers.arm(parked, now_ms + min(wait_ms, session_timeout_ms // 3), parked.release)
        return parked

    def acknowledged(self, group_id: str, member_id: str) -> None:
        """A member sent what it owns, and so acknowledged its assignment."""
        sender = self._senders.get((group_id, member_id))
        if sender is not None:
            sender.owes_since_ms = None

    def answering(self, group_id: str, result: ConsumerAnswer, margin_ms: int, now_ms: int) -> None:
        """Note an answer that is about to be sent, and write the interval of the next heartbeat into it."""
        if result.error or result.member_epoch <= 0 or result.member_id is None:
            return
        key = group_id, result.member_id
        sender = self._senders.get(key) or self._add(key, now_ms)
        sender.was_quiet = result.is_quiet
        if not result.is_quiet:
            sender.updated_ms = now_ms
            if result.assignment is not None:
                sender.owes_since_ms = now_ms
        owing_ms = None if sender.owes_since_ms is None else now_ms - sender.owes_since_ms
        if self._park_ms and margin_ms:
            is_waiting = result.is_settling and now_ms - sender.updated_ms < WAITING_MS
            next_ms = min(RECENT_WAIT_MS, self._park_ms) if is_waiting else self._wait_ms(sender, margin_ms, now_ms)
            next_ms += margin_ms
        elif self._park_ms:
            next_ms = OWED_MS if owing_ms is not None and owing_ms >= OWED_MS else NEXT_MS
        else:
            is_busy = self._settling_ms > 0 and (owing_ms is not None or result.is_settling)
            next_ms = self._settling_ms if is_busy else result.heartbeat_interval_ms
        if next_ms < result.heartbeat_interval_ms:
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
