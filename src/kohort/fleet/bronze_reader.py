"""Planning and reading of `__consumer_offsets`: from inputs to the rows of tasks.

A task yields rows of three tables, because decoding is the expensive part and must happen once: records, quarantine,
and the position reached in each partition, which the next run gives as `since`. They are planned before any task
starts, so that a wrong input fails at once.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyarrow import dataset

from kohort.fleet.inputs.input_splits import Input, Kind, Since, Split, packed, text_splits
from kohort.fleet.table_files import StoredRows

if TYPE_CHECKING:
    import pyarrow as pa

Part = Callable[[], "Iterator[pa.RecordBatch]"]
"""Reads the rows of a task, with the columns of `DECODED`; it travels to other processes."""

TASK_BYTES: Final = 128 << 20
"""Largest size of a task, unless a single file is larger."""

_LEAST_BYTES: Final = 16 << 20
"""Least size of a task: starting a process and its decoder takes as long as decoding this much."""


def plan(inputs: Sequence[Input], since: Since) -> list[Split]:
    """Return the splits to read. Raises KafkaError when a cluster does not list its offsets."""
    from kohort.fleet.inputs import cluster_input, segment_files

    found: list[Split] = []
    for given in inputs:
        if given.kind == "cluster":
            found += cluster_input.plan(given, since)
        elif given.kind == "segment":
            found += segment_files.plan(given, since)
        elif given.kind in ("dump", "export"):
            found += text_splits(given, since)
    return segment_files.without_replicas(found)


def has_unread(inputs: Sequence[Input], since: Since) -> bool:
    """Whether inputs may have something that is not read yet. Raises KafkaError as `plan` does."""
    return any(each.kind not in ("cluster", "segment") for each in inputs) or bool(plan(inputs, since))


def read(inputs: Sequence[Input], since: Since, parallelism: int) -> list[Part]:
    """Return the tasks that read `inputs` from the positions `since` on, for so many at once.

    Raises KafkaError when a cluster does not list its offsets, or as a task does when it stays unreachable; all other
    errors become rows of quarantine.
    """
    splits = plan(inputs, since)
    size = sum(split.size for split in splits)
    most = max(min(TASK_BYTES, size // max(parallelism, 1)), _LEAST_BYTES)
    return [partial(_rows_of_all, each) for each in packed(splits, most)]


def read_beside(inputs: Sequence[Input], kind: Kind) -> Iterator[pa.RecordBatch]:
    """Yield the rows of inputs that are no records: metrics of members, or logs of brokers."""
    return _rows_of_all([split for given in inputs if given.kind == kind for split in text_splits(given, {})])


def _rows_of_all(splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from rows_of(split)


def settle(records: StoredRows, pending: StoredRows) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the commits of transactions whose marker was read after them, with its outcome, and those still open.

    `records` are new, `pending` are those that earlier runs left open.
    """
    is_open = dataset.field("transaction") == "open"
    is_marker = dataset.field("record_type").is_null() & dataset.field("producer_id").is_valid()
    rows = [row for each in (records, pending) for row in each.dataset().filter(is_open).to_table().to_pylist()]
    place = ["source", "partition", "producer_id", "offset", "transaction"]
    markers: dict[tuple[str, int, int], list[tuple[int, str]]] = {}
    for row in records.dataset().filter(is_marker).to_table(columns=place).to_pylist():
        source, partition, producer, offset, outcome = (row[name] for name in place)
        markers.setdefault((source, partition, producer), []).append((offset, outcome))
    for ends in markers.values():
        ends.sort()
    closed, still_open = [], []
    for row in rows:
        ends = markers.get((row["source"], row["partition"], row["producer_id"]), [])
        at = bisect(ends, (row["offset"], "~"))
        if at < len(ends):
            closed.append({**row, "transaction": ends[at][1]})
        else:
            still_open.append(row)
    return closed, still_open


def topics(inputs: Sequence[Input], now_ms: int) -> list[dict[str, Any]]:
    """Return rows of bronze `topics`, with end offsets, read from the live clusters.

    Raises KafkaError when a cluster does not answer.
    """
    from kohort.fleet.inputs.cluster_input import topics_of

    return [
        {"source": given.source, "read_at_ms": now_ms, **row}
        for given in inputs
        if given.kind == "cluster"
        for row in topics_of(given)
    ]


def rows_of(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split: with the columns of `schema.DECODED`, or of the table of its kind."""
    from kohort.fleet.inputs import broker_log, cluster_input, export_lines, kafka_dump, member_metrics, segment_files

    read: dict[str, Callable[[Split], Iterator[pa.RecordBatch]]] = {
        "segment": segment_files.read,
        "cluster": cluster_input.read,
        "dump": kafka_dump.read,
        "export": export_lines.read,
        "metrics": member_metrics.read,
        "broker_log": broker_log.read,
    }
    return read[split.kind](split)
