"""Our classic members in a group that a native member, whose every request the test sends, converts and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.integration.old_member import OldMember
from tests.integration.scenario_book import PATIENCE_MS, Recorder, create, run

from kohort.assign import CooperativeStickyAssignor, RangeAssignor
from kohort.assign.spec import Assignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Cluster, Membership, MembershipSettings
from kohort.member import MemberConfig
from kohort.member.inputs import Subscribed
from kohort.model.errors import ErrorCode
from kohort.net.connection import Connection
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

Owned = dict[bytes, list[int]]


class BareNative:
    """A native member that gives back and takes what each answer says."""

    def __init__(self, connection: Connection, group: str) -> None:
        self.connection = connection
        self.group = group
        self.epoch = 0
        self.owned: Owned = {}

    async def beat(self, epoch: int | None = None) -> ConsumerGroupHeartbeatResponse:
        topics = [
            ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in self.owned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id="bare-native",
            member_epoch=self.epoch if epoch is None else epoch,
            topic_partitions=topics if epoch is None else None,
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = 10_000
            request.subscribed_topic_names = [self.group]
        answer = await self.connection.call(request)
        if not answer.error_code:
            self.epoch = max(answer.member_epoch, 0)
            if answer.assignment is not None:
                self.owned = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}
        return answer

    async def until_it_owns(self, count: int) -> None:
        while sum(map(len, self.owned.values())) != count:
            assert (await self.beat()).error_code == ErrorCode.NONE


@pytest.mark.parametrize("assignor", [RangeAssignor, CooperativeStickyAssignor], ids=["eager", "cooperative"])
def test_our_classic_members_share_with_a_native_one_and_take_over_from_it(
    shared_broker: EmbeddedBroker, assignor: type[Assignor]
) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 6)
        async with Cluster(bootstrap) as cluster, Cluster(bootstrap) as other:
            recorder = [Recorder(), Recorder()]
            members = [
                Membership(
                    cluster,
                    name,
                    Subscribed((name,)),
                    MembershipSettings(MemberConfig(heartbeat_interval_ms=100), (assignor(),)),
                    listener=each,
                )
                for each in recorder
            ]
            for member in members:
                await member.start()
            await all_own(members, 3)
            connection = await other.pool.open_apart(await other.coordinator(name))
            native = BareNative(connection, name)
            await native.until_it_owns(2)
            await all_own(members, 2)
            held = {partition for member in members for partition in member.assignment}
            taken = {number for numbers in native.owned.values() for number in numbers}
            assert len(held) == 4
            assert taken.isdisjoint(number for _, number in held)
            assert (await native.beat(-1)).error_code == ErrorCode.NONE
            await all_own(members, 3)
            connection.close()
            for member in members:
                await member.stop()
            names = [what for each in recorder for what, _ in each.callbacks]
            assert "lost" not in names

    run(scenario, shared_broker.bootstrap_servers, f"converted-{assignor().name}")


async def all_own(members: Sequence[Membership], count: int) -> None:
    for member in members:
        await member.wait_for(lambda m=member: m.is_stable and len(m.assignment) == count, timeout_ms=PATIENCE_MS)


def test_member_of_an_old_embedded_version_keeps_the_group_classic_and_is_named(shared_broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with Cluster(bootstrap) as cluster, Cluster(bootstrap) as other:
            member = Membership(
                cluster,
                name,
                Subscribed((name,)),
                MembershipSettings(MemberConfig(heartbeat_interval_ms=100), (RangeAssignor(),)),
            )
            await member.start()
            await member.joined(timeout_ms=PATIENCE_MS)
            old = OldMember(other, name, [name], ["range"])
            changed = asyncio.Event()
            old.on_change = lambda *_: changed.set()
            old.start()
            await member.wait_for(lambda: len(member.assignment) == 1, timeout_ms=PATIENCE_MS)
            await asyncio.wait_for(changed.wait(), PATIENCE_MS / 1000)
            connection = await other.pool.open_apart(await other.coordinator(name))
            answer = await BareNative(connection, name).beat()
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "version 0 where 3" in (answer.error_message or "")
            connection.close()
            await old.leave()
            await member.stop()

    run(scenario, shared_broker.bootstrap_servers, "kept-classic")
