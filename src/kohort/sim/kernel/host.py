"""A machine with one process on it: a clock that drifts, timers that die with the process, pauses of the whole of it.

The law: nothing of a process happens after it was killed, nor while it is frozen; what came due meanwhile happens when
it thaws, in the order it came due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.sim.kernel.scheduler import Action, Due, Scheduler

WALL_MS = 1_760_000_000_000
"""What the clocks of a world show when it begins, in milliseconds since the epoch."""


class Host:
    """One host. `drift_ppm` is how many microseconds its clock gains in a second, `offset_ms` how far it is ahead."""

    def __init__(self, name: str, scheduler: Scheduler, *, offset_ms: int = 0, drift_ppm: int = 0) -> None:
        self.name = name
        self.scheduler = scheduler
        self.incarnation = 0
        """How many processes have lived here before."""
        self.is_up = True
        self.on_death: list[Callable[[], None]] = []
        """Called once each when the process ends: what its machine's kernel does, such as closing its sockets."""
        self._offset_us = (WALL_MS + offset_ms) * 1000
        self._rate = 1_000_000 + drift_ppm
        self._frozen_until_us = 0
        self._postponed: deque[tuple[int, Action, tuple[Any, ...]]] = deque()
        """What came up while the process was frozen: it happens afterwards, in the order in which it came."""

    # -- the clock

    def now_ms(self) -> int:
        """Return what the host's clock shows, in milliseconds since the epoch; it never goes back."""
        return (self._offset_us + self.scheduler.now_us * self._rate // 1_000_000) // 1000

    def now_us(self) -> int:
        """Return the same in microseconds."""
        return self._offset_us + self.scheduler.now_us * self._rate // 1_000_000

    def when_us(self, deadline_ms: int) -> int:
        """Return the first time of the world at which the clock shows `deadline_ms`."""
        # The smallest t with (offset + t * rate // 10^6) // 1000 >= deadline.
        return -((self._offset_us - deadline_ms * 1000) * 1_000_000 // self._rate)

    def elapsed_us(self) -> int:
        """Return what the host's clock has counted since the world began."""
        return self.scheduler.now_us * self._rate // 1_000_000

    def reach_us(self, elapsed_us: int) -> int:
        """Return the first time of the world at which the clock has counted so much."""
        return -(-elapsed_us * 1_000_000 // self._rate)

    # -- timers

    def at_ms(self, deadline_ms: int, action: Action, *arguments: Any) -> Due:
        """Run an action when the clock shows a time, if this process still lives."""
        return self.scheduler.at(self.when_us(deadline_ms), self._run, self.incarnation, action, arguments)

    def after_us(self, delay_us: int, action: Action, *arguments: Any) -> Due:
        """Run an action so much later, if this process still lives."""
        return self.scheduler.after(delay_us, self._run, self.incarnation, action, arguments)

    def at_us(self, when_us: int, action: Action, *arguments: Any) -> Due:
        """Run an action at a time of the world, if this process still lives."""
        return self.scheduler.at(when_us, self._run, self.incarnation, action, arguments)

    def _run(self, incarnation: int, action: Action, arguments: tuple[Any, ...]) -> None:
        if incarnation != self.incarnation:
            return
        if self.is_frozen or self._postponed:
            self._postponed.append((incarnation, action, arguments))
            if len(self._postponed) == 1:
                self.scheduler.at(self._frozen_until_us, self._thaw)
        else:
            action(*arguments)

    def _thaw(self) -> None:
        """Do the next thing that came up while frozen, each as an event of its own."""
        if self.is_frozen:
            self.scheduler.at(self._frozen_until_us, self._thaw)
        elif self._postponed:
            incarnation, action, arguments = self._postponed.popleft()
            if self._postponed:
                self.scheduler.at(self.scheduler.now_us, self._thaw)
            if incarnation == self.incarnation:
                action(*arguments)

    # -- life

    @property
    def is_frozen(self) -> bool:
        """Whether nothing happens on it now."""
        return self.scheduler.now_us < self._frozen_until_us

    def freeze(self, until_us: int) -> None:
        """Stop the process until a time: a long pause of its machine or its garbage collector."""
        self._frozen_until_us = max(self._frozen_until_us, until_us)

    def kill(self) -> None:
        """End the process: none of its timers runs any more."""
        if not self.is_up:
            return
        self.is_up = False
        self.incarnation += 1
        self._frozen_until_us = 0
        self._postponed.clear()
        closing, self.on_death = self.on_death, []
        for close in closing:
            close()

    def boot(self) -> None:
        """Begin the next process."""
        self.is_up = True


class Alarm:
    """A timer with the earliest of the deadlines that were set since it last ran."""

    __slots__ = ("_action", "_deadline_ms", "_due", "_host")

    def __init__(self, host: Host, action: Callable[[], object]) -> None:
        self._host = host
        self._action = action
        self._due: Due | None = None
        self._deadline_ms = 0

    def set(self, deadline_ms: int | None) -> None:
        """Have the action run by a time of the host; a time later than one that is set already changes nothing."""
        if deadline_ms is None or (self._due is not None and self._deadline_ms <= deadline_ms):
            return
        if self._due is not None:
            self._due.cancel()
        self._deadline_ms = deadline_ms
        self._due = self._host.at_ms(deadline_ms, self._ring)

    def forget(self) -> None:
        """Begin anew: what was set died with its process."""
        self._due = None

    def _ring(self) -> None:
        self._due = None
        self._action()
