"""A commit that waited is about partitions that its member has owned all the time."""

from __future__ import annotations

import asyncio

import pytest

from kohort.assign import RangeAssignor
from kohort.client import Cluster, CommitFailed, Membership, MembershipSettings, OffsetAndMetadata
from kohort.member import inputs
from kohort.member.effects import Callback
from kohort.member.inputs import Subscribed
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

RANGE = MembershipSettings(assignors=(RangeAssignor(),))
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def test_what_is_revoked_and_comes_back_was_not_owned_without_interruption() -> None:
    membership = Membership(Cluster("127.0.0.1:1"), "g", Subscribed(("t",)), RANGE)
    member, commits = membership._active.member, membership._commits
    member.owned = frozenset({T0, T1})
    watch = membership.watch_ownership([T0, T1, T2])
    member.owned = frozenset({T0})
    commits.update_ownership()
    member.owned = frozenset({T0, T1})
    commits.update_ownership()
    assert (watch.uninterrupted, watch.lost) == ({T0}, {T1})
    del watch
    assert not commits._watches, "a watch ends with the last reference to it"


def test_a_commit_asked_for_before_a_rebalance_that_took_its_partition_is_refused_here() -> None:
    membership = Membership(Cluster("127.0.0.1:1"), "g", Subscribed(("t",)), RANGE)
    member = membership._active.member

    def step(event: inputs.Input) -> None:
        member.step(event, 0)
        membership._commits.update_ownership()

    def assign(generation: int) -> None:
        step(inputs.JoinAnswered(member.identity, ErrorCode.NONE, generation, "m", "leader", "range"))
        step(inputs.SyncAnswered(member.identity, ErrorCode.NONE, Assignment(frozenset({T0}))))
        step(inputs.CallbackFinished(Callback.ASSIGNED))

    async def scenario() -> None:
        step(inputs.Subscribed(("t",)))
        assign(1)
        watch = membership.watch_ownership([T0])
        step(inputs.RejoinRequested("why"))
        step(inputs.CallbackFinished(Callback.REVOKED))
        assign(2)
        assert membership.assignment == {T0}
        with pytest.raises(CommitFailed, match="t-0 went to others while the commit waited"):
            await membership.commit({T0: OffsetAndMetadata(5)}, since=watch)

    asyncio.run(scenario())
