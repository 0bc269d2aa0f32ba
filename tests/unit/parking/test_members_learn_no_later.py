"""When the members of an eager group learn of a round, with and without parking: never later, for any mix of clients.

All got their assignments at the same time, so that without parking their heartbeats come together, or nearly so. Each
commits by itself, every five seconds, or after each batch, ten times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort.model.errors import ErrorCode
from kohort.node.timers import Timers
from kohort.parking.classic_heartbeats import ClassicParking
from kohort.parking.client_software import JAVA, KGO, software_named
from kohort.parking.parked_heartbeat import Follower, ParkedHeartbeat
from kohort.wire.messages import HeartbeatRequest

INTERVAL_MS, COMMIT_MS, SESSION_MS = 3_000, 5_000, 45_000

NEXT_MS: dict[str, Callable[[int, int], int]] = {
    JAVA: lambda sent_ms, _: sent_ms + INTERVAL_MS,
    "aiokafka": lambda sent_ms, answered_ms: max(sent_ms + INTERVAL_MS, answered_ms + 1),
    "kafka-python": lambda sent_ms, answered_ms: max(sent_ms + INTERVAL_MS, answered_ms + 1),
    "librdkafka": lambda sent_ms, answered_ms: sent_ms + INTERVAL_MS * max(1, -(-(answered_ms + 1 - sent_ms) // 3000)),
    KGO: lambda _, answered_ms: answered_ms + INTERVAL_MS,
}
"""When a client sends its next heartbeat, by when it sent the last one and when that was answered."""

REPEATED_MS: dict[str, Callable[[int], int]] = {
    JAVA: lambda failures: min(120 << failures, 1_000),
    KGO: lambda failures: min(300 << failures, 5_000),
}
"""After how long at most a client sends a heartbeat again that ended with the error for it, by how many did so before.

