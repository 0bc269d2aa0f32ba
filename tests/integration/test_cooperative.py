"""Cooperative members on our broker: what stays is read on, what moves is given up first, and each timeline is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.client_scenarios import PATIENCE_MS, create, produce, run
from tests.integration.timeline import Ledger, Timeline

from kohort.assign import CooperativeStickyAssignor, RangeAssignor, RebalanceProtocol
from kohort.assign.spec import GroupSpec
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Cluster, Consumer, Membership, MembershipSettings
from kohort.client.errors import AssignmentFailed
from kohort.member import MemberConfig, PollState, State
from kohort.member.inputs import Subscribed
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_contract import Act


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


def partitions(topic: str, *numbers: int) -> Partitions:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Party:
    """Members of one group, each with a timeline, all with one ledger."""

    def __init__(self, cluster: Cluster, group: str, *topics: str) -> None:
        self.cluster = cluster
        self.group = group
        self.topics = topics
        self.ledger = Ledger()
        self.members: list[Membership] = []
        self.timelines: list[Timeline] = []

    async def join(self, *assignors: object, **settings: object) -> Membership:
        chosen = assignors or (CooperativeStickyAssignor(),)
        timeline = Timeline(f"m{len(self.members)}", self.ledger, *chosen)  # type: ignore[arg-type]
        member = Membership(
            self.cluster,
            self.group,
            Subscribed(tuple(self.topics)),
            MembershipSettings(MemberConfig(heartbeat_interval_ms=100, **settings), timeline.assignors),  # type: ignore[arg-type]
            listener=timeline,
        )
        self.members.append(member)
        self.timelines.append(timeline)
        await member.start()
        return member

    async def settled(self, *shares: int) -> None:
        """Wait until the members own as many partitions as that in all, and are stable."""

        def is_settled() -> bool:
            alive = [member for member in self.members if member.state is not State.CLOSED]
            sizes = sorted(len(member.assignment) for member in alive)
            return sizes == sorted(shares) and all(member.state is State.STABLE for member in alive)

        await asyncio.gather(
            *(each.wait_for(is_settled, timeout_ms=PATIENCE_MS) for each in self.members if each.state in OPEN)
        )
        for timeline in self.timelines:
            timeline.check()

    async def leave(self) -> None:
        for member in self.members:
            await member.stop()
        for timeline in self.timelines:
            timeline.check()
            timeline.contract.record(Act.ENDED)


OPEN = frozenset(State) - {State.CLOSED, State.FATAL}


def test_partitions_move_in_two_steps_and_the_rest_stays(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 6)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            await party.join()
            await party.settled(6)
            await party.join()
            await party.settled(3, 3)
            await party.join()
            await party.settled(2, 2, 2)
            assert party.timelines[0].protocol is RebalanceProtocol.COOPERATIVE
            first = party.timelines[0]
            assert first.moved(Act.REVOKED).isdisjoint(party.members[0].assignment), "what stays is never revoked"
            assert len(first.moved(Act.REVOKED)) == 4
            await party.members[1].stop()
            await party.settled(3, 3)
            await party.leave()

    run(scenario, bootstrap, "two-steps")


def test_a_consumer_reads_on_through_a_rebalance_and_keeps_what_it_had_fetched(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 4)
        await produce(bootstrap, name, 4000)
        ledger = Ledger()
        timelines = [Timeline(f"m{at}", ledger, CooperativeStickyAssignor()) for at in range(2)]
        first, second = (
            Consumer(
                name,
                bootstrap_servers=bootstrap,
                group_id=name,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=100,
                assignors=each.assignors,
                listener=each,
            )
            for each in timelines
        )
        read: dict[TopicPartition, list[int]] = {}

        async def take(consumer: Consumer, most: int) -> int:
            batches = await consumer.poll(50, max_records=most)
            for batch in batches:
                read.setdefault(batch.partition, []).extend(record.offset for record in batch)
            return sum(len(batch) for batch in batches)

        async with first:
            while not await take(first, 10):
                pass
            kept = {state.partition: state for state in first._partitions}
            async with second:
                during = 0
                while len(second.assignment()) < 2:
                    during += await take(first, 1)
                    await asyncio.sleep(0)
                assert during, "the first member was handed records while partitions moved"
                stayed = first.assignment()
                assert len(stayed) == 2
                assert all(first._partitions[each] is kept[each] for each in stayed), "nothing of them was dropped"
                while sum(map(len, read.values())) < 4000:
                    await take(first, 500)
                    await take(second, 500)
        assert all(offsets == list(range(len(offsets))) for offsets in read.values()), "once each, in order"
        for timeline in timelines:
            timeline.check()

    run(scenario, bootstrap, "reads-on")


def test_a_topic_that_is_deleted_is_lost_by_its_owners_and_the_rest_is_kept(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        gone, kept = f"{name}-gone", f"{name}-kept"
        await create(bootstrap, gone, 2)
        await create(bootstrap, kept, 2)
        async with Cluster(bootstrap, metadata_max_age_ms=200) as cluster, Admin(bootstrap) as admin:
            party = Party(cluster, name, gone, kept)
            await party.join()
            await party.join()
            await party.settled(2, 2)
            await admin.delete_topic(gone)
            await party.settled(1, 1)
            lost = frozenset[TopicPartition]().union(*(each.moved(Act.LOST) for each in party.timelines))
            await party.leave()  # in the middle of a round, perhaps: then more is lost
        assert lost == partitions(gone, 0, 1)

    run(scenario, bootstrap, "deleted")


class Greedy(RangeAssignor):
    """A cooperative assignor that forgets the two-step rule while `is_wrong`."""

    name = "greedy"
    protocols = (RebalanceProtocol.COOPERATIVE,)  # type: ignore[assignment]
    is_wrong = False

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        if Greedy.is_wrong:
            return super().assign(spec)
        owned = {each for member in spec.members.values() for each in member.subscription.owned}
        return {
            member: Assignment(
                frozenset(
                    each
                    for each in assignment.partitions
                    if each in spec.members[member].subscription.owned or each not in owned
                )
            )
            for member, assignment in super().assign(spec).items()
        }


def test_a_custom_assignor_that_breaks_the_two_step_rule_fails_the_assignment_of_every_member(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            first = await party.join(Greedy())
            await party.settled(2)
            leader = first.member_id
            Greedy.is_wrong = True
            second = await party.join(Greedy())
            for member in (first, second):
                with pytest.raises(AssignmentFailed, match=rf"leader {leader}.*{name}-\d is owned") as failed:
                    await member.wait_for(lambda: False, timeout_ms=PATIENCE_MS)
                assert f" is owned by {leader} and given to " in failed.value.text
            assert len(first.assignment) == 2, "what it read on it still reads"
            Greedy.is_wrong = False
            while True:
                try:
                    await party.settled(1, 1)
                    break
                except AssignmentFailed:
                    continue
            await party.leave()

    run(scenario, bootstrap, "refused")


def test_an_exception_of_on_assignment_is_raised_and_assigned_runs_all_the_same(bootstrap: str) -> None:
    class Failing(CooperativeStickyAssignor):
        def on_assignment(self, assignment: Assignment, generation: int) -> None:
            raise LookupError(f"generation {generation} of {len(assignment.partitions)}")

    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            first = await party.join(Failing())
            with pytest.raises(LookupError, match="generation 1 of 2"):
                await first.wait_for(lambda: False, timeout_ms=PATIENCE_MS)
            await party.settled(2)
            await party.leave()

    run(scenario, bootstrap, "on-assignment")


def test_the_first_exception_of_a_round_is_raised_when_all_its_callbacks_have_run(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            first = await party.join()
            await party.settled(2)
            party.timelines[0].is_failing = True
            second = await party.join()
            with pytest.raises(LookupError, match="revoked of 1"):
                await first.wait_for(lambda: False, timeout_ms=PATIENCE_MS)
            party.timelines[0].is_failing = False
            await second.wait_for(lambda: len(second.assignment) == 1, timeout_ms=PATIENCE_MS)
            calls = [call.split("(")[0] for call in party.timelines[0].calls]
            at = calls.index("revoked")
            assert calls[at + 1 : at + 3] == ["on_assignment", "assigned"], "the others ran all the same"
            for member in party.members:
                await member.stop()

    run(scenario, bootstrap, "exceptions")


def test_a_static_member_that_restarts_gets_its_partitions_back_without_other_callbacks(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 4)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            await party.join(instance_id="a")
            await party.join(instance_id="b")
            await party.settled(2, 2)
            generation = party.members[0].generation
            for restarted in (1, 0):
                before, calls = party.members[restarted].assignment, party.timelines[1 - restarted].calls
                await party.members[restarted].stop()
                again = await party.join(instance_id="ab"[restarted])
                await again.joined(timeout_ms=PATIENCE_MS)
                assert again.assignment == before
                assert again.generation == generation
                assert party.timelines[1 - restarted].calls == calls
            for member in party.members:
                await member.stop(leave=True)
            for timeline in party.timelines:
                timeline.check()

    run(scenario, bootstrap, "static")


def test_a_fenced_static_member_loses_what_it_had_and_raises(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            party.ledger.is_forgiving = True
            first = await party.join(instance_id="a")
            await party.settled(2)
            second = await party.join(instance_id="a")
            await second.joined(timeout_ms=PATIENCE_MS)
            with pytest.raises(KafkaError, match=r"group\.instance\.id 'a'") as fenced:
                await first.wait_for(lambda: False, timeout_ms=PATIENCE_MS)
            assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID
            await party.leave()
            assert party.timelines[0].moved(Act.LOST) == partitions(name, 0, 1)
            assert second.state is State.CLOSED

    run(scenario, bootstrap, "fenced")


def test_a_cooperative_group_reads_on_over_the_crash_of_its_coordinator(tmp_path: Path) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 4)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            await party.join()
            await party.join()
            await party.settled(2, 2)
            held = [member.assignment for member in party.members]
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await party.join()
            await party.settled(2, 1, 1)
            for member, before in zip(party.members, held, strict=False):
                assert member.assignment <= before, "each keeps what it had, or a part of it"
            assert not any(timeline.moved(Act.LOST) for timeline in party.timelines)
            await party.leave()

    with EmbeddedBroker(tmp_path / "kohort", group_initial_rebalance_delay_ms=0) as broker:
        run(scenario, broker.bootstrap_servers, "crash")


def test_a_consumer_that_exceeds_max_poll_interval_is_warned_then_leaves_and_loses_all_partitions(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with Cluster(bootstrap) as cluster:
            party = Party(cluster, name, name)
            first = await party.join(max_poll_interval_ms=300)
            await party.settled(2)
            first.return_poll()
            assert first.member.poll_state is PollState.AWAY
            await first.wait_for(lambda: first.member.poll_state is PollState.LATE, timeout_ms=PATIENCE_MS)
            assert first.state is State.STABLE
            await first.wait_for(lambda: first.member.poll_state is PollState.MISSED, timeout_ms=PATIENCE_MS)
            second = await party.join()
            party.ledger.is_forgiving = True
            await second.wait_for(lambda: len(second.assignment) == 2, timeout_ms=PATIENCE_MS)
            first.enter_poll()
            await party.settled(1, 1)
            assert party.timelines[0].moved(Act.LOST) == partitions(name, 0, 1)
            await party.leave()

    run(scenario, bootstrap, "away")
    assert "no poll for two thirds of max_poll_interval_ms=300" in caplog.text
    assert "leaves the group until the next poll" in caplog.text
