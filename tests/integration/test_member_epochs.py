"""A member whose epoch moves on while it commits and reads offsets: which requests are repeated, which fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.integration.scripted_broker import TOPIC_ID, ScriptedBroker, heartbeat_answer

from kohort.client import Cluster, CommitFailed, Membership, MembershipSettings, OffsetAndMetadata, RebalanceListener
from kohort.client.membership.user_callbacks import RebalanceListener as Listener
from kohort.member.inputs import Subscribed
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.wire.apis import Api
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

T0 = TopicPartition("t", 0)
CONSUMER = MembershipSettings(protocol="consumer")
FIVE = {T0: OffsetAndMetadata(5)}


class Group:
    """One member's group: `epoch` is its epoch, `owned` its partitions, `error` what a heartbeat is answered."""

    def __init__(self) -> None:
        self.epoch = 1
        self.owned: tuple[int, ...] = (0, 1)
        self.error = ErrorCode.NONE
        self.on_refusal: Callable[[], None] = lambda: None

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        if request.member_epoch < 0:
            return heartbeat_answer(request.member_epoch, is_news=False)
        error, self.error = self.error, ErrorCode.NONE
        return heartbeat_answer(self.epoch, *self.owned, error=error)

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        is_stale = request.generation_id_or_member_epoch != self.epoch
        code = ErrorCode.STALE_MEMBER_EPOCH if is_stale else ErrorCode.NONE
        if is_stale:
            self.on_refusal()
        topic = OffsetCommitResponse.Topic
        return OffsetCommitResponse(
            topics=[
                topic(
                    name=each.name,
                    topic_id=each.topic_id,
                    partitions=[
                        topic.Partition(partition_index=part.partition_index, error_code=code)
                        for part in each.partitions
                    ],
                )
                for each in request.topics
            ]
        )

    def fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        [asked] = request.groups
        group = OffsetFetchResponse.Group
        if asked.member_epoch not in (-1, self.epoch):
            self.on_refusal()
            return OffsetFetchResponse(groups=[group(group_id="g", error_code=ErrorCode.STALE_MEMBER_EPOCH)])
        part = group.Topic.Partition(partition_index=0, committed_offset=7)
        return OffsetFetchResponse(
            groups=[group(group_id="g", topics=[group.Topic(name="t", topic_id=TOPIC_ID, partitions=[part])])]
        )


def in_group(
    scenario: Callable[[Group, Membership, ScriptedBroker], Awaitable[None]], listener: RebalanceListener | None = None
) -> None:
    async def main() -> None:
        group = Group()
        answers = {
            Api.CONSUMER_GROUP_HEARTBEAT: group.heartbeat,
            Api.OFFSET_COMMIT: group.commit,
            Api.OFFSET_FETCH: group.fetch,
        }
        async with asyncio.timeout(15), ScriptedBroker(answers) as broker, Cluster(broker.address) as cluster:
            member = Membership(cluster, "g", Subscribed(("t",)), CONSUMER, listener=listener)
            await member.start()
            await member.joined()
            await scenario(group, member, broker)
            await member.stop()

    asyncio.run(main())


def test_a_commit_that_crosses_with_a_new_epoch_is_retried_with_it() -> None:
    async def scenario(group: Group, member: Membership, broker: ScriptedBroker) -> None:
        group.epoch = 2
        await member.commit(FIVE)
        sent = broker.requests(OffsetCommitRequest)
        assert sent[-1].generation_id_or_member_epoch == 2
        assert sent[-1].topics[0].topic_id == TOPIC_ID, "version 10 names topics by id"

    in_group(scenario)


def test_a_commit_of_what_the_new_epoch_took_away_has_failed() -> None:
    async def scenario(group: Group, member: Membership, broker: ScriptedBroker) -> None:
        group.epoch, group.owned = 2, (1,)
        await member.wait_for(lambda: member.assignment == {TopicPartition("t", 1)})
        group.epoch = 3
        with pytest.raises(CommitFailed) as failed:
            await member.commit(FIVE)
        assert failed.value.code is ErrorCode.STALE_MEMBER_EPOCH
        assert len(broker.requests(OffsetCommitRequest)) == 1

    in_group(scenario)


def test_a_commit_of_a_fenced_member_fails() -> None:
    async def scenario(group: Group, member: Membership, broker: ScriptedBroker) -> None:
        group.epoch, group.error = 9, ErrorCode.FENCED_MEMBER_EPOCH

        def evict() -> None:
            group.error = ErrorCode.FENCED_MEMBER_EPOCH

        group.on_refusal = evict
        with pytest.raises(CommitFailed):
            await member.commit(FIVE)
        assert len(broker.requests(OffsetCommitRequest)) <= 1

    in_group(scenario)


def test_offsets_are_read_with_the_newest_epoch() -> None:
    async def scenario(group: Group, member: Membership, broker: ScriptedBroker) -> None:
        group.epoch = 2
        assert (await member.committed([T0]))[T0].offset == 7
        [*_, last] = broker.requests(OffsetFetchRequest)
        assert (last.groups[0].member_id, last.groups[0].member_epoch) == (member.member_id, 2)
        assert last.groups[0].topics[0].topic_id == TOPIC_ID

    in_group(scenario)


def test_an_exception_of_a_callback_is_raised_once_its_rebalance_has_ended() -> None:
    class Failing(Listener):
        def on_partitions_revoked(self, partitions: Partitions) -> None:
            if len(partitions) == 1:
                raise ValueError("no")

    async def scenario(group: Group, member: Membership, broker: ScriptedBroker) -> None:
        group.owned = (0,)
        with pytest.raises(ValueError, match="no"):
            await member.wait_for(lambda: False)
        await member.wait_for(lambda: member.is_stable and member.assignment == {T0})

        def is_acknowledged() -> bool:
            claims = [each.topic_partitions for each in broker.requests(ConsumerGroupHeartbeatRequest)]
            return [part.partitions for part in [topics for topics in claims if topics][-1]] == [[0]]

        await member.wait_for(is_acknowledged)

    in_group(scenario, Failing())
