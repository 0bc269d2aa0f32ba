"""Damage of every kind is found, named by file, byte and offsets, and repaired at the cost of that piece alone."""

from __future__ import annotations

import random
from dataclasses import replace
from struct import Struct

import pytest
from tests.unit.log.workbench import DIRECTORY, SMALL, append, batch, everything, fill, names, open_log, overwrite

from kohort.log.disk import Disk, StorageError, read_file
from kohort.log.memory_disk import MemoryDisk, failing
from kohort.log.repair import remedy, repair
from kohort.log.verification import Damage, DamageKind, partitions_of, verify
from kohort.node.step_scheduler import result_of
from kohort.wire.record_batches import Marker, encode_marker, iter_batches

FIRST = f"{DIRECTORY}/{0:020d}.log"


def filled(disk: Disk, *, closed: bool = True) -> list[tuple[int, bytes | None]]:
    """Fill a log of several segments, and return its records as (offset, value)."""
    log = open_log(disk)
    fill(log)
    records = values(everything(log))
    if closed:
        log.close()
    return records


def values(rows: list) -> list[tuple[int, bytes | None]]:
    return [(row.offset, None if row.value is None else bytes(row.value)) for row in rows]


def found_in(disk: Disk) -> list[Damage]:
    return verify(disk, DIRECTORY)[1]


def place_of(disk: Disk, path: str, number: int) -> tuple[int, int, int, int]:
    """Return position, size, first and last offset of a batch of a segment, by its number."""
    position = 0
    for at, (header, one) in enumerate(iter_batches(read_file(disk, path))):
        if at == number:
            return position, len(one), header.base_offset, header.last_offset
        position += len(one)
    raise AssertionError("the segment has fewer batches")


def test_intact_log_has_no_findings(disk: Disk) -> None:
    records = filled(disk)
    held, findings = verify(disk, DIRECTORY)
    assert findings == []
    assert (held.records, held.end_offset) == (len(records), len(records))
    assert partitions_of(disk) == [DIRECTORY]


def test_logs_of_topics_with_dots_are_found_among_files(disk: Disk) -> None:
    disk.make_directory("orders.v1-0")
    disk.open(f"orders.v1-0/{0:020d}.log", create=True).close()
    disk.open("recovery-point-offset-checkpoint", create=True).close()
    assert partitions_of(disk) == ["orders.v1-0"]


def test_log_that_was_not_closed_has_no_findings(disk: Disk) -> None:
    filled(disk, closed=False)
    assert found_in(disk) == []


def test_flipped_byte_of_a_record_costs_its_batch_alone(disk: Disk) -> None:
    records = filled(disk)
    position, size, first, last = place_of(disk, FIRST, 3)
    overwrite(disk, FIRST, position + size - 5, b"\xff")
    (finding,) = found_in(disk)
    assert (finding.kind, finding.file, finding.position, finding.size) == (
        DamageKind.DAMAGED_BATCH,
        FIRST,
        position,
        size,
    )
    assert finding.offsets == (first, last)
    assert repair(disk, DIRECTORY, [finding]) == []
    assert values(everything(open_log(disk))) == [row for row in records if not first <= row[0] <= last]
    assert found_in(disk) == [], "the gap is known"


@pytest.mark.parametrize("field", [(0, b"\x7f"), (7, b"\x63"), (8, b"\x01"), (11, b"\x02"), (11, b"\xff")])
def test_damaged_offset_or_length_of_a_batch_is_written_anew_and_loses_nothing(
    disk: Disk, field: tuple[int, bytes]
) -> None:
    records = filled(disk)
    position, *_ = place_of(disk, FIRST, 3)
    overwrite(disk, FIRST, position + field[0], field[1])
    (finding,) = found_in(disk)
    assert finding.kind is DamageKind.DAMAGED_HEADER
    assert not finding.loses_records
    assert repair(disk, DIRECTORY, [finding]) == []
    assert values(everything(open_log(disk))) == records


