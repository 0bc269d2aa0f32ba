"""Long polls at the ends of partitions: what ends one, and how many there are."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.scenario_book import PATIENCE_MS, create, produce, run
from tests.integration.scripted_broker import TOPIC_ID, ScriptedBroker

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Cluster
from kohort.client.cluster.offset_specs import READ_UNCOMMITTED
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.spark.membership.owned_partitions import EndWatch
from kohort.wire.apis import Api
from kohort.wire.messages import FetchRequest, FetchResponse

ENDS = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}


def test_an_appended_record_ends_a_long_poll(kohort_broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await produce(bootstrap, name, 5)
        changed = asyncio.Event()
        async with Cluster(bootstrap) as cluster:
            await cluster.topic(name)
            watch = EndWatch(cluster, READ_UNCOMMITTED, changed.set)
            watch.watch({TopicPartition(name, 0): 5})
            await produce(bootstrap, name, 1)
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await changed.wait()
            assert watch.found == {TopicPartition(name, 0): 6}
            watch.forget()
            assert watch.found == {}
            await watch.stop()

    run(scenario, kohort_broker.bootstrap_servers, "t")


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_ID])
def test_one_fetch_asks_a_broker_for_all_ends_and_any_answer_is_reported(code: ErrorCode) -> None:
    def answer(_: FetchRequest) -> FetchResponse:
        partitions = [
            FetchResponse.Response.Partition(partition_index=0, error_code=code, high_watermark=7),
            FetchResponse.Response.Partition(partition_index=1, high_watermark=0),
        ]
        return FetchResponse(responses=[FetchResponse.Response(topic_id=TOPIC_ID, partitions=partitions)])

    async def main() -> None:
        changed = asyncio.Event()
        async with ScriptedBroker({Api.FETCH: answer}) as broker, Cluster(broker.address) as cluster:
            await cluster.topic("t")
            watch = EndWatch(cluster, READ_UNCOMMITTED, changed.set)
            watch.watch(ENDS)
            watch.watch(ENDS)
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await changed.wait()
            (asked,) = broker.requests(FetchRequest)
            assert watch.found == ({**ENDS, TopicPartition("t", 0): 7} if code is ErrorCode.NONE else {})
            assert [(each.partition, each.fetch_offset) for each in asked.topics[0].partitions] == [(0, 5), (1, 0)]
            changed.clear()
            watch.watch(ENDS)
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await changed.wait()
            assert len(broker.requests(FetchRequest)) == 2

    asyncio.run(main())
