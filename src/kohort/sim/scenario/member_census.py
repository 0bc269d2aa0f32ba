"""Which member is in which state, owns what and has read how far; and the wait until a world has converged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer, SeenMember
from kohort.sim.scenario.world_plan import SECOND_US


class MemberCensus(Observer):
    """Follows the members of a world by name."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.owned: dict[str, Partitions] = {}
        self.failures: Counter[str] = Counter()
        """How many members failed, by error."""
        self.lost: Counter[str] = Counter()
        """How often each member ran its callback for lost partitions."""
        self.read: dict[tuple[str, TopicPartition], int] = {}
        """Up to where each member has read, or will read on from."""

    def member_started(self, member: SeenMember) -> None:
        self.states[member.name] = "started"
        self.owned[member.name] = frozenset()

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        self.states[member.name] = state

    def member_ended(self, member: SeenMember, how: str) -> None:
        self.states[member.name] = "ended"
        self.owned[member.name] = frozenset()
        if how.startswith("failed"):
            self.failures[how.removeprefix("failed: ").partition(":")[0]] += 1

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        self.lost[member.name] += callback is Callback.LOST

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        self.read[member.name, partition] = offset

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        self.read[member.name, partition] = next_offset

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        self.owned[member.name] = partitions


class CensusWait(NamedTuple):
    """The result of a wait: since when nothing was missing, or what still is."""

    since_us: int
    missing: str | None


def wait_for_convergence(
    scheduler: Scheduler,
    pass_until: Callable[[int], object],
    missing: Callable[[], str | None],
    patience_us: int,
    *,
    look_us: int = SECOND_US,
    quiet_us: int = 3 * SECOND_US,
) -> CensusWait:
    """Let time pass until nothing is missing for `quiet_us`, looking every `look_us`; end after `patience_us`."""
    until_us = scheduler.now_us + patience_us
    since_us: int | None = None
    lack: str | None = "the world had no time"
    while scheduler.now_us < until_us:
        pass_until(scheduler.now_us + look_us)
        lack = missing()
        if lack is not None:
            since_us = None
        elif since_us is None:
            since_us = scheduler.now_us
        elif scheduler.now_us >= since_us + quiet_us:
            return CensusWait(since_us, None)
    return CensusWait(-1, lack or "it does not stay stable")