def test_foreign_bytes_between_batches_cost_the_batch_that_they_cover(disk: Disk) -> None:
    records = filled(disk)
    position, size, first, last = place_of(disk, FIRST, 2)
    overwrite(disk, FIRST, position, b"\x00" * size)
    (finding,) = found_in(disk)
    assert (finding.kind, finding.offsets) == (DamageKind.NO_BATCH, (first, last))
    assert repair(disk, DIRECTORY, [finding]) == []
    assert values(everything(open_log(disk))) == [row for row in records if not first <= row[0] <= last]
    assert read_file(disk, f"{FIRST}.cut-{position}") == bytes(size)


def test_torn_end_of_the_newest_segment_is_found_and_cut(disk: Disk) -> None:
    records = filled(disk, closed=False)
    path = f"{DIRECTORY}/{names(disk, '.log')[-1]}"
    file = disk.open(path)
    size = file.size
    file.append([batch(3)[:-7]])
    file.close()
    (finding,) = found_in(disk)
    assert (finding.kind, finding.position) == (DamageKind.TORN_END, size)
    assert verify(disk, DIRECTORY, is_in_use=True)[1] == [], "a running broker may be writing it"
    assert repair(disk, DIRECTORY, [finding]) == []
    assert values(everything(open_log(disk))) == records


def test_missing_segment_in_the_middle_names_the_offsets_that_went_with_it(disk: Disk) -> None:
    records = filled(disk)
    _, second, third, *_ = names(disk, ".log")
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(f"{DIRECTORY}/{second[:20]}{suffix}")
    (finding,) = found_in(disk)
    assert (finding.kind, finding.file) == (DamageKind.MISSING_OFFSETS, f"{DIRECTORY}/{third}")
    assert finding.offsets == (int(second[:20]), int(third[:20]) - 1)
    assert repair(disk, DIRECTORY, [finding]) == []
    lost = range(int(second[:20]), int(third[:20]))
    assert values(everything(open_log(disk))) == [row for row in records if row[0] not in lost]


def test_missing_newest_segment_is_known_from_the_marker_of_the_clean_shutdown(disk: Disk) -> None:
    records = filled(disk)
    last = names(disk, ".log")[-1]
    disk.remove(f"{DIRECTORY}/{last}")
    kinds = {finding.kind: finding for finding in found_in(disk)}
    assert kinds[DamageKind.MISSING_OFFSETS].offsets == (int(last[:20]), len(records) - 1)


def test_swapped_batches_cost_the_one_that_comes_too_late(disk: Disk) -> None:
    records = filled(disk)
    content = read_file(disk, FIRST)
    at, size, first, last = place_of(disk, FIRST, 2)
    then, other, *_ = place_of(disk, FIRST, 3)
    overwrite(disk, FIRST, at, content[then : then + other] + content[at : at + size])
    findings = found_in(disk)
    assert [finding.kind for finding in findings if finding.kind is not DamageKind.INDEX] == [
        DamageKind.MISSING_OFFSETS,
        DamageKind.OUT_OF_PLACE,
    ]
    assert repair(disk, DIRECTORY, findings) == []
    assert values(everything(open_log(disk))) == [row for row in records if not first <= row[0] <= last]


def test_swapped_segment_files_are_named(disk: Disk) -> None:
    filled(disk)
    one, two, *_ = (f"{DIRECTORY}/{name}" for name in names(disk, ".log"))
    disk.rename(one, f"{one}.other")
    disk.rename(two, one)
    disk.rename(f"{one}.other", two)
    assert {one, two} <= {finding.file for finding in found_in(disk)}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_index_is_made_from_the_batches(disk: Disk, suffix: str) -> None:
    records = filled(disk)
    path = FIRST.replace(".log", suffix)
    before = read_file(disk, path)
    overwrite(disk, path, len(before) - 5, b"\x55\x55")
    (finding,) = found_in(disk)
    assert (finding.kind, finding.file, finding.loses_records) == (DamageKind.INDEX, path, False)
    assert repair(disk, DIRECTORY, [finding]) == []
    assert found_in(disk) == []
    log = open_log(disk)
    assert values(everything(log)) == records
    at_ms = result_of(log.offset_for_timestamp(1030))
    assert at_ms is not None
    assert at_ms.offset == 30


def test_index_that_points_at_another_batch_is_found(disk: Disk) -> None:
    filled(disk)
    path = FIRST.replace(".log", ".index")
    row = Struct(">ii")
    offset, position = row.unpack_from(read_file(disk, path), 8)
    overwrite(disk, path, 8, row.pack(offset, position + 1))
    (finding,) = found_in(disk)
    assert finding.reason == f"no batch begins at byte {position + 1}"


