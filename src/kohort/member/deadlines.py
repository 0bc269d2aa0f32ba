"""A member's deadlines: next heartbeat, the session as the client sees it, the next retry, the poll deadline.

All times are milliseconds on the driver's monotonic clock, handed in. A deadline of None is not set. Randomness, for
the jitter of retries, is handed in too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kohort.member.member_state import MemberConfig

_FIRST_WAIT_MS = 100


@dataclass(eq=False)
class Backoff:
    """Waits that double from 100 ms up to `limit_ms`, each spread by ±20 % (Kafka's `retry.backoff.ms`)."""

    random: Callable[[], float]
    limit_ms: int = 1000
    failures: int = 0

    def next_ms(self) -> int:
        """Return how long to wait after one more failure, in milliseconds."""
        wait_ms = min(self.limit_ms, _FIRST_WAIT_MS << min(self.failures, 16))
        self.failures += 1
        return int(wait_ms * (0.8 + 0.4 * self.random()))

    @property
    def is_exhausted(self) -> bool:
        """Whether the last wait was as long as one may be."""
        return self.failures > 0 and _FIRST_WAIT_MS << min(self.failures - 1, 16) >= self.limit_ms

    def reset(self) -> None:
        """Forget past failures: something worked."""
        self.failures = 0


class Session:
    """The deadlines of one member."""

    def __init__(self, config: MemberConfig, random: Callable[[], float]) -> None:
        self._config = config
        self._backoff = Backoff(random)
        # A member that waits outside a round sends no heartbeats: it must be back well within its session.
        self._round_backoff = Backoff(random, limit_ms=config.session_timeout_ms // 3)
        # Each round renews the sessions of static members that are gone (KIP-345): they end only between two rounds.
        self._stable_backoff = Backoff(random, limit_ms=config.session_timeout_ms * 3 // 2)
        self.heartbeat_ms: int | None = None
        self.retry_ms: int | None = None
        self.rejoin_ms: int | None = None
        self.session_ms: int | None = None
        self.no_round_ms = 0
        """When the last request left whose answer reports that no round was under way."""
        self._sent_ms = 0
        self._certain_until_ms: int | None = None
        self.poll_ms: int | None = None
        self.poll_warning_ms: int | None = None

    def mark_heartbeat_sent(self, now_ms: int) -> None:
        """The next heartbeat is one interval away."""
        self._sent_ms = now_ms
        self.heartbeat_ms = now_ms + self._config.heartbeat_interval_ms

    def mark_answered(self, now_ms: int) -> None:
        """The coordinator answered as it answers a member it knows."""
        self._certain_until_ms = self._sent_ms + self._config.session_timeout_ms
        self.wait_for_answer(now_ms)

    def mark_no_round(self) -> None:
        """The answer to the last heartbeat, or to JoinGroup, reports that no round is under way."""
        self.no_round_ms = self._sent_ms

    def wait_for_answer(self, now_ms: int) -> None:
        """From here a whole session may pass without an answer of the coordinator."""
        self.session_ms = now_ms + self._config.session_timeout_ms
        self._backoff.reset()

    def left_ms(self, now_ms: int) -> int:
        """Return how long the session lasts at least, or 0; the coordinator had the last request once it was sent."""
        return 0 if self._certain_until_ms is None else max(0, self._certain_until_ms - now_ms)

    def open(self, now_ms: int) -> None:
        """A generation begins: heartbeats and the session run from here."""
        self.mark_heartbeat_sent(now_ms)
        self.mark_no_round()
        self.wait_for_answer(now_ms)

    def end(self) -> None:
        """The member is no longer in a generation: neither heartbeats nor a session."""
        self.heartbeat_ms = None
        self.session_ms = None
        self._certain_until_ms = None

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """Return whether the next heartbeat may leave."""
        return self.heartbeat_ms is not None and now_ms >= self.heartbeat_ms

    def is_session_over(self, now_ms: int) -> bool:
        """Return whether the coordinator has not answered for a whole session."""
        return self.session_ms is not None and now_ms >= self.session_ms

    def mark_poll_entered(self) -> None:
        """The user is here: no poll deadline runs."""
        self.poll_ms = self.poll_warning_ms = None

    def mark_poll_returned(self, now_ms: int) -> None:
        """The user went off: the poll deadline is one interval away, the warning two thirds of it."""
        interval_ms = self._config.max_poll_interval_ms
        if interval_ms is not None:
            self.poll_ms = now_ms + interval_ms
            self.poll_warning_ms = now_ms + interval_ms * 2 // 3

    def is_poll_late(self, now_ms: int) -> bool:
        """Return whether it is time to warn the user."""
        return self.poll_warning_ms is not None and now_ms >= self.poll_warning_ms

    def mark_poll_late(self, now_ms: int) -> int:
        """The user is warned, once; return how long it still has, in milliseconds."""
        self.poll_warning_ms = None
        return 0 if self.poll_ms is None else self.poll_ms - now_ms

    def wait_to_retry(self, now_ms: int, *, is_first_at_once: bool = False) -> None:
        """Something failed: delay the next attempt, the first one only if it is not due at once."""
        is_at_once = is_first_at_once and self._backoff.failures == 0
        wait_ms = self._backoff.next_ms()
        self.retry_ms = now_ms if is_at_once else now_ms + wait_ms

    def wait_after_bad_round(self, now_ms: int) -> int:
        """A round ended without what it was for; return when to try the next one, later after each such round."""
        return now_ms + self._round_backoff.next_ms()

    def wait_as_stable(self, now_ms: int) -> int | None:
        """As `wait_after_bad_round`, for a member that is in the group and sends heartbeats meanwhile.

        None after the longest wait: members that were gone have been evicted, and one more round would change nothing.
        """
        return None if self._stable_backoff.is_exhausted else now_ms + self._stable_backoff.next_ms()

    def end_bad_rounds(self) -> None:
        """A round was good."""
        self._round_backoff.reset()
        self._stable_backoff.reset()

    def is_rejoin_due(self, now_ms: int) -> bool:
        """Return whether a stable member must join again by itself."""
        return self.rejoin_ms is not None and now_ms >= self.rejoin_ms

    def retry_heartbeat(self, now_ms: int) -> None:
        """A heartbeat got no answer: try again soon, not a whole interval later."""
        self.heartbeat_ms = now_ms + min(self._config.heartbeat_interval_ms, self._backoff.next_ms())
