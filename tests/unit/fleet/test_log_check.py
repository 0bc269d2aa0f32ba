"""At which record of a log which Kafka stops, in the words of the tickets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.cli import main
from kohort.fleet.load_check import (
    DEMANDS,
    KAFKA_17306,
    KAFKA_19862,
    KAFKA_20254,
    KAFKA_21102,
    KAFKA_21117,
    OWNED_TWICE,
    CheckedRecord,
    Demand,
    LogCheck,
    NothingToCheck,
    check_partition,
    segments_of,
)
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.wire.record_batches import Record, encode_batch


def step(record_type: int, member: str = "", *, gone: bool = False, **more: Any) -> CheckedRecord:
    return CheckedRecord(0, 0, record_type, "g", member, gone, **more)


def assigned(member: str, epoch: int, *partitions: int) -> CheckedRecord:
    return step(8, member, epoch=epoch, owned_partitions=[("t", partition) for partition in partitions])


def demands(*steps: CheckedRecord) -> list[Demand]:
    check = LogCheck()
    return [violation.demand for each in steps for violation in check.take(each)]


JOINED = (step(5, "a"), step(3), step(7, "a"), step(6), assigned("a", 1, 0))
LEFT = (step(8, "a", gone=True), step(7, "a", gone=True), step(5, "a", gone=True))


def test_a_group_that_comes_and_goes_in_kafkas_order_is_loaded_by_all() -> None:
    assert demands(*JOINED, *LEFT, step(6, gone=True), step(3, gone=True)) == []


def test_a_tombstone_of_a_group_that_was_cleaned_away_stops_the_preview() -> None:
    assert demands(step(3, gone=True)) == [KAFKA_17306]


def test_a_tombstone_of_a_member_that_was_cleaned_away_stops_the_preview() -> None:
    assert demands(step(3), *LEFT) == [KAFKA_17306, KAFKA_17306]


def test_offsets_before_a_consumer_group_stop_the_preview_only() -> None:
    assert demands(step(1), *JOINED) == [KAFKA_17306]


def test_offsets_before_a_streams_group_stop_kafka_4_2_0() -> None:
    assert demands(step(1), step(17), step(19, "a")) == [KAFKA_20254]


def test_tombstones_of_offsets_make_no_group() -> None:
    assert demands(step(1, gone=True), step(17)) == []


def test_a_partition_revoked_in_another_epoch_stops_a_load_beside_the_cleaner() -> None:
    assert demands(assigned("a", 5, 0), assigned("b", 6, 0), assigned("a", 7)) == [KAFKA_19862]


def test_a_partition_that_moves_is_loaded_by_all() -> None:
    assert demands(assigned("a", 5, 0), assigned("a", 6), assigned("b", 6, 0)) == []


def test_a_partition_given_away_while_it_is_owned_in_a_later_epoch_stops_all() -> None:
    assert demands(assigned("a", 7, 0), assigned("b", 6, 0)) == [OWNED_TWICE]


def test_a_consumer_groups_record_after_a_classic_group_stops_all() -> None:
    assert demands(step(2), step(3)) == [KAFKA_21117]


def test_a_conversion_whose_tombstone_is_there_is_loaded_by_all() -> None:
    assert demands(step(2), step(2, gone=True), *JOINED) == []


def test_a_tombstone_of_a_consumer_group_that_became_a_classic_one_stops_all() -> None:
    assert demands(*JOINED, step(2), step(3, gone=True)) == [KAFKA_21117]


def test_a_group_that_is_deleted_while_it_has_members_stops_all() -> None:
    assert demands(*JOINED, step(3, gone=True)) == [KAFKA_21102]


def test_a_member_that_is_deleted_before_its_assignment_stops_all() -> None:
    assert demands(*JOINED, step(5, "a", gone=True)) == [KAFKA_21102]


def test_a_target_that_is_deleted_before_those_of_members_stops_all() -> None:
    assert demands(*JOINED, step(6, gone=True)) == [KAFKA_21102]


def test_records_of_unknown_types_are_skipped() -> None:
    assert demands(step(99), step(18), step(9)) == []


@pytest.mark.parametrize(
    ("version", "tickets"),
    [
        ((3, 9, 2), {"KAFKA-17306", "KAFKA-19862", "KAFKA-21117", "KAFKA-21102", "KAFKA-16147"}),
        ((4, 0, 1), {"KAFKA-19862", "KAFKA-21117", "KAFKA-21102", "KAFKA-16147"}),
        ((4, 0, 2), {"KAFKA-21117", "KAFKA-21102", "KAFKA-16147"}),
        ((4, 1, 1), {"KAFKA-19862", "KAFKA-20254", "KAFKA-21117", "KAFKA-21102", "KAFKA-16147"}),
        ((4, 2, 0), {"KAFKA-20254", "KAFKA-21117", "KAFKA-21102", "KAFKA-16147"}),
        ((4, 3, 1), {"KAFKA-21117", "KAFKA-21102", "KAFKA-16147"}),
        ((3, 6, 2), set()),
    ],
)
def test_a_version_minds_what_was_not_mended_in_its_line(version: tuple[int, int, int], tickets: set[str]) -> None:
    assert {demand.ticket for demand in DEMANDS if demand.concerns(version)} == tickets


# -- files


def key(record_type: int, *parts: str) -> bytes:
    texts = (len(part).to_bytes(2, "big") + part.encode() for part in parts)
    return record_type.to_bytes(2, "big") + b"".join(texts)


OFFSET = Record(0, 5, key(1, "g", "t") + bytes(4), b"\0\3")
STREAMS = Record(0, 6, key(17, "g"), b"\0\0")


def data_directory(home: Path, *batches: bytes) -> Path:
    disk = MemoryDisk()
    log = PartitionLog.open(disk, "__consumer_offsets-7", LogConfig(), 0)
    for batch in batches:
        log.append([batch], leader_epoch=0, now_ms=0)
    for path, file in disk.files.items():
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_bytes(file.content)
    return home


def test_a_data_directory_is_checked_partition_by_partition(tmp_path: Path) -> None:
    data_directory(tmp_path, encode_batch([OFFSET]), encode_batch([STREAMS, OFFSET]))
    (((partition, _), files),) = segments_of([tmp_path]).items()
    checked = check_partition(partition, files, lambda _: None)
    assert (partition, checked.records) == (7, 3)
    assert [(each.demand, each.step.offset) for each in checked.violations] == [(KAFKA_20254, 1)]


def test_offsets_that_come_after_the_groups_end_make_a_simple_group_again(tmp_path: Path) -> None:
    end = Record(0, 7, key(17, "g"), None)
    data_directory(tmp_path, encode_batch([STREAMS, OFFSET, end, OFFSET, STREAMS]))
    (((partition, _), files),) = segments_of([tmp_path]).items()
    (found,) = check_partition(partition, files, lambda _: None).violations
    assert (found.demand, found.step.offset) == (KAFKA_20254, 4)


def test_a_corrupt_batch_ends_its_partition_with_its_place(tmp_path: Path) -> None:
    data_directory(tmp_path, encode_batch([OFFSET]), encode_batch([STREAMS]))
    (file,) = tmp_path.glob("*/*.log")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    checked = check_partition(7, [file], lambda _: None)
    assert checked.damage is not None
    assert (checked.damage.offset, checked.damage.position) == (1, len(encode_batch([OFFSET])))


def test_a_half_written_end_is_no_damage(tmp_path: Path) -> None:
    data_directory(tmp_path, encode_batch([OFFSET]), encode_batch([STREAMS]))
    (file,) = tmp_path.glob("*/*.log")
    file.write_bytes(file.read_bytes()[:-3])
    checked = check_partition(7, [file], lambda _: None)
    assert (checked.records, checked.damage) == (1, None)


def test_a_path_without_a_log_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NothingToCheck, match="no segment"):
        segments_of([tmp_path])


@pytest.mark.parametrize("content", [b"", b"\n", b"root:x:0:0:root:/root:/bin/bash\n" * 9])
def test_a_file_that_is_no_log_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    file.write_bytes(content)
    with pytest.raises(NothingToCheck, match="passwd is no segment of a log: its first bytes are no record batch"):
        segments_of([file])


def test_a_segment_under_another_name_is_checked(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bin"
    copy.write_bytes(encode_batch([OFFSET]))
    assert segments_of([copy]) == {(0, tmp_path): [copy]}


def test_a_partition_of_another_topic_is_refused(tmp_path: Path) -> None:
    data_directory(tmp_path, encode_batch([OFFSET]))
    (tmp_path / "__consumer_offsets-7").rename(tmp_path / "flights-7")
    (tmp_path / "flights-7" / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(NothingToCheck, match="flights-7 is a partition of another topic"):
        segments_of([tmp_path / "flights-7"])


def test_the_command_ends_with_one_where_something_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data_directory(tmp_path, encode_batch([OFFSET, STREAMS]))
    assert main(["log", "check", str(tmp_path)]) == 1
    printed = capfd.readouterr().out
    assert "__consumer_offsets-7 at offset 1: group g has offsets before it is a streams group" in printed
    assert "1 of them would not load everywhere" in printed


def test_the_command_ends_with_nought_for_a_version_that_loads_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data_directory(tmp_path, encode_batch([OFFSET, STREAMS]))
    assert main(["log", "check", str(tmp_path), "--kafka", "4.3.1"]) == 0
    assert "nothing at which a Kafka would fail" in capfd.readouterr().out


def test_the_command_prints_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data_directory(tmp_path, encode_batch([OFFSET, STREAMS]))
    assert main(["log", "check", str(tmp_path), "--json"]) == 1
    printed = capfd.readouterr().out
    assert '"ticket": "KAFKA-20254"' in printed
    assert '"is_loadable": false' in printed
