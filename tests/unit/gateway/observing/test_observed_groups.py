"""Classic groups as their traffic shows them, also where requests or answers of two connections overtake."""

from __future__ import annotations

import pytest

from kohort.gateway.gateway import Gateway
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Heartbeat, Join, Leave, Leaving, Sync
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import Event, MemberRemoved, RoundOpened
from kohort.group.results import JoinedMember, JoinResult
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode


class Course:
    """What a gateway derives of group `g`: its members `a`, which leads, and `b`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.groups = Gateway(GroupSettings(), lambda _shard, event, _now_ms: self.events.append(event)).groups
        self.joins: dict[str, Join] = {}

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.group("g")
        assert group is not None
        return group

    def ask_for_id(self, member_id: str) -> None:
        """A member sends JoinGroup without an id, and is answered with one (KIP-394)."""
        command = self._join("", b"")
        self.groups.joins.sent(command, 0)
        self.groups.joins.answered(command, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id), 0)

    def join(self, member_id: str, metadata: bytes = b"") -> None:
        self.joins[member_id] = self._join(member_id, metadata)
        self.groups.joins.sent(self.joins[member_id], 0)

    def _join(self, member_id: str, metadata: bytes) -> Join:
        protocols = (("range", metadata),)
        return Join("g", member_id, None, "c", "h", 10_000, 60_000, "consumer", protocols, "", is_two_step=True)

    def joined(self, member_id: str, generation: int, *listed: str, now_ms: int = 0) -> None:
        members = tuple(JoinedMember(each, None, b"") for each in listed)
        result = JoinResult(ErrorCode.NONE, member_id, generation, "consumer", "range", "a", members)
        self.groups.joins.answered(self.joins[member_id], result, now_ms)

    def sync(self, member_id: str, generation: int, error: ErrorCode = ErrorCode.NONE) -> None:
        command = Sync("g", member_id, None, generation, assignments=())
        self.groups.sync_sent(command, 0)
        self.groups.sync_answered(command, error, b"", 0)

    def causes(self) -> list[CauseKind]:
        """Return why each round was opened."""
        return [event.cause.kind for event in self.events if isinstance(event, RoundOpened)]


@pytest.fixture
def course() -> Course:
    """A group that is stable in generation 1."""
    course = Course()
    for member_id in ("a", "b"):
        course.ask_for_id(member_id)
    for member_id in ("a", "b"):
        course.join(member_id)
    course.joined("a", 1, "a", "b")
    course.joined("b", 1)
    course.sync("a", 1)
    course.sync("b", 1)
    assert course.group.phase is Phase.STABLE
    return course


def test_a_join_that_overtakes_the_one_that_opens_the_round_leaves_the_round_open(course: Course) -> None:
    course.join("a", b"less")
    course.join("b")
    course.joined("b", 1)  # the coordinator has not seen the leader's yet
    assert course.group.awaiting_join == {"a"}
    course.sync("b", 1, ErrorCode.REBALANCE_IN_PROGRESS)
    course.join("b")
    course.joined("a", 2, "a", "b")
    assert course.group.members.keys() == {"a", "b"}
    assert CauseKind.NOT_OBSERVED not in course.causes()


def test_a_predicted_round_is_none_when_every_join_is_answered_with_the_generation_before(course: Course) -> None:
    for member_id in ("a", "b"):
        course.join(member_id)
    course.joined("b", 1)
    course.joined("a", 1, "a", "b")
    assert course.group.phase is Phase.STABLE


def test_a_member_whose_join_came_after_the_generation_had_formed_opens_the_next_round() -> None:
    course = Course()
    for member_id in ("a", "b"):
        course.ask_for_id(member_id)
    for member_id in ("a", "b"):
        course.join(member_id)
    course.joined("a", 1, "a")
    assert course.group.awaiting_join == {"b"}
    course.sync("a", 1, ErrorCode.REBALANCE_IN_PROGRESS)
    course.join("a")
    course.joined("b", 2)
    course.joined("a", 2, "a", "b")
    assert course.group.members.keys() == {"a", "b"}
    assert course.causes() == [CauseKind.MEMBER_JOINED] * 2


def test_a_member_whose_join_opened_a_round_that_a_sync_shows_is_not_waited_for(course: Course) -> None:
    """A follower's JoinGroup opens it, since its topic has grown: the request does not show that."""
    course.join("b")
    course.sync("a", 1, ErrorCode.REBALANCE_IN_PROGRESS)
    assert course.group.phase is Phase.PREPARING_REBALANCE
    assert course.group.awaiting_join == {"b"}


