"""How often one member sends heartbeats, and so how long one of them may be kept waiting for news.

No request says the interval, so it is learnt: from SyncGroup's answer to the first heartbeat, and from one heartbeat
to the next where ours was answered at once and cannot have delayed it. A heartbeat is kept a little longer than that,
so that one is always here. Java sends the next on time, answered or not; kafka-python, aiokafka and our members send
it when the answer comes; but librdkafka, whose heartbeat is unanswered when the next is due, skips that one. Whoever
does so is found out by the first that is kept, and from then on is answered a little before the next is due.
"""

from __future__ import annotations

FAST_MS = 100
"""Whoever sends heartbeats faster than this is answered at once: it hears of everything soon enough."""

SLACK_MS = 250
"""How much longer than the interval a heartbeat is kept, for senders that are a little late (Java's by 100 ms)."""

MARGIN_MS = 100
"""How long before the next heartbeat the one before is answered, for senders that skip it otherwise."""

MOST_MS = 5_000
"""No heartbeat is kept longer: every client gives up on a request at some time, 10 s and more by default."""


class Pace:
    """One member's heartbeats; whoever answers a kept one sets `answered_ms`."""

    __slots__ = (
        "_is_certain",
        "_is_fresh",
        "_is_probe",
        "_is_punctual",
        "_trial_end_ms",
        "answered_ms",
        "arrived_ms",
        "interval_ms",
    )

    def __init__(self, now_ms: int) -> None:
        self.arrived_ms = now_ms
        """When the last heartbeat came, or the generation began."""
        self.answered_ms = now_ms
        self.interval_ms = 0
        """What was learnt; 0 when nothing is known."""
        self._is_certain = False
        """Whether the interval is more than a first guess."""
        self._is_fresh = False
        self._is_probe = True
        """Whether the last heartbeat was answered at once, so that the next shows the member's own interval."""
        self._is_punctual: bool | None = None
        """Whether its next heartbeat comes in time though the last is unanswered; None when nobody knows yet."""
        self._trial_end_ms = 0

    def begin(self, now_ms: int) -> None:
        """A generation begins for the member: clients start their interval anew here, or go on with the old one."""
        self.arrived_ms = self.answered_ms = now_ms
        self._is_fresh = True
        self._is_probe = False
        self._trial_end_ms = 0

    def beat(self, now_ms: int, session_timeout_ms: int) -> int:
        """Note a heartbeat that comes now, and return for how long it may be kept: 0 is not at all."""
        gap_ms, idle_ms = now_ms - self.arrived_ms, now_ms - self.answered_ms
        if gap_ms < FAST_MS:  # heartbeats by the thousand come here: nothing below may cost them time
            self.arrived_ms = self.answered_ms = now_ms
            self.interval_ms = gap_ms
            self._is_probe = True
            self._is_fresh = False
            self._trial_end_ms = 0
            return 0
        self._judge(idle_ms)
        is_news = self._learn(gap_ms, idle_ms)
        self.arrived_ms = self.answered_ms = now_ms
        wait_ms = 0 if is_news else self._wait_ms(session_timeout_ms)
        self._is_probe = wait_ms == 0
        if wait_ms and self._is_punctual is None:
            self._trial_end_ms = now_ms + wait_ms
        return wait_ms

    def _judge(self, idle_ms: int) -> None:
        """See from this heartbeat what its sender did while the last was kept, unless that was answered early."""
        if self._trial_end_ms:
            if idle_ms <= MARGIN_MS:
                self._is_punctual = True
            elif self._is_certain and self.answered_ms >= self._trial_end_ms:
                self._is_punctual = False
        self._trial_end_ms = 0

    def _learn(self, gap_ms: int, idle_ms: int) -> bool:
        """Take the interval from the last gap; return whether it contradicts what was known and needs a probe."""
        was_fresh, self._is_fresh = self._is_fresh, False
        if was_fresh:
            # Not a whole interval for a client whose clock runs through the rebalance: only a first guess.
            if not self.interval_ms:
                self.interval_ms = gap_ms
            return self.interval_ms < FAST_MS
        elif self._is_probe:
            is_first = not self.interval_ms or self.interval_ms < FAST_MS
            self.interval_ms = gap_ms
            self._is_certain = True
            return is_first
        elif gap_ms < self.interval_ms:
            self.interval_ms = gap_ms
        elif idle_ms > MARGIN_MS and 4 * gap_ms > 5 * self.interval_ms:
            return True
        return False

    def _wait_ms(self, session_timeout_ms: int) -> int:
        """Return for how long a member of this pace may be kept, so that its session never depends on it."""
        interval_ms = self.interval_ms
        # One heartbeat may be lost to finding out; so short a session cannot spare it.
        if self._is_punctual or (self._is_punctual is None and 3 * interval_ms <= session_timeout_ms):
            wait_ms = interval_ms + min(SLACK_MS, max(FAST_MS, interval_ms // 5))
        else:
            wait_ms = interval_ms - MARGIN_MS
        return max(0, min(wait_ms, session_timeout_ms // 3, MOST_MS))


__all__ = ["FAST_MS", "MARGIN_MS", "MOST_MS", "SLACK_MS", "Pace"]
