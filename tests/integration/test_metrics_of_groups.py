"""`/metrics` of a broker and of `kohort exporter`, as Prometheus' own parsers read them."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from kohort.broker.broker import Broker
from kohort.cli.group_state.exported_groups import ExportedGroups
from kohort.cli.group_state.group_events import LISTED_EVENTS, Bookmark, GroupFilter, event_consumer, live_events
from kohort.client import Admin, Consumer, Producer
from kohort.model.exposition import exposition
from kohort.model.ids import TopicPartition

DOCS = Path(__file__).parents[2] / "docs"
ODD = 'odd "name"\n\\'


def scraped(port: int | None, path: str = "metrics", accept: str = "") -> tuple[str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def samples(families: Iterable[Any]) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


async def broker_with_a_group(broker: Broker) -> ExportedGroups:
    """Have a group of one member that has committed one record of three, and look at it."""
    address = f"127.0.0.1:{broker.address[1]}"
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", 1)
        for _ in range(3):
            await (await producer.send("orders", b"v", partition=0, timestamp_ms=1_700_000_000_000))
        await admin.reset_offsets(ODD, {TopicPartition("orders", 0): 3})
        reader = Consumer("orders", bootstrap_servers=address, group_id="billing", auto_offset_reset="earliest")
        async with reader as consumer:
            assert await consumer.poll(20_000, max_records=1)
            await consumer.commit({TopicPartition("orders", 0): 1})
            groups = ExportedGroups(admin, address, {})
            await groups.look()
            events = asyncio.create_task(groups.run(0.2))
            while not samples(plain_families(exposition(groups.families()))).get("kohort_group_rebalances_total"):
                await asyncio.sleep(0)
            events.cancel()
            return groups


def test_a_broker_and_the_exporter_serve_what_prometheus_reads(tmp_path: Path) -> None:
    async def scenario() -> tuple[tuple[str, str], tuple[str, str], str]:
        settings = {"group.initial.rebalance.delay.ms": "0"}
        broker = Broker(tmp_path, "127.0.0.1", 0, settings, metrics=("127.0.0.1", 0))
        await broker.start()
        try:
            groups = await broker_with_a_group(broker)
            assert broker.metrics is not None
            port = broker.metrics.endpoint.port
            accept = "application/openmetrics-text;version=1.0.0;q=0.8"
            plain = await asyncio.to_thread(scraped, port)
            return plain, await asyncio.to_thread(scraped, port, "metrics", accept), exposition(groups.families())
        finally:
            await broker.stop()

    (plain_type, plain), (open_type, opened), exported = asyncio.run(scenario())
    assert plain_type.startswith("text/plain; version=0.0.4")
    assert open_type.startswith("application/openmetrics-text; version=1.0.0")
    of_broker = samples(plain_families(plain))
    assert of_broker["kohort_broker_requests_total"]["JOIN_GROUP",] >= 1
    assert of_broker["kohort_broker_log_bytes"]["orders",] > 0
    assert of_broker["kohort_broker_rebalances_total"]["member_joined", "billing"] == 1
    assert of_broker["kohort_broker_disk_free_bytes"][()] > 0
    assert samples(open_families(opened)).keys() >= of_broker.keys()  # type: ignore[no-untyped-call]
    groups = samples(plain_families(exported))
    assert sorted(groups["kohort_group_lag_records"].values()) == [0, 2]
    assert groups["kohort_group_lag_seconds"]["billing",] > 60_000_000
    assert groups["kohort_group_partition_lag_records"]["billing", "0", "orders"] == 2
    assert groups["kohort_group_members"]["billing",] == 1
    assert len(groups["kohort_group_partition_owner"]) == 1
    assert groups["kohort_group_rebalances_total"]["member_joined", "billing"] == 1
    exist = set(re.findall(r"^# TYPE (\S+)", plain + exported, re.MULTILINE))
    for document in ("groups-dashboard.json", "broker-dashboard.json", "alerts.yml"):
        text = (DOCS / "monitoring" / document).read_text(encoding="utf-8")
        shown = set(re.findall(r"kohort_(?:broker|group|exporter)_[a-z_]+", text))
        assert {name.removesuffix("_bucket") for name in shown} <= exist, document
        if document.endswith(".json"):
            json.loads(text)


def test_events_that_were_counted_are_not_read_again_behind_a_bookmark(tmp_path: Path) -> None:
    """As after a broker's restart, when an exporter reads on."""

    async def read(address: str, bookmark: Bookmark) -> list[Any]:
        async with event_consumer(address, {}) as consumer:
            found = live_events(consumer, GroupFilter(None), lambda _: None, last=LISTED_EVENTS, bookmark=bookmark)
            return [each["event"] async for each in found if each is not None]

    async def scenario() -> list[int]:
        broker = Broker(tmp_path, "127.0.0.1", 0, {"group.initial.rebalance.delay.ms": "0"})
        await broker.start()
        try:
            await broker_with_a_group(broker)
            address, bookmark = f"127.0.0.1:{broker.address[1]}", Bookmark()
            while "group_emptied" not in await read(address, Bookmark()):
                pass  # the group's events are written a moment after they have happened, this one last
            return [len(await read(address, each)) for each in (bookmark, bookmark, Bookmark(1 << 40))]
        finally:
            await broker.stop()

    first, again, elsewhere = asyncio.run(scenario())
    assert first > again == 0
    assert elsewhere == first, "an offset beyond the end is of a topic that was created again"


def test_without_group_events_rebalances_are_counted_from_looks(tmp_path: Path) -> None:
    async def scenario() -> dict[tuple[str, ...], float]:
        settings = {"group.initial.rebalance.delay.ms": "0", "kohort.group.events": "false"}
        broker = Broker(tmp_path, "127.0.0.1", 0, settings)
        await broker.start()
        address = f"127.0.0.1:{broker.address[1]}"
        try:
            async with Admin(address) as admin, Consumer("orders", bootstrap_servers=address, group_id="billing"):
                await admin.create_topic("orders", 2)
                groups = ExportedGroups(admin, address, {})
                looking = asyncio.create_task(groups.run(0.02))
                found: dict[tuple[str, ...], float] = {}
                while not any("member_joined" in labels for labels in found):
                    async with Consumer("orders", bootstrap_servers=address, group_id="billing") as second:
                        while not second.assignment():
                            await second.poll(20)
                    exported = samples(plain_families(exposition(groups.families())))
                    found = exported.get("kohort_group_rebalances_total", {})
                looking.cancel()
                return found
        finally:
            await broker.stop()

    found = asyncio.run(scenario())
    assert all(group == "billing" and inferred == "true" for _, group, inferred in found)


def test_each_alert_has_a_section_that_explains_it() -> None:
    headings = re.findall(r"^### (.+)$", (DOCS / "monitoring" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    runbooks = re.findall(r"runbook: docs/monitoring/README.md#(\S+)", (DOCS / "monitoring" / "alerts.yml").read_text())
    assert set(runbooks) == anchors
    assert len(runbooks) == len(anchors)
