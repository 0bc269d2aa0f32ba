"""The sparse indexes, entry by entry as Kafka writes them."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from tests.unit.log.workbench import DIRECTORY, append, batch, fill, names, open_log

from kohort.log.disk import Disk, read_file
from kohort.log.segment import OffsetIndex, TimeIndex
from kohort.log.segments import LogConfig
from kohort.wire.record_batches import iter_batches


@pytest.fixture
def index() -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in ((4, 0), (9, 100), (20, 250)):
        index.append(offset, position)
    return index


def test_offsets_lead_to_a_batch_at_or_before_them(index: OffsetIndex) -> None:
    assert [index.position_before(offset) for offset in (0, 3, 4, 8, 9, 19, 20, 99)] == [0, 0, 0, 0, 100, 100, 250, 250]


def test_positions_lead_to_a_border_at_or_before_them(index: OffsetIndex) -> None:
    assert [index.border_before(position) for position in (0, 99, 100, 249, 250, 1000)] == [0, 0, 100, 100, 250, 250]


def test_only_what_is_new_is_written(index: OffsetIndex) -> None:
    index.saved = 2
    assert index.unsaved() == struct.pack(">ii", 20, 250)
    index.saved = 3
    assert index.unsaved() == b""


def test_an_index_is_read_as_it_was_written(index: OffsetIndex) -> None:
    content = index.unsaved()
    read = OffsetIndex.parse(memoryview(content), 251)
    assert read is not None
    assert (list(read.offsets), list(read.positions), read.saved) == ([4, 9, 20], [0, 100, 250], 3)


@pytest.mark.parametrize(
    "entries",
    [
        [(4, 0), (3, 100)],  # offsets fall
        [(4, 0), (9, 0)],  # positions stand still
        [(-4, 0)],
        [(4, 0), (9, 1000)],  # beyond the log
        [(4, 0), (0, 0), (9, 100)],  # entries after the zeros of a preallocated file
    ],
)
def test_an_index_that_makes_no_sense_is_not_trusted(entries: list[tuple[int, int]]) -> None:
    content = b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert OffsetIndex.parse(memoryview(content), 1000) is None


def test_the_zeros_of_a_running_kafka_are_no_entries(index: OffsetIndex) -> None:
    read = OffsetIndex.parse(memoryview(index.unsaved() + bytes(800)), 1000)
    assert read is not None
    assert len(read) == 3
    times = TimeIndex.parse(memoryview(struct.pack(">qi", 77, 3) + bytes(1200)))
    assert times is not None
    assert times.last == (77, 3)


def test_a_timestamp_that_is_not_larger_is_no_entry() -> None:
    index = TimeIndex()
    for timestamp, offset in ((-1, 0), (100, 5), (100, 6), (90, 7), (101, 8)):
        index.append(timestamp, offset)
    assert (list(index.timestamps), list(index.offsets)) == ([100, 101], [5, 8])
    assert [index.offset_before(timestamp) for timestamp in (99, 100, 101, 500)] == [0, 5, 8, 8]


def test_the_index_names_the_last_offset_of_each_batch_it_points_at(disk: Disk) -> None:
    """DumpLogSegments demands it: an entry's offset is the last one of the batch at its position."""
    log = open_log(disk, LogConfig(index_interval_bytes=300))
    fill(log)
    log.close()
    (name,) = names(disk, ".log")
    content = read_file(disk, f"{DIRECTORY}/{name}")
    batches, position, latest = {}, 0, (-1, -1)
    times = {}
    for header, view in iter_batches(content, strict=True):
        latest = max(latest, (header.max_timestamp, header.last_offset))
        batches[position], times[position] = header.last_offset, latest
        position += len(view)
    entries = list(struct.iter_unpack(">ii", read_file(disk, f"{DIRECTORY}/{names(disk, '.index')[0]}")))
    assert len(entries) > 10
    assert all(batches[position] == offset for offset, position in entries)
    assert all(second[1] - first[1] > 300 for first, second in pairwise(entries))
    found = list(struct.iter_unpack(">qi", read_file(disk, f"{DIRECTORY}/{names(disk, '.timeindex')[0]}")))
    assert found == [*(times[position] for _, position in entries if times[position] != latest), latest]


def test_a_long_segment_has_its_index_written_as_it_grows(disk: Disk) -> None:
    log = open_log(disk, LogConfig(index_interval_bytes=0))
    for _ in range(300):
        append(log, batch())
    assert disk.open(f"{DIRECTORY}/{names(disk, '.index')[0]}").size == 256 * 8
    log.close()
    assert disk.open(f"{DIRECTORY}/{names(disk, '.index')[0]}").size == 299 * 8


def test_what_follows_the_entries_of_a_file_is_replaced(disk: Disk) -> None:
    """A broker that was killed leaves zeros behind its entries; ours go where they belong."""
    log = open_log(disk, LogConfig(index_interval_bytes=300))
    fill(log, 20)
    log.close()
    for suffix in (".index", ".timeindex"):
        disk.open(f"{DIRECTORY}/{names(disk, suffix)[0]}").append([bytes(240)])
    log = open_log(disk, LogConfig(index_interval_bytes=300))
    fill(log, 20)
    log.close()
    fresh = [read_file(disk, f"{DIRECTORY}/{names(disk, suffix)[0]}") for suffix in (".index", ".timeindex")]
    assert OffsetIndex.parse(memoryview(fresh[0]), log.size) is not None
    assert TimeIndex.parse(memoryview(fresh[1])) is not None
    assert not any(content.endswith(bytes(8)) for content in fresh)
    offsets = [offset for offset, _ in struct.iter_unpack(">ii", fresh[0])]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] > log.log_end_offset // 2
