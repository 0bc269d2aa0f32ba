"""DescribeLogDirs on the wire."""

from __future__ import annotations

from typing import Any

from tests.unit.node.desk import Desk, batch, produce

from kohort.log.memory_disk import MemoryDisk
from kohort.model.errors import ErrorCode
from kohort.wire.messages import ApiVersionsRequest, DescribeLogDirsRequest


def sizes(desk: Desk, asked: dict[str, list[int]] | None = None) -> dict[str, dict[int, int]]:
    """Return the bytes of partitions by topic, of all where none are named."""
    (result,) = describe(desk, asked).results
    assert not result.error_code
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions} for topic in result.topics
    }


def describe(desk: Desk, asked: dict[str, list[int]] | None = None, version: int = 5) -> Any:
    wanted = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = None if asked is None else [wanted(topic=name, partitions=found) for name, found in asked.items()]
    return desk.connect().call(DescribeLogDirsRequest(topics=topics), version)


def desk_with_records() -> tuple[Desk, int]:
    """Return a node with one batch in a partition of `orders`, and the batch's size."""
    desk = Desk()
    desk.create("orders", 2)
    records = batch(b"one", b"two")
    desk.connect().call(produce("orders", records, partition=1), 9)
    return desk, len(records)


def test_partition_is_as_large_as_its_records() -> None:
    desk, size = desk_with_records()
    assert sizes(desk) == {"orders": {0: 0, 1: size}}


def test_partition_that_was_not_opened_since_the_start_has_its_size() -> None:
    desk, size = desk_with_records()
    later = desk.restart()
    assert sizes(later) == {"orders": {0: 0, 1: size}}
    assert later.node.topics.get("orders").partitions[1].opened is None  # type: ignore[union-attr]


def test_only_partitions_that_were_asked_for_and_exist_are_described() -> None:
    desk, size = desk_with_records()
    assert sizes(desk, {"orders": [1, 7], "nothing": [0]}) == {"orders": {1: size}}


def test_volume_is_described_from_version_4_on() -> None:
    desk = Desk(MemoryDisk(1_000_000))
    (result,) = describe(desk).results
    assert (result.total_bytes, result.usable_bytes) == (1_000_000, 1_000_000 - desk.disk.used)
    (result,) = describe(desk, version=3).results
    assert (result.log_dir, result.total_bytes) == ("/memory", -1)


def test_directory_that_cannot_be_read_has_an_error_of_its_own() -> None:
    desk, _ = desk_with_records()
    later = desk.restart()
    del later.disk.files["orders-1/00000000000000000000.log"]
    later.disk.list = lambda _directory: ["00000000000000000000.log"]  # type: ignore[method-assign]
    (result,) = describe(later).results
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_produce_is_advertised_from_version_0_though_older_versions_are_refused() -> None:
    """librdkafka sends batches uncompressed to a broker whose Produce begins later (KAFKA-18659)."""
    desk = Desk()
    keys = desk.connect().call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4).api_keys
    assert {key.api_key: (key.min_version, key.max_version) for key in keys}[0] == (0, 13)
