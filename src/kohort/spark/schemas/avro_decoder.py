"""Avro values of one writer's schema to an Arrow array by the reader's: a program and its buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pyarrow as pa

from kohort.schemas.avro_schema import Avro, Enum
from kohort.spark.schemas.avro_columns import BOOLEAN, LIST, NUMBER, STRUCT, TEXT, AvroColumn, ColumnSet
from kohort.spark.schemas.avro_machine import (
    DATA,
    DATA_LENGTH,
    DATA_ROOM,
    FAULTS,
    LEFT_OVER,
    LENGTH,
    PARENT,
    ROOM,
    STATE_WIDTH,
    STORE,
    UNREADABLE,
    VALID,
    VALUE_WIDTH,
    VALUES,
    decode_records,
)
from kohort.spark.schemas.avro_program import AvroProgram

np: Any = numpy

_LEAST_ROOM = 64


class AvroReader:
    """A reader's schema, and the decoders for it. Raises ValueError for a schema that no column can have."""

    def __init__(self, schema: Avro) -> None:
        self.schema = schema
        self.columns = _deep(lambda: ColumnSet(schema))
        self.type: pa.DataType = self.columns.root.type

    def decoder(self, writer: Avro) -> AvroDecoder:
        """Return the decoder of a writer's schema. Raises Unreadable."""
        return AvroDecoder(_deep(lambda: AvroProgram(writer, self.columns, self.schema)), self.columns)


class AvroDecoder:
    """Decodes records of one writer's schema."""

    def __init__(self, program: AvroProgram, columns: ColumnSet) -> None:
        self._program = program
        self._columns = columns
        self._constants = np.frombuffer(program.constants + b"\0", np.uint8)

    def decode(self, values: pa.BinaryArray, rows: Any, skip: int) -> tuple[pa.Array, dict[int, str]]:
        """Return one value for each of the rows, and what is wrong by its place where it is none: null there.

        `skip` is how many bytes come before each value.
        """
        count, rows = len(rows), np.ascontiguousarray(rows, np.int64)
        _, ends, content = values.buffers()
        source, starts = content.address if content is not None else 0, ends.address + 4 * values.offset
        faults, places = np.zeros(count + 1, np.uint8), np.zeros(count + 1, np.int32)
        slots = np.zeros(self._program.lists + 1, np.int64)
        buffers = _Buffers(self._columns, count, _size(values) + _LEAST_ROOM)
        code, tables = self._program.code.buffer_info()[0], self._program.tables.buffer_info()[0]
        batch = np.array(
            [
                *(code, tables, self._constants.ctypes.data, buffers.state.ctypes.data, slots.ctypes.data),
                *(source, starts, rows.ctypes.data, faults.ctypes.data, places.ctypes.data),
                *(len(self._columns.all), len(slots), skip, count),
            ],
            np.int64,
        )
        done = 0
        while done < count:
            done, column, more = decode_records(batch.ctypes.data, done)
            if column >= 0:
                buffers.grow(column, more)
        wrong = {int(each): self._fault(int(faults[each]), int(places[each])) for each in np.flatnonzero(faults)}
        return buffers.array(self._columns.root, faults[:count] == 0 if wrong else None), wrong

    def _fault(self, fault: int, place: int) -> str:
        if fault >= UNREADABLE:
            return self._program.failures[fault - UNREADABLE]
        paths = self._program.paths
        where = paths[place] if 0 <= place < len(paths) else "value"
        return FAULTS[fault] if fault == LEFT_OVER else f"{where}: {FAULTS[fault]}"


