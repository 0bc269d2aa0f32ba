"""`kohort doctor` on Apache Kafka 4.3.1, and on 3.9.1, which has no consumer protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.kafka import ApacheKafka
from interop.kafka_cluster import ApacheCluster
from tests.integration.commands import Commands

from kohort import Admin, Consumer


@pytest.fixture(scope="module")
def older() -> Iterator[str]:
    with ApacheCluster(1, {"offsets.topic.replication.factor": "1"}, pom="older-pom.xml") as cluster:
        yield cluster.bootstrap


async def findings(kohort: Commands, name: str) -> list[dict[str, Any]]:
    """Return what is found while a group has a member."""
    async with Admin(kohort.address) as admin:
        await admin.create_topic(name, 2)
    async with Consumer(
        name, bootstrap_servers=kohort.address, group_id=name, client_id="rdkafka", group_instance_id="i"
    ) as consumer:
        while not consumer.assignment():
            await consumer.poll(timeout_ms=50)
        outcome = await asyncio.to_thread(kohort, "doctor", "--json")
    assert outcome.status == 0, outcome
    found: list[dict[str, Any]] = outcome.json["findings"]
    return found


def texts(found: list[dict[str, Any]], about: str) -> dict[str, str]:
    return {f"{each['check']} {each['severity']}": each["text"] for each in found if each["about"].startswith(about)}


def test_doctor_looks_at_kafka_4_3(
    apache: ApacheKafka,
    name: str,
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kohort = Commands(apache.bootstrap, capfdbinary, tmp_path, monkeypatch)
    found = asyncio.run(findings(kohort, name))
    cluster = texts(found, "cluster")
    assert cluster["release info"] == "Apache Kafka 4.3, by the metadata.version that it supports"
    protocols = [each["text"] for each in found if each["check"] == "protocol" and each["severity"] == "ok"]
    assert any(each.startswith("it has consumer groups (KIP-848)") for each in protocols)
    assert "clock ok" in cluster or "clock info" in cluster
    group = texts(found, f"group {name}")
    assert "commits warning" not in group, "4.3 takes commits of an older epoch"
    assert group["static_members warning"].startswith("i is a static member")


def test_doctor_looks_at_kafka_3_9(
    older: str, name: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kohort = Commands(older, capfdbinary, tmp_path, monkeypatch)
    found = asyncio.run(findings(kohort, name))
    assert texts(found, "cluster")["release info"] == "Apache Kafka 3.9, by the metadata.version that it supports"
    missing = [each["text"] for each in found if each["check"] == "protocol" and each["severity"] == "info"]
    assert any("consumer groups (KIP-848)" in each for each in missing), missing
    assert "client info" in texts(found, f"group {name}")