def removals(course: Course) -> list[tuple[str, CauseKind]]:
    """Return who was removed, and why."""
    return [(each.member_id, each.cause.kind) for each in course.events if isinstance(each, MemberRemoved)]


def test_a_leave_whose_answer_is_overtaken_by_a_heartbeats_is_the_cause_of_the_round(course: Course) -> None:
    leave = Leave("g", (Leaving("b"),))
    course.groups.leave_sent(leave, 0)
    course.groups.heartbeat_answered(Heartbeat("g", "a", None, 1), ErrorCode.REBALANCE_IN_PROGRESS, 0)
    course.groups.left(leave, 0)
    assert course.causes()[1:] == [CauseKind.MEMBER_LEFT]
    assert removals(course) == [("b", CauseKind.MEMBER_LEFT)]


def test_a_leave_whose_answer_is_overtaken_by_the_generation_is_no_eviction(course: Course) -> None:
    course.join("a", b"less")
    course.groups.leave_sent(Leave("g", (Leaving("b"),)), 0)
    course.joined("a", 2, "a")
    assert removals(course) == [("b", CauseKind.MEMBER_LEFT)]


def test_a_group_whose_members_leave_together_is_empty(course: Course) -> None:
    for member_id in ("b", "a"):
        course.groups.left(Leave("g", (Leaving(member_id),)), 0)
    assert course.group.phase is Phase.EMPTY


def test_a_member_that_sends_something_after_its_leave_has_not_left(course: Course) -> None:
    course.groups.leave_sent(Leave("g", (Leaving("b"),)), 0)
    course.groups.heartbeat_sent(Heartbeat("g", "b", None, 1), 0)
    course.groups.heartbeat_answered(Heartbeat("g", "a", None, 1), ErrorCode.REBALANCE_IN_PROGRESS, 0)
    assert removals(course) == []


@pytest.mark.parametrize(
    ("now_ms", "kind"), [(100, CauseKind.NOT_OBSERVED), (60_000, CauseKind.REBALANCE_TIMEOUT)], ids=["at once", "late"]
)
def test_only_a_round_of_a_whole_rebalance_timeout_evicts(course: Course, now_ms: int, kind: CauseKind) -> None:
    course.join("a", b"less")
    course.groups.heartbeat_sent(Heartbeat("g", "b", None, 1), now_ms)
    course.joined("a", 2, "a", now_ms=now_ms)
    assert removals(course) == [("b", kind)]


BOTH = tuple(JoinedMember(member_id, None, b"") for member_id in ("leader", "slow"))


def join(member_id: str, metadata: bytes = b"") -> Join:
    """A JoinGroup; one without an id is let in at once."""
    return Join(
        "g", member_id, None, "c", "h", 10_000, 60_000, "consumer", (("range", metadata),), "", is_two_step=False
    )


def joined(member_id: str) -> JoinResult:
    """The answer of generation 1, which lists the members to its leader."""
    members = BOTH if member_id == "leader" else ()
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="leader",
        members=members,
    )


def test_late_answer_of_the_round_before_does_not_end_the_next_one() -> None:
    groups = Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None).groups
    of_leader, of_slow = join(""), join("")
    groups.joins.sent(of_leader, 0)
    groups.joins.sent(of_slow, 0)
    groups.joins.answered(of_leader, joined("leader"), 1)
    sync = Sync("g", "leader", None, 1, assignments=(("leader", b""), ("slow", b"")))
    groups.sync_sent(sync, 2)
    groups.sync_answered(sync, ErrorCode.NONE, b"", 3)
    groups.joins.sent(join("leader", b"revoked"), 4)
    group = groups.group("g")
    assert group is not None
    assert group.phase is Phase.PREPARING_REBALANCE
    groups.joins.answered(of_slow, joined("slow"), 5)
    assert group.phase is Phase.PREPARING_REBALANCE
    assert "leader" in group.awaiting_join


def test_leader_that_returns_and_hands_nothing_in_shows_that_its_group_was_there_before() -> None:
    looked_up: list[tuple[str, int | None]] = []
    gateway = Gateway(
        GroupSettings(),
        lambda _shard, _event, _now_ms: None,
        lambda group_id, generation: looked_up.append((group_id, generation)),
    )
    rejoin, sync = join("leader"), Sync("g", "leader", None, 1, assignments=())
    gateway.groups.joins.sent(rejoin, 0)
    gateway.groups.joins.answered(rejoin, joined("leader"), 1)
    gateway.groups.sync_sent(sync, 2)
    gateway.groups.sync_answered(sync, ErrorCode.NONE, b"what it had", 3)
    assert looked_up == [("g", 1)], "what the others have is in no answer"
