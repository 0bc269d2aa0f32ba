"""`kohort exporter` on Apache Kafka, which writes no group events, beside members that other people wrote."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from interop.kafka import ApacheKafka
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.test_metrics_of_groups import samples
from tests.interop.topics import create_topic

from kohort.cli.group_state.exported_groups import ExportedGroups
from kohort.client import Admin
from kohort.model.exposition import exposition

confluent = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_of_members_of_librdkafka_are_inferred(apache: ApacheKafka, name: str, protocol: str) -> None:
    create_topic(apache.bootstrap, name, 4)
    settings = {"bootstrap.servers": apache.bootstrap, "group.id": name, "group.protocol": protocol}

    async def read(group: ExportedGroups, metric: str) -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(exposition(group.families()))
        return {labels: value for labels, value in samples(families).get(metric, {}).items() if name in labels}

    async def scenario() -> None:
        members = [confluent.Consumer(settings | {"client.id": f"member-{number}"}) for number in range(2)]
        async with Admin(apache.bootstrap) as admin:
            groups = ExportedGroups(admin, apache.bootstrap, {}, name.__eq__)
            looking = asyncio.create_task(groups.run(0.1))

            async def seen(metric: str, **wanted: float) -> None:
                """Poll the members until the metric has these values by their last label or cause."""
                while True:
                    for member in members:
                        await asyncio.to_thread(member.poll, 0.02)
                    found = await read(groups, metric)
                    if all(sum(v for k, v in found.items() if part in k) >= count for part, count in wanted.items()):
                        return

            members[0].subscribe([name])
            await seen("kohort_group_partition_owner", **{"member-0": 4})
            members[1].subscribe([name])
            await seen("kohort_group_partition_owner", **{"member-0": 2, "member-1": 2})
            await seen("kohort_group_rebalances_total", member_joined=1)
            members.pop().close()
            await seen("kohort_group_partition_owner", **{"member-0": 4})
            await seen("kohort_group_rebalances_total", member_gone=1)
            counted = await read(groups, "kohort_group_rebalances_total")
            assert all("true" in labels for labels in counted), "each is labelled as inferred"
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            members.pop().close()

    asyncio.run(scenario())
