"""A leader that cannot see the group's topics: its round may end, it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integration.scripted_broker import ScriptedBroker

from kohort import RangeAssignor
from kohort.assign.spec import MemberSpec
from kohort.client.cluster.cluster import Cluster
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.protocol_driver import Leader
from kohort.member.effects import Compute
from kohort.member.inputs import Computed, ComputeFailed
from kohort.member.member_state import Identity
from kohort.model.subscription import Subscription
from kohort.wire.apis import Api

LEADER = Identity(1, "m")
MEMBERS = {"m": MemberSpec(Subscription(frozenset({"t", "new"})))}
"""One of their topics has never been looked at."""


class Silent:
    """Closes the connection of each client that requests metadata, so many times."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.left = 0
        self._answer = broker.answers[Api.METADATA]
        broker.answers[Api.METADATA] = self

    def __call__(self, request: Any) -> Any:
        if self.left:
            self.left -= 1
            raise ConnectionError
        return self._answer(request)


@pytest.mark.parametrize("is_over", [False, True], ids=["round waits", "round over"])
def test_a_leader_looks_for_the_groups_topics_as_long_as_its_round_lasts(is_over: bool) -> None:
    async def main() -> None:
        async with asyncio.timeout(15), ScriptedBroker({}) as broker, Cluster(broker.address) as cluster:
            silent = Silent(broker)
            leading = Leader(CoordinatorLink(cluster, "g"), [RangeAssignor()])
            silent.left = 1000 if is_over else 5
            cluster.request_timeout_ms = 1  # each failure is one that was retried long enough
            is_wanted = (lambda: silent.left > 990) if is_over else lambda: True
            result = await leading.compute(Compute(LEADER, "range", MEMBERS), is_wanted)
            if is_over:
                assert isinstance(result, ComputeFailed)
            else:
                assert isinstance(result, Computed)
                assert silent.left == 0
                assert len(result.assignments["m"].partitions) == 2

    asyncio.run(main())


def test_a_leader_assigns_with_metadata_that_was_asked_for_in_its_round() -> None:
    """What another request brings that was under way before may miss a topic's newest partitions."""

    async def main() -> None:
        async with asyncio.timeout(15), ScriptedBroker({}) as broker, Cluster(broker.address) as cluster:
            before, answers = broker.answers[Api.METADATA], []

            def growing(request: Any) -> Any:
                answer = before(request)
                partition = answer.topics[0].partitions[0]
                answers.append(answer)
                grown = [replace_index(partition, 2 + at) for at in range(len(answers) - 1)]
                answer.topics[0].partitions += grown
                return answer

            broker.answers[Api.METADATA] = growing
            leading = Leader(CoordinatorLink(cluster, "g"), [RangeAssignor()])
            cluster.track(["t"])
            under_way = asyncio.create_task(cluster.refresh())
            await asyncio.sleep(0)
            members = {"m": MemberSpec(Subscription(frozenset({"t"})))}
            result = await leading.compute(Compute(LEADER, "range", members))
            await under_way
            assert isinstance(result, Computed)
            assert len(result.assignments["m"].partitions) == 3

    asyncio.run(main())


def replace_index(partition: Any, index: int) -> Any:
    return type(partition)(partition_index=index, leader_id=partition.leader_id, replica_nodes=[0], isr_nodes=[0])
