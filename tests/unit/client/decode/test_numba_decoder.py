"""Memory of columns is reused, never while a reference to it is left."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("numba")
pa = pytest.importorskip("pyarrow")

from kohort.client.decode.arrow_decoder import to_arrow  # noqa: E402
from kohort.client.decode.numba_decoder import ALIGNED, ColumnMemory  # noqa: E402
from kohort.wire.record_batches import Record, encode_batch  # noqa: E402

np = pytest.importorskip("numpy")


def test_memory_without_references_is_reused():
    memory = ColumnMemory()
    first = memory.room(1000)(1000, np.uint8)
    place = first.ctypes.data
    del first
    assert memory.room(900)(900, np.uint8).ctypes.data == place


def test_memory_with_references_is_left_alone():
    memory = ColumnMemory()
    held = [memory.room(1000)(1000, np.int64) for _ in range(10)]
    assert len({each.ctypes.data for each in held}) == 10
    assert len(memory._blocks) < 10, "what is held is not kept here as well"


def test_a_view_of_a_view_in_arrow_holds_memory_too():
    memory = ColumnMemory()
    column = pa.py_buffer(memory.room(64)(64, np.int64)[:2])
    place = column.address
    assert memory.room(64)(64, np.uint8).ctypes.data != place
    del column
    assert place in {memory.room(64)(64, np.uint8).ctypes.data for _ in range(1)}


def test_parts_are_aligned_and_do_not_overlap():
    take = ColumnMemory().room(3 * ALIGNED + 300)
    parts = [take(100, np.uint8) for _ in range(3)]
    for number, part in enumerate(parts):
        assert part.ctypes.data % ALIGNED == 0
        part[:] = number
    assert [set(part.tolist()) for part in parts] == [{0}, {1}, {2}]


def test_rows_keep_their_values_while_others_are_decoded():
    batches = [encode_batch([Record(0, 0, b"%d" % each, b"v%d" % each)] * 5) for each in range(20)]
    decoded = [to_arrow(batch, "t", 0) for batch in batches]
    assert [rows["value"][4].as_py() for rows in decoded] == [b"v%d" % each for each in range(20)]
    kept = decoded[7]["key"]
    del decoded
    assert [to_arrow(batch, "t", 0).num_rows for batch in batches] == [5] * 20
    assert kept.to_pylist() == [b"7"] * 5
