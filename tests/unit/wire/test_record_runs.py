"""Runs of records of one shape: each bit of a record in the middle of one counts as it does for the plain walk."""

from __future__ import annotations

import pytest

from kohort.wire import record_batches
from kohort.wire.record_batches import HEADER_SIZE, CorruptBatch, Record, decode_batch, encode_batch

COUNT, DAMAGED = 80, 50


def rows_or_fault(batch: bytes) -> list[Record] | str:
    try:
        return decode_batch(batch)
    except CorruptBatch as error:
        return error.text


@pytest.mark.parametrize("base_ms", [0, 1_000])
@pytest.mark.parametrize("step_ms", [0, 1])
@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_a_damaged_record_in_a_run_is_read_or_refused_as_by_the_walk(
    monkeypatch: pytest.MonkeyPatch, base_ms: int, step_ms: int, key: bytes | None
) -> None:
    rows = [Record(0, 0, key, b"v")]
    rows += [Record(number, base_ms + number * step_ms % 60, key, b"v") for number in range(1, COUNT)]
    batch = encode_batch(rows, own_offsets=True)
    first = len(encode_batch(rows[:DAMAGED], own_offsets=True))
    behind = len(encode_batch(rows[: DAMAGED + 1], own_offsets=True))
    assert first > HEADER_SIZE
    damaged = [bytearray(batch) for _ in range(8 * (behind - first))]
    for bit, each in enumerate(damaged):
        each[first + bit // 8] ^= 1 << bit % 8
    by_runs = [rows_or_fault(bytes(each)) for each in damaged]
    monkeypatch.setattr(record_batches, "LEAST", COUNT + 1)
    assert by_runs == [rows_or_fault(bytes(each)) for each in damaged]
