"""The coordinator stops at each step of a round and comes back, on sockets, with members that run by themselves.

A member in the test's hand leads, so that a round stands where the test wants it: before the generation is stored,
after it, before the assignments are stored, after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.client_scenarios import member
from tests.integration.hand_member import HandMember, partitions_of
from tests.integration.scenario_book import PATIENCE_MS, Recorder, create, run

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Cluster, Membership
from kohort.member import State
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

TOPIC = "t"
PARTITIONS = 6


@pytest.fixture(params=["stop", "kill"])
def end(request: pytest.FixtureRequest) -> str:
    """How the coordinator goes."""
    return str(request.param)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "kohort", group_initial_rebalance_delay_ms=0) as broker:
        yield broker


class Stage:
    """A group on a broker: a leader in the test's hand, and members that follow by themselves."""

    def __init__(self, broker: EmbeddedBroker, end: str, cluster: Cluster) -> None:
        self.cluster = cluster
        self.leader = self.by_hand()
        self.recorder = [Recorder(), Recorder()]
        self.followers: list[Membership] = []
        self._broker = broker
        self._end = end

    def by_hand(self) -> HandMember:
        return HandMember(self.cluster, TOPIC, TOPIC)

    async def lead(self) -> None:
        """Bring the leader alone into a Stable group of generation 1."""
        await self.leader.dial()
        assert (await self.leader.join()).generation_id == 1
        assert partitions_of(await self.leader.sync({self.leader.member_id: everything()})) == everything()

    async def follow(self) -> None:
        """Let the followers ask to join; their answer waits for the leader."""
        for recorder in self.recorder:
            follower = member(self.cluster, TOPIC, recorder)
            self.followers.append(follower)
            await follower.start()
        await self.gathers(1 + len(self.followers))
        await self.all_are(State.JOINING)

    async def gathers(self, size: int) -> None:
        """Wait until the group gathers so many members, pending ones not counted."""
        async with Admin(self._broker.bootstrap_servers) as admin:
            while True:
                group = (await admin.describe_groups([TOPIC]))[TOPIC]
                if group.state == "PreparingRebalance" and len(group.members) == size:
                    return

    async def fail_over(self) -> None:
        """Lose the coordinator, with all that its process knew, and start it again."""
        await asyncio.to_thread(getattr(self._broker, self._end))
        await asyncio.to_thread(self._broker.start)
        await self.leader.dial()

    async def all_are(self, state: State) -> None:
        for follower in self.followers:
            await follower.wait_for(lambda follower=follower: follower.state is state, timeout_ms=PATIENCE_MS)  # type: ignore[misc]

    def shares(self, *more: HandMember) -> dict[str, Partitions]:
        """Return an assignment of two partitions to each of three members."""
        ids = sorted([self.leader.member_id, *self.leader.others])
        assert len(ids) == 1 + len(self.followers) + len(more)
        return {
            each: frozenset(TopicPartition(TOPIC, number) for number in range(place, PARTITIONS, len(ids)))
            for place, each in enumerate(ids)
        }

    async def hand_out(self, *more: HandMember) -> None:
        """Let the leader assign, and see that every follower has what it was given."""
        shares = self.shares(*more)
        assert partitions_of(await self.leader.sync(shares)) == shares[self.leader.member_id]
        await self.all_have(shares)

    async def all_have(self, shares: dict[str, Partitions]) -> None:
        await self.all_are(State.STABLE)
        for follower in self.followers:
            assert follower.assignment == shares[follower.member_id]
            assert follower.generation == self.leader.generation

    async def done(self) -> None:
        await self.leader.leave()
        self.leader.hang_up()
        for follower in self.followers:
            await follower.stop()


def everything() -> Partitions:
    return frozenset(TopicPartition(TOPIC, number) for number in range(PARTITIONS))


def play(broker: EmbeddedBroker, end: str, scene: Callable[[Stage], Awaitable[None]]) -> None:
    """Play a scene to its end."""

    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, TOPIC, PARTITIONS)
        async with Cluster(bootstrap) as cluster:
            stage = Stage(broker, end, cluster)
            await stage.lead()
            await scene(stage)
            await stage.done()

    run(scenario, broker.bootstrap_servers, TOPIC)


def test_case_1_before_the_generation_is_stored_all_members_join_again(broker: EmbeddedBroker, end: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.follow()
        await stage.fail_over()
        assert await stage.leader.beat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        await stage.gathers(3)
        assert (await stage.leader.join()).generation_id == 2
        await stage.hand_out()
        assert stage.recorder[0].callbacks == [("assigned", 2)]

    play(broker, end, scene)


def test_case_2_after_the_generation_is_stored_a_member_that_missed_its_response_receives_it_again(
    broker: EmbeddedBroker, end: str
) -> None:
    """The leader synchronizes at once while another member still asks for its generation: nothing is aborted."""

    async def scene(stage: Stage) -> None:
        missing = stage.by_hand()
        await stage.follow()
        await missing.dial()
        lost = asyncio.create_task(missing.join())
        await stage.gathers(4)
        assert (await stage.leader.join()).generation_id == 2
        await stage.all_are(State.SYNCING)
        assert (await lost).generation_id == 2
        missing.generation = -1  # as if the answer had not come
        await stage.fail_over()
        await stage.hand_out(missing)
        await missing.dial()
        assert (await missing.join()).generation_id == 2
        assert partitions_of(await missing.sync()) == stage.shares(missing)[missing.member_id]
        assert await stage.leader.beat() is ErrorCode.NONE
        await missing.leave()
        missing.hang_up()

    play(broker, end, scene)


def test_case_2_member_that_comes_back_with_something_new_makes_all_join_again(
    broker: EmbeddedBroker, end: str
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.follow()
        assert (await stage.leader.join()).generation_id == 2
        await stage.all_are(State.SYNCING)
        await stage.fail_over()
        assert (await stage.leader.join(TOPIC, "another")).generation_id == 3
        await stage.hand_out()

    play(broker, end, scene)


def test_case_3_before_the_assignments_are_stored_all_members_sync_again(broker: EmbeddedBroker, end: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.follow()
        assert (await stage.leader.join()).generation_id == 2
        await stage.all_are(State.SYNCING)
        await stage.fail_over()
        await stage.hand_out()
        assert stage.leader.generation == 2
        assert [recorder.callbacks for recorder in stage.recorder] == [[("assigned", 2)]] * 2

    play(broker, end, scene)


def test_case_4_after_the_assignments_are_stored_every_sync_is_answered_at_once(
    broker: EmbeddedBroker, end: str
) -> None:
    async def scene(stage: Stage) -> None:
        late = stage.by_hand()
        await stage.follow()
        await late.dial()
        joining = asyncio.create_task(late.join())
        await stage.gathers(4)
        await stage.leader.join()
        assert (await joining).generation_id == 2
        await stage.all_are(State.SYNCING)
        await stage.hand_out(late)
        await stage.fail_over()
        await late.dial()
        shares = stage.shares(late)
        assert partitions_of(await late.sync()) == shares[late.member_id]
        assert partitions_of(await stage.leader.sync()) == shares[stage.leader.member_id]
        assert await late.beat() is await stage.leader.beat() is ErrorCode.NONE
        await stage.all_have(shares)
        for recorder, follower in zip(stage.recorder, stage.followers, strict=True):
            assert recorder.callbacks == [("assigned", len(shares[follower.member_id]))], "nothing was taken from it"
        await late.leave()
        late.hang_up()

    play(broker, end, scene)
