"""The metadata log is read with its CRCs: damage is refused or cut, and in both cases named."""

from __future__ import annotations

import logging
import re

import pytest
from tests.unit.node.desk import Desk, batch, only, produce
from tests.unit.node.group_desk import GroupMember, committed, group_desk, stable_group
from tests.unit.node.test_broker_state import state

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode
from kohort.node.metadata_log import DIRECTORY
from kohort.wire.record_batches import Record, encode_batch, read_header

LOG = f"{DIRECTORY}/00000000000000000000.log"
LEADER_EPOCH = range(12, 16)
"""Bytes of a batch that no CRC covers, and that say nothing here."""


def lived() -> Desk:
    desk = Desk()
    desk.create("orders", 3)
    desk.node.topics.alter(desk.node.topics._topics["orders"], [("retention.ms", "5")], desk.clock.now_ms())
    desk.create("payments", 1)
    return desk


def restarted(desk: Desk, *, at: int, bit: int) -> Desk:
    """Return a node that starts where one bit of the metadata log has flipped meanwhile."""
    disk = desk.disk.clone()
    disk.files[LOG].content[at] ^= 1 << bit
    return Desk(disk, desk.clock)


def batch_starts(desk: Desk) -> list[int]:
    content, starts = desk.disk.files[LOG].content, [0]
    while starts[-1] < len(content):
        starts.append(starts[-1] + 12 + int.from_bytes(content[starts[-1] + 8 : starts[-1] + 12], "big"))
    return starts


@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_bit_never_changes_what_the_broker_remembers(clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    desk = lived()
    expected = state(desk)
    if clean:
        desk.node.stop(desk.clock.now_ms())
    starts = batch_starts(desk)
    *_, last, end = starts
    for at in range(end):
        caplog.clear()
        try:
            found = state(restarted(desk, at=at, bit=at % 8))
        except StorageError as error:
            start = max(start for start in starts if start <= at)
            following = min(start for start in starts if start > at)  # where a wrong base offset shows
            [place] = re.findall(rf"^{LOG} is damaged at byte (\d+): ", error.strerror or "")
            assert int(place) in (start, following), f"byte {at}"
        else:
            start = max(start for start in starts if start <= at)
            if at - start in LEADER_EPOCH:
                assert found == expected, f"byte {at}"
            else:
                assert (clean, start) == (False, last), f"byte {at}: only a torn end is cut"
                assert f"from {LOG} at byte {last}; the log ends at offset" in caplog.text, f"byte {at}"


def test_a_log_that_was_cut_short_by_a_crash_starts_and_reports_what_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    desk = lived()
    last = batch_starts(desk)[-2]
    desk.disk.tear(LOG, last + 70)
    with caplog.at_level(logging.WARNING):
        assert Desk(desk.disk, desk.clock).node.topics.get("payments") is None
    [line] = caplog.messages
    assert re.fullmatch(
        rf"recovered the metadata log after it was not closed: cut 70 bytes that were no whole batch from {LOG} at byte"
        rf" {last}; the log ends at offset \d+, 1 records up to offset \d+ are lost",
        line,
    )


def test_damage_before_valid_entries_stops_a_start_and_changes_nothing() -> None:
    desk = lived()
    start = batch_starts(desk)[1]
    content = desk.disk.files[LOG].content
    content[start + 8 : start + 12] = b"\0\0\0\1"
    before = bytes(content)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"damaged at byte .*put the file back from a copy, or move the folder"):
            Desk(desk.disk, desk.clock)
        assert desk.disk.files[LOG].content == before


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"[" * 100_000,
        b"[]",
        b'{"type":"topic"}',
        b'{"type":"delete","name":"missing"}',
        b'{"type":"acl"}',
        b'{"type":"epoch","epoch":"x"}',
        b'{"type":"epoch","epoch":2147483648}',
        b'{"type":"cluster","id":5}',
    ],
)
def test_an_entry_that_cannot_be_read_stops_a_start_and_is_named(value: bytes) -> None:
    desk = lived()
    desk.node.stop(desk.clock.now_ms())
    disk = desk.disk.clone()
    end = read_header(disk.files[LOG].content, batch_starts(desk)[-2]).last_offset + 1
    disk.files[LOG].append([encode_batch([Record(0, 0, None, value)], base_offset=end)])
    with pytest.raises(StorageError, match=rf"the entry at offset {end} is none .*: put the file back from a copy"):
        Desk(disk, desk.clock)


def without_metadata(desk: Desk) -> Desk:
    """Return a node on the same disk, whose metadata log was lost."""
    desk.node.stop(desk.clock.now_ms())
    desk.disk.remove_directory(DIRECTORY)
    return Desk(desk.disk, desk.clock, **desk.settings)


def test_groups_survive_the_loss_of_the_metadata_log(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk()
    members = stable_group(desk, 2)
    assert members[0].commit(0, 5) == 0
    topic_id = desk.node.topics.find("__consumer_offsets").topic_id
    with caplog.at_level(logging.WARNING):
        after = without_metadata(desk)
        after.create("payments", 1)
        member = GroupMember(after, group_id="other")
        member.enter()
    assert after.node.topics.find("__consumer_offsets").topic_id == topic_id
    assert after.node.coordinator.describe("g") is not None
    assert committed(after.connect()) == 5
    assert any("__consumer_offsets is not in the metadata log, which was lost" in line for line in caplog.messages)


def test_offsets_of_more_partitions_than_there_shall_be_are_refused_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = group_desk(offsets_topic_num_partitions=50)
    stable_group(desk, 1)
    desk.settings["offsets_topic_num_partitions"] = 1
    after = without_metadata(desk)
    member = GroupMember(after)
    assert member.peer.call(member.join_request(), 9).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "set their former number" in caplog.text


def test_folders_without_an_entry_in_the_metadata_log_are_reported_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    for name in ("orders", "payments"):
        desk.create(name)
        desk.connect().call(produce(name, batch(b"x")), 9)
    with caplog.at_level(logging.WARNING):
        after = without_metadata(desk)
    [line] = caplog.messages
    assert line.startswith("folders of 2 topics have no entry in the metadata log")
    assert "orders, payments;" in line
    assert "put the folder __kohort_metadata-0 back from a copy, or move these folders away" in line
    after.create("invoices")
    after.create("orders")
    answer = only(after.connect().call(produce("orders", batch(b"x")), 9))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "put the folder __kohort_metadata-0 back from a copy" in answer.error_message