Both add a fifth at random.
"""

TOGETHER, NEARLY = (0,) * 6, (0, 27, 58, 12, 82, 46)
"""By how many milliseconds the heartbeats of each member come later than those of the first."""

NOT_PARKED = "not parked"
"""A member like one of kafka-python that a policy excludes."""


@dataclass(frozen=True)
class Answer:
    error: ErrorCode
    is_quiet: bool = False


QUIET, REJOIN = Answer(ErrorCode.NONE, is_quiet=True), Answer(ErrorCode.REBALANCE_IN_PROGRESS)


@dataclass
class Member:
    """A member of the group that is stable since 0 ms."""

    id: str
    client: str
    commit_ms: int
    next_ms: int | None = INTERVAL_MS
    sent_ms: int = 0
    alive_ms: int = 0
    failures: int = 0
    learnt_ms: int | None = None
    parked: ParkedHeartbeat[HeartbeatRequest, Answer] | None = None


@dataclass
class Group:
    """A group from which another member goes at `left_ms`; the next heartbeats of those not parked are so late."""

    members: list[Member]
    left_ms: int
    is_parking: bool
    commit_delay_ms: int
    late_ms: int
    period_ms: int
    now_ms: int = 0
    answer: Answer = QUIET
    timers: Timers = field(default_factory=Timers)

    def __post_init__(self) -> None:
        self.parking: ClassicParking[HeartbeatRequest, Answer] = ClassicParking(
            self.timers, lambda *_: self.answer, Answer, lambda *_: None
        )
        for member in self.members:
            self.parking.begin(member.id, 0)

    def run(self) -> tuple[int, int]:
        """Return how long after the other has left the last member learns of the round, and for how long shares stand.

        Each member has a share of the partitions. Its own stands still from when it learns, that of the one which left
        all the time, both until the last one learns.
        """
        while silent := [member for member in self.members if member.learnt_ms is None]:
            self.step(silent)
        last_ms = self.now_ms - self.left_ms
        return last_ms, last_ms + sum(self.now_ms - (member.learnt_ms or 0) for member in self.members)

    def step(self, silent: Sequence[Member]) -> None:
        """Let the next event happen; without parking no commit changes when a member learns of the round."""
        at_ms, who = (self.left_ms if self.answer is QUIET else 1 << 60), None
        happen: Callable[[Member], None] = self.heartbeat
        for member in silent:
            if member.next_ms is not None and member.next_ms < at_ms:
                at_ms, who, happen = member.next_ms, member, self.heartbeat
            if self.is_parking and member.commit_ms < at_ms:
                at_ms, who, happen = member.commit_ms, member, self.commit
        timer_ms = self.timers.next_deadline_ms()
        if timer_ms is not None and timer_ms < at_ms:
            self.now_ms = timer_ms
            self.timers.run_due(timer_ms)
        elif who is not None:
            self.now_ms = at_ms
            happen(who)
        else:
            self.now_ms = self.left_ms
            self.leave()

    def leave(self) -> None:
        self.answer = REJOIN
        for member in self.members:
            if member.client == NOT_PARKED and member.next_ms is not None:
                member.next_ms += self.late_ms
        if self.is_parking:
            everyone = frozenset(member.id for member in self.members)
            self.parking.announce("g", everyone, everyone, self.now_ms + 100_000, self.now_ms)
            self.parking.group_changed("g", self.now_ms, is_gathering=True)

    def commit(self, member: Member) -> None:
        member.commit_ms = self.now_ms + self.period_ms
        if member.parked is not None:
            member.parked.followed(Follower.COMMIT, self.now_ms)
        self.parking.committed(member.id, self.now_ms, is_in_round=self.answer is REJOIN)

    def heartbeat(self, member: Member) -> None:
        if member.parked is not None:
            member.parked.followed(Follower.HEARTBEAT, self.now_ms)
        if member.learnt_ms is not None:
            return
        member.sent_ms = self.now_ms
        member.next_ms = self.now_ms + INTERVAL_MS if member.client == JAVA else None
        if self.is_parking and member.client != NOT_PARKED:
            member.parked = self.parking.park(
                HeartbeatRequest(group_id="g", member_id=member.id),
                self.answer,
                lambda answer: self.answered(member, answer),
                SESSION_MS,
                self.now_ms,
                client=software_named(member.client, "9"),
                commit_delay_ms=self.commit_delay_ms,
            )
        if member.parked is None:
            self.answered(member, self.answer)

    def answered(self, member: Member, answer: Answer) -> None:
        member.parked = None
        if answer.error and answer.error is software_named(member.client, "9").habits.repeat_error:
            assert self.now_ms < member.alive_ms + SESSION_MS // 2, "its client would take its coordinator to be dead"
            member.next_ms = self.now_ms + REPEATED_MS[member.client](member.failures)
            member.failures += 1
        elif answer.error:
            member.learnt_ms = self.now_ms
            self.parking.joined("g", member.id)
            self.parking.group_changed("g", self.now_ms, is_gathering=True)
        else:
            member.failures, member.alive_ms = 0, self.now_ms
            client = "kafka-python" if member.client == NOT_PARKED else member.client
            member.next_ms = NEXT_MS[client](member.sent_ms, self.now_ms)


def round_ms(
    clients: Sequence[str],
    left_ms: int,
    *,
    is_parking: bool,
    commit_delay_ms: int = -1,
    late_ms: int = 0,
    period_ms: int = COMMIT_MS,
    spread_ms: Sequence[int] = TOGETHER,
) -> tuple[int, int]:
    members = [
        Member(str(number), client, 1 + left_ms * (number + 3) % period_ms, next_ms=INTERVAL_MS + spread_ms[number])
        for number, client in enumerate(clients)
    ]
    return Group(members, left_ms, is_parking, commit_delay_ms, late_ms, period_ms).run()


def learnt_ms(clients: Sequence[str], left_ms: int, **how: Any) -> int:
    return round_ms(clients, left_ms, **how)[0]


AUTO, EACH, SLOW = COMMIT_MS, 100, 1_700
"""Milliseconds between the commits of a timer, and of programs that commit each batch."""

MIXES: Sequence[tuple[Sequence[str], int, float]] = (
    ((JAVA,) * 5, AUTO, 0.1),
    ((JAVA,) * 5, EACH, 0.55),
    ((JAVA,) * 5, SLOW, 0.5),
    (("librdkafka",) * 5, AUTO, 0.01),
    (("librdkafka",) * 5, EACH, 0.01),
    ((KGO,) * 5, AUTO, 0.4),
    ((KGO,) * 5, EACH, 1.0),
    ((KGO,) * 5, SLOW, 1.0),
    ((JAVA, "librdkafka", *(KGO,) * 4), AUTO, 0.4),
    ((JAVA, "librdkafka", *(KGO,) * 4), EACH, 1.0),
    ((JAVA, "librdkafka", "kafka-python", KGO, "aiokafka"), EACH, 1.0),
    ((JAVA, "librdkafka", "kafka-python", KGO, "aiokafka"), SLOW, 1.0),
    ((*(JAVA,) * 4, "kafka-python"), EACH, 1.07),
    (("kafka-python",) * 5, AUTO, 0.01),
    (("aiokafka",) * 5, AUTO, 0.7),
    (("kafka-python",) * 5, EACH, 1.0),
    ((JAVA, "librdkafka", "kafka-python", KGO), AUTO, 0.4),
    ((JAVA, "librdkafka", "kafka-python", NOT_PARKED), AUTO, 1.0),
    ((JAVA, "librdkafka", "kafka-python", NOT_PARKED, KGO), AUTO, 1.05),
)
"""Clients, how often they commit, and the most that they may wait for a round, as a share of that without parking.