def test_missing_index_of_a_closed_segment_is_found(disk: Disk) -> None:
    filled(disk)
    disk.remove(FIRST.replace(".log", ".index"))
    (finding,) = found_in(disk)
    assert (finding.kind, finding.reason) == (DamageKind.INDEX, "is missing")


def test_list_of_aborted_transactions_is_compared_with_the_markers(disk: Disk) -> None:
    log = open_log(disk)
    append(log, batch(2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, encode_marker(7, 0, Marker(is_commit=False, coordinator_epoch=0), 5))
    log.close()
    path = FIRST.replace(".log", ".txnindex")
    before = read_file(disk, path)
    assert found_in(disk) == []
    disk.remove(path)
    (finding,) = found_in(disk)
    assert finding.kind is DamageKind.ABORTED_INDEX
    assert repair(disk, DIRECTORY, [finding]) == []
    assert read_file(disk, path) == before


def test_damaged_snapshot_and_checkpoints_are_named_and_cost_no_record(disk: Disk) -> None:
    log = open_log(disk)
    append(log, batch(2, producer_id=7, producer_epoch=0, base_sequence=0))
    append(log, leader_epoch=3)
    log.close()
    records = values(everything(open_log(disk)))
    snapshot = f"{DIRECTORY}/{names(disk, '.snapshot')[-1]}"
    epochs = f"{DIRECTORY}/leader-epoch-checkpoint"
    before = read_file(disk, epochs)
    overwrite(disk, snapshot, 12, b"\xff")
    overwrite(disk, epochs, len(before) - 2, b"9")
    findings = found_in(disk)
    assert [(finding.kind, finding.file) for finding in findings] == [
        (DamageKind.SNAPSHOT, snapshot),
        (DamageKind.CHECKPOINT, epochs),
    ]
    assert all(remedy(finding) for finding in findings)
    assert repair(disk, DIRECTORY, findings) == []
    assert read_file(disk, epochs) == before
    assert values(everything(open_log(disk))) == records


def test_offsets_that_a_cleaner_removed_are_no_finding() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(SMALL, cleanup_policy=("compact",), min_cleanable_ratio=0))
    fill(log)
    log.compact(10_000, roll=True)
    log.close()
    assert found_in(disk) == []


def test_bytes_that_all_look_like_a_magic_number_are_searched_in_one_pass() -> None:
    disk = MemoryDisk()
    filled(disk, closed=False)
    file = disk.open(f"{DIRECTORY}/{names(disk, '.log')[-1]}")
    file.append([b"\x02" * 100_000])
    (finding,) = found_in(disk)
    assert (finding.kind, finding.size) == (DamageKind.TORN_END, 100_000)


@pytest.mark.parametrize("seed", range(60))
def test_any_damage_is_found_and_repaired_at_the_cost_of_what_it_touched(seed: int) -> None:
    rng = random.Random(seed)
    disk = MemoryDisk()
    records = filled(disk)
    path = f"{DIRECTORY}/{rng.choice(names(disk, '.log'))}"
    content = read_file(disk, path)
    start = rng.randrange(len(content))
    junk = rng.randbytes(rng.randrange(1, 300))[: len(content) - start]
    overwrite(disk, path, start, junk)
    touched: set[int] = set()
    position = 0
    for header, one in iter_batches(content):
        if position < start + len(junk) and start < position + len(one) and content != read_file(disk, path):
            touched |= set(range(header.base_offset, header.last_offset + 1))
        position += len(one)
    left = repair(disk, DIRECTORY, found_in(disk))
    assert left == []
    assert found_in(disk) == []
    kept = values(everything(open_log(disk)))
    assert set(kept) <= set(records)
    assert {row for row in records if row[0] not in touched} <= set(kept)


def test_a_directory_that_may_not_be_read_is_not_passed_over() -> None:
    disk = MemoryDisk()
    fill(open_log(disk), 3)
    assert partitions_of(disk) == [DIRECTORY]
    disk.fault = failing("list", where=DIRECTORY)
    with pytest.raises(StorageError):
        partitions_of(disk)
