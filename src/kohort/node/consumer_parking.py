"""Heartbeats of the consumer protocol that are kept until their member must act, and how soon the next shall come.

The law: nothing waits behind a kept heartbeat but what its client holds back by itself, as clients do with leaves and
changed subscriptions while one is unanswered; so none is kept longer than a stated time, and none of a member that owes
an acknowledgement. Each answer says when the next heartbeat shall come: soon, where that one will be kept.
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.group.consumer.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult, Result
from kohort.node.timers import Timers

Ticket = Callable[[Result], None]

NEXT_MS = 50
"""When the next heartbeat shall come where heartbeats are kept: without news one is then nearly always here."""

OWED_MS = 1_000
"""The same for a member that takes longer than this for what it was told: none of its heartbeats is kept meanwhile."""

FAST_MS = 20
"""Whoever sends heartbeats faster than this, with nothing to say, is answered at once."""

ACK_MS = 5_000
"""How long a member may take to acknowledge an assignment before its heartbeats are kept all the same."""

RECENT_MS, RECENT_WAIT_MS = 1_000, 50
"""News seldom come alone. So for so long after some, a client whose next heartbeat comes no sooner than it was told has
each of them kept for this time only, and is told to send the next soon."""

WAITING_MS = 10_000
"""The same for a member that waits for partitions of others, so long."""

STABLE_AFTER_MS = 30_000
"""A member that has heard no news for so long is long stable."""


class KeptHeartbeat:
    """One heartbeat that waits; `parking` is None once it does no more."""

    __slots__ = ("command", "parking", "ticket")

    def __init__(self, parking: ConsumerParking, command: ConsumerHeartbeat, ticket: Ticket) -> None:
        self.parking: ConsumerParking | None = parking
        self.command = command
        self.ticket = ticket

    def release(self, now_ms: int) -> None:
        """Answer it now, whatever the answer is; no harm if it was answered before."""
        if self.parking is not None:
            self.parking.release(self, now_ms)

    def drop(self) -> None:
        """Forget it: its sender has gone."""
        if self.parking is not None:
            self.parking.drop(self)


class _Sender:
    """What is known of one member's heartbeats."""

    __slots__ = ("asked_ms", "heard_ms", "kept", "news_ms", "told_ms", "was_quiet")

    def __init__(self, now_ms: int) -> None:
        self.heard_ms = 0
        self.news_ms = now_ms
        """When it was last told something."""
        self.asked_ms = -1
        """When it was told an assignment that it has not acknowledged, else -1."""
        self.told_ms = 0
        """How long after its last heartbeat it was told to send the next."""
        self.was_quiet = False
        """Whether the last answer said nothing."""
        self.kept: KeptHeartbeat | None = None


