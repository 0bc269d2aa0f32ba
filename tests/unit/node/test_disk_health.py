"""A full disk refuses appends at once, is spoken of once, and stops nothing that needs no room."""

from __future__ import annotations

import logging

import pytest
from tests.unit.node.desk import Peer, batch, fetch, only, produce
from tests.unit.node.group_desk import group_desk, stable_group

from kohort.model.errors import ErrorCode

LARGE, SMALL = batch(b"x" * 5000), batch(b"x")


def code(peer: Peer, records: bytes) -> int:
    return int(only(peer.call(produce("orders", records), 9)).error_code)


def test_a_full_disk_refuses_producers_and_serves_members_and_readers(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk()
    [member] = stable_group(desk, 1)
    peer = desk.connect()
    assert code(peer, LARGE) == ErrorCode.NONE
    caplog.clear()
    desk.disk.capacity = desk.disk.used + 100
    for _ in range(20):
        assert code(peer, LARGE) == ErrorCode.KAFKA_STORAGE_ERROR
        assert member.heartbeat() == ErrorCode.NONE
        assert member.commit() == ErrorCode.NOT_COORDINATOR
        desk.advance(100)
    assert only(peer.call(fetch("orders"), 11)).high_watermark == 1
    assert caplog.messages == [
        f"no space left in /memory: {len(LARGE) - 100} more bytes are needed to append {len(LARGE)} to"
        " orders-0/00000000000000000000.log; producers and commits get an error until there is room,"
        " 1 appends refused so far"
    ]
    desk.disk.capacity = None
    caplog.clear()
    assert code(peer, LARGE) == ErrorCode.NONE
    [line] = caplog.messages
    assert line.startswith("there is space again: appends succeed after 2.0 s, ")
    assert member.commit() == ErrorCode.NONE


def test_a_disk_that_stays_full_is_spoken_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk()
    peer = desk.connect()
    desk.disk.capacity = desk.disk.used
    for _ in range(130):
        code(peer, SMALL)
        desk.advance(1000)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


def test_there_is_space_again_when_what_was_refused_fits_or_nothing_was_refused_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = group_desk()
    peer = desk.connect()
    assert code(peer, SMALL) == ErrorCode.NONE
    desk.disk.capacity = desk.disk.used + 4000
    assert code(peer, LARGE) == ErrorCode.KAFKA_STORAGE_ERROR
    assert code(peer, SMALL) == ErrorCode.NONE
    assert len(caplog.messages) == 1, "a small append says nothing of a large one"
    desk.advance(10_000)
    assert code(peer, SMALL) == ErrorCode.NONE
    assert caplog.messages[1:] == ["there is space again: appends succeed after 10.0 s, 1 were refused"]
