"""Rows of Arrow as the records of batches: what the plain encoder and partitioner make of them, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

import numpy as np
import pyarrow as pa

from kohort.client.producer.partitioner import partition_for_key
from kohort.spark.rows.row_encoder import RowEncoder
from kohort.wire.record_batches import Record, decode_batch, encode_batch, frame_records

SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 63, 64, 127, 128, 8191, 8192])
CONTENT = st.none() | SIZES.map(lambda size: bytes(at * 7 & 255 for at in range(size)))
ROWS = st.lists(st.tuples(st.none() | st.binary(max_size=20), CONTENT), min_size=1, max_size=40)


def encoder(rows: list[tuple[bytes | None, bytes | None]], skipped: int = 0) -> RowEncoder:
    keys, values = zip(*rows, strict=True)
    return RowEncoder(
        pa.array(keys, pa.binary()).slice(skipped), pa.array(values, pa.large_binary()).slice(skipped), 99
    )


def rows_of(batches: Any) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    for partition, records in batches:
        batch = frame_records(records)
        decoded = decode_batch(batch)
        plain = [Record(0, 99, record.key, record.value) for record in decoded]
        assert encode_batch(plain) == batch, "the plain encoder makes the same bytes"
        found.setdefault(partition, []).extend((record.key, record.value) for record in decoded)
    return found


@given(ROWS, st.integers(0, 3), st.sampled_from([1, 200, 1 << 18]))
@settings(deadline=None)
def test_batches_hold_the_rows_of_each_partition_in_their_order(
    rows: list[tuple[bytes | None, bytes | None]], skipped: int, limit: int
) -> None:
    mine = rows[skipped:]
    if not mine:
        return
    made = encoder(rows, skipped)
    targets = made.targets(5, 3)
    for (key, _), target in zip(mine, targets, strict=True):
        assert key is None or target == partition_for_key(key, 5)
    found = rows_of(made.batches(targets, limit))
    for partition in range(5):
        wanted = [row for row, target in zip(mine, targets, strict=True) if target == partition]
        assert found.get(partition, []) == wanted


def test_rows_without_a_key_fill_one_partition_after_another() -> None:
    made = encoder([(None, b"x" * 100)] * 6)
    assert made.targets(3, 2).tolist() == [2] * 6
    assert made.targets(3, 2, turn_bytes=200).tolist() == [2, 2, 0, 0, 1, 1]
    assert made.targets(3, 2, turn_bytes=1).tolist() == [2, 0, 1, 2, 0, 1]


def test_a_partition_that_is_given_counts_and_must_exist() -> None:
    made = encoder([(b"k", b""), (None, b""), (b"k", b"")])
    own = partition_for_key(b"k", 4)
    assert made.targets(4, 0, pa.array([3, None, None], pa.int32())).tolist() == [3, 0, own]
    for wrong in (4, -1):
        with pytest.raises(ValueError, match=rf"a row's partition is {wrong}: the topic has partitions 0 to 3"):
            made.targets(4, 0, pa.array([0, wrong, 0], pa.int32()))


def test_a_batch_is_ended_at_its_limit_and_a_larger_record_is_alone() -> None:
    made = encoder([(None, b"x" * size) for size in (100, 100, 900, 100)])
    batches = list(made.batches(np.zeros(4, np.int64), 250))
    assert [len(records) for _, records in batches] == [2, 1, 1]


def test_records_that_get_a_second_header_leave_the_first_batch_as_it_was() -> None:
    made = encoder([(b"k", b"v")])
    (_, records), *_ = made.batches(made.targets(1, 0))
    first = frame_records(records, base_sequence=1, producer_id=7)
    kept = bytes(first)
    second = frame_records(records, base_sequence=2, producer_id=7)
    assert bytes(first) == kept != bytes(second)
    assert decode_batch(second) == decode_batch(first)


def test_text_is_written_as_utf_8() -> None:
    made = RowEncoder(None, pa.array(["ü", None]), 1)
    (_, records), *_ = made.batches(made.targets(1, 0))
    assert [record.value for record in decode_batch(frame_records(records))] == ["ü".encode(), None]
