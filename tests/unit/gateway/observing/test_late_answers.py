"""Answers that a slow connection brings after the group has gone on."""

from __future__ import annotations

from kohort.gateway.gateway import Gateway
from kohort.group.classic.group import Phase
from kohort.group.commands import Join, Sync
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.results import JoinedMember, JoinResult
from kohort.model.errors import ErrorCode

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
    groups.join_sent(of_leader, 0)
    groups.join_sent(of_slow, 0)
    groups.join_answered(of_leader, joined("leader"), 1)
    sync = Sync("g", "leader", None, 1, assignments=(("leader", b""), ("slow", b"")))
    groups.sync_sent(sync, 2)
    groups.sync_answered(sync, ErrorCode.NONE, b"", 3)
    groups.join_sent(join("leader", b"revoked"), 4)
    group = groups.group("g")
    assert group is not None
    assert group.phase is Phase.PREPARING_REBALANCE
    groups.join_answered(of_slow, joined("slow"), 5)
    assert group.phase is Phase.PREPARING_REBALANCE
    assert "leader" in group.awaiting_join


def test_leader_that_returns_and_hands_nothing_in_shows_that_its_group_was_there_before() -> None:
    looked_up: list[tuple[str, int]] = []
    gateway = Gateway(
        GroupSettings(),
        lambda _shard, _event, _now_ms: None,
        lambda group_id, generation: looked_up.append((group_id, generation)),
    )
    rejoin, sync = join("leader"), Sync("g", "leader", None, 1, assignments=())
    gateway.groups.join_sent(rejoin, 0)
    gateway.groups.join_answered(rejoin, joined("leader"), 1)
    gateway.groups.sync_sent(sync, 2)
    gateway.groups.sync_answered(sync, ErrorCode.NONE, b"what it had", 3)
    assert looked_up == [("g", 1)], "what the others have is in no answer"