Without parking their heartbeats come together, as after a round; made to send them again, they do so at times of their
own, so that the last of several may learn a little later on average, and never later than an interval.
"""


@pytest.mark.parametrize("spread_ms", [TOGETHER, NEARLY], ids=["together", "nearly"])
@pytest.mark.parametrize(("clients", "period_ms", "share"), MIXES)
def test_no_mix_of_clients_learns_of_a_round_later_than_without_parking(
    clients: Sequence[str], period_ms: int, share: float, spread_ms: Sequence[int]
) -> None:
    how: dict[str, Any] = {"period_ms": period_ms, "spread_ms": spread_ms}
    times_ms = range(33_050, 93_000, 1_070)  # their intervals are known by then
    parked = [round_ms(clients, left_ms, is_parking=True, **how) for left_ms in times_ms]
    direct = [round_ms(clients, left_ms, is_parking=False, **how) for left_ms in times_ms]
    parked_ms, direct_ms = ([last_ms for last_ms, _ in rounds] for rounds in (parked, direct))
    latest_ms = max(spread_ms)
    assert max(parked_ms) <= INTERVAL_MS + 1 + 2 * latest_ms, "one comes so late, and waits for the others for as long"
    assert sum(parked_ms) <= (share + latest_ms / INTERVAL_MS) * sum(direct_ms)
    standing_ms, direct_standing_ms = (sum(still_ms for _, still_ms in rounds) for rounds in (parked, direct))
    assert standing_ms <= max(1.0, share) * direct_standing_ms


@pytest.mark.parametrize("clients", [(JAVA,) * 5, ("librdkafka",) * 5, ("kafka-python",) * 5, (JAVA, "kafka-python")])
def test_while_intervals_are_learnt_no_member_learns_of_a_round_later(clients: Sequence[str]) -> None:
    for left_ms in range(3_050, 33_000, 530):
        assert learnt_ms(clients, left_ms, is_parking=True) <= learnt_ms(clients, left_ms, is_parking=False)


@pytest.mark.parametrize(("clients", "share"), [(("aiokafka",), 0.1), (("librdkafka", "kafka-python"), 0.1)])
def test_where_answers_to_commits_wait_members_learn_sooner_and_none_later(
    clients: Sequence[str], share: float
) -> None:
    times_ms = range(33_050, 63_000, 530)  # their paces are known by then
    parked_ms = [learnt_ms(clients, left_ms, is_parking=True, commit_delay_ms=3_000) for left_ms in times_ms]
    direct_ms = [learnt_ms(clients, left_ms, is_parking=False) for left_ms in times_ms]
    assert all(parked <= direct for parked, direct in zip(parked_ms, direct_ms, strict=True))
    assert sum(parked_ms) <= share * sum(direct_ms)


def test_a_round_in_which_one_heartbeat_is_late_ends_with_it_where_timers_send_the_commits() -> None:
    clients = ("librdkafka", "kafka-python", NOT_PARKED)
    for left_ms in range(33_050, 63_000, 530):
        parked_ms, direct_ms = (
            learnt_ms(clients, left_ms, is_parking=is_parking, commit_delay_ms=3_000, late_ms=1_500)
            for is_parking in (True, False)
        )
        assert parked_ms <= direct_ms, f"left at {left_ms} ms"