class _Buffers:
    """The buffers of columns while records are decoded."""

    def __init__(self, columns: ColumnSet, rows: int, size: int) -> None:
        self._columns = columns
        self._arrays: list[dict[int, Any]] = [{} for _ in columns.all]
        self.state = np.zeros(len(columns.all) * STATE_WIDTH, np.int64)
        for column in columns.all:
            mine = self._of(column)
            mine[STORE], mine[VALUE_WIDTH], mine[PARENT] = column.store, column.width, column.parent
            self._make_room(column, rows if column.parent < 0 else _LEAST_ROOM)
            if column.store in (TEXT, LIST):
                self._arrays[column.number][VALUES][:4] = 0
            if column.store == TEXT:
                self._make_data_room(column, size // 4 + _LEAST_ROOM)

    def grow(self, number: int, more: int) -> None:
        """Double a column's room: its bytes for `more` of them, or its items if that is negative."""
        column = self._columns.all[number]
        if more < 0:
            self._make_room(column, 2 * int(self._of(column)[ROOM]))
        else:
            self._make_data_room(column, 2 * int(self._of(column)[DATA_ROOM]) + more)

    def array(self, column: AvroColumn, valid: Any = None) -> pa.Array:
        """Return a column as an Arrow array; `valid` are the rows of the root without a fault."""
        mine, arrays = self._of(column), self._arrays[column.number]
        length = int(mine[LENGTH])
        if valid is not None:
            valid = valid & (arrays[VALID][:length] != 0) if column.is_nullable else valid
        elif column.is_nullable:
            valid = arrays[VALID][:length]
        mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if column.store == STRUCT:
            parts = [self.array(each) for each in column.members]
            return pa.Array.from_buffers(column.type, length, [mask], children=parts)
        if column.store == BOOLEAN:
            bits = np.packbits(arrays[VALUES][:length], bitorder="little")
            return pa.Array.from_buffers(column.type, length, [mask, pa.py_buffer(bits)])
        values = pa.py_buffer(arrays[VALUES][: (length + (column.store != NUMBER)) * column.width])
        if column.store == TEXT:
            content = pa.py_buffer(arrays[DATA][: int(mine[DATA_LENGTH])])
            return pa.Array.from_buffers(column.type, length, [mask, values, content])
        if column.store == LIST:
            parts = [self.array(each) for each in column.members]
            if pa.types.is_map(column.type):
                entry = pa.struct([column.type.key_field, column.type.item_field])
                parts = [pa.Array.from_buffers(entry, len(parts[0]), [None], children=parts)]
            return pa.Array.from_buffers(column.type, length, [mask, values], children=parts)
        if isinstance(column.avro, Enum):
            symbols = pa.array(column.avro.symbols, pa.string())
            numbers = pa.Array.from_buffers(pa.int32(), length, [mask, values])
            return pa.DictionaryArray.from_arrays(numbers, symbols).cast(pa.string())
        return pa.Array.from_buffers(column.type, length, [mask, values])

    def _of(self, column: AvroColumn) -> Any:
        return self.state[column.number * STATE_WIDTH : (column.number + 1) * STATE_WIDTH]

    def _make_room(self, column: AvroColumn, rows: int) -> None:
        self._allocate(column, VALUES, (rows + 1) * max(column.width, 1))
        self._allocate(column, VALID, rows + 1)
        self._of(column)[ROOM] = rows

    def _make_data_room(self, column: AvroColumn, size: int) -> None:
        self._allocate(column, DATA, size)
        self._of(column)[DATA_ROOM] = size

    def _allocate(self, column: AvroColumn, which: int, size: int) -> None:
        new = np.empty(size, np.uint8)
        old = self._arrays[column.number].get(which)
        if old is not None:
            new[: len(old)] = old
        self._arrays[column.number][which] = new
        self._of(column)[which] = new.ctypes.data


def _size(values: pa.BinaryArray) -> int:
    _, ends, _ = values.buffers()
    found = np.frombuffer(ends, np.int32)
    return int(found[values.offset + len(values)] - found[values.offset])


def _deep(work: Callable[[], Any]) -> Any:
    """Return what `work` returns. Raises ValueError where named types are nested too deeply for Python's stack."""
    try:
        return work()
    except RecursionError:
        raise ValueError("an Avro schema is nested too deeply") from None
