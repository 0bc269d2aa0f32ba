"""The time of one node, which its runtime sets, and deadlines by key: arm, re-arm, disarm, and run what is due.

Re-arming to a later time touches one dict entry, because every heartbeat does it; the heap has one entry per key and
is corrected when an entry comes up too early. The node reads no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush

Action = Callable[[int], None]
"""What to run at a deadline; its argument is the time in milliseconds at which it runs."""


class NodeClock:
    """Milliseconds since the epoch, which never go back.

    `elapsed_us` counts microseconds, for measuring what a computation takes; without it nothing is measured.
    """

    __slots__ = ("elapsed_us", "now_ms")

    def __init__(self, now_ms: int, elapsed_us: Callable[[], int] | None = None) -> None:
        self.now_ms = now_ms
        self.elapsed_us = elapsed_us

    def advance(self, now_ms: int) -> None:
        """Set the time, unless it is earlier than the time already set."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms


class _Timer:
    __slots__ = ("action", "deadline_ms", "queued_ms")

    def __init__(self, deadline_ms: int, action: Action) -> None:
        self.deadline_ms = deadline_ms
        self.action = action
        self.queued_ms = deadline_ms


class Timers:
    """The armed timers of one node. Timers with the same deadline run in the order they were queued."""

    def __init__(self) -> None:
        self._timers: dict[Hashable, _Timer] = {}
        self._queue: list[tuple[int, int, Hashable, _Timer]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def arm(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Run `action` at `deadline_ms`; a timer of the same key is replaced."""
        if self.move(key, deadline_ms):
            self._timers[key].action = action
            return
        self._timers[key] = timer = _Timer(deadline_ms, action)
        self._push(deadline_ms, key, timer)

    def move(self, key: Hashable, deadline_ms: int) -> bool:
        """Let the timer of `key` run at `deadline_ms` instead; return whether there is one."""
        timer = self._timers.get(key)
        if timer is None:
            return False
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.queued_ms:
            timer.queued_ms = deadline_ms
            self._push(deadline_ms, key, timer)
        return True

    def disarm(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        self._timers.pop(key, None)
        if len(self._queue) > 64 and len(self._queue) > 4 * len(self._timers):
            self._compact()

    def deadline_ms(self, key: Hashable) -> int | None:
        """Return when the timer of `key` is due, or None."""
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def next_deadline_ms(self) -> int | None:
        """Return when the earliest timer is due, or None."""
        queue = self._queue
        while queue:
            queued_ms, _, key, timer = queue[0]
            if self._timers.get(key) is not timer or queued_ms != timer.queued_ms:
                heappop(queue)
            elif timer.deadline_ms > queued_ms:
                heappop(queue)
                timer.queued_ms = timer.deadline_ms
                self._push(timer.deadline_ms, key, timer)
            else:
                return queued_ms
        return None

    def run_due(self, now_ms: int) -> int:
        """Run every timer that is due and return how many ran. An action may arm and disarm any timer."""
        ran = 0
        while (due := self.next_deadline_ms()) is not None and due <= now_ms:
            _, _, key, timer = heappop(self._queue)
            del self._timers[key]
            timer.action(now_ms)
            ran += 1
        return ran

    def _push(self, deadline_ms: int, key: Hashable, timer: _Timer) -> None:
        self._count += 1
        heappush(self._queue, (deadline_ms, self._count, key, timer))

    def _compact(self) -> None:
        self._queue = []
        for key, timer in self._timers.items():
            timer.queued_ms = timer.deadline_ms
            self._push(timer.deadline_ms, key, timer)
