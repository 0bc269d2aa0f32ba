"""Lines of `kohort log export`: one JSON object per record of `__consumer_offsets`, with key and value as hex.

    {"partition": 3, "offset": 17, "timestamp": 1790000000000, "key": "0001…", "value": "0004…"}

A value of null is a tombstone. `producerId`, `producerEpoch`, `isTransactional` and `isControl` are present where they
differ from those of a plain record. It serves where a log cannot be sent, or to read one in an editor.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.inputs.input_splits import Split
from kohort.fleet.inputs.text_files import TextRecord, lines_of, rows_of_records
from kohort.wire.compression import Buffer
from kohort.wire.record_batches import checked_records, iter_batches

if TYPE_CHECKING:
    import pyarrow as pa


def export_lines(batches: Buffer, partition: int) -> Iterator[str]:
    """Yield the lines for the records of whole, valid batches; one that is cut off at the end is left out.

    Raises CorruptBatch.
    """
    for header, batch in iter_batches(batches):
        for record in checked_records(header, batch):
            line: dict[str, Any] = {
                "partition": partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "key": None if record.key is None else record.key.hex(),
                "value": None if record.value is None else record.value.hex(),
            }
            if header.is_transactional or header.is_control:
                line |= {
                    "producerId": header.producer_id,
                    "producerEpoch": header.producer_epoch,
                    "isTransactional": header.is_transactional,
                    "isControl": header.is_control,
                }
            yield json.dumps(line)


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an export."""
    return rows_of_records(split, _text_records(Path(split.where)))


def _text_records(path: Path) -> Iterator[TextRecord | Fault]:
    for position, line in lines_of(path):
        if isinstance(line, Fault):
            yield line
            continue
        if not line.strip():
            continue
        try:
            yield _record(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            yield Fault(f"a line that is no record: {type(error).__name__} {error}"[:200], position, sample=line)


def _record(line: dict[str, Any]) -> TextRecord:
    key, value = line["key"], line["value"]
    return TextRecord(
        line["partition"],
        line["offset"],
        line["timestamp"],
        None if key is None else bytes.fromhex(key),
        None if value is None else bytes.fromhex(value),
        line.get("producerId", -1),
        line.get("producerEpoch", -1),
        bool(line.get("isTransactional", False)),
        bool(line.get("isControl", False)),
    )