class ConsumerParking:
    """The kept heartbeats of one node. `answer` has one decided again and answered; 0 milliseconds keep none."""

    def __init__(
        self,
        timers: Timers,
        answer: Callable[[KeptHeartbeat, int], None],
        park_ms: int,
        stable_park_ms: int,
        settling_ms: int,
    ) -> None:
        self._timers = timers
        self._answer = answer
        self._park_ms = park_ms
        self._settling_ms = settling_ms
        self._stable_park_ms = max(park_ms, stable_park_ms) if park_ms else 0
        self._senders: dict[tuple[str, str], _Sender] = {}

    def __len__(self) -> int:
        return sum(sender.kept is not None for sender in self._senders.values())

    @property
    def remembered(self) -> int:
        """How many members' heartbeats something is known about."""
        return len(self._senders)

    def keep(
        self, command: ConsumerHeartbeat, ticket: Ticket, session_timeout_ms: int, now_ms: int
    ) -> KeptHeartbeat | None:
        """Keep the heartbeat of a member for which there is nothing to say or to do; None when it must be answered."""
        key = command.group_id, command.member_id
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = _Sender(now_ms)
        gap_ms, sender.heard_ms = now_ms - sender.heard_ms, now_ms
        if command.owned is not None:
            sender.asked_ms = -1
        if gap_ms < FAST_MS and sender.was_quiet:
            return None
        if sender.kept is not None:
            sender.kept.release(now_ms)  # what a client sends twice is answered twice
        if not self._park_ms or (sender.asked_ms >= 0 and now_ms - sender.asked_ms < ACK_MS):
            return None
        wait_ms = self._wait_ms(sender, command.margin_ms, now_ms)
        if command.margin_ms:
            wait_ms = min(wait_ms, sender.told_ms - command.margin_ms)
            if wait_ms <= 0:
                return None
        command.is_counted = True
        kept = sender.kept = KeptHeartbeat(self, command, ticket)
        self._timers.arm(kept, now_ms + min(wait_ms, session_timeout_ms // 3), kept.release)
        return kept

    def acknowledged(self, group_id: str, member_id: str) -> None:
        """A member says what it owns, and so that it knows what it was told."""
        sender = self._senders.get((group_id, member_id))
        if sender is not None:
            sender.asked_ms = -1

    def tell(self, group_id: str, result: ConsumerHeartbeatResult, margin_ms: int, now_ms: int) -> None:
        """Note what a member is told, and write into it when its next heartbeat shall come."""
        if result.error or result.member_epoch <= 0 or result.member_id is None:
            return
        key = group_id, result.member_id
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = _Sender(now_ms)
        sender.was_quiet = result.is_quiet
        if not result.is_quiet:
            sender.news_ms = now_ms
            if result.assignment is not None:
                sender.asked_ms = now_ms
        is_owing = sender.asked_ms >= 0
        if self._park_ms and margin_ms:
            is_waiting = result.is_settling and now_ms - sender.news_ms < WAITING_MS
            next_ms = min(RECENT_WAIT_MS, self._park_ms) if is_waiting else self._wait_ms(sender, margin_ms, now_ms)
            next_ms += margin_ms
        elif self._park_ms:
            next_ms = OWED_MS if is_owing and now_ms - sender.asked_ms >= OWED_MS else NEXT_MS
        else:
            is_busy = self._settling_ms > 0 and (is_owing or result.is_settling)
            next_ms = self._settling_ms if is_busy else result.heartbeat_interval_ms
        if next_ms < result.heartbeat_interval_ms:
            result.heartbeat_interval_ms = next_ms
        sender.told_ms = result.heartbeat_interval_ms

    def _wait_ms(self, sender: _Sender, margin_ms: int, now_ms: int) -> int:
        calm_ms = now_ms - sender.news_ms
        if margin_ms and calm_ms < RECENT_MS:
            return min(RECENT_WAIT_MS, self._park_ms)
        return self._park_ms if calm_ms < STABLE_AFTER_MS else self._stable_park_ms

    def kept_of(self, group_id: str, member_id: str) -> KeptHeartbeat | None:
        """Return the kept heartbeat of a member, if there is one."""
        sender = self._senders.get((group_id, member_id))
        return None if sender is None else sender.kept

    def forget(self, group_id: str, member_id: str) -> KeptHeartbeat | None:
        """A member is out: return its kept heartbeat, which must be answered, if there is one."""
        sender = self._senders.pop((group_id, member_id), None)
        return None if sender is None else sender.kept

    def release(self, kept: KeptHeartbeat, now_ms: int) -> None:
        """Answer one heartbeat."""
        self.drop(kept)
        self._answer(kept, now_ms)

    def drop(self, kept: KeptHeartbeat) -> None:
        """Keep a heartbeat no longer, without an answer."""
        kept.parking = None
        self._timers.disarm(kept)
        sender = self._senders.get((kept.command.group_id, kept.command.member_id))
        if sender is not None and sender.kept is kept:
            sender.kept = None


__all__ = ["ConsumerParking", "KeptHeartbeat"]
