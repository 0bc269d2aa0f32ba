"""At which pace a classic member commits, and so for which of its commits a program may be waiting.

A member that commits by itself does so by a timer (`auto.commit.interval.ms`): from one such commit to the next it is
one period, whenever the answer comes. All other commits may have a program that waits for them: those of a program that
commits by itself, the one that a member sends once more before it leaves, the one before it revokes partitions. If the
answer to that last commit waited, its partitions would have no owner meanwhile. No request shows what it is.

So a period is known after two gaps alike, and only a commit at its time waits, the first time for a part of the period
only. If the next one then comes a period after the *answer*, a program waits for answers, and none of its member waits
any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.parking.limits import DELAYED_PART, EARLY_COMMIT_MS, LATE_PART, LEAST_PERIOD_MS, TRIAL_PART


@dataclass(slots=True, eq=False)
class CommitPace:
    """The commits of one member."""

    begun_ms: int
    """When the member got its assignment: timers of some clients begin there anew (Java's)."""
    period_ms: int = 0
    """The period of its timer; 0 where none is known."""
    is_timer: bool = False
    """Whether an answer that waited has not made the next commit later."""
    is_waited_for: bool = False
    """Whether one has: a program waits for answers."""
    _timed_ms: int = -1
    """When the last commit of the timer came, or the last one outside of rounds where no timer is known."""
    _gap_ms: int = 0
    """How long after the one before."""
    _answered_ms: int = 0
    """When the last answer that waited was sent."""

    @property
    def is_regular(self) -> bool:
        """Whether commits come by a timer, as far as is known."""
        return self.period_ms > 0 and not self.is_waited_for

    def is_on_time(self, now_ms: int) -> bool:
        """Whether a commit that comes now is one of the timer."""
        if not self.is_regular:
            return False
        is_anew = self._timed_ms < self.begun_ms and self._fits(now_ms - self.begun_ms)
        return is_anew or self._fits(now_ms - self._timed_ms)

    def is_of_a_user(self, now_ms: int) -> bool:
        """Whether a program waits for the answer to a commit that comes now, as far as the ones before show."""
        if self.period_ms:
            return not self.is_on_time(now_ms)
        return self._timed_ms >= 0 and now_ms - self._timed_ms < LEAST_PERIOD_MS

    def delay_ms(self, most_ms: int) -> int:
        """Return for how long the answer to a commit of the timer may wait, `most_ms` at most."""
        part_ms = int(DELAYED_PART * self.period_ms) if self.is_timer else self.period_ms // TRIAL_PART
        return min(most_ms, part_ms)

    def committed(self, now_ms: int, *, is_in_round: bool = False) -> None:
        """Note a commit. In a round only one of the timer counts."""
        is_on_time = self.is_on_time(now_ms)
        if self.is_regular and self._answered_ms - self._timed_ms > 2 * self.period_ms // LATE_PART:
            self.is_timer |= is_on_time
            self.is_waited_for = not is_on_time and self._fits(now_ms - self._answered_ms)
        self._answered_ms = 0
        if is_on_time:
            self._timed_ms, self._gap_ms = now_ms, self.period_ms
        elif not is_in_round:
            before_ms, self._gap_ms = self._gap_ms, 0 if self._timed_ms < 0 else now_ms - self._timed_ms
            if self._gap_ms >= LEAST_PERIOD_MS and abs(self._gap_ms - before_ms) <= self._gap_ms // LATE_PART:
                self.period_ms, self.is_timer = self._gap_ms, False
            elif not self.is_waited_for and before_ms != self.period_ms:
                self.period_ms = 0  # two gaps in a row contradict it
            self._timed_ms = now_ms

    def answered(self, now_ms: int) -> None:
        """The answer to the last commit, which has waited, is sent."""
        self._answered_ms = now_ms

    def _fits(self, passed_ms: int) -> bool:
        """Whether so much time is one period, or several."""
        periods = (passed_ms + EARLY_COMMIT_MS) // self.period_ms
        return periods > 0 and passed_ms - periods * self.period_ms <= self.period_ms // LATE_PART
