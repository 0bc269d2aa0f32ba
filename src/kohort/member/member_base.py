"""What a member of either group protocol has: its deadlines, its user, the callback that runs, what it asks for.

Plain state and the few steps that are the same for both. It decides nothing about a group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from kohort.member import effects, inputs
from kohort.member.deadlines import Session
from kohort.member.effects import Callback, Effect
from kohort.member.member_state import MemberConfig, PollState
from kohort.model.assignment import Partitions


class MemberBase(ABC):
    """One member's place, whichever protocol it speaks there."""

    def __init__(self, config: MemberConfig, random: Callable[[], float]) -> None:
        self.config = config
        self.topics: tuple[str, ...] = ()
        self.owned: Partitions = frozenset()
        self.rebalances = 0
        self.session = Session(config, random)
        self.asked: list[Effect] = []
        self.running: tuple[Callback, Partitions] | None = None
        self.is_away = False
        self.closing: inputs.CloseRequested | None = None
        self.is_leave_sent = False
        self.is_closed = False
        """Whether the member has ended: nothing follows."""

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Take one input at `now_ms` (any monotonic clock) and return what must be done, in order."""
        if self.is_closed:
            return ()
        session = self.session
        match event:
            case inputs.PollEntered():
                self.is_away = False
                session.mark_poll_entered()
            case inputs.PollReturned():
                session.mark_poll_returned(now_ms)
            case _:
                self._receive(event, now_ms)
        if session.poll_ms is not None and now_ms >= session.poll_ms:
            self._expire_poll()
        elif session.is_poll_late(now_ms):
            self.do(effects.PollLate(session.mark_poll_late(now_ms)))
        self._advance(now_ms)
        requested, self.asked = tuple(self.asked), []
        return requested

    @abstractmethod
    def _receive(self, event: inputs.Input, now_ms: int) -> None:
        """Take an input that is not about the poll deadline."""

    @abstractmethod
    def _expire_poll(self) -> None:
        """Leave the group: the user did not return to `poll` in time."""

    @abstractmethod
    def _advance(self, now_ms: int) -> None:
        """Do what follows from where the member is now."""

    @property
    def poll_state(self) -> PollState:
        """Where the user is, as far as the poll deadline goes."""
        if self.is_away:
            return PollState.MISSED
        if self.session.poll_ms is None:
            return PollState.HERE
        return PollState.AWAY if self.session.poll_warning_ms is not None else PollState.LATE

    def run(self, callback: Callback, partitions: Partitions, cause: str) -> None:
        """Start a callback; until it has finished nothing else of a rebalance happens."""
        assert self.running is None, "callbacks run one at a time"
        self.running = (callback, partitions)
        self.do(effects.RunCallback(callback, partitions, cause))

    def do(self, effect: Effect) -> None:
        """Ask the driver for something."""
        self.asked.append(effect)
